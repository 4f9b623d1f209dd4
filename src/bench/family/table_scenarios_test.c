/* The tables beside the exact repeat: scenarios, conversations, clients, packages, process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

#define LLAMA "| Llama (8 of 16 layers) |"

static json_t *all_scenarios(sk_fixture f) {
    json_t *row = sk_fixture_exact(f, 300, 250, 25);
    sk_fixture_times(row, "suffix", "suffix", 100, 99, 100);
    sk_fixture_times(row, "edit", "edit", 400, 300, 100);
    sk_fixture_times(row, "edit", "edit text", 400, 90, 100);
    sk_fixture_times(row, "thinking", "thinking", 0, 0, 50);
    sk_fixture_times(row, "agent", "all conversations", 1000, 0, 500);
    return row;
}

static void each_scenario_has_a_column_and_its_numbers_a_line(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, all_scenarios((sk_fixture){0}));
    sk_fixture_write(&s, sk_table_scenarios, &out);
    sk_fixture_line(&out,
                    "| Family | Exact repeat | Shared prefix, new suffix | Edited message, chat | Edited message, "
                    "text | Stripped thinking | Agent loop, total | After a restart |");
    sk_fixture_line(&out, LLAMA " **10.00x faster** | 0.99x (parity) | **3.00x faster** | 0.90x (slower) | n/a | "
                                "**2.00x faster** | n/a |");
    sk_fixture_line(&out, LLAMA " Edited message, text | 20 | 400.0 / 400.0 | 90.0 / 90.0 (tuned) | 100.0 / 100.0 | "
                                "0.90x (slower) | 124+5, 124+5, 124+5 | same (1 of 1) |");
    sk_fixture_line(&out,
                    LLAMA " Agent loop, total | 20 | 1000.0 / 1000.0 | 1000.0 / 1000.0 (default) | 500.0 / 500.0 | "
                          "**2.00x faster** | 124+5, 124+5, 124+5 | same (1 of 1) |");
    sk_fixture_line(&out, LLAMA " Stripped thinking | 20 | n/a | n/a | 50.0 / 50.0 | n/a | n/a, n/a, 124+5 | not "
                                "compared |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void the_start_of_a_server_is_a_line_of_its_own(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = all_scenarios((sk_fixture){0});
    sk_fixture_times(row, "restart", "restart", 100, 90, 10);
    sk_fixture_times(row, "restart", "ready", 2000, 2100, 2000);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_scenarios, &out);
    sk_fixture_line(&out,
                    LLAMA " Start until ready | 20 | 2000.0 / 2000.0 | 2000.0 / 2000.0 (default) | 2000.0 / 2000.0 "
                          "| 1.00x (parity) | 124+5, 124+5, 124+5 | same (1 of 1) |");
    sk_buf_free(&out);
}

static void a_part_that_did_not_end_gives_no_ratio(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = all_scenarios((sk_fixture){0});
    sk_fixture_status(row, "edit", "timeout", "too long");
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_scenarios, &out);
    sk_fixture_line(&out, LLAMA " **10.00x faster** | 0.99x (parity) | n/a | n/a | n/a | **2.00x faster** | n/a |");
    sk_buf_free(&out);
}

static void how_answers_differ_is_said(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = all_scenarios((sk_fixture){0});
    sk_fixture_incomparable(row, "suffix", "llama-server-tuned");
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_scenarios, &out);
    sk_fixture_line(&out,
                    LLAMA " Shared prefix, new suffix | 20 | 100.0 / 100.0 | 99.0 / 99.0 (tuned) | 100.0 / 100.0 | "
                          "0.99x \xe2\x80\xa0 | 124+5, 124+5, 124+5 | differ: 0 of 1 cold answers equal, first "
                          "tokens 7 of 23 |");
    sk_buf_free(&out);
}

static json_t *gate_of(json_t *row, const char *part, const char *host) {
    json_t *gates = json_object_get(json_object_get(json_object_get(row, "parts"), part), "gate");
    return json_object_get(gates, host);
}

static void near_ties_and_different_prompts_are_said(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = all_scenarios((sk_fixture){0});
    assert_int_equal(json_object_set_new(gate_of(row, "exact", "llama-server-tuned"), "cold_ties", json_integer(1)), 0);
    sk_fixture_incomparable(row, "suffix", "llama-server-tuned");
    assert_int_equal(json_object_set_new(gate_of(row, "suffix", "llama-server-tuned"), "same_prompts", json_false()),
                     0);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_scenarios, &out);
    assert_non_null(strstr(out.data, "| same (1 of 1), near ties 1 |"));
    assert_non_null(strstr(out.data, "| prompts differ |"));
    sk_buf_free(&out);
}

static void failed_rows_are_in_no_table_of_scenarios(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, all_scenarios((sk_fixture){.status = "fail"}));
    sk_fixture_write(&s, sk_table_scenarios, &out);
    assert_int_equal(out.len, 0);
    sk_buf_free(&out);
}

static void the_sweep_is_in_the_order_of_the_prefixes(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.kind = "sweep", .prefix_tokens = 1024}, 200, 100, 10));
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.kind = "sweep", .prefix_tokens = 64}, 20, 30, 10));
    sk_fixture_write(&s, sk_table_sweep, &out);
    sk_fixture_line(&out,
                    LLAMA " 64 | 65 | 20 | 20.0 / 20.0 | 20.0 / 20.0 (default) | 10.0 / 10.0 | **2.00x faster** | "
                          "124+5, 124+5, 124+5 | 1.0 MiB (measured) |");
    sk_fixture_order(&out, "| 64 | 65 |", "| 1024 | 1025 |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

/* ---- conversations ---- */

