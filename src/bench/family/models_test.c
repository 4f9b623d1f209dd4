#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/models.h"
#include "bench/family/shape.h"
#include "bench/family/tiny_gguf.h"
#include "bench/interrupt.h"
#include "runtime/synth_families.h"

#define GIB (UINT64_C(1) << 30)

/* ---- sizes ---- */

static void counted_parameters_are_those_of_the_real_models(void **state) {
    (void)state;
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        const double real = sk_synth_family_find(p->synth)->billions * 1e9;
        sk_shape_size size;
        assert_true(sk_shape_size_of(p->synth, p->layers, &size));
        const double ratio = (double)size.parameters / real;
        if (ratio < 0.999 || ratio > 1.0005) fail_msg("%s: %.5f of the parameters", p->key, ratio);
    }
}

/* Sizes of files that 'skippy synth --size shape --quant q4_k_m' wrote. The rest is the vocabulary: 16 MiB and a
 * hundredth cover the largest. */
static void estimated_bytes_are_those_of_written_files_but_for_the_vocabulary(void **state) {
    (void)state;
    static const struct {
        const char *synth;
        int32_t layers;
        uint64_t bytes;
    } made[] = {{"glm47flash", 4, 1671374080}, {"gemma3", 6, 444933952}};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        sk_shape_size size;
        assert_true(sk_shape_size_of(made[i].synth, made[i].layers, &size));
        assert_in_range(made[i].bytes, size.bytes, size.bytes + size.bytes / 100 + (16 << 20));
    }
}

/* A tied model's list has the output matrix that its file lacks. */
static void the_reserve_is_four_bytes_a_weight(void **state) {
    (void)state;
    sk_shape_size size;
    assert_true(sk_shape_size_of("olmo", 2, &size));
    assert_int_equal(size.reserved, 4 * size.parameters);
    assert_true(sk_shape_size_of("llama", 2, &size));
    assert_int_equal(size.reserved, 4 * (size.parameters + UINT64_C(2048) * 128256));
}

static void unknown_shapes_have_no_size(void **state) {
    (void)state;
    sk_shape_size size;
    sk_shape_layers layers;
    assert_false(sk_shape_size_of("no-such-family", 4, &size));
    assert_false(sk_shape_size_of("llama", 0, &size));
    assert_false(sk_shape_layers_of("no-such-family", &layers));
}

static int32_t layers_of(const char *key, uint64_t limit) {
    return sk_models_layers(sk_preset_find(key), limit);
}

static int32_t layers_within(const sk_preset *p, uint64_t file, uint64_t memory, uint64_t active) {
    const sk_models_limits l = {.file = file, .memory = memory, .active = active};
    return sk_models_layers_for(p, &l);
}

static void a_limit_of_the_work_for_a_token_never_drops_a_kind_of_layer(void **state) {
    const uint64_t limit = 320000000;
    (void)state;
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        sk_shape_layers kinds = {0};
        sk_shape_size size = {0};
        const int32_t n = layers_within(p, UINT64_MAX, UINT64_MAX, limit);
        assert_true(sk_shape_layers_of(p->synth, &kinds) && sk_shape_size_of(p->synth, n, &size));
        assert_true(n >= kinds.least && n <= kinds.real);
        assert_true(size.active <= limit || n < kinds.least + kinds.period);
    }
    assert_int_equal(layers_within(sk_preset_find("llama"), UINT64_MAX, UINT64_MAX, limit), 5);
}

static void every_kind_of_layer_is_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        sk_shape_layers kinds;
        assert_true(sk_shape_layers_of(p->synth, &kinds));
        for (uint64_t limit = GIB / 4; limit <= 64 * GIB; limit *= 2) {
            const int32_t n = sk_models_layers(p, limit);
            assert_true(n == 0 || (n >= kinds.least && n <= p->layers));
            assert_true(n == p->layers || n % kinds.period == 0);
        }
    }
    assert_int_equal(layers_of("qwen3next", 9 * GIB) % 4, 0);
    assert_int_equal(layers_of("gemma4_a4b", 8 * GIB), 12);
    assert_true(layers_of("gemma4_e4b", 4 * GIB) >= 18 + 6); /* 18 layers read the keys of earlier ones */
    assert_true(layers_of("glm47_flash", GIB) >= 2);
}

