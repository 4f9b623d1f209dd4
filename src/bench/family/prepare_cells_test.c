/* Which cells a request becomes: their order, kinds, prefixes, folders and tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/prepare.h"
#include "bench/family/prepare_observe.h"

static sk_err err;

/* A request for some cases, with a baseline. */
typedef struct fixture {
    sk_operator op;
    sk_input_model models[SK_PRESETS];
    size_t n_models;
    sk_family_cell *cells;
    size_t n;
} fixture;

static void add_model(fixture *f, const char *key) {
    const sk_preset *preset = sk_preset_find(key);
    assert_non_null(preset);
    f->models[f->n_models++] = (sk_input_model){.preset = preset, .found = {.status = SK_FOUND_MISSING}};
}

static fixture *make(const char *const *keys) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->op.native_server, "/bin/llama-server");
    for (; *keys; keys++) add_model(f, *keys);
    return f;
}

static int plan(fixture *f, const sk_use_case *const *use_cases, size_t n_use_cases) {
    free(f->cells);
    f->cells = NULL;
    return sk_prepare_cells(&f->op, use_cases, n_use_cases, f->models, f->n_models, &f->cells, &f->n, &err);
}

static void end(fixture *f) {
    free(f->cells);
    free(f);
}

static const sk_family_cell *cell_at(const fixture *f, size_t i) {
    static const sk_family_cell none;
    if (f->cells && i < f->n) return &f->cells[i];
    fail_msg("there is no cell %zu", i);
    return &none;
}

static void assert_cell(const fixture *f, size_t i, sk_cell_kind kind, const char *folder) {
    const sk_family_cell *c = cell_at(f, i);
    assert_int_equal(c->kind, kind);
    assert_string_equal(c->output_relative, folder);
    assert_ptr_equal(f->models[c->model].preset, c->preset);
}

static void assert_tasks(const sk_family_cell *c, sk_cell_tasks expected) {
    assert_memory_equal(&c->tasks, &expected, sizeof expected);
}

static void a_full_row_for_each_case_in_the_tables_order(void **state) {
    (void)state;
    static const char *const keys[] = {"llama", "deepseek3", "qwen3next", NULL};
    fixture *f = make(keys);
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_int_equal(f->n, 3);
    assert_cell(f, 0, SK_CELL_FULL, "full/qwen3next-p16"); /* the presets' own prefixes */
    assert_cell(f, 1, SK_CELL_FULL, "full/llama-p128");
    assert_cell(f, 2, SK_CELL_PACKAGE, "package/deepseek3-p4");
    assert_tasks(cell_at(f, 0), (sk_cell_tasks){.correctness = true,
                                                .serial_baseline = true,
                                                .serial_skippy = true,
                                                .moved_boundary = true,
                                                .restart = true});
    assert_tasks(cell_at(f, 2), (sk_cell_tasks){.correctness = true});
    end(f);
}

static void the_plans_prefix_is_for_all_but_a_package_that_cannot_hold_it(void **state) {
    (void)state;
    static const char *const keys[] = {"qwen3next", "deepseek3", NULL};
    fixture *f = make(keys);
    f->op.plan.sizes.prefix_tokens = 128;
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_cell(f, 0, SK_CELL_FULL, "full/qwen3next-p128");
    assert_cell(f, 1, SK_CELL_PACKAGE, "package/deepseek3-p4");
    f->op.plan.sizes.prefix_tokens = 31; /* with the token behind it exactly its context of 32 */
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_cell(f, 1, SK_CELL_PACKAGE, "package/deepseek3-p31");
    f->op.plan.sizes.prefix_tokens = 32;
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_cell(f, 1, SK_CELL_PACKAGE, "package/deepseek3-p4");
    end(f);
}

static void further_prefixes_follow_their_model(void **state) {
    (void)state;
    static const char *const keys[] = {"qwen3next", "llama", "deepseek3", NULL};
    fixture *f = make(keys);
    f->op.plan.sizes.n_sweep = 3;
    f->op.plan.sizes.sweep[0] = 512;
    f->op.plan.sizes.sweep[1] = 128; /* llama's own */
    f->op.plan.sizes.sweep[2] = 64;
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_int_equal(f->n, 8);
    assert_cell(f, 0, SK_CELL_FULL, "full/qwen3next-p16");
    assert_cell(f, 1, SK_CELL_SWEEP, "sweep/qwen3next-p512");
    assert_cell(f, 2, SK_CELL_SWEEP, "sweep/qwen3next-p128");
    assert_cell(f, 3, SK_CELL_SWEEP, "sweep/qwen3next-p64");
    assert_cell(f, 4, SK_CELL_FULL, "full/llama-p128");
    assert_cell(f, 5, SK_CELL_SWEEP, "sweep/llama-p512");
    assert_cell(f, 6, SK_CELL_SWEEP, "sweep/llama-p64");
    assert_cell(f, 7, SK_CELL_PACKAGE, "package/deepseek3-p4");
    assert_int_equal(cell_at(f, 5)->prefix_tokens, 512);
    assert_tasks(cell_at(f, 5), (sk_cell_tasks){.correctness = true, .serial_baseline = true, .serial_skippy = true});
    end(f);
}

