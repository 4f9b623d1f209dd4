/* The documentation's table of certified families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/certify_table.h"

#define FILE_NAME "certify-table-test.md"

static sk_certify_report *report(void) {
    sk_certify_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    snprintf(r->identity.family, sizeof r->identity.family, "falcon-h1");
    snprintf(r->identity.arch, sizeof r->identity.arch, "falcon-h1");
    r->identity.hybrid = true;
    r->production = SK_MODE_KV_RECURRENT;
    r->n_lengths = 2;
    for (size_t i = 0; i < 2; i++) {
        sk_length_result *l = &r->length[i];
        l->n_tokens = i ? 304 : 128;
        l->criterion.bit = true;
        l->cold = (sk_drift){.differs = true, .max_abs = i ? 0.5 : 0.25, .kl = 0.001};
        l->mode[SK_MODE_RESIDENT].outcome = SK_OUTCOME_PASS;
        l->mode[SK_MODE_KV_RECURRENT] = (sk_mode_result){
            .outcome = SK_OUTCOME_PASS,
            .has_cost = true,
            .cost = {.kv_bytes = i ? 3040 : 1280, .state_bytes = 2048, .grown_bytes = 100, .grown_new_bytes = 40}};
        l->mode[SK_MODE_KV_ONLY] =
            (sk_mode_result){.outcome = SK_OUTCOME_REFUSED, .was_forced = true, .forced = {.rel_l2 = 1.25}};
    }
    r->passed = true;
    return r;
}

static void a_row_keeps_the_worst_and_the_longest(void **state) {
    (void)state;
    sk_certify_report *r = report();
    sk_certify_row row;
    r->length[1].mode[SK_MODE_RESIDENT].outcome = SK_OUTCOME_FAIL;
    sk_certify_row_make(r, &row);
    assert_int_equal(row.outcome[SK_MODE_RESIDENT], SK_OUTCOME_FAIL);
    assert_int_equal(row.outcome[SK_MODE_RESIDENT_KV], SK_OUTCOME_NOT_APPLICABLE);
    assert_true(row.cold.max_abs == 0.5);
    assert_true(row.bytes_per_token == 10.0 && row.n_tokens == 304);
    assert_true(row.state_kib == 2.0);
    assert_true(row.grown_saved > 0.59 && row.grown_saved < 0.61);
    assert_string_equal(row.memory, "hybrid");
    free(r);
}

static void the_table_says_what_was_seen(void **state) {
    (void)state;
    sk_certify_report *r = report();
    sk_certify_row rows[2];
    sk_buf b = {0};
    sk_certify_row_make(r, &rows[0]);
    r->passed = false;
    r->length[0].mode[SK_MODE_KV_RECURRENT].outcome = SK_OUTCOME_FAIL;
    sk_certify_row_make(r, &rows[1]);
    sk_certify_table_write(&b, rows, 2);
    assert_non_null(
        strstr(b.data, "| falcon-h1 | falcon-h1 | hybrid | pass | pass | - | pass | - | - | - | refused |"));
    assert_non_null(strstr(b.data, "| hybrid | **fail** | pass | - | **fail** |"));
    assert_non_null(strstr(b.data, "| bits | 0 | 5.0e-01 / 1.0e-03 | off by 1.2 | 10 | 2.0 KiB | 60 % |"));
    sk_buf_free(&b);
    free(r);
}

static void put(const char *text) {
    FILE *f = fopen(FILE_NAME, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void only_what_stands_between_the_markers_is_replaced(void **state) {
    (void)state;
    char text[256] = "";
    sk_err e = {0};
    sk_buf table = {0};
    sk_buf_str(&table, "new\n");
    put("before\n<!-- certify:begin -->\nold\nold\n<!-- certify:end -->\nafter\n");
    for (int i = 0; i < 2; i++) { /* twice: the markers stay */
        assert_int_equal(sk_certify_table_insert(FILE_NAME, &table, &e), SKIPPY_OK);
        FILE *f = fopen(FILE_NAME, "re");
        assert_non_null(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        assert_string_equal(text, "before\n<!-- certify:begin -->\nnew\n<!-- certify:end -->\nafter\n");
    }
    sk_buf_free(&table);
    unlink(FILE_NAME);
}

static void a_file_without_markers_is_left_alone(void **state) {
    (void)state;
    sk_err e = {0};
    sk_buf table = {0};
    sk_buf_str(&table, "new\n");
    put("<!-- certify:end -->\n<!-- certify:begin -->\n");
    assert_int_equal(sk_certify_table_insert(FILE_NAME, &table, &e), SKIPPY_E_INVALID);
    unlink(FILE_NAME);
    assert_int_equal(sk_certify_table_insert(FILE_NAME, &table, &e), SKIPPY_E_NOT_FOUND);
    sk_buf_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_keeps_the_worst_and_the_longest),
        cmocka_unit_test(the_table_says_what_was_seen),
        cmocka_unit_test(only_what_stands_between_the_markers_is_replaced),
        cmocka_unit_test(a_file_without_markers_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
