/* What a chain refuses before it serves: parameters that name none, and stages that make none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stage/chain_internal.h"

static const char *const addresses[SK_CHAIN_MAX] = {"a:1", "b:2"};
static const int32_t cuts[] = {2, 4, 6};

static sk_stage_card card(uint32_t index, int32_t start, int32_t end) {
    sk_stage_card c = {.life = 5,
                       .index = index,
                       .layer_start = start,
                       .layer_end = end,
                       .n_layer = 6,
                       .width = 4,
                       .n_ctx = 64,
                       .n_lanes = 2,
                       .n_batch = 16,
                       .abi = "x",
                       .source = "00ff",
                       .last = end == 6};
    c.n_vocab = c.last ? 10 : 0;
    return c;
}

static sk_frame_welcome welcome; /* large: not on the stack */

static void fill(void) {
    memset(&welcome, 0, sizeof welcome);
    welcome.n_cards = 2;
    welcome.cards[0] = card(1, 2, 4);
    welcome.cards[1] = card(2, 4, 6);
}

static int check(const int32_t *known, sk_err *e) {
    const sk_stage_card head = card(0, 0, 2);
    return sk_chain_check_cards(&head, known, addresses, 2, &welcome, e);
}

/* Refused, with or without known cuts, and both words are in the text. */
static void expect_refused(const int32_t *known, const char *one, const char *other) {
    sk_err e;
    assert_int_equal(check(known, &e), SKIPPY_E_UNSUPPORTED);
    if (!strstr(e.text, one) || !strstr(e.text, other)) fail_msg("'%s' lacks '%s' or '%s'", e.text, one, other);
}

static void stages_that_follow_each_other_are_a_chain(void **state) {
    (void)state;
    fill();
    assert_int_equal(check(cuts, NULL), SKIPPY_OK);
    assert_int_equal(check(NULL, NULL), SKIPPY_OK);
}

static void other_cuts_are_a_chain_unless_cuts_were_given(void **state) {
    (void)state;
    fill();
    welcome.cards[0].layer_end = welcome.cards[1].layer_start = 3;
    assert_int_equal(check(NULL, NULL), SKIPPY_OK);
    expect_refused(cuts, "end of its layers 3", "needs 4");
}

static void gaps_and_overlaps_are_refused(void **state) {
    (void)state;
    fill();
    welcome.cards[0].layer_start = 1;
    expect_refused(NULL, "stage 1 at a:1: first layer 1", "needs 2");
    fill();
    welcome.cards[1].layer_start = 5;
    expect_refused(NULL, "stage 2 at b:2: first layer 5", "needs 4");
    fill();
    welcome.cards[0].layer_end = 2;
    expect_refused(NULL, "layers 2 to 2", "no range");
    fill();
    welcome.cards[0].layer_end = 7;
    expect_refused(NULL, "layers 2 to 7 of 6", "no range");
    fill();
    welcome.cards[1].layer_end = 5;
    expect_refused(NULL, "end of its layers 5", "needs 6");
}

static void the_output_layer_is_the_last_stages(void **state) {
    (void)state;
    fill();
    welcome.cards[0].last = true;
    expect_refused(NULL, "stage 1", "has the output layer but is not the last one");
    fill();
    welcome.cards[0].n_vocab = 10;
    expect_refused(NULL, "stage 1", "has the output layer but is not the last one");
    fill();
    welcome.cards[1].last = false;
    expect_refused(NULL, "stage 2", "is the last one but has no output layer");
    fill();
    welcome.cards[1].n_vocab = 0;
    expect_refused(NULL, "stage 2", "is the last one but has no output layer");
}

static void every_difference_is_shown_with_both_values(void **state) {
    (void)state;
    fill();
    welcome.n_cards = 1;
    expect_refused(cuts, "1 stages answered", "2 were named");
    fill();
    welcome.cards[1].index = 1;
    expect_refused(cuts, "index 1", "needs 2");
    fill();
    welcome.cards[1].n_layer = 8;
    expect_refused(cuts, "layers of the whole model 8", "needs 6");
    fill();
    welcome.cards[1].width = 5;
    expect_refused(cuts, "width of hidden states 5", "needs 4");
    fill();
    welcome.cards[1].dtype = 1;
    expect_refused(cuts, "type of hidden states", "1, the head needs 0");
    fill();
    welcome.cards[1].n_ctx = 65;
    expect_refused(cuts, "context size 65", "needs 64");
    fill();
    welcome.cards[1].n_lanes = 3;
    expect_refused(cuts, "lanes 3", "needs 2");
    fill();
    welcome.cards[1].n_batch = 17;
    expect_refused(cuts, "batch size 17", "needs 16");
    fill();
    snprintf(welcome.cards[1].source, sizeof welcome.cards[1].source, "ee");
    expect_refused(cuts, "'ee'", "'00ff'");
    fill();
    snprintf(welcome.cards[1].abi, sizeof welcome.cards[1].abi, "y");
    expect_refused(cuts, "runtime 'y'", "'x'");
}

/* ---- parameters ---- */

static sk_chain_params params(void) {
    return (sk_chain_params){.addresses = addresses, .n_addresses = 2, .cuts = cuts, .head = card(0, 0, 2)};
}

static void expect_invalid(const sk_chain_params *p, const char *words) {
    sk_chain *c;
    sk_err e;
    assert_int_equal(sk_chain_open(p, &c, &e), SKIPPY_E_INVALID);
    assert_null(c);
    if (!strstr(e.text, words)) fail_msg("'%s' has no '%s' in it", e.text, words);
}

static void a_chain_needs_stages_but_not_too_many(void **state) {
    (void)state;
    sk_chain_params p = params();
    p.n_addresses = 0;
    expect_invalid(&p, "0 stages");
    p.n_addresses = SK_CHAIN_MAX;
    expect_invalid(&p, "16 stages");
}

static void addresses_that_are_none_are_refused(void **state) {
    (void)state;
    char longest[300];
    const char *bad[] = {"a:1", "nowhere"};
    sk_chain_params p = params();
    p.addresses = bad;
    expect_invalid(&p, "nowhere");
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    bad[1] = longest;
    expect_invalid(&p, "stage 2");
}

static void cuts_that_are_no_split_are_refused(void **state) {
    (void)state;
    sk_chain_params p = params();
    p.cuts = (const int32_t[]){2, 2, 6};
    expect_invalid(&p, "layer 2 does not come after layer 2");
    p.cuts = (const int32_t[]){3, 4, 6};
    expect_invalid(&p, "ends before layer 2");
    p.cuts = (const int32_t[]){2, 4, 5};
    expect_invalid(&p, "model has 6 layers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_follow_each_other_are_a_chain),
        cmocka_unit_test(other_cuts_are_a_chain_unless_cuts_were_given),
        cmocka_unit_test(gaps_and_overlaps_are_refused),
        cmocka_unit_test(the_output_layer_is_the_last_stages),
        cmocka_unit_test(every_difference_is_shown_with_both_values),
        cmocka_unit_test(a_chain_needs_stages_but_not_too_many),
        cmocka_unit_test(addresses_that_are_none_are_refused),
        cmocka_unit_test(cuts_that_are_no_split_are_refused),
    };
    return cmocka_run_group_tests_name("chain_cards", tests, NULL, NULL);
}
