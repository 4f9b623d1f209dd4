/* The parts on real servers: skippy on tiny models, under two names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/part.h"
#include "bench/family/turns.h"
#include "runtime/test_models.h"

enum { HOSTS = 2, OTHER = 0, OURS = 1, REPEATS = 3, PREFIX = 48 };

static char folder[64];
static char program[1100];

static const sk_family_sizes sizes = {.seed = 1,
                                      .suffix_tokens = 12,
                                      .history_tokens = 120,
                                      .edit_tokens = 16,
                                      .restart_tokens = 64,
                                      .cache_hit_repeats = REPEATS + 1,
                                      .llama_repeats = REPEATS,
                                      .conversation_repeats = REPEATS,
                                      .restart_repeats = 1};
static const sk_family_cell cell = {
    .kind = SK_CELL_FULL,
    .prefix_tokens = PREFIX,
    .tasks = {.serial_baseline = true, .serial_skippy = true, .moved_boundary = true, .restart = true}};

typedef struct lab {
    char cache[128], flags[256];
    sk_family_host hosts[HOSTS];
    sk_part_task task;
    sk_turns turns;
} lab;

static sk_family_host host(const char *name, const char *model, uint32_t n_ctx, const char *cache, const char *flags) {
    return (sk_family_host){.name = name,
                            .ours = strcmp(name, SK_HOST_OURS) == 0,
                            .launch = {.program = program,
                                       .subcommand = "serve",
                                       .model = model,
                                       .n_ctx = n_ctx,
                                       .threads = 1,
                                       .lanes = 1,
                                       .flags = {flags},
                                       .cache_home = cache,
                                       .ready_timeout_ms = 60000},
                            .folder = folder,
                            .timeout_ms = 60000};
}

/* False when the model or the program is not there. */
static bool open_lab(lab *x, const char *family) {
    const sk_part *parts[SK_MAX_PARTS];
    const char *model = test_model_path(family);
    if (!model || access(program, X_OK) != 0) {
        return false;
    }
    *x = (lab){.task = {.cell = &cell, .sizes = &sizes}, .turns = {.n_hosts = HOSTS, .together = true}};
    const size_t n = sk_parts_of(&cell, &sizes, parts);
    const uint32_t ctx = sk_parts_context(parts, n, &x->task);
    snprintf(x->cache, sizeof x->cache, "%s/%s", folder, family);
    assert_int_equal(mkdir(x->cache, 0700), 0);
    snprintf(x->flags, sizeof x->flags, "--cache-disk %s", x->cache);
    x->hosts[OTHER] = host(SK_HOST_BASE, model, ctx, x->cache, NULL);
    x->hosts[OURS] = host(SK_HOST_OURS, model, ctx, x->cache, x->flags);
    x->turns.hosts = x->hosts;
    x->turns.task = &x->task;
    for (size_t i = 0; i < HOSTS; i++) {
        sk_err e = {0};
        if (sk_host_start(&x->hosts[i], &e) != SKIPPY_OK) {
            fail_msg("%s", e.text);
        }
    }
    return true;
}

static void close_lab(lab *x) {
    for (size_t i = 0; i < HOSTS; i++) {
        sk_host_free(&x->hosts[i]);
    }
}

/* Runs a part on both: it must succeed and be comparable. */
static void run(lab *x, const sk_part *part, sk_part_result *out) {
    if (sk_turns_run(&x->turns, part, out) != SKIPPY_OK) {
        fail_msg("%s: %s", part->name, out->err.text);
    }
    assert_true(out->gate[OTHER].same_prompts);
    assert_int_equal(out->gate[OTHER].cold_equal, out->gate[OTHER].cold);
    assert_int_equal(out->gate[OTHER].first_equal, out->gate[OTHER].answers);
    assert_true(out->gate[OTHER].comparable);
}

static const sk_series *series(const sk_part_result *r, size_t host, const char *name, size_t n) {
    const sk_series *s = sk_measurement_find(&r->m[host], name);
    assert_non_null(s);
    assert_int_equal(s->n, n);
    return s;
}

static void check_repeats(lab *x) {
    sk_part_result r;
    run(x, &sk_part_exact, &r);
    const sk_series *s = series(&r, OURS, "exact", REPEATS + 1);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->v[i].cache_n + s->v[i].prompt_n, PREFIX + 1);
        assert_true(s->v[i].prompt_n <= 1);
    }
    series(&r, OTHER, "exact", REPEATS);
    sk_part_result_free(&r);

    run(x, &sk_part_suffix, &r);
    s = series(&r, OURS, "suffix", REPEATS + 1);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->v[i].cache_n + s->v[i].prompt_n, PREFIX + 12);
        assert_true(s->v[i].cache_n >= PREFIX);
    }
    sk_part_result_free(&r);
}

static void check_moved_boundaries(lab *x) {
    const size_t room = sk_part_thinking.lane_tokens(&x->task);
    sk_part_result r;
    run(x, &sk_part_edit, &r);
    series(&r, OURS, "edit", REPEATS);
    series(&r, OURS, "edit text", REPEATS);
    sk_part_result_free(&r);

    run(x, &sk_part_thinking, &r);
    const sk_series *s = series(&r, OURS, "thinking", REPEATS);
    for (size_t i = 0; i < s->n; i++) {
        assert_true(s->v[i].cache_n > 0);
        assert_true(s->v[i].cache_n + s->v[i].prompt_n + 24 <= room);
    }
    sk_part_result_free(&r);
}

static void check_restart(lab *x) {
    sk_part_result r;
    run(x, &sk_part_restart, &r);
    const sk_sample *ours = &series(&r, OURS, "restart", 1)->v[0];
    const sk_sample *other = &series(&r, OTHER, "restart", 1)->v[0];
    assert_true(ours->prompt_n <= 1); /* from the disk */
    assert_int_equal(ours->cache_n + ours->prompt_n, 64);
    assert_int_equal(other->cache_n, 0); /* has none */
    assert_int_equal(json_integer_value(json_object_get(r.extra[OURS], "same_answer")), 1);
    assert_true(json_is_true(json_object_get(r.extra[OURS], "disk_store")));
    assert_true(json_is_false(json_object_get(r.extra[OTHER], "disk_store")));
    sk_part_result_free(&r);
}

static void check_family(const char *family) {
    lab x;
    if (!open_lab(&x, family)) {
        skip();
    }
    check_repeats(&x);
    check_moved_boundaries(&x);
    check_restart(&x);
    close_lab(&x);
}

static void every_part_compares_two_servers_on_a_dense_model(void **state) {
    (void)state;
    check_family("qwen3");
}

static void every_part_compares_two_servers_on_a_hybrid(void **state) {
    (void)state;
    check_family("falcon-h1");
}

static int make_folder(void **state) {
    (void)state;
    const char *build = getenv("SKIPPY_BUILD_DIR");
    snprintf(program, sizeof program, "%s/skippy", build ? build : ".");
    snprintf(folder, sizeof folder, "parts-model-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_compares_two_servers_on_a_dense_model),
        cmocka_unit_test(every_part_compares_two_servers_on_a_hybrid),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
