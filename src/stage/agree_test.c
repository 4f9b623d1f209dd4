/* Lengths that the stages of a chain restore. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "stage/agree.h"

static sk_stage_offer up_to(uint32_t range_max) {
    return (sk_stage_offer){.range_max = range_max};
}

static sk_stage_offer only(uint32_t length) {
    return (sk_stage_offer){.n_exact = 1, .exact = {length}};
}

static sk_stage_offer with_hidden(sk_stage_offer o, uint32_t from, uint32_t to) {
    o.act_from = from;
    o.act_to = to;
    return o;
}

static void expect(const sk_stage_offer *offers, size_t n, uint32_t n_tokens, uint32_t gain, const uint32_t *lengths,
                   uint32_t replayed) {
    sk_agreement a;
    sk_agree(offers, n, n_tokens, gain, &a);
    assert_int_equal(a.n_stages, n);
    assert_false(a.terminal);
    for (size_t i = 0; i < n; i++) assert_int_equal(a.length[i], lengths[i]);
    assert_int_equal(a.replayed, replayed);
}

static void stages_that_hold_the_same_restore_it(void **state) {
    (void)state;
    const sk_stage_offer ranges[] = {up_to(700), up_to(700), up_to(700)}, points[] = {only(700), only(700), only(700)};
    expect(ranges, 3, 900, 1, (const uint32_t[]){700, 700, 700}, 0);
    expect(points, 3, 900, 1, (const uint32_t[]){700, 700, 700}, 0);
}

static void the_last_token_is_computed(void **state) {
    (void)state;
    const sk_stage_offer longer[] = {up_to(900), up_to(900)}, whole[] = {only(900), only(900)};
    expect(longer, 2, 900, 1, (const uint32_t[]){899, 899}, 0);
    expect(whole, 2, 900, 1, (const uint32_t[]){0, 0}, 0); /* cannot be cut back to 899 */
}

static void uneven_budgets_agree_on_the_minimum(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {up_to(800), up_to(300), up_to(500)};
    expect(offers, 3, 900, 1, (const uint32_t[]){300, 300, 300}, 0);
}

static void a_restarted_stage_gets_hidden_states_from_the_one_before(void **state) {
    (void)state;
    const sk_stage_offer lost[] = {up_to(800), up_to(800), up_to(0)};
    expect(lost, 3, 900, 1, (const uint32_t[]){0, 0, 0}, 0);
    const sk_stage_offer held[] = {up_to(800), with_hidden(up_to(800), 0, 800), up_to(0)};
    expect(held, 3, 900, 1, (const uint32_t[]){800, 800, 0}, 800);
    const sk_stage_offer fewer[] = {up_to(800), with_hidden(up_to(800), 0, 640), up_to(0)};
    expect(fewer, 3, 900, 1, (const uint32_t[]){640, 640, 0}, 640);
    const sk_stage_offer late[] = {up_to(800), with_hidden(up_to(800), 64, 800), up_to(0)};
    expect(late, 3, 900, 1, (const uint32_t[]){0, 0, 0}, 0);
    const sk_stage_offer enough[] = {up_to(800), with_hidden(up_to(800), 64, 800), up_to(100)};
    expect(enough, 3, 900, 1, (const uint32_t[]){800, 800, 100}, 700);
}

static void hidden_states_of_every_link_may_be_needed(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {with_hidden(only(800), 0, 800), with_hidden(only(512), 256, 512), only(256)};
    expect(offers, 3, 900, 1, (const uint32_t[]){800, 512, 256}, 544);
}

static void boundaries_that_do_not_match_are_no_use(void **state) {
    (void)state;
    const sk_stage_offer apart[] = {only(800), only(700)};
    expect(apart, 2, 900, 1, (const uint32_t[]){0, 0}, 0);
    const sk_stage_offer common[] = {{.n_exact = 3, .exact = {800, 640, 200}},
                                     {.n_exact = 3, .exact = {700, 640, 200}}};
    expect(common, 2, 900, 1, (const uint32_t[]){640, 640}, 0);
    const sk_stage_offer range[] = {{.n_exact = 2, .exact = {800, 640}}, up_to(700)};
    expect(range, 2, 900, 1, (const uint32_t[]){640, 640}, 0);
}

