#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/tie.h"

/* The model's answer is "the cat sat"; after "the" a dog is nearly as likely as a cat. */
static char words[][8] = {"the", " a", " cat", " dog", " sat", " ran"};
static const sk_alternative close_call[] = {
    {words[0], words[1], 2.0}, {words[2], words[3], 0.01}, {words[4], words[5], 1.0}};
static const sk_alternative clear_call[] = {
    {words[0], words[1], 2.0}, {words[2], words[3], 1.5 * SK_TIE_GAP}, {words[4], words[5], 1.0}};

static void answers_that_part_at_two_nearly_equal_tokens_are_a_tie(void **state) {
    (void)state;
    double gap = -1.0;
    assert_true(sk_tie_judge(close_call, 3, "the cat sat", "the dog barks", &gap));
    assert_true(gap == 0.01);
    assert_true(sk_tie_judge(close_call, 3, "the dog barks", "the cat sat", &gap));
}

static void a_clear_preference_is_no_tie(void **state) {
    (void)state;
    double gap = -1.0;
    assert_false(sk_tie_judge(clear_call, 3, "the cat sat", "the dog barks", &gap));
}

static void a_token_that_is_not_among_the_best_two_is_no_tie(void **state) {
    (void)state;
    double gap = -1.0;
    assert_false(sk_tie_judge(close_call, 3, "the cat sat", "the cow moos", &gap));
    assert_false(sk_tie_judge(close_call, 3, "the dog barks", "the cow moos", &gap));
    assert_false(sk_tie_judge(close_call, 3, "the dog barks", "the dog sleeps", &gap));
}

static void equal_or_missing_answers_are_no_tie(void **state) {
    (void)state;
    double gap = -1.0;
    assert_false(sk_tie_judge(close_call, 3, "the cat sat", "the cat sat", &gap));
    assert_false(sk_tie_judge(NULL, 0, "the cat sat", "the dog barks", &gap));
    assert_false(sk_tie_judge(close_call, 3, "", "the cat sat", &gap));
}

static void only_cold_answers_that_differ_are_open(void **state) {
    (void)state;
    char one[] = "one";
    char two[] = "two";
    sk_answer a[] = {{.cold = true, .text = one}, {.cold = false, .text = one}};
    sk_answer b[] = {{.cold = true, .text = one}, {.cold = false, .text = two}};
    const sk_measurement theirs = {.answers = a, .n_answers = 2};
    const sk_measurement ours = {.answers = b, .n_answers = 2};
    assert_false(sk_tie_open(&theirs, &ours));
    b[0].text = two;
    assert_true(sk_tie_open(&theirs, &ours));
    a[0].tie = true;
    assert_false(sk_tie_open(&theirs, &ours));
}

static void answers_part_between_whole_characters(void **state) {
    (void)state;
    assert_int_equal(sk_tie_common("the cat", "the dog"), 4);
    assert_int_equal(sk_tie_common("same", "same"), 4);
    assert_int_equal(sk_tie_common("", "the"), 0);
    assert_int_equal(sk_tie_common("a\xc3\xa4", "a\xc3\xb6"), 1); /* the first byte of both letters is equal */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_part_at_two_nearly_equal_tokens_are_a_tie),
        cmocka_unit_test(a_clear_preference_is_no_tie),
        cmocka_unit_test(a_token_that_is_not_among_the_best_two_is_no_tie),
        cmocka_unit_test(equal_or_missing_answers_are_no_tie),
        cmocka_unit_test(answers_part_between_whole_characters),
        cmocka_unit_test(only_cold_answers_that_differ_are_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
