/* An operator's request is read completely or refused with the field's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/family/operator.h"
#include "bench/family/operator_env.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static sk_err err;

/* The smallest request, with further fields of the plan and of the request, which may override. */
static json_t *request(const char *plan_fields, const char *fields) {
    json_t *plan = json_loads(plan_fields, 0, NULL), *more = json_loads(fields, 0, NULL);
    assert_non_null(plan);
    assert_non_null(more);
    json_t *root = json_pack("{s:i, s:{s:s}, s:s, s:s, s:s}", "schema_version", 1, "plan", "cache_root", "/models",
                             "correctness", "/bin/c", "stage_server", "/bin/s", "native_build", "/build");
    json_object_update(json_object_get(root, "plan"), plan);
    json_object_update(root, more);
    json_decref(plan);
    json_decref(more);
    return root;
}

static int parse(const char *plan_fields, const char *fields, sk_operator **op) {
    json_t *root = request(plan_fields, fields);
    memset(&err, 0, sizeof err);
    const int rc = sk_operator_parse(root, op, &err);
    json_decref(root);
    return rc;
}

static sk_operator *accept(const char *plan_fields, const char *fields) {
    sk_operator *op = NULL;
    if (parse(plan_fields, fields, &op) != SKIPPY_OK) fail_msg("%s %s: %s", plan_fields, fields, err.text);
    return op;
}

typedef struct wrong {
    const char *plan, *fields, *beginning;
} wrong;

static void refuse_all(const wrong *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sk_operator *op = NULL;
        const int rc = parse(v[i].plan, v[i].fields, &op);
        if (rc != SKIPPY_E_INVALID || strncmp(err.text, v[i].beginning, strlen(v[i].beginning)) != 0)
            fail_msg("%s %s gave %d '%s' instead of '%s...'", v[i].plan, v[i].fields, rc, err.text, v[i].beginning);
        assert_null(op);
    }
}

#define REFUSE_ALL(v) refuse_all(v, sizeof(v) / sizeof *(v))

static void the_smallest_request_has_the_documented_defaults(void **state) {
    (void)state;
    sk_operator *op = accept("{}", "{}");
    const sk_family_sizes *s = &op->plan.sizes;
    assert_string_equal(op->plan.cache_root, "/models");
    assert_int_equal(op->plan.n_cases, SK_PRESETS);
    assert_string_equal(op->plan.cases[0]->key, sk_preset_at(0)->key);
    assert_int_equal(op->plan.n_use_cases, 0);
    assert_int_equal(s->prefix_tokens, 0); /* every preset's own */
    assert_int_equal(s->suffix_tokens, 16);
    assert_int_equal(s->history_tokens, 384);
    assert_int_equal(s->edit_tokens, 24);
    assert_int_equal(s->restart_tokens, 512);
    assert_int_equal(s->cache_hit_repeats, 20);
    assert_int_equal(s->llama_repeats, 20);
    assert_int_equal(s->restart_repeats, 3);
    assert_int_equal(s->conversation_repeats, 20);
    assert_int_equal(s->lanes, 1);
    assert_int_equal(s->parallel, 1);
    assert_int_equal(s->ttft_slo_ms, 2000);
    assert_int_equal(s->tpot_slo_ms, 100);
    assert_int_equal(s->rest_ms, 100);
    assert_int_equal(s->n_concurrency, 0);
    assert_int_equal(s->n_sweep, 0);
    assert_int_equal(op->request_timeout_ms, s->request_timeout_ms);
    assert_int_equal(op->execution_seconds, 86400);
    assert_int_equal(op->cell_seconds, 3600);
    assert_int_equal(op->preparation_seconds, 3600);
    assert_false(op->borrow_resident_hits);
    assert_false(op->cache_decoded_result_hits);
    assert_false(op->plan.skip_llama_server);
    assert_string_equal(op->native_server, "");
    assert_string_equal(op->plan.old_server.path, "");
    sk_operator_free(op);
}