static void more_room_never_means_fewer_layers(void **state) {
    (void)state;
    for (size_t i = 0; i < SK_PRESETS; i++) {
        int32_t before = 0;
        for (uint64_t limit = GIB / 4; limit <= 64 * GIB; limit += GIB) {
            const int32_t n = sk_models_layers(sk_preset_at(i), limit);
            assert_true(n >= before);
            before = n;
        }
    }
}

static void limits_decide(void **state) {
    (void)state;
    assert_int_equal(layers_of("qwen3next", 4 * GIB), 0);
    assert_int_equal(layers_of("qwen3next", SK_MODELS_FILE_LIMIT), 4);
    assert_int_equal(layers_of("gemma3", GIB), 26);
    assert_int_equal(layers_of("llama", 100 * GIB), 16);
    for (size_t i = 0; i + 1 < SK_PRESETS; i++) {
        assert_true(sk_models_layers(sk_preset_at(i), SK_MODELS_FILE_LIMIT) > 0);
    }
    assert_int_equal(layers_of("deepseek3", SK_MODELS_FILE_LIMIT), 0);
    const sk_preset *olmo = sk_preset_find("olmo");
    assert_int_equal(layers_within(olmo, 5 * GIB, 64 * GIB, 0), 32);
    const int32_t n = layers_within(olmo, 5 * GIB, 8 * GIB, 0);
    sk_shape_size fits, next;
    assert_true(n > 0 && sk_shape_size_of("olmo", n, &fits) && sk_shape_size_of("olmo", n + 1, &next));
    assert_true(fits.reserved <= 8 * GIB && next.reserved > 8 * GIB);
    assert_int_equal(layers_within(olmo, 5 * GIB, GIB, 0), 0);
}

/* ---- making ---- */

static char folder[96], root[128], program[160], calls[160];

/* A program that takes the place of 'skippy': notes its words, then does what `body` says with $out. */
static void install(const char *body) {
    FILE *f = fopen(program, "w");
    assert_non_null(f);
    fprintf(f,
            "#!/bin/sh\necho \"$*\" >> '%s'\nwhile [ $# -gt 0 ]; do case $1 in --out|--output) out=$2;; --family) "
            "family=$2;; package) package=1;; esac; shift; done\n%s\n",
            calls, body);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(program, 0755), 0);
}

#define COPY "cp \"$(dirname \"$0\")/tiny\" \"$out\""

static int make_root(void **state) {
    char tiny[160];
    (void)state;
    if (!gg_temp_dir(folder, sizeof folder)) return -1;
    snprintf(root, sizeof root, "%s/models", folder);
    snprintf(program, sizeof program, "%s/skippy", folder);
    snprintf(calls, sizeof calls, "%s/calls", folder);
    snprintf(tiny, sizeof tiny, "%s/tiny", folder);
    return tiny_gguf_write(tiny, &(tiny_gguf){.name = "synthetic", .file_type = 15}) ? 0 : -1;
}

static int drop_root(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static bool is_there(const char *name) {
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", root, name);
    return lstat(path, &st) == 0;
}

/* Only `name` is in the cache root; NULL: nothing at all. */
static void assert_only(const char *name) {
    DIR *d = opendir(root);
    assert_non_null(d);
    for (const struct dirent *entry; (entry = readdir(d));) {
        const bool expected = name && strcmp(entry->d_name, name) == 0;
        if (entry->d_name[0] != '.' && !expected) fail_msg("'%s' was left behind", entry->d_name);
    }
    closedir(d);
    assert_true(!name || is_there(name));
}

static bool says(const sk_buf *b, const char *words) {
    return b->data && strstr(b->data, words);
}

static sk_models_options options(const sk_preset *p) {
    return (sk_models_options){.root = root, .skippy = program, .only = {p}, .n_only = 1, .layers = 2, .seed = 7};
}

static void a_model_is_made_under_a_scratch_name_and_renamed(void **state) {
    (void)state;
    sk_buf text = {0};
    char expected[700];
    const sk_models_options o = options(sk_preset_find("llama"));
    install(COPY);
    sk_err e = {0};
    const int rc = sk_models_make(&o, &e);
    assert_string_equal(e.text, "");
    assert_int_equal(rc, SKIPPY_OK);
    assert_only("llama.gguf");
    snprintf(expected, sizeof expected,
             "synth --family llama --size shape --layers 2 --quant q4_k_m --seed 7 --out %s/llama.gguf.part\n", root);
    assert_true(gg_read(calls, &text));
    assert_string_equal(text.data, expected);
    sk_buf_free(&text);
}

static void a_model_that_is_there_is_not_made_anew(void **state) {
    (void)state;
    const sk_models_options o = options(sk_preset_find("llama"));
    install(COPY);
    assert_int_equal(sk_models_make(&o, NULL), SKIPPY_OK);
    install("exit 1");
    assert_int_equal(sk_models_make(&o, NULL), SKIPPY_OK);
    assert_only("llama.gguf");
}

static void the_programs_words_are_the_error_and_nothing_stays(void **state) {
    (void)state;
    sk_err e = {0};
    const sk_models_options o = options(sk_preset_find("llama"));
    install("echo half > \"$out\"; echo half > \"$out.partial\"; echo half > \"$out.unquantised.partial\"\n"
            "echo 'first line' >&2; echo 'skippy synth: the moon is too close' >&2; exit 1");
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "llama: skippy synth: the moon is too close");
    assert_only(NULL);
    install("kill -9 $$");
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "signal 9"));
    install("exit 3");
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "without a word"));
    assert_only(NULL);
}

