/* What the plots show: their data and programs, without gnuplot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "bench/family/plot_kinds.h"
#include "bench/family/plot_rows.h"
#include "bench/family/row_fixture.h"

static void add(sk_row_set *s, json_t *row) {
    sk_err e = {0};
    if (sk_row_set_add(s, row, s->n, &e) != SKIPPY_OK) {
        fail_msg("%s", e.text);
    }
}

typedef int (*draw_fn)(const sk_plot_source *s, sk_plot_page *p, sk_err *e);

static void draw(draw_fn fn, const sk_row_set *s, sk_plot_page *p) {
    const sk_plot_source source = {.rows = s};
    *p = (sk_plot_page){0};
    assert_int_equal(fn(&source, p, NULL), SKIPPY_OK);
    assert_false(sk_plot_page_failed(p));
}

static bool has(const sk_buf *b, const char *text) {
    return b->data && strstr(b->data, text);
}

static size_t count(const sk_buf *b, const char *text) {
    size_t n = 0;
    for (const char *p = b->data; p && (p = strstr(p, text)); p++) {
        n++;
    }
    return n;
}

/* ---- nothing to show ---- */

static void rows_without_times_make_no_plot(void **state) {
    (void)state;
    static const draw_fn all[] = {sk_plot_speedup, sk_plot_latency, sk_plot_agent, sk_plot_hit_rate};
    sk_row_set s = {0};
    add(&s, sk_fixture_row(&(sk_fixture){.status = "missing-model", .bare = true}));
    add(&s, sk_fixture_row(&(sk_fixture){.key = "glm4"}));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sk_plot_page p;
        draw(all[i], &s, &p);
        assert_int_equal(p.n_panels, 0);
        sk_plot_page_free(&p);
    }
    sk_row_set_free(&s);
}