static void a_conversation_is_compared_by_the_sum_of_its_requests(void **state) {
    (void)state;
    static const double base[] = {100.0, 300.0};
    static const double tuned[] = {90.0}; /* one request less: no comparison */
    static const double ours[] = {150.0, 50.0};
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = all_scenarios((sk_fixture){0});
    sk_fixture_samples(row, "agent", "coding", "llama-server", base, 2);
    sk_fixture_samples(row, "agent", "coding", "llama-server-tuned", tuned, 1);
    sk_fixture_samples(row, "agent", "coding", "skippy", ours, 2);
    sk_fixture_add(&s, row);
    row = all_scenarios((sk_fixture){.key = "olmo", .family = "OLMo"});
    sk_fixture_samples(row, "agent", "other", "skippy", ours, 2);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_conversations, &out);
    sk_fixture_line(&out, "| Conversation | Llama | OLMo |");
    sk_fixture_line(&out, "| coding | 2.00x | n/a |");
    sk_fixture_line(&out, "| other | n/a | n/a |");
    sk_fixture_line(&out, "| all conversations | 2.00x | 2.00x |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

/* ---- many clients ---- */

static void a_line_of_the_curves_has_all_servers_side_by_side(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_level(row, "skippy", 16, 20.0, 4.0, 9.5);
    sk_fixture_level(row, "skippy", 1, 5.0, 3.0, 2.0);
    sk_fixture_level(row, "llama-server", 1, 50.0, 3.5, 1.25);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_curves, &out);
    sk_fixture_line(&out,
                    LLAMA " 1 | 50.0 / 50.0 | 5.00 / 5.00 | 3.50 / 3.50 | 3.00 / 3.00 | 1.25 (1 of 1) | 2.00 (1 of "
                          "1) |");
    sk_fixture_line(&out, LLAMA " 16 | n/a | 20.0 / 20.0 | n/a | 4.00 / 4.00 | n/a | 9.50 (16 of 16) |");
    sk_fixture_order(&out, LLAMA " 1 |", LLAMA " 16 |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void p99_of_a_curve_is_a_time_that_was_measured(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    sk_fixture_level(row, "skippy", 4, 20.0, 4.0, 1.0);
    json_t *extra = json_object_get(json_object_get(json_object_get(row, "parts"), "curve"), "extra");
    json_t *level = json_array_get(json_object_get(json_object_get(extra, "skippy"), "levels"), 0);
    assert_int_equal(json_array_set_new(json_object_get(level, "ttft_ms"), 0, json_real(90.0)), 0);
    assert_int_equal(json_array_clear(json_object_get(level, "tpot_ms")), 0);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_curves, &out);
    sk_fixture_line(&out, LLAMA " 4 | 20.0 / 90.0 | n/a | 1.00 (4 of 4) |");
    sk_buf_free(&out);
}

/* ---- in process ---- */