static void what_is_given_becomes_a_task(void **state) {
    (void)state;
    static const char *const keys[] = {"llama", NULL};
    fixture *f = make(keys);
    f->op.plan.sizes.n_concurrency = 1;
    strcpy(f->op.plan.agent_corpus.path, "/agent.json");
    strcpy(f->op.plan.old_server.path, "/old");
    strcpy(f->op.plan.new_server.path, "/new");
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_tasks(cell_at(f, 0), (sk_cell_tasks){true, true, true, true, true, true, true, true});
    f->op.plan.skip_llama_server = true;
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_false(cell_at(f, 0)->tasks.serial_baseline);
    assert_true(cell_at(f, 0)->tasks.serial_skippy);
    f->op.plan.skip_llama_server = false;
    f->op.native_server[0] = '\0';
    assert_int_equal(plan(f, NULL, 0), SKIPPY_OK);
    assert_false(cell_at(f, 0)->tasks.serial_baseline);
    end(f);
}

static char tools[] = "tools", chat[] = "chat";
static const sk_use_case TOOLS = {.key = tools, .prefix_tokens = 96}, CHAT = {.key = chat, .prefix_tokens = 128};

static void a_use_case_row_for_each_pair(void **state) {
    (void)state;
    static const char *const keys[] = {"llama", "deepseek3", "qwen3next", NULL};
    const sk_use_case *const use_cases[] = {&TOOLS, &CHAT};
    fixture *f = make(keys);
    f->op.plan.sizes.n_concurrency = 1;
    f->op.plan.sizes.n_sweep = 1;
    f->op.plan.sizes.sweep[0] = 8;
    assert_int_equal(plan(f, use_cases, 2), SKIPPY_OK);
    assert_int_equal(f->n, 4); /* no package, no sweep */
    assert_cell(f, 0, SK_CELL_USE_CASE, "tools/qwen3next-p96");
    assert_cell(f, 1, SK_CELL_USE_CASE, "chat/qwen3next-p128");
    assert_cell(f, 2, SK_CELL_USE_CASE, "tools/llama-p96");
    assert_cell(f, 3, SK_CELL_USE_CASE, "chat/llama-p128");
    assert_string_equal(cell_at(f, 2)->use_case, "tools");
    assert_tasks(cell_at(f, 0), (sk_cell_tasks){.correctness = true, .serial_baseline = true, .serial_skippy = true});
    f->op.plan.sizes.prefix_tokens = 32;
    assert_int_equal(plan(f, use_cases, 2), SKIPPY_OK);
    assert_cell(f, 0, SK_CELL_USE_CASE, "tools/qwen3next-p32");
    end(f);
}

static void a_request_without_cells_is_refused(void **state) {
    (void)state;
    static const char *const keys[] = {"deepseek3", NULL};
    const sk_use_case *const use_cases[] = {&TOOLS};
    fixture *f = make(keys);
    assert_int_equal(plan(f, use_cases, 1), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "a layer package has no use cases"));
    assert_null(f->cells);
    assert_int_equal(plan(f, use_cases, 0), SKIPPY_E_INVALID);
    f->n_models = 0;
    assert_int_equal(plan(f, NULL, 0), SKIPPY_E_INVALID);
    end(f);
}

static void cells_that_collide_are_refused(void **state) {
    (void)state;
    static const char *const keys[] = {"llama", NULL};
    const sk_use_case *const twice[] = {&TOOLS, &TOOLS};
    fixture *f = make(keys);
    assert_int_equal(plan(f, twice, 2), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "two cells collide"));
    assert_null(f->cells);
    end(f);
}

static void too_many_cells_are_refused(void **state) {
    (void)state;
    static const char *const keys[] = {"llama", "qwen3next", NULL};
    enum { TOO_MANY = SK_INPUT_MAX_CELLS / 2 + 1 };
    const sk_use_case **many = calloc(TOO_MANY, sizeof(const sk_use_case *));
    fixture *f = make(keys);
    assert_non_null(many);
    for (size_t i = 0; i < TOO_MANY; i++) many[i] = &CHAT;
    assert_int_equal(plan(f, many, TOO_MANY), SKIPPY_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "more than 8192 cells"));
    free(many);
    end(f);
}

