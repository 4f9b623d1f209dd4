/* Whole runs with the program itself: skippy certifies, serves, and stands in for llama-server, on tiny models. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/family/row.h"
#include "bench/family/run_fixture.h"
#include "runtime/test_models.h"

enum { PREFIX = 48, OTHER_PREFIX = 40 };

static sk_run_fixture fixture;
static char program[1100];

/* Drops the flags that only llama-server has. */
static void make_native_server(void) {
    char *body = NULL;
    assert_true(asprintf(&body,
                         "#!/bin/sh\n"
                         "words=\n"
                         "while [ $# -gt 0 ]; do\n"
                         "  case \"$1\" in\n"
                         "    --cache-ram|--ctx-checkpoints|--checkpoint-min-step|-ngl) shift 2 ;;\n"
                         "    --swa-full) shift ;;\n"
                         "    *) words=\"$words $1\"; shift ;;\n"
                         "  esac\n"
                         "done\n"
                         "exec '%s' serve $words\n",
                         program) > 0);
    run_fixture_script(&fixture, "native", body);
    run_fixture_pin(&fixture, "native", &fixture.in->native_server);
    free(body);
}

static int set_up(void **state) {
    const char *build = getenv("SKIPPY_BUILD_DIR");
    char cache[600];
    (void)state;
    snprintf(program, sizeof program, "%s/skippy", build ? build : ".");
    run_fixture_make(&fixture);
    snprintf(cache, sizeof cache, "%s/cache", fixture.folder);
    return setenv("XDG_CACHE_HOME", cache, 1); /* not the user's own: digests of models are left there */
}

static int tear_down(void **state) {
    (void)state;
    run_fixture_free(&fixture);
    return 0;
}

/* One full cell, and a second prefix where sweep is set. Skips without a model or a program. */
static void need(const char *family, const char *key, bool sweep) {
    const char *model = test_model_path(family);
    char absolute[PATH_MAX];
    if (!model || access(program, X_OK) != 0) skip();
    assert_non_null(realpath(program, absolute));
    snprintf(program, sizeof program, "%.1000s", absolute);
    assert_non_null(realpath(model, absolute));
    make_native_server();
    run_fixture_pin(&fixture, program, &fixture.in->correctness);
    run_fixture_pin(&fixture, program, &fixture.in->stage_server);
    sk_family_cell *full =
        run_fixture_cell(&fixture, run_fixture_model_at(&fixture, key, absolute), SK_CELL_FULL, PREFIX, "full");
    full->tasks.moved_boundary = true;
    full->tasks.restart = true;
    if (sweep) run_fixture_cell(&fixture, 0, SK_CELL_SWEEP, OTHER_PREFIX, "sweep");
    run_fixture_save(&fixture);
}

static void assert_series(const sk_family_row *r, const char *part, const char *name) {
    const sk_row_series *s = sk_family_row_series(r, part, name);
    if (!s) fail_msg("there is no series '%s' of '%s'", name, part);
    for (size_t i = 0; s && i < r->n_hosts; i++)
        if (s->n[i] == 0) fail_msg("'%s' has no sample of %s", name, r->host[i]);
    for (size_t i = 0; i + 1 < r->n_hosts; i++)
        if (!sk_family_row_comparable(r, part, i)) fail_msg("%s: %s is not comparable", part, r->host[i]);
}

static void assert_rows(const char *payload) {
    char path[700];
    sk_err e = {0};
    sk_row_set set = {0};
    snprintf(path, sizeof path, "%s/production-cache-bench.json", fixture.out_dir);
    if (sk_row_set_load(&set, path, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_int_equal(set.n, fixture.in->n_cells);
    const sk_family_row *full = &set.v[0];
    assert_string_equal(full->skippy_status, "pass");
    assert_string_equal(full->llama_status, "ok");
    assert_string_equal(full->payload, payload);
    assert_string_equal(full->storage_method, "measured");
    assert_true(full->storage_bytes > 0);
    assert_true(full->recompute_total_ms > 0.0);
    assert_true(full->cache_hit_total_ms > 0.0);
    assert_int_equal(full->prompt_tokens, PREFIX + 1);
    assert_int_equal(full->n_hosts, 3);
    assert_series(full, "exact", "exact");
    assert_series(full, "suffix", "suffix");
    assert_series(full, "edit", "edit");
    assert_series(full, "edit", "edit text");
    assert_series(full, "thinking", "thinking");
    assert_series(full, "restart", "restart");
    if (set.n > 1) assert_series(&set.v[1], "exact", "exact");
    assert_false(sk_family_row_promoted(full, NULL)); /* the weights are not trained */
    sk_row_set_free(&set);
}

/* The folder goes with the test: what its rows say must be in the message. */
static void fail_with_rows(const char *text) {
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json"), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        print_error("%s\n", json_dumps(json_object_get(row, "skippy"), JSON_COMPACT));
        print_error("%s\n", json_dumps(json_object_get(row, "llama_server"), JSON_COMPACT));
    }
    fail_msg("%s", text);
}

static void run(const char *payload) {
    sk_err e = {0};
    if (run_fixture_run(&fixture, NULL, &e) != SKIPPY_OK) fail_with_rows(e.text);
    assert_rows(payload);
    json_t *run = run_fixture_load(&fixture, "run.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "completed");
    json_decref(run);
    assert_false(run_fixture_has(&fixture, "server-logs/llama-1/disk-store"));
    assert_false(run_fixture_has(&fixture, "server-logs/falcon_h1-1/disk-store"));
}

static void a_dense_family_is_measured_from_certificate_to_restart(void **state) {
    (void)state;
    need("llama", "llama", true);
    run("ResidentKv");
}

static void a_hybrid_family_is_measured_from_certificate_to_restart(void **state) {
    (void)state;
    need("falcon-h1", "falcon_h1", false);
    run("KvRecurrent");
}

static void parts_that_do_not_fit_into_the_models_context_are_left_out(void **state) {
    (void)state;
    sk_err e = {0};
    need("llama", "llama", false);
    fixture.in->sizes.history_tokens = 1 << 16;
    fixture.in->sizes.restart_repeats = 1;
    run_fixture_save(&fixture);
    if (run_fixture_run(&fixture, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *parts = json_object_get(json_array_get(rows, 0), "parts");
    json_t *notes = json_object_get(json_array_get(rows, 0), "notes");
    assert_non_null(json_object_get(parts, "exact"));
    assert_non_null(json_object_get(parts, "restart"));
    assert_null(json_object_get(parts, "edit"));
    assert_null(json_object_get(parts, "thinking"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(parts, "exact"), "status")), "ok");
    assert_non_null(strstr(json_string_value(json_array_get(notes, 0)), "edit: left out"));
    assert_non_null(strstr(json_string_value(json_array_get(notes, 1)), "thinking: left out"));
    json_decref(rows);
}

int main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dense_family_is_measured_from_certificate_to_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_that_do_not_fit_into_the_models_context_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hybrid_family_is_measured_from_certificate_to_restart, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