static void every_field_is_read(void **state) {
    (void)state;
    sk_operator *op = accept(
        "{\"schema_version\":1,\"cases\":[\"llama\",\"qwen3next\"],\"use_cases\":[\"b_1\",\"a\"],"
        "\"corpus\":{\"path\":\"/c\",\"sha256\":\"" HEX_A "\"},\"agent_corpus\":{\"path\":\"/g\",\"sha256\":\"" HEX_B
        "\"},\"prefix_sweep\":[16,512],\"prefix_tokens\":64,\"n_gpu_layers\":-1,\"cache_hit_repeats\":1024,"
        "\"runtime_lane_count\":2,\"serving_ctx_size\":4096,\"concurrency\":[1,8,1024],"
        "\"concurrent_requests\":65536,\"concurrent_output_tokens\":9,\"llama_parallel\":4,\"llama_repeats\":5,"
        "\"ttft_slo_ms\":11,\"tpot_slo_ms\":12,\"skip_llama_server\":true,\"old_server\":{\"path\":\"/o\",\"sha256\":"
        "\"" HEX_A "\"},\"new_server\":{\"path\":\"/n\",\"sha256\":\"" HEX_B "\"},\"model_sha256\":{\"llama\":\"" HEX_B
        "\"},\"suffix_tokens\":1,\"history_tokens\":2,\"edit_tokens\":3,\"restart_tokens\":4,\"restart_repeats\":5,\"conversation_repeats\":6,"
        "\"threads\":6,\"rest_ms\":7,\"seed\":9223372036854775807}",
        "{\"native_server\":\"/ns\",\"artifact_tool\":\"/at\",\"old_source_commit\":"
        "\"0123456789abcdef0123456789abcdef01234567\",\"new_source_commit\":\"" HEX_A "\",\"native_source_commit\":"
        "\"" HEX_B "\",\"environment\":{\"OMP_NUM_THREADS\":\"4\"},\"toolkit_directories\":{\"cuda\":{\"path\":"
        "\"/cuda\",\"sha256\":\"" HEX_A "\"}},\"execution_seconds\":4,\"cell_seconds\":1,\"request_timeout_ms\":1000,"
        "\"preparation_seconds\":30,\"borrow_resident_hits\":true,\"cache_decoded_result_hits\":true}");
    const sk_operator_plan *p = &op->plan;
    const sk_family_sizes *s = &p->sizes;
    assert_int_equal(p->n_cases, 2);
    assert_string_equal(p->cases[0]->key, "qwen3next"); /* the tables' order, not the request's */
    assert_string_equal(p->cases[1]->key, "llama");
    assert_int_equal(p->n_use_cases, 2);
    assert_string_equal(p->use_cases[0], "b_1"); /* these keep theirs */
    assert_string_equal(p->use_cases[1], "a");
    assert_string_equal(p->corpus.path, "/c");
    assert_string_equal(p->corpus.sha256, HEX_A);
    assert_string_equal(p->agent_corpus.path, "/g");
    assert_string_equal(p->agent_corpus.sha256, HEX_B);
    assert_int_equal(s->n_sweep, 2);
    assert_int_equal(s->sweep[1], 512);
    assert_int_equal(s->prefix_tokens, 64);
    assert_int_equal(s->n_gpu_layers, -1);
    assert_int_equal(s->cache_hit_repeats, 1024);
    assert_int_equal(s->lanes, 2);
    assert_int_equal(s->ctx, 4096);
    assert_int_equal(s->n_concurrency, 3);
    assert_int_equal(s->concurrency[2], 1024);
    assert_int_equal(s->concurrent_requests, 65536);
    assert_int_equal(s->concurrent_output_tokens, 9);
    assert_int_equal(s->parallel, 4);
    assert_int_equal(s->llama_repeats, 5);
    assert_int_equal(s->ttft_slo_ms, 11);
    assert_int_equal(s->tpot_slo_ms, 12);
    assert_true(p->skip_llama_server);
    assert_string_equal(p->old_server.path, "/o");
    assert_string_equal(p->new_server.sha256, HEX_B);
    assert_string_equal(p->model_sha256[sk_preset_rank("llama")], HEX_B);
    assert_string_equal(p->model_sha256[sk_preset_rank("qwen3next")], "");
    assert_int_equal(s->suffix_tokens, 1);
    assert_int_equal(s->history_tokens, 2);
    assert_int_equal(s->edit_tokens, 3);
    assert_int_equal(s->restart_tokens, 4);
    assert_int_equal(s->restart_repeats, 5);
    assert_int_equal(s->conversation_repeats, 6);
    assert_int_equal(s->threads, 6);
    assert_int_equal(s->rest_ms, 7);
    assert_true(s->seed == INT64_MAX);
    assert_string_equal(op->native_server, "/ns");
    assert_string_equal(op->artifact_tool, "/at");
    assert_string_equal(op->old_commit, "0123456789abcdef0123456789abcdef01234567");
    assert_string_equal(op->new_commit, HEX_A);
    assert_string_equal(op->native_commit, HEX_B);
    assert_int_equal(op->n_env, 1);
    assert_string_equal(op->env[0], "OMP_NUM_THREADS=4");
    assert_int_equal(op->n_toolkits, 1);
    assert_string_equal(op->toolkit[0].name, "cuda");
    assert_string_equal(op->toolkit[0].path, "/cuda");
    assert_string_equal(op->toolkit[0].sha256, HEX_A);
    assert_int_equal(op->execution_seconds, 4);
    assert_int_equal(op->cell_seconds, 1);
    assert_int_equal(op->request_timeout_ms, 1000);
    assert_int_equal(s->request_timeout_ms, 1000);
    assert_int_equal(op->preparation_seconds, 30);
    assert_true(op->borrow_resident_hits);
    assert_true(op->cache_decoded_result_hits);
    sk_operator_free(op);
}

