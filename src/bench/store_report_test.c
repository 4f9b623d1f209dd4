/* Sizes, numbers and how they are shown. No model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "bench/store_report.h"

#define MIB ((uint64_t)1 << 20)

static void set_times(sk_store_series *s, uint64_t bytes, double a, double b, double c) {
    assert_int_equal(sk_store_series_init(s, 3), SKIPPY_OK);
    s->ms[0] = a;
    s->ms[1] = b;
    s->ms[2] = c;
    s->n = 3;
    s->bytes = bytes;
}

static sk_store_report make_report(void) {
    sk_store_report r = {.version = "1.2.3", .n_threads = 2, .sizes = sk_store_sizes_default(), .complete = true};
    snprintf(r.facts.model_name, sizeof r.facts.model_name, "a model");
    r.caps = (sk_state_caps){.windows = true, .cell_bytes = 1024, .tail_bytes = 4096};
    r.flash_attn = 1;
    r.n_savings = 1;
    r.savings[0] = (sk_store_savings){.name = "chat", .title = "a title", .exports = 20, .tokens = 12600, .n_ways = 2};
    sk_store_use *u = r.savings[0].way;
    u[0].sum[SK_STORE_KV] = (sk_store_sum){.logical = 100 * MIB, .fresh = 10 * MIB};
    u[0].sum[SK_STORE_TAIL] = (sk_store_sum){.logical = 100 * MIB, .fresh = 90 * MIB};
    u[0].stats =
        (skippy_store_stats){.blocks = 1600, .block_refs = 3200, .block_bytes = 100 * MIB, .physical_bytes = 110 * MIB};
    u[1] = (sk_store_use){.cut = SK_STORE_BY_TOKENS, .step = 64};
    u[1].sum[SK_STORE_KV] = (sk_store_sum){.logical = 200 * MIB, .fresh = 50 * MIB};
    set_times(&r.speed.step[SK_STEP_EXPORT], 4000000, 2, 1, 4);
    set_times(&r.restore.path[SK_PATH_RECOMPUTE], MIB, 200, 100, 400);
    set_times(&r.restore.path[SK_PATH_RAM], MIB, 20, 30, 10);
    return r;
}

static void says(const sk_buf *b, const char *words) {
    if (!strstr(b->data, words)) fail_msg("'%s' is not in: %s", words, b->data);
}

static void the_page_names_each_cut_and_its_parts_apart(void **state) {
    (void)state;
    sk_store_report r = make_report();
    sk_buf out = {0};
    assert_int_equal(sk_store_markdown(&r, &out), SKIPPY_OK);
    says(&out, "| as the server does | 200.0 | 100.0 | 50.0 % | 90.0 % | 10.0 % | 1600 | 3200 | 64.0 | 110.0 |");
    says(&out, "| every 64 tokens | 200.0 | 50.0 | 75.0 % | 75.0 % | - |");
    says(&out, "| export from the runtime | 3.8 | 2.00 | 2.00 | 1.00 to 4.00 |");
    says(&out, "| cut and hash | not measured |");
    says(&out, "| from RAM | 20.00 | 10.00 to 30.00 | 10.00 to 30.00 | 0.1000 |");
    says(&out, "Cold reads were not possible");
    assert_null(strstr(out.data, "Not complete"));
    sk_buf_free(&out);
    sk_store_report_free(&r);
}

static void an_early_end_and_an_unknown_layout_are_said(void **state) {
    (void)state;
    sk_store_report r = make_report();
    sk_buf out = {0};
    r.complete = false;
    r.flash_attn = 0;
    r.caps.windows = false;
    snprintf(r.caps.why, sizeof r.caps.why, "because");
    assert_int_equal(sk_store_markdown(&r, &out), SKIPPY_OK);
    says(&out, "**Not complete**");
    says(&out, "V transposed");
    says(&out, "is not known, so it is stored whole: because");
    sk_buf_free(&out);
    sk_store_report_free(&r);
}

static double number(const json_t *o, const char *a, const char *b, const char *c) {
    return json_number_value(json_object_get(json_object_get(json_object_get(o, a), b), c));
}

static void json_has_every_sample(void **state) {
    (void)state;
    sk_store_report r = make_report();
    json_t *root = sk_store_json(&r);
    assert_non_null(root);
    const json_t *cuts = json_object_get(json_array_get(json_object_get(root, "savings"), 0), "cuts");
    assert_int_equal(json_array_size(cuts), 2);
    const json_t *first = json_array_get(cuts, 0);
    assert_string_equal(json_string_value(json_object_get(first, "cut")), "layout");
    assert_float_equal(number(first, "contents", "tail", "saved_percent"), 10.0, 1e-4);
    assert_true(number(root, "speed", "export", "p50_gb_s") == 2.0);
    assert_true(json_is_null(json_object_get(json_object_get(root, "speed"), "import")));
    const json_t *runs = json_object_get(json_object_get(json_object_get(root, "speed"), "export"), "runs_ms");
    assert_int_equal(json_array_size(runs), 3);
    assert_true(json_real_value(json_array_get(runs, 2)) == 4.0);
    assert_true(number(root, "restore", "share_of_recompute", "ram") == 0.1);
    assert_null(json_object_get(json_object_get(json_object_get(root, "restore"), "share_of_recompute"), "disk_cold"));
    json_decref(root);
    sk_store_report_free(&r);
}

static void a_series_takes_no_more_times_than_it_has_room_for(void **state) {
    (void)state;
    sk_store_series s;
    assert_int_equal(sk_store_series_init(&s, 1), SKIPPY_OK);
    sk_store_series_add(&s, sk_now_ns());
    sk_store_series_add(&s, sk_now_ns());
    assert_int_equal(s.n, 1);
    assert_true(s.ms[0] >= 0.0);
    sk_store_series_free(&s);
}

static void ratios_of_nothing_are_zero(void **state) {
    (void)state;
    const sk_store_restore none = {0};
    assert_true(sk_store_saved((sk_store_sum){0}) == 0.0);
    assert_true(sk_store_rate(1000, 0.0) == 0.0);
    assert_true(sk_store_share(&none, SK_PATH_RAM) == 0.0);
}

static void sizes_that_cannot_be_run_are_refused_with_words(void **state) {
    (void)state;
    sk_store_sizes s = sk_store_sizes_default();
    sk_err e = {0};
    assert_int_equal(sk_store_sizes_check(&s, &e), SKIPPY_OK);
    s.turn_tokens = SK_STORE_MAX_TOKENS; /* 20 times as many */
    assert_int_equal(sk_store_sizes_check(&s, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "the chat would have 322560 tokens"));
    s = sk_store_sizes_default();
    s.own = 0;
    assert_int_equal(sk_store_sizes_check(&s, &e), SKIPPY_E_INVALID);
    s = sk_store_sizes_default();
    s.shared = UINT32_MAX;
    assert_int_equal(sk_store_sizes_check(&s, &e), SKIPPY_E_INVALID);
    s = sk_store_sizes_default();
    s.runs = SK_STORE_MAX_RUNS + 1;
    assert_int_equal(sk_store_sizes_check(&s, &e), SKIPPY_E_INVALID);
}

static void the_context_holds_the_largest_scenario(void **state) {
    (void)state;
    sk_store_sizes s = sk_store_sizes_default();
    assert_true(sk_store_sizes_context(&s) >= s.shared + s.own);
    s.prefix = 3000; /* computed and imported at the same time */
    assert_true(sk_store_sizes_context(&s) >= 6000);
    s.turn_tokens = 500;
    assert_true(sk_store_sizes_context(&s) >= 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_names_each_cut_and_its_parts_apart),
        cmocka_unit_test(an_early_end_and_an_unknown_layout_are_said),
        cmocka_unit_test(json_has_every_sample),
        cmocka_unit_test(a_series_takes_no_more_times_than_it_has_room_for),
        cmocka_unit_test(ratios_of_nothing_are_zero),
        cmocka_unit_test(sizes_that_cannot_be_run_are_refused_with_words),
        cmocka_unit_test(the_context_holds_the_largest_scenario),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