/* ---- choosing use cases, models' digests and tools ---- */

static void use_cases_are_chosen_by_name_or_all(void **state) {
    (void)state;
    sk_use_case v[] = {TOOLS, CHAT};
    const sk_corpus corpus = {.v = v, .n = 2};
    const sk_use_case *chosen[2];
    size_t n = 0;
    char all[] = "all", unknown[] = "poetry", *word = NULL;
    sk_operator_plan p = {.use_cases = &word};
    assert_int_equal(sk_prepare_choose(&p, &corpus, chosen, &n, &err), SKIPPY_OK); /* none named */
    assert_int_equal(n, 2);
    p.n_use_cases = 1;
    word = all;
    assert_int_equal(sk_prepare_choose(&p, &corpus, chosen, &n, &err), SKIPPY_OK);
    assert_int_equal(n, 2);
    assert_ptr_equal(chosen[0], &v[0]);
    assert_ptr_equal(chosen[1], &v[1]);
    word = chat;
    assert_int_equal(sk_prepare_choose(&p, &corpus, chosen, &n, &err), SKIPPY_OK);
    assert_int_equal(n, 1);
    assert_ptr_equal(chosen[0], &v[1]);
    word = unknown;
    assert_int_equal(sk_prepare_choose(&p, &corpus, chosen, &n, &err), SKIPPY_E_INVALID);
    assert_string_equal(err.text, "plan.use_cases[0]: the corpus has no use case 'poetry'");
}

static void a_split_models_digest_covers_every_shard(void **state) {
    (void)state;
    char one[SK_SHA256_HEX], two[SK_SHA256_HEX], other[SK_SHA256_HEX], expected[SK_SHA256_HEX];
    sk_found_model m = {.n_files = 1};
    sk_sha256_text("a", 1, m.file[0].sha256);
    sk_sha256_text("b", 1, m.file[1].sha256);
    sk_prepare_model_digest(&m, one);
    assert_string_equal(one, m.file[0].sha256);
    m.n_files = 2;
    sk_prepare_model_digest(&m, two);
    /* sha256sum a b | cut -c1-64 | sha256sum */
    char lines[2 * SK_SHA256_HEX + 1];
    snprintf(lines, sizeof lines, "%s\n%s\n", m.file[0].sha256, m.file[1].sha256);
    sk_sha256_text(lines, strlen(lines), expected);
    assert_string_equal(two, expected);
    sk_sha256_text("c", 1, m.file[1].sha256);
    sk_prepare_model_digest(&m, other);
    assert_string_not_equal(two, other);
}

static void split_models_and_packages_need_the_tool(void **state) {
    (void)state;
    sk_operator *op = calloc(1, sizeof *op);
    assert_non_null(op);
    const sk_preset *split = sk_preset_find("minimax_m27"), *package = sk_preset_find("deepseek3");
    const sk_found_model one = {.n_files = 1, .runtime_entry = "/m/x.gguf"}, three = {.n_files = 3};
    assert_int_equal(sk_prepare_check_tool(op, split, &one, &err), SKIPPY_OK); /* one generated file */
    assert_int_equal(sk_prepare_check_tool(op, split, &three, &err), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "a split model"));
    assert_int_equal(sk_prepare_check_tool(op, package, &one, &err), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "a layer package"));
    strcpy(op->artifact_tool, "/bin/skippy");
    assert_int_equal(sk_prepare_check_tool(op, split, &three, &err), SKIPPY_OK);
    assert_int_equal(sk_prepare_check_tool(op, package, &one, &err), SKIPPY_OK);
    free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_row_for_each_case_in_the_tables_order),
        cmocka_unit_test(the_plans_prefix_is_for_all_but_a_package_that_cannot_hold_it),
        cmocka_unit_test(further_prefixes_follow_their_model),
        cmocka_unit_test(what_is_given_becomes_a_task),
        cmocka_unit_test(a_use_case_row_for_each_pair),
        cmocka_unit_test(a_request_without_cells_is_refused),
        cmocka_unit_test(cells_that_collide_are_refused),
        cmocka_unit_test(too_many_cells_are_refused),
        cmocka_unit_test(use_cases_are_chosen_by_name_or_all),
        cmocka_unit_test(a_split_models_digest_covers_every_shard),
        cmocka_unit_test(split_models_and_packages_need_the_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