static void a_failure_does_not_stop_the_others_and_is_returned(void **state) {
    (void)state;
    sk_err e = {0};
    sk_buf lines = {0};
    char path[160];
    sk_models_options o = options(sk_preset_find("olmo"));
    o.only[1] = sk_preset_find("llama");
    o.n_only = 2;
    snprintf(path, sizeof path, "%s/progress", folder);
    o.progress = fopen(path, "w");
    assert_non_null(o.progress);
    install("if [ $family = olmo ]; then echo 'no olmo today' >&2; exit 1; fi\n" COPY);
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_RUNTIME);
    assert_int_equal(fclose(o.progress), 0);
    assert_string_equal(e.text, "olmo: no olmo today");
    assert_only("llama.gguf");
    assert_true(gg_read(path, &lines));
    assert_true(says(&lines, "no olmo today"));
    assert_true(says(&lines, "llama: 2 of 16 layers, about 0."));
    assert_true(says(&lines, "llama: made, 0.00 GiB"));
    sk_buf_free(&lines);
}

static void left_overs_of_a_killed_run_are_cleared(void **state) {
    (void)state;
    char path[300];
    const sk_models_options o = options(sk_preset_find("llama"));
    assert_int_equal(mkdir(root, 0755), 0);
    snprintf(path, sizeof path, "%s/llama.gguf.part.unquantised.partial", root);
    assert_true(gg_write(path, "x", 1));
    install(COPY);
    assert_int_equal(sk_models_make(&o, NULL), SKIPPY_OK);
    assert_only("llama.gguf");
}

static void a_package_is_made_from_the_model_and_only_it_stays(void **state) {
    (void)state;
    sk_buf text = {0};
    sk_preset p = *sk_preset_find("llama");
    p.key = "packed";
    p.artifact = SK_ARTIFACT_PACKAGE;
    const sk_models_options o = options(&p);
    install("if [ \"$package\" ]; then mkdir \"$out\" && echo > \"$out/model-package.json\"; else " COPY "; fi");
    assert_int_equal(sk_models_make(&o, NULL), SKIPPY_OK);
    assert_only("packed");
    assert_true(is_there("packed/model-package.json"));
    assert_true(gg_read(calls, &text));
    assert_true(says(&text, "packed.gguf.part --output "));
    sk_buf_free(&text);
    install("if [ \"$package\" ]; then mkdir \"$out\"; echo 'no room' >&2; exit 1; else " COPY "; fi");
    assert_int_equal(test_remove_tree(root), 0);
    assert_int_equal(sk_models_make(&o, NULL), SKIPPY_E_RUNTIME);
    assert_only(NULL);
}

static void what_cannot_be_made_is_said_before_anything_runs(void **state) {
    (void)state;
    sk_err e = {0};
    char path[300];
    sk_models_options o = options(sk_preset_find("deepseek3"));
    install("exit 0");
    o.layers = 0;
    o.file_limit = GIB;
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_TOO_LARGE);
    assert_non_null(strstr(e.text, "deepseek3 needs at least 4 layers"));
    o = options(sk_preset_find("olmo"));
    o.layers = 100000; /* petabytes */
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "GiB free, but olmo with 100000 layers needs"));
    snprintf(path, sizeof path, "%s/llama.gguf", root);
    assert_true(gg_write(path, "junk", 4));
    o = options(sk_preset_find("llama"));
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_EXISTS);
    assert_non_null(strstr(e.text, "remove it"));
    o = options(sk_preset_find("glm4"));
    o.skippy = "./no-such-program";
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_NOT_FOUND);
    o.root = "relative";
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_INVALID);
    o.root = "/dev/null/models";
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_IO);
    assert_only("llama.gguf");
    assert_int_not_equal(access(calls, F_OK), 0);
}

