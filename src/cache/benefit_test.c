/* The score of a stored prefix: what raises it, what lowers it, and that no input breaks it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "skippy/benefit.h"

static const skippy_benefit_input BASE = {.cost_ms = 100, .total_bytes = 1000, .age = 9};

static void about(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected))) fail_msg("%.17g is not %.17g", value, expected);
}

static void the_score_is_chance_times_cost_per_byte(void **state) {
    (void)state;
    about(skippy_benefit_score(&BASE), 100.0 / 1000 / 10);
}

static void a_hit_doubles_it_and_further_ones_do_not(void **state) {
    (void)state;
    skippy_benefit_input in = BASE;
    in.hits = 1;
    about(skippy_benefit_score(&in), 2 * skippy_benefit_score(&BASE));
    in.hits = UINT64_MAX;
    about(skippy_benefit_score(&in), 2 * skippy_benefit_score(&BASE));
}

static void the_chance_has_halved_after_a_period(void **state) {
    (void)state;
    skippy_benefit_input young = BASE, old = BASE;
    young.age = 0;
    young.period = old.period = old.age = 1000;
    about(skippy_benefit_score(&old), skippy_benefit_score(&young) / 2);
    young.period = 0; /* one tick */
    old.period = 1;
    young.age = old.age = 1;
    about(skippy_benefit_score(&young), skippy_benefit_score(&old));
}

static void exclusive_bytes_stand_in_for_an_unknown_size(void **state) {
    (void)state;
    skippy_benefit_input in = BASE;
    in.exclusive_bytes = 10;
    about(skippy_benefit_score(&in), skippy_benefit_score(&BASE)); /* the size is known: it does not count */
    in.total_bytes = 0;
    about(skippy_benefit_score(&in), 100 * skippy_benefit_score(&BASE));
}

static void an_entry_without_size_has_one_byte(void **state) {
    (void)state;
    const skippy_benefit_input nothing = {.cost_ms = 3}, one = {.cost_ms = 3, .total_bytes = 1};
    about(skippy_benefit_score(&nothing), skippy_benefit_score(&one));
}

static void what_costs_nothing_is_worth_nothing(void **state) {
    (void)state;
    skippy_benefit_input in = BASE;
    in.cost_ms = 0;
    assert_true(fpclassify(skippy_benefit_score(&in)) == FP_ZERO);
    in.cost_ms = -5; /* the restore takes longer than computing it */
    assert_true(fpclassify(skippy_benefit_score(&in)) == FP_ZERO);
}

static double odd_number(test_random *r) {
    static const double odd[] = {0, -1, 1, 1e-300, 1e300, -1e300, INFINITY, -INFINITY, NAN};
    return odd[random_below(r, sizeof odd / sizeof *odd)];
}

static uint64_t odd_count(test_random *r) {
    static const uint64_t odd[] = {0, 1, 2, UINT64_MAX - 1, UINT64_MAX};
    return odd[random_below(r, sizeof odd / sizeof *odd)];
}

static void no_input_gives_a_negative_score_or_none(void **state) {
    (void)state;
    test_random r = random_start("benefit_test");
    for (int i = 0; i < TEST_OPERATIONS / 10; i++) {
        const skippy_benefit_input in = {.cost_ms = odd_number(&r),
                                         .total_bytes = odd_number(&r),
                                         .exclusive_bytes = odd_number(&r),
                                         .hits = odd_count(&r),
                                         .age = odd_count(&r),
                                         .period = odd_count(&r)};
        const double score = skippy_benefit_score(&in);
        assert_true(score >= 0); /* false for NaN, too */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_score_is_chance_times_cost_per_byte),
        cmocka_unit_test(a_hit_doubles_it_and_further_ones_do_not),
        cmocka_unit_test(the_chance_has_halved_after_a_period),
        cmocka_unit_test(exclusive_bytes_stand_in_for_an_unknown_size),
        cmocka_unit_test(an_entry_without_size_has_one_byte),
        cmocka_unit_test(what_costs_nothing_is_worth_nothing),
        cmocka_unit_test(no_input_gives_a_negative_score_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