static void unknown_fields_are_refused(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{}", "{\"plans\":1}", "the document: there is no field 'plans' here"},
        {"{\"case\":[]}", "{}", "plan: there is no field 'case' here"},
        {"{\"request_timeout_ms\":5000}", "{}", "plan: there is no field 'request_timeout_ms' here"},
        {"{\"agent_corpus\":{\"path\":\"/c\",\"sha256\":\"" HEX_A "\",\"x\":1}}", "{}",
         "plan.agent_corpus: there is no"},
        {"{}", "{\"toolkit_directories\":{\"t\":{\"path\":\"/t\",\"sha256\":\"" HEX_A "\",\"x\":1}}}",
         "toolkit_directories.t: there is no field 'x' here"},
    };
    REFUSE_ALL(v);
}

static void needed_fields_are_needed(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{}", "{\"schema_version\":null}", "schema_version: is missing"},
        {"{}", "{\"schema_version\":2}", "schema_version: 2 is not known here"},
        {"{\"schema_version\":2}", "{}", "plan.schema_version: 2 is out of bounds"},
        {"{}", "{\"plan\":null}", "plan: is missing"},
        {"{\"cache_root\":null}", "{}", "plan.cache_root: is missing"},
        {"{}", "{\"correctness\":null}", "correctness: is missing"},
        {"{}", "{\"stage_server\":null}", "stage_server: is missing"},
        {"{}", "{\"native_build\":null}", "native_build: is missing"},
        {"{\"corpus\":{\"path\":\"/c\"}}", "{}", "plan.corpus.sha256: is missing"},
    };
    REFUSE_ALL(v);
}

