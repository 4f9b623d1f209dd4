/* The matrix of use cases and families, and the sources of the prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

static void write_without_corpus(const sk_row_set *s, sk_buf *out) {
    sk_table_use_cases(s, NULL, out);
}

static json_t *cell(sk_fixture f, const char *use_case, double ratio) {
    f.use_case = use_case;
    return sk_fixture_exact(f, 20.0 * ratio, 10.0 * ratio, 10.0);
}

static const sk_fixture LLAMA = {.key = "llama", .family = "Llama"};
static const sk_fixture NEXT = {.key = "qwen3next", .family = "Qwen3Next"};

static void use_cases_are_rows_and_families_columns_in_the_order_of_the_tables(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, cell(LLAMA, "zzz", 1.5));
    sk_fixture_add(&s, cell(LLAMA, "text_to_sql", 0.8));
    sk_fixture_add(&s, cell(LLAMA, "tool_calling", 1.0));
    sk_fixture_add(&s, cell(NEXT, "text_to_sql", 15.42));
    sk_fixture_write(&s, write_without_corpus, &out);
    sk_fixture_line(&out, "| Use case | Prefix | Qwen3Next | Llama |");
    sk_fixture_line(&out, "| tool_calling | 128 | n/a | 1.00x |");
    sk_fixture_line(&out, "| text_to_sql | 128 | 15.42x | 0.80x |");
    sk_fixture_line(&out, "| zzz | 128 | n/a | 1.50x |");
    sk_fixture_order(&out, "| tool_calling |", "| text_to_sql |");
    sk_fixture_order(&out, "| text_to_sql |", "| zzz |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void cells_that_prove_nothing_have_no_number_or_a_dagger(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture failed = NEXT;
    failed.status = "fail";
    json_t *row = cell(LLAMA, "open_chat", 2.0);
    sk_fixture_incomparable(row, "exact", "llama-server-tuned");
    sk_fixture_add(&s, row);
    sk_fixture_add(&s, cell(failed, "open_chat", 2.0));
    sk_fixture_write(&s, write_without_corpus, &out);
    sk_fixture_line(&out, "| open_chat | 128 | n/a | 2.00x \xe2\x80\xa0 |");
    sk_buf_free(&out);
}

static void each_prefix_of_a_use_case_has_its_row(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture longer = LLAMA;
    longer.prefix_tokens = 512;
    sk_fixture_add(&s, cell(longer, "open_chat", 4.0));
    sk_fixture_add(&s, cell(LLAMA, "open_chat", 2.0));
    sk_fixture_write(&s, write_without_corpus, &out);
    sk_fixture_line(&out, "| open_chat | 128 | 2.00x |");
    sk_fixture_line(&out, "| open_chat | 512 | 4.00x |");
    sk_buf_free(&out);
}

static void synthetic_cells_have_a_matrix_of_their_own(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture random = LLAMA;
    random.synthetic = true;
    sk_fixture_add(&s, cell(random, "open_chat", 4.0));
    sk_fixture_add(&s, cell(LLAMA, "open_chat", 2.0));
    sk_fixture_write(&s, write_without_corpus, &out);
    sk_fixture_order(&out, "| open_chat | 128 | 2.00x |", "(synthetic weights)");
    sk_fixture_order(&out, "(synthetic weights)", "| open_chat | 128 | 4.00x |");
    sk_buf_free(&out);
}

static void without_a_corpus_the_rows_name_their_sources_once(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = cell(LLAMA, "open_chat", 2.0);
    json_t *source = json_pack("{s:s, s:s, s:s, s:i, s:b}", "dataset", "a|b", "config", "main", "split", "test",
                               "row_idx", 7, "written", 0);
    assert_int_equal(json_object_set_new(row, "use_case_source", source), 0);
    sk_fixture_add(&s, row);
    row = cell(NEXT, "open_chat", 2.0);
    assert_int_equal(json_object_set(row, "use_case_source", source), 0);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, write_without_corpus, &out);
    sk_fixture_line(&out, "| open_chat | `a/b` | `main` | `test` | 7 | the data set's own row |");
    const char *first = strstr(out.data, "| open_chat | `a/b`");
    assert_null(strstr(first + 1, "| open_chat | `a/b`"));
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void the_corpus_names_the_sources(void **state) {
    (void)state;
    static char key[] = "open_chat", label[] = "Open chat", data[] = "some/set", config[] = "default",
                split[] = "train";
    sk_use_case u = {.key = key, .label = label, .dataset = data, .config = config, .split = split, .written = true};
    const sk_corpus corpus = {.v = &u, .n = 1};
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_table_use_cases(&s, &corpus, &out);
    assert_int_equal(out.len, 0); /* no use case was measured */
    sk_fixture_add(&s, cell(LLAMA, "open_chat", 2.0));
    sk_table_use_cases(&s, &corpus, &out);
    sk_fixture_line(&out,
                    "| Open chat | `some/set` | `default` | `train` | - | written for this project in the manner of "
                    "that data set |");
    sk_buf_free(&out);
    sk_row_set_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_cases_are_rows_and_families_columns_in_the_order_of_the_tables),
        cmocka_unit_test(cells_that_prove_nothing_have_no_number_or_a_dagger),
        cmocka_unit_test(each_prefix_of_a_use_case_has_its_row),
        cmocka_unit_test(synthetic_cells_have_a_matrix_of_their_own),
        cmocka_unit_test(without_a_corpus_the_rows_name_their_sources_once),
        cmocka_unit_test(the_corpus_names_the_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
