#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/family/token_bound.h"

static void words_cost_a_token_for_four_letters(void **state) {
    (void)state;
    assert_int_equal(sk_token_bound(""), 0);
    assert_int_equal(sk_token_bound("a"), 1);
    assert_int_equal(sk_token_bound("four"), 1);
    assert_int_equal(sk_token_bound("fiver"), 2);
    assert_int_equal(sk_token_bound("four four"), 2); /* one space belongs to the word behind it */
}

static void what_vocabularies_split_costs_more(void **state) {
    (void)state;
    assert_int_equal(sk_token_bound("1234"), 4);
    assert_int_equal(sk_token_bound("{\"a\":1}"), 7);
    assert_int_equal(sk_token_bound("a\n\n    b"), 3);
    assert_int_equal(sk_token_bound("a 1"), 3);
    assert_int_equal(sk_token_bound("a "), 2);
    assert_int_equal(sk_token_bound("日本"), 3);
    assert_int_equal(sk_token_bound("caf\xC3\xA9"), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_cost_a_token_for_four_letters),
        cmocka_unit_test(what_vocabularies_split_costs_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