static void types_and_bounds_are_checked(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{\"cases\":\"llama\"}", "{}", "plan.cases: must be an array"},
        {"{\"cases\":[\"llama\",\"gpt\"]}", "{}", "plan.cases[1]: there is no case 'gpt'"},
        {"{\"cases\":[\"llama\",\"llama\"]}", "{}", "plan.cases[1]: the case 'llama' is there twice"},
        {"{\"cache_hit_repeats\":0}", "{}", "plan.cache_hit_repeats: 0 is out of bounds: 1 to 1024"},
        {"{\"cache_hit_repeats\":1025}", "{}", "plan.cache_hit_repeats: "},
        {"{\"llama_repeats\":1.5}", "{}", "plan.llama_repeats: must be a whole number"},
        {"{\"n_gpu_layers\":-2}", "{}", "plan.n_gpu_layers: -2 is out of bounds"},
        {"{\"concurrency\":[1,1025]}", "{}", "plan.concurrency[1]: 1025 is out of bounds: 1 to 1024"},
        {"{\"concurrency\":[0]}", "{}", "plan.concurrency[0]: "},
        {"{\"concurrency\":[4,2,4]}", "{}", "plan.concurrency[2]: 4 is there twice"},
        {"{\"concurrency\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33]}",
         "{}", "plan.concurrency: has 33 elements"},
        {"{\"prefix_sweep\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33]"
         "}",
         "{}", "plan.prefix_sweep: has 33 elements"},
        {"{\"prefix_sweep\":[16,16]}", "{}", "plan.prefix_sweep[1]: 16 is there twice"},
        {"{\"concurrent_requests\":65537}", "{}", "plan.concurrent_requests: "},
        {"{\"prefix_tokens\":0}", "{}", "plan.prefix_tokens: "},
        {"{\"seed\":-1}", "{}", "plan.seed: "},
        {"{\"skip_llama_server\":1}", "{}", "plan.skip_llama_server: must be true or false"},
        {"{\"model_sha256\":{\"gpt\":\"" HEX_A "\"}}", "{}", "plan.model_sha256: there is no field 'gpt'"},
        {"{\"model_sha256\":{\"llama\":\"abc\"}}", "{}", "plan.model_sha256.llama: 'abc' is no SHA-256"},
        {"{\"cache_root\":\"models\"}", "{}", "plan.cache_root: 'models' is no absolute path"},
        {"{}", "{\"correctness\":\"bin/c\"}", "correctness: 'bin/c' is no absolute path"},
        {"{}", "{\"native_server\":\"x\"}", "native_server: 'x' is no absolute path"},
        {"{}", "{\"execution_seconds\":3}", "execution_seconds: 3 is out of bounds: 4 to 86400"},
        {"{}", "{\"execution_seconds\":86401}", "execution_seconds: "},
        {"{}", "{\"cell_seconds\":0}", "cell_seconds: 0 is out of bounds: 1 to 3600"},
        {"{}", "{\"cell_seconds\":3601}", "cell_seconds: "},
        {"{}", "{\"preparation_seconds\":29}", "preparation_seconds: 29 is out of bounds: 30 to 3600"},
        {"{}", "{\"preparation_seconds\":3601}", "preparation_seconds: "},
        {"{}", "{\"request_timeout_ms\":999}", "request_timeout_ms: "},
        {"{}", "{\"old_source_commit\":\"HEAD\"}", "old_source_commit: 'HEAD' is no commit"},
        {"{}", "{\"borrow_resident_hits\":\"no\"}", "borrow_resident_hits: must be true or false"},
        {"{}", "{\"toolkit_directories\":[]}", "toolkit_directories: must be an object"},
        {"{}", "{\"toolkit_directories\":{\"A/b\":{\"path\":\"/t\",\"sha256\":\"" HEX_A "\"}}}",
         "toolkit_directories.A/b: a name has"},
        {"{}", "{\"toolkit_directories\":{\"t\":null}}", "toolkit_directories.t: must be an object"},
        {"{}", "{\"toolkit_directories\":{\"t\":{\"path\":\"t\",\"sha256\":\"" HEX_A "\"}}}",
         "toolkit_directories.t.path: 't' is no absolute path"},
    };
    REFUSE_ALL(v);
}

static void more_toolkits_than_fit_are_refused(void **state) {
    (void)state;
    json_t *root = request("{}", "{}"), *all = json_object();
    for (int i = 0; i <= SK_INPUT_MAX_TOOLKITS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        json_object_set_new(all, name, json_pack("{s:s, s:s}", "path", "/t", "sha256", HEX_A));
    }
    json_object_set_new(root, "toolkit_directories", all);
    sk_operator *op = NULL;
    assert_int_equal(sk_operator_parse(root, &op, &err), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "toolkit_directories: must be an object of at most 16"));
    json_decref(root);
}