/* ---- the list ---- */

static char *printed(bool json) {
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    assert_int_equal(sk_models_print(root, f, json, NULL), SKIPPY_OK);
    fclose(f);
    return text;
}

static void the_list_has_every_preset(void **state) {
    (void)state;
    char path[300];
    assert_int_equal(mkdir(root, 0755), 0);
    snprintf(path, sizeof path, "%s/llama.gguf", root);
    assert_true(tiny_gguf_write(path, &(tiny_gguf){.name = "synthetic", .file_type = 15}));
    char *text = printed(true);
    json_t *json = json_loads(text, 0, NULL);
    const json_t *models = json_object_get(json, "models");
    const json_t *llama = json_array_get(models, 2), *glm = json_array_get(models, 6);
    assert_int_equal(json_array_size(models), SK_PRESETS);
    assert_string_equal(json_string_value(json_object_get(llama, "key")), "llama");
    assert_string_equal(json_string_value(json_object_get(llama, "path")), path);
    assert_int_equal(json_integer_value(json_object_get(llama, "layers")), 1);
    assert_int_equal(json_integer_value(json_object_get(llama, "layers_real")), 16);
    assert_true(json_is_true(json_object_get(llama, "synthetic")));
    assert_true(json_integer_value(json_object_get(llama, "bytes")) > 0);
    assert_string_equal(json_string_value(json_object_get(glm, "status")), "missing-model");
    json_decref(json);
    free(text);
    text = printed(false);
    assert_non_null(strstr(text, "llama        present-unqualified 1 of 16   Q4_K_M       synthetic"));
    assert_non_null(strstr(text, "glm4         missing-model       -         -            -         there is no"));
    free(text);
}

static void a_list_that_cannot_be_made_is_an_error(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    assert_int_equal(sk_models_print(root, stdout, false, NULL), SKIPPY_E_NOT_FOUND);
    assert_int_equal(mkdir(root, 0755), 0);
    if (full) {
        assert_int_equal(sk_models_print(root, full, true, NULL), SKIPPY_E_IO);
        fclose(full);
    }
}

/* The last test: the process counts as interrupted from then on. */
static void a_signal_ends_the_work_at_once_and_nothing_stays(void **state) {
    (void)state;
    sk_err e = {0};
    sk_models_options o = options(sk_preset_find("olmo"));
    o.only[1] = sk_preset_find("llama");
    o.n_only = 2;
    sk_interrupt_install();
    install("echo half > \"$out\"; kill -TERM $PPID; exec sleep 60");
    assert_int_equal(sk_models_make(&o, &e), SKIPPY_E_CANCELLED);
    assert_only(NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_of_the_work_for_a_token_never_drops_a_kind_of_layer),
        cmocka_unit_test(counted_parameters_are_those_of_the_real_models),
        cmocka_unit_test(estimated_bytes_are_those_of_written_files_but_for_the_vocabulary),
        cmocka_unit_test(the_reserve_is_four_bytes_a_weight),
        cmocka_unit_test(unknown_shapes_have_no_size),
        cmocka_unit_test(every_kind_of_layer_is_kept),
        cmocka_unit_test(more_room_never_means_fewer_layers),
        cmocka_unit_test(limits_decide),
        T(a_model_is_made_under_a_scratch_name_and_renamed),
        T(a_model_that_is_there_is_not_made_anew),
        T(the_programs_words_are_the_error_and_nothing_stays),
        T(a_failure_does_not_stop_the_others_and_is_returned),
        T(left_overs_of_a_killed_run_are_cleared),
        T(a_package_is_made_from_the_model_and_only_it_stays),
        T(what_cannot_be_made_is_said_before_anything_runs),
        T(the_list_has_every_preset),
        T(a_list_that_cannot_be_made_is_an_error),
        T(a_signal_ends_the_work_at_once_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
