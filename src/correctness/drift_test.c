/* The numbers that certification judges by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "correctness/drift.h"

#define ROW(...) ((const float[]){__VA_ARGS__})

static void equal_rows_have_no_drift(void **state) {
    (void)state;
    sk_drift d = {.differs = true, .max_abs = 1.0, .kl = 1.0, .rel_l2 = 1.0};
    sk_drift_measure(ROW(1.0f, -2.0f, NAN), ROW(1.0f, -2.0f, NAN), 3, &d);
    assert_false(d.differs);
    assert_true(d.max_abs == 0.0 && d.kl == 0.0 && d.rel_l2 == 0.0);
}

static void one_changed_bit_is_a_difference(void **state) {
    (void)state;
    sk_drift d;
    sk_drift_measure(ROW(1.0f, 2.0f), ROW(1.0f, nextafterf(2.0f, 3.0f)), 2, &d);
    assert_true(d.differs);
    assert_true(d.max_abs > 0.0 && d.max_abs < 1e-6);
}

static void numbers_are_those_of_the_formulas(void **state) {
    (void)state;
    sk_drift d;
    sk_drift_measure(ROW(0.0f, 0.0f), ROW(0.0f, logf(3.0f)), 2, &d);
    /* p = (1/2, 1/2), q = (1/4, 3/4): KL = 1/2 ln 2 + 1/2 ln 2/3 */
    assert_true(fabs(d.kl - 0.5 * log(4.0 / 3.0)) < 1e-6);
    assert_true(fabs(d.max_abs - log(3.0)) < 1e-6);
    assert_true(isinf(d.rel_l2)); /* the reference has no length */
    sk_drift_measure(ROW(3.0f, 4.0f), ROW(3.0f, 5.0f), 2, &d);
    assert_true(fabs(d.rel_l2 - 0.2) < 1e-6);
}

static void a_shift_of_all_logits_does_not_change_the_distribution(void **state) {
    (void)state;
    sk_drift d;
    sk_drift_measure(ROW(1.0f, 2.0f, 3.0f), ROW(2.0f, 3.0f, 4.0f), 3, &d);
    assert_true(d.kl < 1e-9);
    assert_true(d.max_abs == 1.0);
}

static void a_value_that_is_no_number_is_an_infinite_drift(void **state) {
    (void)state;
    sk_drift d;
    sk_drift_measure(ROW(1.0f, 2.0f), ROW(1.0f, NAN), 2, &d);
    assert_true(isinf(d.max_abs));
    assert_true(isinf(d.kl));
    sk_drift_measure(ROW(1.0f, -INFINITY), ROW(2.0f, -INFINITY), 2, &d);
    assert_true(d.max_abs == 1.0); /* a banned token in both rows is no drift */
}

static void folding_keeps_the_worst_of_each(void **state) {
    (void)state;
    sk_drift worst = {0};
    sk_drift_fold(&worst, &(sk_drift){.differs = true, .max_abs = 2.0, .kl = 0.1, .rel_l2 = 0.3});
    sk_drift_fold(&worst, &(sk_drift){.max_abs = 1.0, .kl = 0.2, .rel_l2 = 0.1});
    assert_true(worst.differs && worst.max_abs == 2.0 && worst.kl == 0.2 && worst.rel_l2 == 0.3);
}

static void the_best_token_and_its_lead_are_found(void **state) {
    (void)state;
    float lead = 0.0f;
    assert_int_equal(sk_drift_best(ROW(1.0f, 4.0f, 4.0f, 3.5f), 4, &lead), 1);
    assert_true(lead == 0.0f);
    assert_int_equal(sk_drift_best(ROW(5.0f, 1.0f, 3.0f), 3, &lead), 0);
    assert_true(lead == 2.0f);
    assert_int_equal(sk_drift_best(ROW(NAN, NAN), 2, NULL), -1);
    assert_int_equal(sk_drift_best(ROW(NAN, 1.0f), 2, &lead), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_rows_have_no_drift),
        cmocka_unit_test(one_changed_bit_is_a_difference),
        cmocka_unit_test(numbers_are_those_of_the_formulas),
        cmocka_unit_test(a_shift_of_all_logits_does_not_change_the_distribution),
        cmocka_unit_test(a_value_that_is_no_number_is_an_infinite_drift),
        cmocka_unit_test(folding_keeps_the_worst_of_each),
        cmocka_unit_test(the_best_token_and_its_lead_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