#define CORPUS "\"corpus\":{\"path\":\"/c\",\"sha256\":\"" HEX_A "\"}"

static void use_cases_and_corpus_come_together(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{\"use_cases\":[\"all\"]}", "{}", "plan.corpus: is missing"},
        {"{" CORPUS "}", "{}", "plan.corpus: is of no use"},
        {"{\"use_cases\":[]," CORPUS "}", "{}", "plan.corpus: is of no use"},
        {"{\"use_cases\":[\"a\",\"all\"]," CORPUS "}", "{}", "plan.use_cases[1]: \"all\" must stand alone"},
        {"{\"use_cases\":[\"all\",\"a\"]," CORPUS "}", "{}", "plan.use_cases[0]: \"all\" must stand alone"},
        {"{\"use_cases\":[\"a\",\"a\"]," CORPUS "}", "{}", "plan.use_cases[1]: the use case 'a' is there twice"},
        {"{\"use_cases\":[\"A\"]," CORPUS "}", "{}", "plan.use_cases[0]: 'A' is no key"},
        {"{\"use_cases\":[\"../x\"]," CORPUS "}", "{}", "plan.use_cases[0]: '../x' is no key"},
    };
    REFUSE_ALL(v);
    sk_operator *op = accept("{\"use_cases\":[\"all\"]," CORPUS "}", "{}");
    assert_int_equal(op->plan.n_use_cases, 1);
    assert_string_equal(op->plan.use_cases[0], "all");
    sk_operator_free(op);
}

static void the_old_and_the_new_server_come_together(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{\"old_server\":{\"path\":\"/o\",\"sha256\":\"" HEX_A "\"}}", "{}", "plan.new_server: is missing"},
        {"{\"new_server\":{\"path\":\"/n\",\"sha256\":\"" HEX_A "\"}}", "{}", "plan.old_server: is missing"},
    };
    REFUSE_ALL(v);
    sk_operator_free(accept("{\"old_server\":null,\"new_server\":null}", "{}"));
}

static void only_settings_of_devices_and_threads_are_allowed(void **state) {
    (void)state;
    static const char *const allowed[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_CUDA_FORCE_MMQ",
                                          "OMP_NUM_THREADS",      "GOMP_SPINCOUNT",       "KMP_BLOCKTIME",
                                          "LD_LIBRARY_PATH"};
    static const char *const refused[] = {
        "PATH",      "HOME",          "LD_PRELOAD",      "HF_TOKEN",      "GGML_API_KEY",
        "OMP_TOKEN", "LLAMA_ARG_CTX", "GGML_",           "ggml_x",        "OMP_A B",
        "",          "GGML_SECRET_X", "CUDA_VISIBLE_DE", "KMP_PASSWORDS", "OMP_A=B"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) assert_true(sk_operator_env_allowed(allowed[i]));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) assert_false(sk_operator_env_allowed(refused[i]));
    static const wrong v[] = {
        {"{}", "{\"environment\":{\"HF_TOKEN\":\"x\"}}", "environment.HF_TOKEN: this variable is not allowed"},
        {"{}", "{\"environment\":{\"OMP_NUM_THREADS\":4}}", "environment.OMP_NUM_THREADS: must be a text"},
        {"{}", "{\"environment\":{\"OMP_NUM_THREADS\":null}}", "environment.OMP_NUM_THREADS: must be a text"},
        {"{}", "{\"environment\":{\"OMP_NUM_THREADS\":\"a\\nb\"}}", "environment.OMP_NUM_THREADS: has control"},
        {"{}", "{\"environment\":[]}", "environment: must be an object"},
    };
    REFUSE_ALL(v);
    sk_operator *op = accept("{}", "{\"environment\":{\"CUDA_VISIBLE_DEVICES\":\"\"}}"); /* hides all devices */
    assert_string_equal(op->env[0], "CUDA_VISIBLE_DEVICES=");
    sk_operator_free(op);
}