static void use_cases_and_sweeps_are_not_in_the_plots(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *cell = sk_fixture_row(&(sk_fixture){.use_case = "tool_calling"});
    json_t *sweep = sk_fixture_row(&(sk_fixture){.kind = "sweep"});
    sk_fixture_times(cell, "exact", "exact", 30.0, 20.0, 2.0);
    sk_fixture_times(sweep, "exact", "exact", 30.0, 20.0, 2.0);
    add(&s, cell);
    add(&s, sweep);
    draw(sk_plot_speedup, &s, &p);
    assert_int_equal(p.n_panels, 0);
    sk_plot_page_free(&p);
    draw(sk_plot_latency, &s, &p);
    assert_int_equal(p.n_panels, 0);
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

/* ---- speedup ---- */

static void a_bar_goes_from_one_to_the_ratio_to_the_best_baseline(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){.family = "Llama"});
    sk_fixture_times(row, "exact", "exact", 30.0, 25.0, 2.0);
    sk_fixture_times(row, "suffix", "suffix", 8.0, 9.0, 10.0);
    add(&s, row);
    draw(sk_plot_speedup, &s, &p);
    assert_int_equal(p.n_panels, 2);
    assert_true(has(&p.data, "\n1 1 12.5 0x0072b2 \"12.5x\" 0x222222 \"Llama\"\n"));
    assert_true(has(&p.data, "\n1 0.8 1 0xd55e00 \"0.80x\" 0xd55e00 \"Llama\"\n"));
    assert_true(has(&p.program, "'1x' 1"));
    assert_false(has(&p.program, "random weights"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void slightly_slower_is_not_rounded_to_equal(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", 9.98, 9.98, 10.0);
    add(&s, row);
    draw(sk_plot_speedup, &s, &p);
    assert_true(has(&p.data, "\"0.99x\""));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void a_ratio_of_different_work_is_grey(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", 30.0, 20.0, 2.0);
    sk_fixture_incomparable(row, "exact", "llama-server-tuned");
    add(&s, row);
    draw(sk_plot_speedup, &s, &p);
    assert_true(has(&p.data, "\n1 1 10 0xb8b8b8 \"10.0x\""));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void what_one_family_lacks_is_called_missing(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *a = sk_fixture_row(&(sk_fixture){.family = "Llama"});
    json_t *b = sk_fixture_row(&(sk_fixture){.key = "glm4", .family = "GLM4"});
    sk_fixture_times(a, "exact", "exact", 30.0, 20.0, 2.0);
    sk_fixture_times(a, "restart", "restart", 30.0, 20.0, 2.0);
    sk_fixture_times(b, "exact", "exact", 3000.0, 2000.0, 2.0);
    add(&s, a);
    add(&s, b);
    draw(sk_plot_speedup, &s, &p);
    assert_int_equal(p.n_panels, 2);
    assert_true(has(&p.data, "\"1000x\""));
    assert_true(has(&p.data, "\n2 1 1 0xffffff \"n/a\" 0x8c8c8c \"GLM4\"\n"));
    assert_int_equal(count(&p.data, "n/a"), 1);
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void random_weights_and_second_rows_of_a_family_are_marked(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    for (int i = 0; i < 3; i++) {
        json_t *row = sk_fixture_row(&(sk_fixture){.synthetic = i > 0, .prefix_tokens = 128 << i});
        sk_fixture_times(row, "exact", "exact", 30.0, 20.0, 2.0);
        add(&s, row);
    }
    draw(sk_plot_speedup, &s, &p);
    assert_true(has(&p.program, "('Llama' 1, 'Llama*' 2, 'Llama* (2)' 3)"));
    assert_true(has(&p.program, "* random weights in the shape of the family"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void a_familys_name_cannot_become_a_command(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){.family = "a'; system \"x\"\nb\\"});
    sk_fixture_times(row, "exact", "exact", 30.0, 20.0, 2.0);
    add(&s, row);
    draw(sk_plot_speedup, &s, &p);
    assert_true(has(&p.program, "('a''; system \"x\" b\\' 1)"));
    assert_true(has(&p.data, " \"a'; system 'x'\\nb/\"\n"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

/* ---- latency ---- */

static void a_box_has_extremes_quarters_and_median_of_each_server(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){.family = "Llama"});
    const double ours[] = {5.0, 1.0, 3.0, 2.0, 4.0}, base[] = {50.0};
    sk_fixture_samples(row, "exact", "exact", "skippy", ours, 5);
    sk_fixture_samples(row, "exact", "exact", "llama-server", base, 1);
    add(&s, row);
    draw(sk_plot_latency, &s, &p);
    const sk_summary *t = &sk_family_row_series(&s.v[0], "exact", "exact")->summary[2];
    char want[128];
    snprintf(want, sizeof want, " 1 %.6g 3 %.6g 5 \"3.00\" \"Llama\" \"skippy\"\n", t->p25, t->p75);
    assert_int_equal(p.n_panels, 1);
    assert_true(has(&p.data, want));
    assert_true(has(&p.data, " 50 50 50 50 50 \"50.0\" \"Llama\" \"llama-server\"\n"));
    /* A server without times has no block, so that the blocks' numbers stay right. */
    assert_int_equal(p.n_blocks, 2);
    assert_false(has(&p.data, "tuned"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void servers_keep_their_colours_and_skippy_is_last(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_rows rows = {0};
    sk_plot_hosts hosts;
    sk_plot_row list[1];
    add(&s, sk_fixture_row(&(sk_fixture){0}));
    list[0].row = &s.v[0];
    rows = (sk_plot_rows){.v = list, .n = 1};
    sk_plot_rows_hosts(&rows, &hosts);
    assert_int_equal(hosts.n, 3);
    assert_string_equal(hosts.v[2].name, "skippy");
    for (size_t i = 0; i < hosts.n; i++) {
        assert_string_equal(hosts.v[i].colour, sk_plot_host_colour(hosts.v[i].name));
        assert_string_not_equal(hosts.v[i].colour, hosts.v[(i + 1) % 3].colour);
    }
    assert_string_equal(sk_plot_host_colour("another"), SK_PLOT_GREY);
    assert_int_equal(sk_plot_host_of(&s.v[0], "another"), s.v[0].n_hosts);
    sk_row_set_free(&s);
}

/* ---- agent ---- */

static void conversation(json_t *row, const char *name, const char *host, double ms, size_t n) {
    double v[32];
    assert_true(n <= 32);
    for (size_t i = 0; i < n; i++) {
        v[i] = ms;
    }
    sk_fixture_samples(row, "agent", name, host, v, n);
}

static json_t *agent_row(const char *family, const char *payload, size_t requests) {
    json_t *row = sk_fixture_row(&(sk_fixture){.key = family, .family = family, .payload = payload});
    conversation(row, "coding", "skippy", 2.0, requests);
    conversation(row, "coding", "llama-server", 5.0, requests);
    conversation(row, "coding", "llama-server-tuned", 4.0, requests);
    return row;
}

static void one_dense_and_one_hybrid_family_with_the_most_requests_are_shown(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    add(&s, agent_row("Hybrid A", "KvRecurrent", 3));
    add(&s, agent_row("Dense A", "ResidentKv", 2));
    add(&s, agent_row("Dense B", "ResidentKv", 4));
    add(&s, agent_row("Dense C", "ResidentKv", 4));
    add(&s, agent_row("Hybrid B", "KvRecurrent", 3));
    draw(sk_plot_agent, &s, &p);
    assert_int_equal(p.n_panels, 2);
    assert_true(has(&p.program, "'Dense B, keys and values only: all requests together 0.02 s"));
    assert_true(has(&p.program, "'Hybrid A, recurrent state: "));
    assert_false(has(&p.program, "Dense C") || has(&p.program, "Dense A") || has(&p.program, "Hybrid B"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void the_line_is_that_of_the_llama_server_with_the_best_total(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = agent_row("Llama", "ResidentKv", 2);
    conversation(row, "long_side calls", "skippy", 1000.0, 3);
    conversation(row, "long_side calls", "llama-server", 2500.0, 3);
    conversation(row, "long_side calls", "llama-server-tuned", 3000.0, 3);
    conversation(row, "all conversations", "skippy", 3004.0, 1);
    add(&s, row);
    draw(sk_plot_agent, &s, &p);
    assert_int_equal(p.n_panels, 1);
    assert_true(has(&p.program, "together 7.51 s with llama-server, 3.00 s with skippy (2.50x)'"));
    assert_true(has(&p.data, "\n1 5 2 \"1\" \"coding\"\n2 5 2 \"2\" \"coding\"\n\n3 2500 1000 \"1\""));
    assert_true(has(&p.program, "set label 'long side calls' at first 4.0,graph 1"));
    assert_true(has(&p.program, "from first 2.5,graph 0")); /* between the two conversations */
    assert_false(has(&p.data, "all conversations"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void only_requests_that_both_answered_are_compared(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    conversation(row, "coding", "skippy", 1000.0, 2);
    conversation(row, "coding", "llama-server", 3000.0, 5);
    conversation(row, "coding", "llama-server-tuned", 1000.0, 1);
    conversation(row, "alone", "skippy", 9.0, 4);
    add(&s, row);
    draw(sk_plot_agent, &s, &p);
    assert_true(has(&p.program, "together 6.00 s with llama-server, 2.00 s with skippy (3.00x)'"));
    assert_true(has(&p.program, "set xrange [0.5:2.5]"));
    assert_false(has(&p.data, "alone"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void what_makes_the_lines_doubtful_is_said(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *a = agent_row("Llama", "ResidentKv", 2);
    json_t *b = agent_row("Falcon-H1", "KvRecurrent", 2);
    sk_fixture_incomparable(a, "agent", "llama-server-tuned");
    sk_fixture_status(b, "agent", "timeout", "the time is over");
    add(&s, a);
    add(&s, b);
    draw(sk_plot_agent, &s, &p);
    assert_true(has(&p.program, "(2.00x); their answers differ'"));
    assert_true(has(&p.program, "(2.00x); not complete'"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

static void long_names_over_short_conversations_are_broken(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_plot_page p;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    conversation(row, "an_edited_message_with_a_very_long_name", "skippy", 1.0, 2);
    conversation(row, "an_edited_message_with_a_very_long_name", "llama-server", 1.0, 2);
    conversation(row, "coding", "skippy", 1.0, 16);
    conversation(row, "coding", "llama-server", 1.0, 16);
    add(&s, row);
    draw(sk_plot_agent, &s, &p);
    /* 2 of 18 requests have 85 of 772 pixels: 14 letters. */
    assert_true(has(&p.program, "set label 'an edited' at"));
    assert_true(has(&p.program, "set label 'message with a' at"));
    assert_false(has(&p.program, "very"));
    sk_plot_page_free(&p);
    sk_row_set_free(&s);
}

/* ---- hit rate ---- */

static const char EVICT[] =
    "[{\"trace\": \"/data/t.jsonl\", \"memories\": [{\"memory\": \"dense\", \"unlimited_bytes\": 2147483648, "
    "\"capacities\": ["
    "{\"capacity_percent\": null, \"bound_tokens_saved_percent\": 90, \"lru\": {\"tokens_saved_percent\": 89}, "
    "\"fifo\": {\"tokens_saved_percent\": 88}, \"benefit\": {\"tokens_saved_percent\": 89.5}},"
    "{\"capacity_percent\": 5, \"bound_tokens_saved_percent\": 60, \"lru\": {\"tokens_saved_percent\": 40}, "
    "\"fifo\": {\"tokens_saved_percent\": 30}, \"benefit\": {\"tokens_saved_percent\": 50}}]}]}]";

static int draw_evict(const json_t *evict, sk_plot_page *p, sk_err *e) {
    const sk_row_set none = {0};
    const sk_plot_source source = {.rows = &none, .evict = evict};
    *p = (sk_plot_page){0};
    return sk_plot_hit_rate(&source, p, e);
}

static void the_hit_rate_shows_each_policy_and_the_bound(void **state) {
    (void)state;
    sk_plot_page p;
    json_t *evict = json_loads(EVICT, 0, NULL);
    assert_int_equal(draw_evict(evict, &p, NULL), SKIPPY_OK);
    assert_int_equal(p.n_panels, 1);
    assert_true(has(&p.data, "\n100 89.5 89 88 90\n5 50 40 30 60\n"));
    assert_true(has(&p.program, "'dense memory (100 % = 2 GiB)'"));
    assert_true(has(&p.program, "set label 't.jsonl' at"));
    assert_false(has(&p.program, "/data"));
    sk_plot_page_free(&p);
    json_decref(evict);
}

/* The first thing at this place in a copy of EVICT becomes another one. */
static void assert_refused(const char *from, const char *to, const char *word) {
    sk_buf text = {0};
    const char *at = strstr(EVICT, from);
    sk_plot_page p;
    sk_err e = {0};
    assert_non_null(at);
    sk_buf_add(&text, EVICT, (size_t)(at - EVICT));
    sk_buf_str(&text, to);
    sk_buf_str(&text, at + strlen(from));
    json_t *evict = json_loads(text.data, 0, NULL);
    assert_non_null(evict);
    assert_int_equal(draw_evict(evict, &p, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, word));
    sk_plot_page_free(&p);
    json_decref(evict);
    sk_buf_free(&text);
}

static void another_kind_of_json_is_refused_with_the_field(void **state) {
    (void)state;
    sk_plot_page p;
    sk_err e = {0};
    json_t *object = json_object(), *empty = json_array();
    assert_int_equal(draw_evict(object, &p, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "skippy bench evict --json"));
    assert_int_equal(draw_evict(empty, &p, &e), SKIPPY_E_INVALID);
    json_decref(object);
    json_decref(empty);
    assert_refused("\"memories\"", "\"others\"", "'memories'");
    assert_refused("\"trace\"", "\"x\"", "'trace'");
    assert_refused("\"memory\"", "\"x\"", "'memory'");
    assert_refused("\"capacities\"", "\"x\"", "'capacities'");
    assert_refused("\"capacity_percent\": 5", "\"capacity_percent\": 500", "'capacity_percent'");
    assert_refused("\"capacity_percent\": 5", "\"capacity_percent\": \"5\"", "'capacity_percent'");
    assert_refused("\"capacity_percent\": 5", "\"capacity_percent\": 0", "'capacity_percent'");
    assert_refused("\"lru\"", "\"x\"", "'tokens_saved_percent'");
    assert_refused(": 88}", ": 188}", "'tokens_saved_percent'");
    assert_refused("\"bound_tokens_saved_percent\": 60", "\"x\": 1", "'bound_tokens_saved_percent'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_times_make_no_plot),
        cmocka_unit_test(use_cases_and_sweeps_are_not_in_the_plots),
        cmocka_unit_test(a_bar_goes_from_one_to_the_ratio_to_the_best_baseline),
        cmocka_unit_test(slightly_slower_is_not_rounded_to_equal),
        cmocka_unit_test(a_ratio_of_different_work_is_grey),
        cmocka_unit_test(what_one_family_lacks_is_called_missing),
        cmocka_unit_test(random_weights_and_second_rows_of_a_family_are_marked),
        cmocka_unit_test(a_familys_name_cannot_become_a_command),
        cmocka_unit_test(a_box_has_extremes_quarters_and_median_of_each_server),
        cmocka_unit_test(servers_keep_their_colours_and_skippy_is_last),
        cmocka_unit_test(one_dense_and_one_hybrid_family_with_the_most_requests_are_shown),
        cmocka_unit_test(the_line_is_that_of_the_llama_server_with_the_best_total),
        cmocka_unit_test(only_requests_that_both_answered_are_compared),
        cmocka_unit_test(what_makes_the_lines_doubtful_is_said),
        cmocka_unit_test(long_names_over_short_conversations_are_broken),
        cmocka_unit_test(the_hit_rate_shows_each_policy_and_the_bound),
        cmocka_unit_test(another_kind_of_json_is_refused_with_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
