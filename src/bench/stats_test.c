#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/stats.h"

static void median_of_an_even_count_is_the_mean_of_the_middle_two(void **state) {
    (void)state;
    const double v[] = {1.0, 2.0, 4.0, 100.0};
    assert_true(sk_stats_median(v, 4) == 3.0);
    assert_true(sk_stats_median(v, 3) == 2.0);
    assert_true(sk_stats_median(v, 0) == 0.0);
}

static void p95_is_a_measured_value_by_nearest_rank(void **state) {
    (void)state;
    double v[100];
    for (size_t i = 0; i < 100; i++) {
        v[i] = (double)(i + 1);
    }
    assert_true(sk_stats_rank(v, 100, 95) == 95.0);
    assert_true(sk_stats_rank(v, 20, 95) == 19.0);
    assert_true(sk_stats_rank(v, 21, 95) == 20.0); /* ceil(19.95) */
    assert_true(sk_stats_rank(v, 1, 95) == 1.0);
    assert_true(sk_stats_rank(v, 3, 95) == 3.0);
    assert_true(sk_stats_rank(v, 100, 100) == 100.0);
    assert_true(sk_stats_rank(v, 0, 95) == 0.0);
}

static void summary_sorts_a_copy_and_reports_the_spread(void **state) {
    (void)state;
    const double v[] = {30.0, 10.0, 20.0};
    sk_summary s;
    assert_int_equal(sk_stats_summarize(v, 3, &s), 0);
    assert_int_equal(s.n, 3);
    assert_true(s.min == 10.0 && s.p50 == 20.0 && s.p95 == 30.0 && s.max == 30.0 && s.mean == 20.0);
    assert_true(s.spread == 1.0);
    assert_true(v[0] == 30.0);
}

static void summary_of_nothing_is_zero(void **state) {
    (void)state;
    sk_summary s;
    memset(&s, 0xff, sizeof s);
    assert_int_equal(sk_stats_summarize(NULL, 0, &s), 0);
    assert_int_equal(s.n, 0);
    assert_true(s.p50 == 0.0 && s.spread == 0.0);
}

static void a_ratio_below_one_says_slower(void **state) {
    (void)state;
    char buf[SK_RATIO_CHARS];
    assert_string_equal(sk_stats_ratio(30.0, 2.0, buf), "15.00x");
    assert_string_equal(sk_stats_ratio(2.0, 2.0, buf), "1.00x");
    assert_string_equal(sk_stats_ratio(4.0, 5.0, buf), "0.80x (slower)");
    assert_string_equal(sk_stats_ratio(0.0, 5.0, buf), "n/a");
    assert_string_equal(sk_stats_ratio(5.0, 0.0, buf), "n/a");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_of_an_even_count_is_the_mean_of_the_middle_two),
        cmocka_unit_test(p95_is_a_measured_value_by_nearest_rank),
        cmocka_unit_test(summary_sorts_a_copy_and_reports_the_spread),
        cmocka_unit_test(summary_of_nothing_is_zero),
        cmocka_unit_test(a_ratio_below_one_says_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
