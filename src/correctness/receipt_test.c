/* Receipts: found for exactly what they are about, refused when damaged, edited or about something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "correctness/receipt.h"

typedef struct fixture {
    char dir[256], parent[200], path[600];
    sk_certify_report *report;
    sk_receipt_facts facts;
} fixture;

static sk_receipt_facts facts_of(const sk_certify_identity *i) {
    return (sk_receipt_facts){i->weights, i->abi, i->device, i->type_k, i->type_v, i->flash_attn, i->swa_full};
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->report = calloc(1, sizeof *f->report);
    assert_non_null(f->report);
    snprintf(f->parent, sizeof f->parent, "receipt-test-XXXXXX");
    assert_non_null(mkdtemp(f->parent));
    snprintf(f->dir, sizeof f->dir, "%s/a/b", f->parent);
    sk_certify_report *r = f->report;
    r->identity = (sk_certify_identity){.model_id = "model \xc3\xa9",
                                        .arch = "llama",
                                        .family = "llama",
                                        .abi = "skippy-state-1; llama.cpp 1; AVX",
                                        .device = "CPU",
                                        .type_k = "f16",
                                        .type_v = "f16",
                                        .flash_attn = 1};
    memset(r->identity.weights.bytes, 0xab, sizeof r->identity.weights.bytes);
    r->production = SK_MODE_RESIDENT_KV;
    r->n_lengths = 1;
    r->length[0].n_tokens = 128;
    r->length[0].mode[SK_MODE_RESIDENT].outcome = SK_OUTCOME_PASS;
    r->length[0].mode[SK_MODE_RESIDENT_KV].outcome = SK_OUTCOME_PASS;
    r->length[0].mode[SK_MODE_KV_ONLY].outcome = SK_OUTCOME_REFUSED;
    r->passed = true;
    r->date_s = 1767225600;
    snprintf(r->verdict, sizeof r->verdict, "all is well");
    f->facts = facts_of(&r->identity);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    int rc = test_remove_tree(f->parent);
    free(f->report);
    free(f);
    return rc;
}

static void write_it(fixture *f) {
    sk_err e = {0};
    if (sk_receipt_write(f->dir, f->report, "1.2.3", f->path, sizeof f->path, &e)) fail_msg("%s", e.text);
}

static int find(fixture *f, const sk_receipt_facts *facts, sk_receipt *out, const char *words) {
    sk_err e = {0};
    int rc = sk_receipt_find(f->dir, facts, out, &e);
    if (words && !strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    return rc;
}

static char *read_text(const fixture *f, size_t *len) {
    FILE *file = fopen(f->path, "re");
    assert_non_null(file);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    *len = fread(text, 1, 65535, file);
    fclose(file);
    return text;
}

static void write_text(const fixture *f, const char *text, size_t len) {
    FILE *file = fopen(f->path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

static void a_receipt_is_found_for_what_it_is_about(void **state) {
    fixture *f = *state;
    sk_receipt r;
    struct stat st;
    write_it(f);
    assert_int_equal(find(f, &f->facts, &r, NULL), SKIPPY_OK);
    assert_true(r.passed);
    assert_string_equal(r.family, "llama");
    assert_string_equal(r.model_id, "model \xc3\xa9");
    assert_string_equal(r.payload, "resident-kv");
    assert_string_equal(r.verdict, "all is well");
    assert_string_equal(r.program_version, "1.2.3");
    assert_string_equal(r.date, "2026-01-01T00:00:00Z");
    assert_int_equal(r.outcome[SK_MODE_RESIDENT], SK_OUTCOME_PASS);
    assert_int_equal(r.outcome[SK_MODE_KV_ONLY], SK_OUTCOME_REFUSED);
    assert_int_equal(r.outcome[SK_MODE_KV_RECURRENT], SK_OUTCOME_NOT_APPLICABLE);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_failed_certification_is_a_receipt_that_says_so(void **state) {
    fixture *f = *state;
    sk_receipt r;
    f->report->passed = false;
    f->report->length[0].mode[SK_MODE_RESIDENT_KV].outcome = SK_OUTCOME_FAIL;
    write_it(f);
    assert_int_equal(find(f, &f->facts, &r, NULL), SKIPPY_OK);
    assert_false(r.passed);
    assert_int_equal(r.outcome[SK_MODE_RESIDENT_KV], SK_OUTCOME_FAIL);
}

static void a_new_certification_replaces_the_old_one(void **state) {
    fixture *f = *state;
    sk_receipt r;
    char first[600];
    write_it(f);
    snprintf(first, sizeof first, "%s", f->path);
    f->report->passed = false;
    write_it(f);
    assert_string_equal(first, f->path);
    assert_int_equal(find(f, &f->facts, &r, NULL), SKIPPY_OK);
    assert_false(r.passed);
}

static void without_a_receipt_people_are_told_what_to_do(void **state) {
    fixture *f = *state;
    sk_receipt r;
    assert_int_equal(find(f, &f->facts, &r, "run 'skippy certify"), SKIPPY_E_NOT_FOUND);
    write_it(f);
    f->facts.weights.bytes[0] ^= 1;
    assert_int_equal(find(f, &f->facts, &r, "is not certified;"), SKIPPY_E_NOT_FOUND);
}

static void every_setting_of_the_layout_counts(void **state) {
    fixture *f = *state;
    sk_receipt r;
    write_it(f);
    sk_receipt_facts other[] = {f->facts, f->facts, f->facts, f->facts, f->facts};
    other[0].type_k = "q8_0";
    other[1].type_v = "q8_0";
    other[2].flash_attn = 0;
    other[3].swa_full = true;
    other[4].device = "CUDA0";
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(find(f, &other[i], &r, "for these settings"), SKIPPY_E_NOT_FOUND);
}

static void another_runtime_makes_it_stale(void **state) {
    fixture *f = *state;
    sk_receipt r;
    write_it(f);
    f->facts.abi = "skippy-state-1; llama.cpp 2; AVX";
    assert_int_equal(find(f, &f->facts, &r, "another build of the runtime"), SKIPPY_E_UNSUPPORTED);
}

static void every_flipped_byte_and_every_truncation_is_seen(void **state) {
    fixture *f = *state;
    sk_receipt r;
    size_t len = 0;
    write_it(f);
    char *text = read_text(f, &len);
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)(text[i] ^ 1);
        write_text(f, text, len);
        assert_int_equal(find(f, &f->facts, &r, "is not a valid receipt"), SKIPPY_E_CORRUPT);
        assert_false(r.passed);
        text[i] = (char)(text[i] ^ 1);
    }
    for (size_t n = 0; n < len; n += 7) {
        write_text(f, text, n);
        assert_int_equal(find(f, &f->facts, &r, "is not a valid receipt"), SKIPPY_E_CORRUPT);
    }
    write_text(f, text, len);
    assert_int_equal(find(f, &f->facts, &r, NULL), SKIPPY_OK);
    free(text);
}

static void a_verdict_cannot_be_edited(void **state) {
    fixture *f = *state;
    sk_receipt r;
    size_t len = 0;
    f->report->passed = false;
    write_it(f);
    char *text = read_text(f, &len), *status = strstr(text, "\"status\": \"fail\"");
    assert_non_null(status);
    memcpy(status, "\"status\": \"pass\"", 16);
    write_text(f, text, len);
    assert_int_equal(find(f, &f->facts, &r, "does not match its digest"), SKIPPY_E_CORRUPT);
    assert_false(r.passed);
    free(text);
}

static void a_receipt_under_a_foreign_name_is_refused(void **state) {
    fixture *f = *state;
    sk_receipt r;
    char own[600];
    write_it(f);
    snprintf(own, sizeof own, "%s", f->path);
    f->report->identity.weights.bytes[31] ^= 1; /* not part of the name: only the content tells */
    write_it(f);
    assert_string_equal(own, f->path);
    assert_int_equal(find(f, &f->facts, &r, "about another model"), SKIPPY_E_CORRUPT);
}