static void a_stage_behind_restores_as_much_as_it_can(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {with_hidden(only(800), 0, 800), {.n_exact = 3, .exact = {820, 300, 100}}};
    expect(offers, 2, 900, 1, (const uint32_t[]){800, 300}, 500);
}

static void an_exact_repeat_is_restored_whole_with_its_logits_only(void **state) {
    (void)state;
    sk_stage_offer offers[] = {only(900), only(900), only(900)};
    offers[2].terminal = true;
    sk_agreement a;
    sk_agree(offers, 3, 900, 1, &a);
    assert_true(a.terminal);
    for (int i = 0; i < 3; i++) assert_int_equal(a.length[i], 900);
    assert_int_equal(a.replayed, 0);

    offers[1].terminal = true;
    offers[2].terminal = false; /* a row of logits is the last stage's */
    expect(offers, 3, 900, 1, (const uint32_t[]){0, 0, 0}, 0);

    offers[2].terminal = true;
    offers[1] = with_hidden(only(512), 0, 900);
    offers[0] = with_hidden(only(900), 0, 900); /* not all hold all of it */
    expect(offers, 3, 900, 1, (const uint32_t[]){0, 0, 0}, 0);
}

static void less_than_the_gain_is_not_restored(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {with_hidden(up_to(31), 0, 31), up_to(10)};
    expect(offers, 2, 900, 32, (const uint32_t[]){0, 0}, 0);
    expect(offers, 2, 900, 31, (const uint32_t[]){31, 10}, 21);
}

static void a_short_exact_repeat_is_not_worth_it_either(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {up_to(20), {.range_max = 20, .terminal = true}};
    expect(offers, 2, 20, 32, (const uint32_t[]){0, 0}, 0);
}

static void nothing_is_agreed_without_tokens_or_stages(void **state) {
    (void)state;
    const sk_stage_offer offers[] = {{.range_max = 5, .terminal = true}};
    expect(offers, 1, 0, 0, (const uint32_t[]){0}, 0);
    sk_agreement a;
    sk_agree(offers, 0, 5, 0, &a);
    assert_int_equal(a.n_stages, 0);
    sk_agree(offers, SK_CHAIN_MAX + 1, 5, 0, &a);
    assert_int_equal(a.n_stages, 0);
}

static void a_long_chain_with_full_offers_is_agreed(void **state) {
    (void)state;
    static sk_stage_offer offers[SK_CHAIN_MAX];
    uint32_t lengths[SK_CHAIN_MAX];
    for (uint32_t i = 0; i < SK_CHAIN_MAX; i++) {
        offers[i].n_exact = SK_FRAME_LENGTHS_MAX;
        for (uint32_t j = 0; j < SK_FRAME_LENGTHS_MAX; j++) offers[i].exact[j] = (SK_FRAME_LENGTHS_MAX - j) * 1000 + i;
        offers[i].exact[SK_FRAME_LENGTHS_MAX - 1] = 77;
        lengths[i] = 77;
    }
    expect(offers, SK_CHAIN_MAX, SK_FRAME_TOKENS_MAX, 1, lengths, 0);
}

/* ---- against brute force ---- */

enum { MOST_TOKENS = 9, MOST_STAGES = 4 };

static bool may_restore(const sk_stage_offer *o, uint32_t n) {
    bool is = n <= o->range_max;
    for (uint32_t i = 0; i < o->n_exact; i++) is = is || o->exact[i] == n;
    return is;
}

static bool possible(const sk_stage_offer *o, size_t n_stages, const uint32_t *length) {
    for (size_t i = 0; i < n_stages; i++) {
        if (!may_restore(&o[i], length[i])) return false;
        if (i == 0 || length[i] == length[i - 1]) continue;
        if (length[i] > length[i - 1]) return false;
        for (uint32_t at = length[i]; at < length[i - 1]; at++)
            if (at < o[i - 1].act_from || at >= o[i - 1].act_to) return false;
    }
    return true;
}

