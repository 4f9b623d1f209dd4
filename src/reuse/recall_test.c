/* One request's dealings with the stores: which of them is asked, several at once, and what may go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reuse/hold_fixture.h"

/* ---- choosing ---- */

static void a_small_gain_is_taken_without_the_gate_only(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    sk_recall r = {0};
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, KEPT - 31, true), SK_PROMOTE_NONE);
    assert_false(r.gated); /* it was not a question of speed */
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, KEPT, false), SK_PROMOTE_NONE);
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, KEPT - 1, false), SK_PROMOTE_WAIT);
    sk_recall_drop(&b->h, &r);
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, KEPT - 32, true), SK_PROMOTE_WAIT);
    sk_recall_drop(&b->h, &r);
    bed_free(b);
}

static void a_slow_store_is_asked_without_the_gate_only(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    b->h.rates.prefill_ms = 1e-6;
    b->h.rates.fetch_ms[SKIPPY_TIER_RAM] = 1;
    sk_recall r = {0};
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, 0, true), SK_PROMOTE_NONE);
    assert_true(r.gated && r.estimate.restore_ms > r.estimate.recompute_ms);
    sk_recall ungated = {0};
    assert_int_equal(bed_ask(b, &ungated, &b->prompt, &hit, false), SK_PROMOTE_READY);
    assert_false(ungated.gated);
    sk_recall_drop(&b->h, &ungated);
    bed_free(b);
}

static void a_whole_prompt_without_logits_is_for_the_ungated_only(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("falcon-h1", &hit);
    const sk_prefix whole = bed_beginning(b, KEPT);
    sk_hold_find_at(&b->h, &whole.ns, whole.tokens, KEPT, &hit);
    sk_recall gated = {0}, ungated = {0};
    assert_int_equal(bed_ask(b, &gated, &whole, &hit, true), SK_PROMOTE_NONE);
    assert_true(gated.no_tiers && !gated.fetch);
    assert_int_equal(bed_ask(b, &ungated, &whole, &hit, false), SK_PROMOTE_READY);
    sk_recall_drop(&b->h, &ungated);
    bed_free(b);
}

/* ---- several at once ---- */

static uint64_t fetches(bed *b) {
    sk_tier_stats s;
    sk_tiers_get_stats(b->h.tiers, &s);
    return s.fetches;
}

static void two_recalls_of_one_entry_fetch_it_once_at_a_time(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    sk_recall first = {0}, second = {0};
    assert_int_equal(sk_hold_promote(&b->h, &first, &b->prompt, &hit, 0, true), SK_PROMOTE_WAIT);
    assert_int_equal(sk_hold_promote(&b->h, &second, &b->prompt, &hit, 0, true), SK_PROMOTE_WAIT);
    assert_null(second.fetch);
    assert_int_equal(bed_ask(b, &first, &b->prompt, &hit, true), SK_PROMOTE_READY);
    assert_int_equal(sk_hold_promote(&b->h, &second, &b->prompt, &hit, 0, true), SK_PROMOTE_WAIT);
    assert_null(second.fetch); /* the first has it still */
    assert_int_equal(fetches(b), 1);
    sk_fetch *f = sk_recall_take(&b->h, &first);
    assert_non_null(f);
    assert_null(first.fetch);
    assert_null(b->h.recalls);
    sk_fetch_free(f);
    assert_int_equal(bed_ask(b, &second, &b->prompt, &hit, true), SK_PROMOTE_READY);
    assert_int_equal(fetches(b), 2);
    sk_recall_drop(&b->h, &second);
    bed_free(b);
}

static void a_fetch_that_is_given_up_is_in_nobodys_way(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    sk_recall first = {0}, second = {0}, third = {0};
    assert_int_equal(sk_hold_promote(&b->h, &first, &b->prompt, &hit, 0, true), SK_PROMOTE_WAIT);
    sk_recall_drop(&b->h, &first);
    assert_null(b->h.recalls);
    assert_int_equal(sk_hold_promote(&b->h, &second, &b->prompt, &hit, 0, true), SK_PROMOTE_WAIT);
    assert_null(sk_recall_take(&b->h, &second)); /* on its way: nothing to take */
    assert_null(second.fetch);
    assert_int_equal(bed_ask(b, &third, &b->prompt, &hit, true), SK_PROMOTE_READY);
    sk_recall_drop(&b->h, &third);
    sk_recall_drop(&b->h, &third); /* a second time does nothing */
    bed_free(b);
}

