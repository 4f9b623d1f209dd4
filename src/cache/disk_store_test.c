/* The disk store as its users see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"

enum { BLOCK = 2000, SEGMENT = 16000 };

static found_list found;
static drop_list drops;

static int setup(void **state) {
    scratch *t = calloc(1, sizeof *t);
    assert_non_null(t);
    scratch_make(t);
    *state = t;
    return 0;
}

static int teardown(void **state) {
    scratch_remove(*state);
    free(*state);
    return 0;
}

static skippy_disk_store *open_store(scratch *t) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    int status = scratch_open(t, NULL, 0, SEGMENT, &found, &drops, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    return s;
}

static skippy_store_stats stats_of(skippy_disk_store *s) {
    skippy_store_stats stats;
    skippy_disk_get_stats(s, &stats);
    return stats;
}

static void entries_come_back_after_a_reopen(void **state) {
    scratch *t = *state;
    uint64_t id[8];
    skippy_disk_store *s = open_store(t);
    assert_int_equal(found.n, 0);
    for (unsigned chat = 0; chat < 8; chat++) {
        assert_int_equal(test_put_chat(s, chat, 1 + chat, BLOCK, &id[chat]), SKIPPY_OK);
        assert_int_equal(test_check(s, id[chat], chat, 1 + chat, BLOCK), SKIPPY_OK);
    }
    check_accounts(t, s);
    skippy_disk_close(s);

    s = open_store(t);
    assert_int_equal(found.n, 8);
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.turns[i], 1 + found.chat[i]);
        assert_int_equal(found.id[i], id[found.chat[i]]);
        assert_int_equal(test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK), SKIPPY_OK);
    }
    check_accounts(t, s);
    skippy_disk_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_come_back_after_a_reopen, setup, teardown),
    };
    (void)stats_of;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
