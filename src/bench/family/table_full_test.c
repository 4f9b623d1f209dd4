/* Which rows are shown as evidence, which are not, and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

#define PROMOTED "## Promoted: exact repeat, full models against llama-server"
#define SYNTHETIC "## Exact repeat, full models against llama-server (synthetic weights)"

static void a_promoted_row_has_the_columns_of_the_tables(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){0}, 8.8, 9.0, 4.5));
    sk_fixture_write(&s, sk_table_full, &out);
    sk_fixture_line(&out, PROMOTED);
    sk_fixture_line(&out, "| Family | Model | Payload | Correctness | Prefix | Prompt tokens | llama-server, ms | "
                          "llama-server best, ms | skippy, ms | Speedup | Cache bytes | Read |");
    sk_fixture_line(&out,
                    "| Llama (8 of 16 layers) | `org/model-GGUF:Q4_K_M` | `ResidentKv` | pass | 128 | 129 | 8.80 | "
                    "8.80 (default) | 4.50 | **1.96x faster** | 1.0 MiB (measured) | The catalogue's sentence. |");
    sk_fixture_line(&out,
                    "| Llama (8 of 16 layers) | real, 8 of 16 layers, width 2048, Q4_K_M | 20 | 8.80 / 8.80 | 8.80 "
                    "/ 8.80 (default) | 4.50 / 4.50 | 124+5, 124+5, 124+5 | same (1 of 1) | 2, 2, 2 |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void the_best_flags_and_other_numbers_of_runs_are_named(void **state) {
    (void)state;
    static const double ours[] = {10.0, 30.0, 20.0};
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_exact((sk_fixture){0}, 300.0, 250.0, 0.0);
    sk_fixture_samples(row, "exact", "exact", "skippy", ours, 3);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_full, &out);
    sk_fixture_line(&out, "| Llama (8 of 16 layers) | real, 8 of 16 layers, width 2048, Q4_K_M | 3 (llama-server 20) | "
                          "300.0 / 300.0 | 250.0 / 250.0 (tuned) | 20.0 / 30.0 | 124+5, 124+5, 124+5 | same (1 of 1) | "
                          "2, 2, 2 |");
    sk_buf_free(&out);
}

static void synthetic_rows_have_a_table_of_their_own(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.key = "olmo", .family = "OLMo", .synthetic = true}, 30, 30, 3));
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.key = "llama", .family = "Llama"}, 30, 30, 3));
    sk_fixture_write(&s, sk_table_full, &out);
    sk_fixture_order(&out, PROMOTED, "| Llama");
    sk_fixture_order(&out, "| Llama", SYNTHETIC);
    sk_fixture_order(&out, SYNTHETIC, "Random weights");
    sk_fixture_order(&out, "Random weights", "| OLMo");
    sk_buf_free(&out);
}

static void without_a_promoted_row_the_report_says_so(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.status = "fail"}, 30, 30, 3));
    sk_fixture_write(&s, sk_table_full, &out);
    sk_fixture_line(&out, "No row passed every test; the reasons are below.");
    sk_fixture_absent(&out, "| Llama");
    sk_buf_free(&out);
}

static void nothing_is_written_without_rows(void **state) {
    (void)state;
    static const sk_table_writer all[] = {
        sk_table_full,   sk_table_not_promoted, sk_table_process,  sk_table_scenarios, sk_table_packages,
        sk_table_curves, sk_table_sweep,        sk_table_paired,   sk_table_read,      sk_table_conversations,
        sk_table_notes,  sk_table_facts,        sk_table_commands, sk_table_todo};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sk_row_set s = {0};
        sk_buf out = {0};
        sk_fixture_write(&s, all[i], &out);
        assert_int_equal(out.len, 0);
        sk_buf_free(&out);
    }
}

static void a_failed_row_is_never_promoted_but_in_the_lists_with_its_reason(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.status = "fail"}, 30, 30, 3));
    sk_fixture_write(&s, sk_table_not_promoted, &out);
    sk_fixture_line(&out, "## Not promoted");
    sk_fixture_line(&out, "| Llama (8 of 16 layers) | full, 128 tokens | `org/model-GGUF:Q4_K_M` | fail | ok | 30.0 / "
                          "30.0 (default) | 3.00 / 3.00 | **10.00x faster** | correctness failed: the test says so |");
    sk_fixture_even(&out);
    sk_buf_clear(&out);
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.status = "fail"}, 30, 30, 3));
    sk_fixture_write(&s, sk_table_todo, &out);
    sk_fixture_line(&out, "- Llama (full, 128 tokens): correctness failed: the test says so");
    sk_buf_free(&out);
}

static void rows_without_a_run_have_no_numbers(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    const sk_fixture f = {.status = "missing-model", .llama = "missing-model", .bare = true};
    sk_fixture_add(&s, sk_fixture_row(&f));
    sk_fixture_write(&s, sk_table_not_promoted, &out);
    sk_fixture_line(&out, "| Llama (8 of 16 layers) | full, 128 tokens | `org/model-GGUF:Q4_K_M` | missing-model | "
                          "missing-model | n/a | n/a | n/a | the model is not there: the test says so |");
    sk_buf_free(&out);
}

static void slower_rows_are_shown_as_slower_and_are_not_promoted(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.synthetic = true}, 30, 8, 10));
    sk_fixture_write(&s, sk_table_not_promoted, &out);
    sk_fixture_line(&out, "## Not promoted (synthetic weights)");
    sk_fixture_line(&out, "| Llama (8 of 16 layers) | full, 128 tokens | `org/model-GGUF:Q4_K_M` | pass | ok | 8.00 / "
                          "8.00 (tuned) | 10.0 / 10.0 | 0.80x (slower) | not faster than llama-server's best flags |");
    sk_buf_free(&out);
}

static void ratios_of_different_answers_have_a_dagger_and_no_word(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_exact((sk_fixture){0}, 30, 20, 10);
    sk_fixture_incomparable(row, "exact", "llama-server-tuned");
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_not_promoted, &out);
    sk_fixture_absent(&out, "faster**");
    assert_non_null(strstr(out.data, "| 2.00x \xe2\x80\xa0 | the servers' answers differ"));
    sk_buf_free(&out);
}

static void synthetic_weights_alone_are_nothing_to_do(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.synthetic = true}, 30, 30, 3));
    const sk_fixture package = {.kind = "package", .bare = true, .llama = "skipped"};
    sk_fixture_add(&s, sk_fixture_row(&package));
    sk_fixture_write(&s, sk_table_todo, &out);
    assert_int_equal(out.len, 0);
    sk_buf_free(&out);
}

static void bars_in_a_rows_texts_do_not_make_columns(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact((sk_fixture){.family = "A|B", .read = "one | two\nthree"}, 30, 30, 3));
    sk_fixture_write(&s, sk_table_full, &out);
    assert_non_null(strstr(out.data, "| A/B (8 of 16 layers) |"));
    assert_non_null(strstr(out.data, "| one / two three |"));
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void sizes_are_called_measured_or_derived_or_left_out(void **state) {
    (void)state;
    static const struct {
        const char *method, *want;
        json_int_t bytes;
    } sizes[] = {{"measured", "| 0 (measured) |", 0},
                 {"metadata-derived", "| 8796093022207.0 MiB (metadata-derived) |", 9223372036854775807 - 1048575},
                 {"n/a", "faster** | n/a |", 0}};
    for (size_t i = 0; i < 3; i++) {
        sk_row_set s = {0};
        sk_buf out = {0};
        json_t *row = sk_fixture_exact((sk_fixture){0}, 30, 30, 3);
        json_t *ours = json_object_get(row, "skippy");
        assert_int_equal(json_object_set_new(ours, "storage_bytes", json_integer(sizes[i].bytes)), 0);
        assert_int_equal(json_object_set_new(ours, "storage_method", json_string(sizes[i].method)), 0);
        sk_fixture_add(&s, row);
        sk_fixture_write(&s, sk_table_full, &out);
        if (!strstr(out.data, sizes[i].want)) fail_msg("'%s' is not in %s", sizes[i].want, out.data);
        sk_buf_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_promoted_row_has_the_columns_of_the_tables),
        cmocka_unit_test(the_best_flags_and_other_numbers_of_runs_are_named),
        cmocka_unit_test(synthetic_rows_have_a_table_of_their_own),
        cmocka_unit_test(without_a_promoted_row_the_report_says_so),
        cmocka_unit_test(nothing_is_written_without_rows),
        cmocka_unit_test(a_failed_row_is_never_promoted_but_in_the_lists_with_its_reason),
        cmocka_unit_test(rows_without_a_run_have_no_numbers),
        cmocka_unit_test(slower_rows_are_shown_as_slower_and_are_not_promoted),
        cmocka_unit_test(ratios_of_different_answers_have_a_dagger_and_no_word),
        cmocka_unit_test(synthetic_weights_alone_are_nothing_to_do),
        cmocka_unit_test(bars_in_a_rows_texts_do_not_make_columns),
        cmocka_unit_test(sizes_are_called_measured_or_derived_or_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