static void folders_that_cannot_be_used_are_named(void **state) {
    fixture *f = *state;
    sk_receipt r;
    sk_err e = {0};
    char file[300], inside[400], tiny[8];
    snprintf(file, sizeof file, "%s/file", f->parent);
    FILE *made = fopen(file, "we");
    assert_non_null(made);
    fclose(made);
    snprintf(inside, sizeof inside, "%s/sub", file);
    assert_int_equal(sk_receipt_write(inside, f->report, "1", NULL, 0, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, file));
    assert_int_equal(sk_receipt_find(inside, &f->facts, &r, &e), SKIPPY_E_IO);
    assert_int_equal(sk_receipt_write(f->dir, f->report, "1", tiny, sizeof tiny, &e), SKIPPY_E_TOO_SMALL);
}

static void the_default_folder_follows_the_environment(void **state) {
    (void)state;
    char dir[64], tiny[8];
    setenv("XDG_STATE_HOME", "/x/state", 1);
    setenv("HOME", "/home/me", 1);
    assert_true(sk_receipt_default_dir(dir, sizeof dir));
    assert_string_equal(dir, "/x/state/skippy/receipts");
    assert_false(sk_receipt_default_dir(tiny, sizeof tiny));
    setenv("XDG_STATE_HOME", "relative", 1); /* must be ignored, says the XDG specification */
    assert_true(sk_receipt_default_dir(dir, sizeof dir));
    assert_string_equal(dir, "/home/me/.local/state/skippy/receipts");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_false(sk_receipt_default_dir(dir, sizeof dir));
}

#define RECEIPT_TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        RECEIPT_TEST(a_receipt_is_found_for_what_it_is_about),
        RECEIPT_TEST(a_failed_certification_is_a_receipt_that_says_so),
        RECEIPT_TEST(a_new_certification_replaces_the_old_one),
        RECEIPT_TEST(without_a_receipt_people_are_told_what_to_do),
        RECEIPT_TEST(every_setting_of_the_layout_counts),
        RECEIPT_TEST(another_runtime_makes_it_stale),
        RECEIPT_TEST(every_flipped_byte_and_every_truncation_is_seen),
        RECEIPT_TEST(a_verdict_cannot_be_edited),
        RECEIPT_TEST(a_receipt_under_a_foreign_name_is_refused),
        RECEIPT_TEST(folders_that_cannot_be_used_are_named),
        cmocka_unit_test(the_default_folder_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
