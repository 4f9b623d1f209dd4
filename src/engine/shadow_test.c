#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/shadow.h"

enum { VOCAB = 4 };

static const skippy_key a = {{1}}, b = {{2}};

static void every_fourth_hit_is_taken_for_a_quarter(void **state) {
    (void)state;
    sk_shadow s;
    sk_shadow_init(&s, 0.25, VOCAB);
    int taken = 0;
    for (int i = 0; i < 100; i++) taken += sk_shadow_due(&s);
    assert_int_equal(taken, 25);
    sk_shadow_free(&s);
}

static void no_share_takes_nothing(void **state) {
    (void)state;
    sk_shadow s;
    sk_shadow_init(&s, 0, VOCAB);
    for (int i = 0; i < 100; i++) assert_false(sk_shadow_due(&s));
    sk_shadow_free(&s);
}

static void one_comparison_at_a_time(void **state) {
    (void)state;
    sk_shadow s;
    const int32_t tokens[] = {1, 2};
    const float row[VOCAB] = {1, 2, 3, 4};
    sk_shadow_init(&s, 1, VOCAB);
    assert_true(sk_shadow_due(&s));
    assert_true(sk_shadow_take(&s, &a, tokens, 2, row));
    for (int i = 0; i < 10; i++) assert_false(sk_shadow_due(&s));
    sk_shadow_drop(&s);
    assert_true(sk_shadow_due(&s));
    sk_shadow_free(&s);
}

static void distrust_is_for_one_namespace(void **state) {
    (void)state;
    sk_shadow s;
    sk_shadow_init(&s, 1, VOCAB);
    sk_shadow_distrust(&s, &a);
    sk_shadow_distrust(&s, &a);
    assert_int_equal(s.n_distrusted, 1);
    assert_true(sk_shadow_distrusts(&s, &a));
    assert_false(sk_shadow_distrusts(&s, &b));
    sk_shadow_free(&s);
}

static void distance_is_relative_and_knows_what_is_not_finite(void **state) {
    (void)state;
    const float x[] = {3, 4}, y[] = {3, 5}, inf[] = {-INFINITY, 4}, zero[] = {0, 0};
    assert_true(sk_shadow_distance(x, x, 2) == 0);
    assert_true(fabs(sk_shadow_distance(y, x, 2) - 0.2) < 1e-9);
    assert_true(sk_shadow_distance(inf, inf, 2) == 0);
    assert_true(isinf(sk_shadow_distance(inf, x, 2)));
    assert_true(isinf(sk_shadow_distance(x, zero, 2)));
}

static void bit_mode_tolerates_nothing(void **state) {
    (void)state;
    assert_true(sk_shadow_disagree(1e-9, true));
    assert_false(sk_shadow_disagree(0, true));
    assert_false(sk_shadow_disagree(0.01, false));
    assert_true(sk_shadow_disagree(0.5, false));
    assert_true(sk_shadow_disagree(NAN, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fourth_hit_is_taken_for_a_quarter),
        cmocka_unit_test(no_share_takes_nothing),
        cmocka_unit_test(one_comparison_at_a_time),
        cmocka_unit_test(distrust_is_for_one_namespace),
        cmocka_unit_test(distance_is_relative_and_knows_what_is_not_finite),
        cmocka_unit_test(bit_mode_tolerates_nothing),
    };
    return cmocka_run_group_tests_name("shadow", tests, NULL, NULL);
}