static void recalls_leave_the_list_in_any_order(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    sk_recall r[3] = {{0}};
    for (uint64_t i = 0; i < 3; i++) {
        sk_reuse_hit one = hit;
        one.tier[SKIPPY_TIER_RAM].id += 1000 * i; /* three entries, two of them not there */
        assert_int_equal(sk_hold_promote(&b->h, &r[i], &b->prompt, &one, 0, true), SK_PROMOTE_WAIT);
        assert_non_null(r[i].fetch);
    }
    sk_recall_drop(&b->h, &r[1]);
    assert_ptr_equal(b->h.recalls, &r[2]);
    assert_ptr_equal(r[2].next, &r[0]);
    assert_int_equal(bed_ask(b, &r[2], &b->prompt, &hit, true), SK_PROMOTE_NONE);
    assert_true(r[2].no_tiers); /* not found, and not asked for again */
    assert_int_equal(bed_ask(b, &r[0], &b->prompt, &hit, true), SK_PROMOTE_READY);
    sk_recall_drop(&b->h, &r[0]);
    assert_null(b->h.recalls);
    bed_free(b);
}

/* ---- what goes wrong ---- */

static void an_import_without_room_leaves_the_lane_empty(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit);
    sk_recall r = {0};
    sk_lineage *lineage = NULL;
    sk_err e = {0};
    assert_int_equal(bed_ask(b, &r, &b->prompt, &hit, true), SK_PROMOTE_READY);
    b->no_room = true;
    assert_int_equal(sk_hold_import(&b->h, &r, &b->prompt, OTHER_LANE, &lineage, &e), SKIPPY_E_FULL);
    assert_non_null(strstr(e.text, "300"));
    assert_null(lineage);
    assert_int_equal(sk_context_seq_len(b->ctx, OTHER_LANE), 0);
    assert_int_equal(b->h.st.imports, 0);
    sk_recall_drop(&b->h, &r);
    assert_true(r.no_tiers);
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, 0, false), SK_PROMOTE_NONE);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RAM].length, KEPT); /* not the store's fault */
    bed_free(b);
}

static void state_that_is_not_what_it_was_taken_for_is_dropped(void **state) {
    (void)state;
    for (size_t i = 0; i < BED_FAMILIES; i++) {
        sk_reuse_hit hit;
        bed *b = bed_demoted(bed_families[i], &hit);
        sk_recall r = {0};
        sk_lineage *lineage = NULL;
        sk_err e = {0};
        assert_int_equal(bed_ask(b, &r, &b->prompt, &hit, true), SK_PROMOTE_READY);
        r.fetch->parts[0].len--;
        assert_int_equal(sk_hold_import(&b->h, &r, &b->prompt, OTHER_LANE, &lineage, &e), SKIPPY_E_CORRUPT);
        assert_int_equal(sk_context_seq_len(b->ctx, OTHER_LANE), 0);
        assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RAM].length, 0);
        sk_recall_drop(&b->h, &r);
        bed_free(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_gain_is_taken_without_the_gate_only),
        cmocka_unit_test(a_slow_store_is_asked_without_the_gate_only),
        cmocka_unit_test(a_whole_prompt_without_logits_is_for_the_ungated_only),
        cmocka_unit_test(two_recalls_of_one_entry_fetch_it_once_at_a_time),
        cmocka_unit_test(a_fetch_that_is_given_up_is_in_nobodys_way),
        cmocka_unit_test(recalls_leave_the_list_in_any_order),
        cmocka_unit_test(an_import_without_room_leaves_the_lane_empty),
        cmocka_unit_test(state_that_is_not_what_it_was_taken_for_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