static void more_variables_than_fit_are_refused(void **state) {
    (void)state;
    json_t *root = request("{}", "{}"), *all = json_object();
    for (int i = 0; i <= SK_INPUT_MAX_ENV; i++) {
        char name[32];
        snprintf(name, sizeof name, "GGML_X%d", i);
        json_object_set_new(all, name, json_string("1"));
    }
    json_object_set_new(root, "environment", all);
    sk_operator *op = NULL;
    assert_int_equal(sk_operator_parse(root, &op, &err), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "more than 64 variables"));
    json_decref(root);
}

static void conflicting_aliases_are_refused(void **state) {
    (void)state;
    static const wrong v[] = {
        {"{}", "{\"environment\":{\"HIP_VISIBLE_DEVICES\":\"0\",\"ROCR_VISIBLE_DEVICES\":\"1\"}}",
         "environment: HIP_VISIBLE_DEVICES='0' and ROCR_VISIBLE_DEVICES='1' name the same thing"},
        {"{}", "{\"environment\":{\"KMP_STACKSIZE\":\"1\",\"GOMP_STACKSIZE\":\"2\"}}", "environment: GOMP_STACKSIZE"},
    };
    REFUSE_ALL(v);
    sk_operator *op = accept("{}", "{\"environment\":{\"HIP_VISIBLE_DEVICES\":\"0\",\"ROCR_VISIBLE_DEVICES\":\"0\"}}");
    assert_int_equal(op->n_env, 2);
    sk_operator_free(op);
}

static void library_paths_lie_in_pinned_folders(void **state) {
    (void)state;
#define LIBRARIES(value)                                                                                               \
    "{\"environment\":{\"LD_LIBRARY_PATH\":\"" value "\"},\"toolkit_directories\":{\"t\":{\"path\":\"/kit/\","         \
    "\"sha256\":\"" HEX_A "\"}}}"
    static const wrong v[] = {
        {"{}", LIBRARIES("/usr/lib"), "environment.LD_LIBRARY_PATH: '/usr/lib' lies neither"},
        {"{}", LIBRARIES("/build:/usr/lib"), "environment.LD_LIBRARY_PATH: '/usr/lib' lies neither"},
        {"{}", LIBRARIES("/build/../usr/lib"), "environment.LD_LIBRARY_PATH: "},
        {"{}", LIBRARIES("/build/.."), "environment.LD_LIBRARY_PATH: "},
        {"{}", LIBRARIES("/buildings"), "environment.LD_LIBRARY_PATH: "},
        {"{}", LIBRARIES("/build:"), "environment.LD_LIBRARY_PATH: '' lies neither"},
        {"{}", LIBRARIES(""), "environment.LD_LIBRARY_PATH: '' lies neither"},
        {"{}", "{\"environment\":{\"GGML_BACKEND_PATH\":\"/evil.so\"}}", "environment.GGML_BACKEND_PATH: '/evil.so'"},
    };
    REFUSE_ALL(v);
    sk_operator *op = accept("{}", LIBRARIES("/build:/build/lib..x:/kit/lib64"));
    assert_string_equal(sk_operator_env_library_path(op->env[0]), "/build:/build/lib..x:/kit/lib64");
    assert_null(sk_operator_env_library_path("OMP_NUM_THREADS=4"));
    sk_operator_free(op);
}

/* ---- overrides ---- */

static const char *override_name;
static char override_value[32];

static char *fake_getenv(const char *name) {
    return strcmp(name, override_name) == 0 ? override_value : NULL;
}

static int override(sk_operator *op, const char *name, const char *value) {
    override_name = name;
    snprintf(override_value, sizeof override_value, "%s", value);
    return sk_operator_override(op, fake_getenv, &err);
}

