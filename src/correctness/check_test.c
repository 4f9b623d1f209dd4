/* What passes a certification and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "correctness/check.h"

enum { VOCAB = 4, REPEATS = 3 };

static const sk_criterion BIT = {.bit = true}, VALUES = {.tolerance = 0.1};

static void make(sk_trial *t, uint32_t repeats) {
    sk_err e = {0};
    assert_int_equal(sk_trial_init(t, VOCAB, repeats, &e), SKIPPY_OK);
    for (size_t row = 0; row < SK_ROW_HITS + repeats; row++) {
        float base = row >= SK_ROW_HITS ? 0.0f : (float)row;
        for (size_t i = 0; i < VOCAB; i++) sk_trial_row(t, row)[i] = base + (float)i;
    }
    for (int i = 0; i < SK_TRIAL_GREEDY; i++) t->greedy[i] = i, t->lead[i] = 1.0f;
    t->state_bytes = 10;
}

typedef struct pair {
    sk_trial recorded, restored;
} pair;

static int make_pair(void **state) {
    static pair p;
    make(&p.recorded, 0);
    make(&p.restored, REPEATS);
    *state = &p;
    return 0;
}

static int free_pair(void **state) {
    pair *p = *state;
    sk_trial_free(&p->recorded);
    sk_trial_free(&p->restored);
    return 0;
}

static sk_check compare(const pair *p, const sk_criterion *c) {
    sk_check out;
    sk_check_compare(&p->recorded, &p->restored, c, &out);
    return out;
}

static void assert_fails(const pair *p, const sk_criterion *criterion, const char *because) {
    char words[256];
    sk_check c = compare(p, criterion);
    assert_false(sk_check_passed(&c, criterion));
    sk_check_complaint(&c, criterion, words, sizeof words);
    assert_string_equal(words, because);
}

static void equal_trials_pass_by_either_criterion(void **state) {
    char words[256];
    sk_check c = compare(*state, &BIT);
    assert_true(sk_check_passed(&c, &BIT));
    assert_true(c.state && c.greedy_equal == SK_TRIAL_GREEDY && c.token == 0);
    sk_check_complaint(&c, &BIT, words, sizeof words);
    assert_string_equal(words, "");
    c = compare(*state, &VALUES);
    assert_true(sk_check_passed(&c, &VALUES));
}

static void one_bit_of_a_row_fails_bit_equality(void **state) {
    pair *p = *state;
    sk_trial_row(&p->restored, SK_ROW_NEXT)[1] += 1e-5f;
    assert_fails(p, &BIT, "the logits or greedy tokens");
    sk_check c = compare(p, &VALUES);
    assert_true(sk_check_passed(&c, &VALUES));
}

static void the_suffix_is_judged(void **state) {
    pair *p = *state;
    sk_trial_row(&p->restored, SK_ROW_SUFFIX)[0] += 0.5f;
    assert_fails(p, &BIT, "the suffix prefill");
    assert_fails(p, &VALUES, "the suffix prefill");
}

static void every_repeated_hit_is_judged(void **state) {
    pair *p = *state;
    sk_trial_row(&p->restored, SK_ROW_HITS + REPEATS - 1)[3] += 0.5f;
    assert_fails(p, &BIT, "repeated hits");
    assert_fails(p, &VALUES, "repeated hits");
}

static void a_trial_without_repeats_cannot_pass(void **state) {
    pair *p = *state;
    p->restored.repeats = 0;
    assert_fails(p, &BIT, "repeated hits");
}

static void another_greedy_token_fails_unless_it_is_a_near_tie(void **state) {
    pair *p = *state;
    p->restored.greedy[5] = 77;
    assert_fails(p, &BIT, "the logits or greedy tokens");
    assert_fails(p, &VALUES, "the logits or greedy tokens");
    p->recorded.lead[5] = 0.05f;
    assert_fails(p, &BIT, "the logits or greedy tokens");
    sk_check c = compare(p, &VALUES);
    assert_true(sk_check_passed(&c, &VALUES));
    assert_true(c.near_tie);
    assert_int_equal(c.greedy_equal, 5);
}

static void another_next_token_is_said(void **state) {
    pair *p = *state;
    p->restored.greedy[0] = 3;
    assert_fails(p, &BIT, "the next token, the logits or greedy tokens");
}

static void a_last_row_that_differs_fails_bit_equality_only(void **state) {
    pair *p = *state;
    sk_trial_row(&p->restored, SK_ROW_LAST)[0] += 0.01f;
    assert_fails(p, &BIT, "the logits or greedy tokens");
    sk_check c = compare(p, &VALUES);
    assert_true(sk_check_passed(&c, &VALUES));
}

static void state_bytes_decide_where_bits_cannot(void **state) {
    pair *p = *state;
    p->restored.state.bytes[31] ^= 1;
    sk_check c = compare(p, &BIT);
    assert_true(sk_check_passed(&c, &BIT)); /* a diagnosis: the outputs are the same bits */
    assert_false(c.state);
    assert_fails(p, &VALUES, "state bytes");
    p->restored.state_bytes = 0;
    c = compare(p, &VALUES);
    assert_false(c.state_known);
    assert_true(sk_check_passed(&c, &VALUES));
}

static void what_did_not_run_did_not_pass(void **state) {
    (void)state;
    char words[64];
    sk_check c = {0};
    assert_false(sk_check_passed(&c, &BIT));
    sk_check_complaint(&c, &BIT, words, sizeof words);
    assert_string_equal(words, "nothing was compared");
}

static void too_many_repeats_are_refused(void **state) {
    (void)state;
    sk_trial t;
    sk_err e = {0};
    assert_int_equal(sk_trial_init(&t, VOCAB, SK_TRIAL_MAX_REPEATS + 1, &e), SKIPPY_E_INVALID);
    sk_trial_free(&t);
}

#define PAIR_TEST(t) cmocka_unit_test_setup_teardown(t, make_pair, free_pair)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR_TEST(equal_trials_pass_by_either_criterion),
        PAIR_TEST(one_bit_of_a_row_fails_bit_equality),
        PAIR_TEST(the_suffix_is_judged),
        PAIR_TEST(every_repeated_hit_is_judged),
        PAIR_TEST(a_trial_without_repeats_cannot_pass),
        PAIR_TEST(another_greedy_token_fails_unless_it_is_a_near_tie),
        PAIR_TEST(another_next_token_is_said),
        PAIR_TEST(a_last_row_that_differs_fails_bit_equality_only),
        PAIR_TEST(state_bytes_decide_where_bits_cannot),
        cmocka_unit_test(what_did_not_run_did_not_pass),
        cmocka_unit_test(too_many_repeats_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