static void times_without_http_stand_apart(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.use_case = "open_chat"}, 300, 250, 25));
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.key = "olmo", .family = "OLMo", .status = "fail"}));
    sk_fixture_write(&s, sk_table_process, &out);
    sk_fixture_line(&out, LLAMA " full | 128 | 800.0 | 30.0 | 26.67x |");
    sk_fixture_line(&out, LLAMA " open_chat | 128 | 800.0 | 30.0 | 26.67x |");
    sk_fixture_absent(&out, "OLMo");
    sk_fixture_absent(&out, "300.0");
    sk_buf_free(&out);
}

static void a_package_is_shown_against_its_own_recompute(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_row(&(sk_fixture){.kind = "package",
                                               .key = "deepseek3",
                                               .family = "DeepSeek3",
                                               .prefix_tokens = 4,
                                               .llama = "skipped",
                                               .bare = true});
    assert_int_equal(json_object_set_new(row, "state_layer_start", json_integer(3)), 0);
    assert_int_equal(json_object_set_new(row, "state_layer_end", json_integer(4)), 0);
    sk_fixture_add(&s, row);
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.kind = "package", .status = "fail", .bare = true}));
    sk_fixture_write(&s, sk_table_packages, &out);
    sk_fixture_line(&out,
                    "| DeepSeek3 (8 of 16 layers) | `org/model-GGUF:Q4_K_M` | 3 to 4 | `ResidentKv` | pass | 4 | 5 | "
                    "Skippy stage recompute, 800.0 | 30.0 | **26.67x faster** | 1.0 MiB (measured) | The "
                    "catalogue's sentence. |");
    sk_fixture_absent(&out, "Llama");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

/* ---- old and new ---- */

static void old_and_new_servers_are_compared_with_each_other(void **state) {
    (void)state;
    static const double before[] = {40.0}, after[] = {20.0};
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_exact((sk_fixture){0}, 300, 250, 25);
    json_t *hosts = json_object_get(row, "hosts");
    assert_int_equal(json_array_append_new(hosts, json_pack("{s:s}", "name", "old-server")), 0);
    assert_int_equal(json_array_append_new(hosts, json_pack("{s:s}", "name", "new-server")), 0);
    sk_fixture_samples(row, "exact", "exact", "old-server", before, 1);
    sk_fixture_samples(row, "exact", "exact", "new-server", after, 1);
    json_t *gates = json_object_get(json_object_get(json_object_get(row, "parts"), "exact"), "gate");
    assert_int_equal(json_object_set(gates, "old-server", json_object_get(gates, "llama-server")), 0);
    assert_int_equal(json_object_set(gates, "new-server", json_object_get(gates, "llama-server")), 0);
    sk_fixture_add(&s, json_deep_copy(row));
    sk_fixture_write(&s, sk_table_paired, &out);
    sk_fixture_line(&out,
                    LLAMA " full | 128 | Exact repeat | 40.0 / 40.0 | 20.0 / 20.0 | 25.0 / 25.0 | **2.00x faster** |");
    sk_buf_clear(&out);
    sk_fixture_incomparable(row, "exact", "old-server");
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_paired, &out);
    assert_non_null(strstr(out.data, "| 2.00x \xe2\x80\xa0 |"));
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scenario_has_a_column_and_its_numbers_a_line),
        cmocka_unit_test(the_start_of_a_server_is_a_line_of_its_own),
        cmocka_unit_test(a_part_that_did_not_end_gives_no_ratio),
        cmocka_unit_test(how_answers_differ_is_said),
        cmocka_unit_test(near_ties_and_different_prompts_are_said),
        cmocka_unit_test(failed_rows_are_in_no_table_of_scenarios),
        cmocka_unit_test(the_sweep_is_in_the_order_of_the_prefixes),
        cmocka_unit_test(a_conversation_is_compared_by_the_sum_of_its_requests),
        cmocka_unit_test(a_line_of_the_curves_has_all_servers_side_by_side),
        cmocka_unit_test(p99_of_a_curve_is_a_time_that_was_measured),
        cmocka_unit_test(times_without_http_stand_apart),
        cmocka_unit_test(a_package_is_shown_against_its_own_recompute),
        cmocka_unit_test(old_and_new_servers_are_compared_with_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
