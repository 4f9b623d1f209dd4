#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reuse/rates.h"

enum { DISK = SKIPPY_TIER_DISK };

static void unknown_speeds_never_refuse(void **state) {
    (void)state;
    sk_rates r = {0};
    sk_estimate e;
    assert_true(sk_rates_worth(&r, DISK, 1 << 30, 1, &e));
    sk_rates_add_prefill(&r, 100, 100);
    assert_true(sk_rates_worth(&r, DISK, 1 << 30, 1, &e));
}

static void faster_way_wins(void **state) {
    (void)state;
    sk_rates r = {0};
    sk_estimate e;
    sk_rates_add_prefill(&r, 100, 200);                  /* 2 ms a token */
    sk_rates_add_fetch(&r, DISK, 1000, 10);              /* 0.01 ms a byte */
    sk_rates_add_import(&r, 1000, 2);                    /* 0.002 ms a byte */
    assert_true(sk_rates_worth(&r, DISK, 1000, 10, &e)); /* 12 ms against 20 */
    assert_true(e.restore_ms > 11.9 && e.restore_ms < 12.1);
    assert_true(e.recompute_ms > 19.9 && e.recompute_ms < 20.1);
    assert_false(sk_rates_worth(&r, DISK, 1000, 5, &e)); /* 12 ms against 10 */
}

static void every_sixteenth_refusal_measures_again(void **state) {
    (void)state;
    sk_rates r = {0};
    sk_estimate e;
    sk_rates_add_prefill(&r, 100, 1);
    sk_rates_add_fetch(&r, DISK, 10, 1000);
    int opened = 0;
    for (int i = 0; i < 32; i++) opened += sk_rates_worth(&r, DISK, 1000, 10, &e);
    assert_int_equal(opened, 2);
}

static void samples_that_say_nothing_are_ignored(void **state) {
    (void)state;
    sk_rates r = {0};
    sk_rates_add_prefill(&r, 0, 5);
    sk_rates_add_prefill(&r, 5, 0);
    sk_rates_add_fetch(&r, DISK, 0, 5);
    sk_rates_add_import(&r, 5, -1);
    assert_true(r.prefill_ms == 0 && r.fetch_ms[DISK] == 0 && r.import_ms == 0);
}

static void average_follows_new_samples(void **state) {
    (void)state;
    sk_rates r = {0};
    sk_rates_add_prefill(&r, 1, 8);
    sk_rates_add_prefill(&r, 1, 4);
    assert_true(r.prefill_ms > 6.99 && r.prefill_ms < 7.01);
}

static void a_restore_is_guessed_until_both_its_parts_were_measured(void **state) {
    (void)state;
    sk_rates r = {0};
    assert_true(sk_rates_restore_ms(&r, DISK, UINT64_C(2) << 30) == 1000);
    sk_rates_add_fetch(&r, DISK, 1024, 3);
    assert_true(sk_rates_restore_ms(&r, DISK, UINT64_C(2) << 30) == 1000);
    sk_rates_add_import(&r, 1024, 5);
    assert_true(sk_rates_restore_ms(&r, DISK, 2048) == 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_speeds_never_refuse),
        cmocka_unit_test(faster_way_wins),
        cmocka_unit_test(every_sixteenth_refusal_measures_again),
        cmocka_unit_test(samples_that_say_nothing_are_ignored),
        cmocka_unit_test(average_follows_new_samples),
        cmocka_unit_test(a_restore_is_guessed_until_both_its_parts_were_measured),
    };
    return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
