#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "bench/family/plot_scale.h"

static void assert_ticks(double lo, double hi, size_t max, const double *want, size_t n) {
    const sk_plot_scale s = {lo, hi};
    double ticks[SK_PLOT_MAX_TICKS];
    assert_int_equal(sk_plot_scale_ticks(&s, max, ticks), n);
    for (size_t i = 0; i < n; i++) {
        assert_true(fabs(ticks[i] / want[i] - 1.0) < 1e-9);
    }
}

static void a_wide_range_has_powers_of_ten(void **state) {
    (void)state;
    const double want[] = {1, 10, 100, 1000};
    assert_ticks(0.7, 3000.0, 4, want, 4);
}

static void a_very_wide_range_has_every_other_power(void **state) {
    (void)state;
    const double want[] = {1, 100, 10000};
    assert_ticks(0.7, 30000.0, 4, want, 3);
}

static void a_decade_has_one_two_five(void **state) {
    (void)state;
    const double want[] = {1, 2, 5, 10};
    assert_ticks(0.9, 12.0, 4, want, 4);
}

static void a_narrow_range_still_has_ticks(void **state) {
    (void)state;
    const double want[] = {1, 1.2, 1.5};
    assert_ticks(0.95, 1.7, 4, want, 3);
}

static void ticks_do_not_touch_each_other(void **state) {
    (void)state;
    double hi = 1.2;
    for (int step = 0; step < 90; step++) { /* to more than a million */
        for (size_t max = 3; max <= 9; max++) {
            const sk_plot_scale s = {0.8, hi};
            double ticks[SK_PLOT_MAX_TICKS];
            const size_t n = sk_plot_scale_ticks(&s, max, ticks);
            assert_in_range(n, 1, max);
            for (size_t i = 1; i < n; i++) {
                assert_true(log10(ticks[i] / ticks[i - 1]) >= 0.9 * log10(hi / 0.8) / (double)max);
            }
        }
        hi *= 1.17;
    }
}

static void one_is_a_tick_wherever_it_is_in_the_range(void **state) {
    (void)state;
    double hi = 1.1;
    for (int step = 0; step < 80; step++) { /* to more than a billion */
        const sk_plot_scale s = {0.5, hi};
        double ticks[SK_PLOT_MAX_TICKS];
        const size_t n = sk_plot_scale_ticks(&s, 4, ticks);
        size_t i = 0;
        while (i < n && fabs(ticks[i] - 1.0) > 1e-9) {
            i++;
        }
        assert_true(i < n);
        hi *= 1.3;
    }
}

static void values_without_a_place_on_the_axis_are_ignored(void **state) {
    (void)state;
    sk_plot_scale s = {0};
    double ticks[SK_PLOT_MAX_TICKS];
    sk_plot_scale_add(&s, 0.0);
    sk_plot_scale_add(&s, -3.0);
    sk_plot_scale_add(&s, NAN);
    sk_plot_scale_add(&s, INFINITY);
    sk_plot_scale_pad(&s, 0.1, 0.1);
    assert_true(s.hi <= 0.0);
    assert_int_equal(sk_plot_scale_ticks(&s, 4, ticks), 0);
    sk_plot_scale_add(&s, 5.0);
    sk_plot_scale_add(&s, 2.0);
    sk_plot_scale_add(&s, 3.0);
    assert_true(s.lo == 2.0 && s.hi == 5.0);
}

static void padding_leaves_the_asked_shares_free(void **state) {
    (void)state;
    sk_plot_scale s = {1.0, 100.0};
    sk_plot_scale_pad(&s, 0.1, 0.4);
    const double whole = log10(s.hi / s.lo);
    assert_true(fabs(-log10(s.lo) / whole - 0.1) < 1e-9);
    assert_true(fabs(log10(s.hi / 100.0) / whole - 0.4) < 1e-9);
}

static void a_single_value_becomes_an_axis(void **state) {
    (void)state;
    sk_plot_scale s = {0};
    sk_plot_scale_add(&s, 1.0);
    sk_plot_scale_pad(&s, 0.0, 0.0);
    assert_true(s.lo < 1.0 && s.hi > 1.0);
}

static void the_axis_is_written_for_gnuplot(void **state) {
    (void)state;
    const sk_plot_scale s = {0.5, 20.0};
    sk_buf out = {0};
    sk_plot_scale_axis(&s, 'x', "x", 4, &out);
    assert_string_equal(out.data, "set logscale x 10\nset xrange [0.5:20]\nset xtics ('1x' 1, '3x' 3, '10x' 10)\n");
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_range_has_powers_of_ten),
        cmocka_unit_test(a_very_wide_range_has_every_other_power),
        cmocka_unit_test(a_decade_has_one_two_five),
        cmocka_unit_test(a_narrow_range_still_has_ticks),
        cmocka_unit_test(ticks_do_not_touch_each_other),
        cmocka_unit_test(one_is_a_tick_wherever_it_is_in_the_range),
        cmocka_unit_test(values_without_a_place_on_the_axis_are_ignored),
        cmocka_unit_test(padding_leaves_the_asked_shares_free),
        cmocka_unit_test(a_single_value_becomes_an_axis),
        cmocka_unit_test(the_axis_is_written_for_gnuplot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
