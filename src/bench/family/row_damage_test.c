/* Every field of a row in turn becomes something that it must not be: the row is refused with words, or every table can
 * still be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

static size_t n_refused, n_written;

static json_t *some_row(bool use_case) {
    static const double ms[] = {3.0, 2.0, 4.0};
    json_t *row = sk_fixture_row(&(sk_fixture){.use_case = use_case ? "open_chat" : NULL});
    static const char *const hosts[] = {"llama-server", "llama-server-tuned", "skippy"};
    for (size_t i = 0; i < 3; i++) {
        sk_fixture_samples(row, "exact", "exact", hosts[i], ms, 3);
        sk_fixture_samples(row, "agent", "all conversations", hosts[i], ms, 1);
        sk_fixture_level(row, hosts[i], 2, 5.0, 1.0, 2.0);
    }
    json_t *source = json_pack("{s:s, s:s, s:s, s:i, s:b}", "dataset", "a/b", "config", "main", "split", "test",
                               "row_idx", 7, "written", 1);
    assert_int_equal(json_object_set_new(row, "use_case_source", source), 0);
    return row;
}

static void write_use_cases(const sk_row_set *s, sk_buf *out) {
    sk_table_use_cases(s, NULL, out);
}

static void write_everything(const sk_row_set *s) {
    static const sk_table_writer all[] = {
        sk_table_full,   sk_table_not_promoted, sk_table_process,       sk_table_scenarios, sk_table_packages,
        sk_table_curves, sk_table_sweep,        sk_table_paired,        sk_table_read,      sk_table_facts,
        sk_table_notes,  sk_table_commands,     sk_table_conversations, write_use_cases,    sk_table_todo};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sk_buf out = {0};
        all[i](s, &out);
        assert_false(out.failed);
        sk_fixture_even(&out);
        sk_buf_free(&out);
    }
}

static void try_row(const json_t *row) {
    sk_row_set s = {0};
    sk_err e = {0};
    const int rc = sk_row_set_add(&s, json_deep_copy(row), 3, &e);
    if (rc == SKIPPY_OK) {
        n_written++;
        write_everything(&s);
    } else {
        n_refused++;
        assert_int_equal(rc, SKIPPY_E_INVALID);
        if (!strstr(e.text, "row 3")) fail_msg("no row is named in: %s", e.text);
    }
    sk_row_set_free(&s);
}

static json_t *damage(size_t i) {
    switch (i) {
    case 0: return json_null();
    case 1: return json_integer(-1);
    case 2: return json_real(1e300);
    case 3: return json_integer(INT64_MAX);
    case 4: return json_string("a|`b`\n\x7f");
    case 5: return json_string("");
    case 6: return json_array();
    case 7: return json_object();
    case 8: return json_pack("[[]]");
    case 9: return json_true();
    default: return NULL;
    }
}

static void damage_below(json_t *row, json_t *at);

static void damage_member(json_t *row, json_t *object, const char *name) {
    json_t *good = json_incref(json_object_get(object, name));
    for (size_t i = 0;; i++) {
        json_t *bad = damage(i);
        if (!bad) break;
        assert_int_equal(json_object_set_new(object, name, bad), 0);
        try_row(row);
    }
    assert_int_equal(json_object_del(object, name), 0);
    try_row(row);
    assert_int_equal(json_object_set_new(object, name, good), 0);
    damage_below(row, good);
}

static void damage_item(json_t *row, json_t *array, size_t index) {
    json_t *good = json_incref(json_array_get(array, index));
    for (size_t i = 0;; i++) {
        json_t *bad = damage(i);
        if (!bad) break;
        assert_int_equal(json_array_set_new(array, index, bad), 0);
        try_row(row);
    }
    assert_int_equal(json_array_set_new(array, index, good), 0);
    damage_below(row, good);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the row */
static void damage_below(json_t *row, json_t *at) {
    if (json_is_array(at)) {
        if (json_array_size(at) > 0) damage_item(row, at, 0); /* the others are read by the same lines */
        return;
    }
    /* Names first: taking a member away and setting it again changes the order. */
    char *names[64];
    size_t n = 0;
    const char *name;
    json_t *v;
    json_object_foreach(at, name, v) {
        (void)v;
        assert_true(n < 64);
        names[n++] = strdup(name);
    }
    for (size_t i = 0; i < n; i++) {
        damage_member(row, at, names[i]);
        free(names[i]);
    }
}

static void no_damage_of_a_row_breaks_a_table(void **state) {
    (void)state;
    for (int use_case = 0; use_case < 2; use_case++) {
        json_t *row = some_row(use_case);
        damage_below(row, row);
        json_decref(row);
    }
    /* Both ends were reached. */
    assert_true(n_refused > 500);
    assert_true(n_written > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_damage_of_a_row_breaks_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