/* Tries all vectors; the best one comes first in the order of the digits, the head's first. */
static void brute_force(const sk_stage_offer *o, size_t n_stages, uint32_t most, uint32_t *best) {
    uint32_t all = 1;
    for (size_t i = 0; i < n_stages; i++) all *= most + 1;
    for (uint32_t v = all; v-- > 0;) {
        for (size_t i = n_stages, rest = v; i-- > 0; rest /= most + 1) best[i] = (uint32_t)(rest % (most + 1));
        if (possible(o, n_stages, best)) return;
    }
    fail(); /* all zero is always possible */
}

static sk_stage_offer random_offer(test_random *r) {
    sk_stage_offer o = {.range_max = random_below(r, 3) ? 0 : (uint32_t)random_below(r, MOST_TOKENS + 3)};
    for (uint32_t n = MOST_TOKENS + 2; n > 0; n--)
        if (random_below(r, 3) == 0) o.exact[o.n_exact++] = n;
    o.act_from = (uint32_t)random_below(r, MOST_TOKENS + 2);
    if (random_below(r, 2)) o.act_from = 0;
    o.act_to = o.act_from + (uint32_t)random_below(r, MOST_TOKENS + 2);
    o.terminal = random_below(r, 2) == 0;
    return o;
}

static void check_random(test_random *r) {
    sk_stage_offer o[MOST_STAGES];
    size_t n_stages = 1 + random_below(r, MOST_STAGES);
    uint32_t n_tokens = 1 + (uint32_t)random_below(r, MOST_TOKENS), gain = (uint32_t)random_below(r, 4);
    for (size_t i = 0; i < n_stages; i++) o[i] = random_offer(r);
    bool terminal = o[n_stages - 1].terminal && n_tokens >= gain;
    for (size_t i = 0; i < n_stages; i++) terminal = terminal && may_restore(&o[i], n_tokens);
    uint32_t best[MOST_STAGES];
    brute_force(o, n_stages, n_tokens - 1, best);
    bool worth = best[0] >= gain;
    uint32_t replayed = 0;
    sk_agreement a;
    sk_agree(o, n_stages, n_tokens, gain, &a);
    assert_int_equal(a.terminal, terminal);
    for (size_t i = 0; i < n_stages; i++) {
        uint32_t want = terminal ? n_tokens : worth ? best[i] : 0;
        assert_int_equal(a.length[i], want);
        if (i) replayed += a.length[i - 1] - a.length[i];
    }
    assert_int_equal(a.replayed, replayed);
}

static void the_choice_is_that_of_trying_everything(void **state) {
    (void)state;
    test_random r = random_start("agree");
    for (int i = 0; i < TEST_OPERATIONS / 50; i++) check_random(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_hold_the_same_restore_it),
        cmocka_unit_test(the_last_token_is_computed),
        cmocka_unit_test(uneven_budgets_agree_on_the_minimum),
        cmocka_unit_test(a_restarted_stage_gets_hidden_states_from_the_one_before),
        cmocka_unit_test(hidden_states_of_every_link_may_be_needed),
        cmocka_unit_test(boundaries_that_do_not_match_are_no_use),
        cmocka_unit_test(a_stage_behind_restores_as_much_as_it_can),
        cmocka_unit_test(an_exact_repeat_is_restored_whole_with_its_logits_only),
        cmocka_unit_test(less_than_the_gain_is_not_restored),
        cmocka_unit_test(a_short_exact_repeat_is_not_worth_it_either),
        cmocka_unit_test(nothing_is_agreed_without_tokens_or_stages),
        cmocka_unit_test(a_long_chain_with_full_offers_is_agreed),
        cmocka_unit_test(the_choice_is_that_of_trying_everything),
    };
    return cmocka_run_group_tests_name("agree", tests, NULL, NULL);
}
