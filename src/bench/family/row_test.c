/* A row's JSON: what is read, what is refused and in which words, and what a row proves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/row.h"
#include "bench/family/row_fixture.h"

static const double BASE = 300.0, TUNED = 250.0, OURS = 25.0;

static json_t *measured(sk_fixture f) {
    json_t *row = sk_fixture_row(&f);
    sk_fixture_times(row, "exact", "exact", BASE, TUNED, OURS);
    return row;
}

static sk_family_row parsed(json_t *row) {
    sk_family_row r;
    sk_err e = {0};
    if (sk_family_row_parse(row, 1, &r, &e) != SKIPPY_OK) fail_msg("refused: %s", e.text);
    return r; /* owns row now */
}

/* The row is refused with these words. Takes the reference. */
static void refused(json_t *row, const char *words) {
    sk_family_row r;
    sk_err e = {0};
    assert_int_equal(sk_family_row_parse(row, 7, &r, &e), SKIPPY_E_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_null(r.json);
    assert_null(r.series);
    assert_int_equal(sk_family_row_parse(row, 7, &r, NULL), SKIPPY_E_INVALID); /* words are optional */
    json_decref(row);
}

/* The same with one field of a good row changed. value: new reference, NULL = taken away. */
static void refused_with(const char *object, const char *field, json_t *value, const char *words) {
    json_t *row = measured((sk_fixture){0});
    json_t *in = object ? json_object_get(row, object) : row;
    if (value)
        assert_int_equal(json_object_set_new(in, field, value), 0);
    else
        assert_int_equal(json_object_del(in, field), 0);
    refused(row, words);
}

static void every_field_of_a_row_is_read(void **state) {
    (void)state;
    sk_family_row r = parsed(
        measured((sk_fixture){.key = "falcon_h1", .family = "Falcon-H1", .payload = "KvRecurrent", .synthetic = true}));
    assert_string_equal(r.key, "falcon_h1");
    assert_string_equal(r.family, "Falcon-H1");
    assert_string_equal(r.model_id, "org/model-GGUF:Q4_K_M");
    assert_string_equal(r.kind, "full");
    assert_null(r.use_case);
    assert_true(r.synthetic);
    assert_int_equal(r.layers, 8);
    assert_int_equal(r.layers_real, 16);
    assert_int_equal(r.width, 2048);
    assert_int_equal(r.prefix_tokens, 128);
    assert_int_equal(r.prompt_tokens, 129);
    assert_string_equal(r.why, "");
    assert_true(r.recompute_total_ms == 800.0);
    assert_true(r.cache_hit_total_ms == 30.0);
    assert_int_equal(r.storage_bytes, 1048576);
    assert_string_equal(r.storage_method, "measured");
    assert_int_equal(r.n_hosts, 3);
    assert_int_equal(r.ours, 2);
    assert_true(sk_family_row_recurrent(&r));
    sk_family_row_free(&r);
}

static void a_series_has_its_raw_times_and_medians(void **state) {
    (void)state;
    static const double ms[] = {30.0, 10.0, 20.0};
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_samples(row, "suffix", "suffix", "skippy", ms, 3);
    sk_family_row r = parsed(row);
    const sk_row_series *s = sk_family_row_series(&r, "suffix", "suffix");
    assert_non_null(s);
    assert_int_equal(s->n[2], 3);
    assert_true(s->ms[2][1] == 10.0);
    assert_true(s->summary[2].p50 == 20.0);
    assert_int_equal(s->cache_n[2], 124);
    assert_int_equal(s->prompt_n[2], 5);
    assert_null(s->ms[0]);
    assert_null(sk_family_row_series(&r, "suffix", "other"));
    sk_family_row_free(&r);
}

static void a_row_without_a_run_is_read(void **state) {
    (void)state;
    json_t *row = sk_fixture_row(&(sk_fixture){.status = "missing-model", .llama = "missing-model", .bare = true});
    assert_int_equal(json_object_set_new(row, "benchmark_prompt_token_count", json_null()), 0);
    sk_family_row r = parsed(row);
    assert_int_equal(r.n_hosts, 0);
    assert_int_equal(r.ours, 0);
    assert_int_equal(r.prompt_tokens, 0);
    assert_string_equal(r.why, "the test says so");
    assert_true(sk_family_row_speedup(&r, "exact", "exact") == 0.0);
    assert_false(sk_family_row_comparable(&r, "exact", 0));
    sk_family_row_free(&r);
}

static void a_use_case_without_a_label_is_called_by_its_key(void **state) {
    (void)state;
    json_t *row = sk_fixture_row(&(sk_fixture){.use_case = "open_chat"});
    assert_int_equal(json_object_set_new(row, "use_case_label", json_null()), 0);
    sk_family_row r = parsed(row);
    assert_string_equal(r.use_case_label, "open_chat");
    sk_family_row_free(&r);
}

static void damaged_fields_are_refused_with_the_rows_number_and_the_field(void **state) {
    (void)state;
    refused_with(NULL, "schema_version", json_integer(2), "row 7 (llama): schema_version must be 1");
    refused_with(NULL, "schema_version", NULL, "schema_version");
    refused_with(NULL, "key", NULL, "row 7: key must be a string");
    refused_with(NULL, "family", json_integer(1), "family must be a string");
    refused_with(NULL, "model_id", NULL, "model_id");
    refused_with(NULL, "payload", json_null(), "payload");
    refused_with(NULL, "synthetic", json_string("yes"), "synthetic must be true or false");
    refused_with(NULL, "layers", json_integer(-1), "layers must be a whole number, at least 0");
    refused_with(NULL, "prefix_tokens", json_real(1.5), "prefix_tokens");
    refused_with(NULL, "kind", json_string("half"), "kind must be \"full\"");
    refused_with(NULL, "kind", json_string("use-case"), "use_case must be a string");
    refused_with(NULL, "read", json_integer(1), "read must be a string");
    refused_with(NULL, "skippy", json_null(), "skippy.status must be a string");
    refused_with("skippy", "recompute_total_ms", json_real(-1.0), "skippy.recompute_total_ms must be a time");
    refused_with("skippy", "cache_hit_total_ms", json_real(1e13), "skippy.cache_hit_total_ms");
    refused_with("skippy", "storage_bytes", json_string("1"), "skippy.storage_bytes");
    refused_with("llama_server", "status", NULL, "llama_server.status");
    refused_with(NULL, "hosts", json_object(), "hosts must be an array");
    refused_with(NULL, "hosts", json_pack("[{}]"), "hosts[0].name must be a string");
    refused_with(NULL, "hosts", json_pack("[{s:s}, {s:s}]", "name", "a", "name", "a"),
                 "hosts[1].name must be different");
    refused_with(NULL, "hosts", json_pack("[{}, {}, {}, {}, {}, {}, {}]"), "at most 6");
    refused_with(NULL, "parts", json_array(), "parts must be an object");
    refused_with("parts", "exact", json_object(), "parts.exact.status must be a string");
}

static void damaged_series_are_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *part, *words;
    } bad[] = {
        {"{\"status\":\"ok\",\"series\":[]}", "parts.x.series must be an object"},
        {"{\"status\":\"ok\",\"series\":{\"a\":1}}", "parts.x.series must be an object of objects"},
        {"{\"status\":\"ok\",\"series\":{\"a\":{\"other\":{}}}}",
         "parts.x.series.a.other must be of one of the row's hosts"},
        {"{\"status\":\"ok\",\"series\":{\"a\":{\"skippy\":{\"ms\":1}}}}",
         "parts.x.series.a.skippy.ms must be an array"},
        {"{\"status\":\"ok\",\"series\":{\"a\":{\"skippy\":{\"ms\":[1,-2]}}}}",
         "parts.x.series.a.skippy.ms[1] must be a time"},
        {"{\"status\":\"ok\",\"series\":{\"a\":{\"skippy\":{\"ms\":[\"1\"]}}}}", "parts.x.series.a.skippy.ms[0]"},
        {"{\"status\":\"ok\",\"series\":{\"a\":{\"skippy\":{\"ms\":[1],\"cache_n\":[null]}}}}",
         "parts.x.series.a.skippy.cache_n[0] must be a number of tokens"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused_with("parts", "x", json_loads(bad[i].part, 0, NULL), bad[i].words);
    refused(json_array(), "row 7 must be an object");
}

static void more_series_than_a_report_can_show_are_refused(void **state) {
    (void)state;
    char name[16];
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    for (int i = 0; i < SK_ROW_MAX_SERIES; i++) {
        snprintf(name, sizeof name, "c%d", i);
        sk_fixture_times(row, "agent", name, 1.0, 1.0, 1.0);
    }
    sk_family_row r = parsed(json_deep_copy(row));
    assert_int_equal(r.n_series, SK_ROW_MAX_SERIES);
    sk_family_row_free(&r);
    sk_fixture_times(row, "agent", "one more", 1.0, 1.0, 1.0);
    refused(row, "at most 64 series");
}

static void control_characters_of_a_damaged_row_do_not_reach_the_words(void **state) {
    (void)state;
    sk_family_row r;
    sk_err e = {0};
    json_t *row = sk_fixture_row(&(sk_fixture){.key = "a\nb", .kind = "none"});
    assert_int_equal(sk_family_row_parse(row, 1, &r, &e), SKIPPY_E_INVALID);
    assert_null(strchr(e.text, '\n'));
    json_decref(row);
}

/* ---- what it proves ---- */

static void the_fastest_flags_of_llama_server_are_the_baseline(void **state) {
    (void)state;
    sk_family_row r = parsed(measured((sk_fixture){0}));
    const sk_row_series *s = sk_family_row_series(&r, "exact", "exact");
    assert_int_equal(sk_family_row_best(&r, s), 1);
    assert_true(sk_family_row_speedup(&r, "exact", "exact") == TUNED / OURS);
    assert_int_equal(sk_family_row_best(&r, NULL), r.n_hosts);
    sk_family_row_free(&r);
}

static void a_server_of_another_name_is_no_baseline(void **state) {
    (void)state;
    json_t *row = measured((sk_fixture){0});
    json_t *tuned = json_array_get(json_object_get(row, "hosts"), 1);
    json_t *series =
        json_object_get(json_object_get(json_object_get(json_object_get(row, "parts"), "exact"), "series"), "exact");
    assert_int_equal(json_object_set_new(tuned, "name", json_string("llama-servers")), 0);
    assert_int_equal(json_object_set(series, "llama-servers", json_object_get(series, "llama-server-tuned")), 0);
    assert_int_equal(json_object_del(series, "llama-server-tuned"), 0);
    sk_family_row r = parsed(row);
    assert_true(sk_family_row_baseline(&r, 0));
    assert_false(sk_family_row_baseline(&r, 1));
    assert_false(sk_family_row_baseline(&r, 2));
    assert_false(sk_family_row_baseline(&r, 3));
    assert_int_equal(sk_family_row_best(&r, sk_family_row_series(&r, "exact", "exact")), 0);
    sk_family_row_free(&r);
}

static void half_a_part_gives_no_ratio(void **state) {
    (void)state;
    json_t *row = measured((sk_fixture){0});
    sk_fixture_status(row, "exact", "timeout", "the time is over");
    sk_family_row r = parsed(row);
    assert_false(sk_family_row_complete(&r, "exact"));
    assert_true(sk_family_row_speedup(&r, "exact", "exact") == 0.0);
    sk_family_row_free(&r);
}

static void a_time_of_zero_gives_no_ratio(void **state) {
    (void)state;
    static const double zero[] = {0.0};
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", BASE, TUNED, 0.0);
    sk_fixture_samples(row, "exact", "exact", "skippy", zero, 1);
    sk_family_row r = parsed(row);
    assert_true(sk_family_row_speedup(&r, "exact", "exact") == 0.0);
    sk_family_row_free(&r);
}

static void judged(json_t *row, bool evidence, bool promoted, const char *words) {
    const char *why = NULL;
    sk_family_row r = parsed(row);
    assert_int_equal(sk_family_row_evidence(&r, &why), evidence);
    if (!evidence && !strstr(why, words)) fail_msg("'%s' is not in: %s", words, why);
    assert_int_equal(sk_family_row_promoted(&r, &why), promoted);
    if (!promoted && !strstr(why, words)) fail_msg("'%s' is not in: %s", words, why);
    if (promoted) assert_string_equal(why, "");
    assert_int_equal(sk_family_row_promoted(&r, NULL), promoted);
    sk_family_row_free(&r);
}

static void a_good_row_is_promoted(void **state) {
    (void)state;
    judged(measured((sk_fixture){0}), true, true, "");
}

static void synthetic_weights_are_evidence_of_their_own_only(void **state) {
    (void)state;
    judged(measured((sk_fixture){.synthetic = true}), true, false, "weights are synthetic");
}

static void each_status_that_is_not_good_is_a_reason(void **state) {
    (void)state;
    static const struct {
        const char *status, *words;
    } bad[] = {
        {"fail", "correctness failed"},          {"timeout", "ran out of time"}, {"error", "could not be tested"},
        {"cancelled", "was cancelled"},          {"refused", "was refused"},     {"not-run", "not run"},
        {"missing-model", "model is not there"}, {"maybe", "has not passed"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        judged(measured((sk_fixture){.status = bad[i].status}), false, false, bad[i].words);
    judged(measured((sk_fixture){.llama = "skipped"}), false, false, "was not asked");
    judged(measured((sk_fixture){.llama = "error"}), false, false, "did not finish");
}

static void what_the_exact_repeat_lacks_is_a_reason(void **state) {
    (void)state;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", 0.0, 0.0, OURS);
    judged(row, false, false, "not measured on llama-server");
    row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", BASE, TUNED, 0.0);
    judged(row, false, false, "not measured on skippy");
    row = measured((sk_fixture){0});
    sk_fixture_status(row, "exact", "failed", "");
    judged(row, false, false, "not complete");
    row = measured((sk_fixture){0});
    sk_fixture_incomparable(row, "exact", "llama-server-tuned");
    judged(row, false, false, "answers differ");
}

static void a_gate_of_slower_flags_does_not_matter(void **state) {
    (void)state;
    json_t *row = measured((sk_fixture){0});
    sk_fixture_incomparable(row, "exact", "llama-server");
    judged(row, true, true, "");
}

static void exactly_as_fast_is_not_promoted_and_a_little_faster_is(void **state) {
    (void)state;
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", 30.0, 25.0, 25.0);
    judged(row, false, false, "not faster");
    row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_times(row, "exact", "exact", 30.0, 25.01, 25.0);
    judged(row, true, true, "");
}

static void a_package_is_judged_against_its_own_recompute(void **state) {
    (void)state;
    judged(sk_fixture_row(&(sk_fixture){.kind = "package", .bare = true, .llama = "skipped"}), true, false,
           "no llama-server baseline");
    json_t *row = sk_fixture_row(&(sk_fixture){.kind = "package", .bare = true});
    assert_int_equal(json_object_set_new(json_object_get(row, "skippy"), "cache_hit_total_ms", json_real(900.0)), 0);
    judged(row, false, false, "not faster than the recompute");
    row = sk_fixture_row(&(sk_fixture){.kind = "package", .bare = true});
    assert_int_equal(json_object_del(json_object_get(row, "skippy"), "cache_hit_total_ms"), 0);
    judged(row, false, false, "hit was not measured");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_a_row_is_read),
        cmocka_unit_test(a_series_has_its_raw_times_and_medians),
        cmocka_unit_test(a_row_without_a_run_is_read),
        cmocka_unit_test(a_use_case_without_a_label_is_called_by_its_key),
        cmocka_unit_test(damaged_fields_are_refused_with_the_rows_number_and_the_field),
        cmocka_unit_test(damaged_series_are_refused_with_their_place),
        cmocka_unit_test(more_series_than_a_report_can_show_are_refused),
        cmocka_unit_test(control_characters_of_a_damaged_row_do_not_reach_the_words),
        cmocka_unit_test(the_fastest_flags_of_llama_server_are_the_baseline),
        cmocka_unit_test(a_server_of_another_name_is_no_baseline),
        cmocka_unit_test(half_a_part_gives_no_ratio),
        cmocka_unit_test(a_time_of_zero_gives_no_ratio),
        cmocka_unit_test(a_good_row_is_promoted),
        cmocka_unit_test(synthetic_weights_are_evidence_of_their_own_only),
        cmocka_unit_test(each_status_that_is_not_good_is_a_reason),
        cmocka_unit_test(what_the_exact_repeat_lacks_is_a_reason),
        cmocka_unit_test(a_gate_of_slower_flags_does_not_matter),
        cmocka_unit_test(exactly_as_fast_is_not_promoted_and_a_little_faster_is),
        cmocka_unit_test(a_package_is_judged_against_its_own_recompute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