static void the_environment_overrides_the_plan(void **state) {
    (void)state;
    sk_operator *op = accept("{\"prefix_tokens\":64}", "{}");
    const sk_family_sizes *s = &op->plan.sizes;
    assert_int_equal(override(op, "PREFIX_TOKENS", ""), SKIPPY_OK); /* empty is not given */
    assert_int_equal(s->prefix_tokens, 64);
    assert_int_equal(override(op, "PREFIX_TOKENS", "256"), SKIPPY_OK);
    assert_int_equal(override(op, "RUNTIME_LANE_COUNT", "2"), SKIPPY_OK);
    assert_int_equal(override(op, "LLAMA_PARALLEL", "3"), SKIPPY_OK);
    assert_int_equal(override(op, "LLAMA_REPEATS", "4"), SKIPPY_OK);
    assert_int_equal(override(op, "CACHE_HIT_REPEATS", "5"), SKIPPY_OK);
    assert_int_equal(s->prefix_tokens, 256);
    assert_int_equal(s->lanes, 2);
    assert_int_equal(s->parallel, 3);
    assert_int_equal(s->llama_repeats, 4);
    assert_int_equal(s->cache_hit_repeats, 5);
    sk_operator_free(op);
}

static void an_override_must_be_a_number_in_bounds(void **state) {
    (void)state;
    static const char *const bad[] = {"0", "-1", "x", "5x", "1025", "99999999999999999999", "1.5"};
    sk_operator *op = accept("{}", "{}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(override(op, "CACHE_HIT_REPEATS", bad[i]), SKIPPY_E_INVALID);
        assert_non_null(strstr(err.text, "CACHE_HIT_REPEATS"));
        assert_non_null(strstr(err.text, "1 to 1024"));
    }
    assert_int_equal(op->plan.sizes.cache_hit_repeats, 20);
    sk_operator_free(op);
}

/* ---- files ---- */

static void a_file_is_read_with_its_digest(void **state) {
    (void)state;
    char path[64], hex[SK_SHA256_HEX];
    json_t *root = request("{}", "{}");
    sk_operator *op = NULL;
    snprintf(path, sizeof path, "operator-test-%d.json", (int)getpid());
    assert_int_equal(json_dump_file(root, path, 0), 0);
    assert_int_equal(sk_operator_load(path, &op, &err), SKIPPY_OK);
    assert_int_equal(sk_sha256_file(path, NULL, hex, NULL, &err), SKIPPY_OK);
    assert_string_equal(op->sha256, hex);
    sk_operator_free(op);
    json_decref(root);
    unlink(path);
    assert_int_equal(sk_operator_load(path, &op, &err), SKIPPY_E_NOT_FOUND);
    assert_null(op);
}

static void the_example_in_the_repository_is_accepted(void **state) {
    (void)state;
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    char path[1024];
    sk_operator *op = NULL;
    snprintf(path, sizeof path, "%s/evals/cache-operator.example.json", source ? source : ".");
    if (sk_operator_load(path, &op, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    assert_int_equal(op->plan.n_cases, SK_PRESETS);
    assert_true(op->plan.n_use_cases > 0);
    sk_operator_free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_request_has_the_documented_defaults),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(unknown_fields_are_refused),
        cmocka_unit_test(needed_fields_are_needed),
        cmocka_unit_test(types_and_bounds_are_checked),
        cmocka_unit_test(more_toolkits_than_fit_are_refused),
        cmocka_unit_test(use_cases_and_corpus_come_together),
        cmocka_unit_test(the_old_and_the_new_server_come_together),
        cmocka_unit_test(only_settings_of_devices_and_threads_are_allowed),
        cmocka_unit_test(more_variables_than_fit_are_refused),
        cmocka_unit_test(conflicting_aliases_are_refused),
        cmocka_unit_test(library_paths_lie_in_pinned_folders),
        cmocka_unit_test(the_environment_overrides_the_plan),
        cmocka_unit_test(an_override_must_be_a_number_in_bounds),
        cmocka_unit_test(a_file_is_read_with_its_digest),
        cmocka_unit_test(the_example_in_the_repository_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
