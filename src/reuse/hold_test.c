/* The cache of a context without an engine: what leaves the context and comes back, byte for byte, on tiny models of
 * every memory kind; opening and erasing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "reuse/hold_fixture.h"

/* ---- there and back ---- */

static void an_evicted_prefix_comes_back_byte_for_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < BED_FAMILIES; i++) {
        sk_reuse_hit hit;
        bed *b = bed_demoted(bed_families[i], &hit);
        sk_recall r = {0};
        sk_lineage *lineage = NULL;
        assert_int_equal(bed_ask(b, &r, &b->prompt, &hit, true), SK_PROMOTE_READY);
        assert_int_equal(r.fetch->length, KEPT);
        bed_import(b, &r, &lineage);
        bed_assert_same_state(bed_state_of(b, LANE), bed_state_of(b, OTHER_LANE));
        assert_non_null(lineage);
        assert_true(!b->h.caps.has_kv || sk_lineage_get(lineage, 0)); /* its first window is stored already */
        assert_int_equal(b->h.st.exports, 1);
        assert_int_equal(b->h.st.imports, 1);
        assert_int_equal(b->h.st.import_bytes, b->h.st.export_bytes);
        hit = bed_find(b); /* a boundary is resident again; attention state is the lane's until that is recorded */
        assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, b->policy.exact_boundaries ? KEPT : 0);
        sk_recall_drop(&b->h, &r);
        sk_lineage_release(lineage);
        bed_free(b);
    }
}

static char folder[256];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "%s/skippy-hold-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
}

static void wait_disk(bed *b) {
    while (!b->h.disk_ready) bed_next_report(b);
}

static void a_restart_finds_what_was_flushed_to_disk(void **state) {
    (void)state;
    for (size_t i = 0; i < BED_FAMILIES; i++) {
        bed *b = bed_new(bed_families[i]);
        make_folder();
        const sk_hold_params p = {.disk_dir = folder};
        bed_open(b, p);
        wait_disk(b);
        bed_keep(b);
        const sk_prefix kept = bed_beginning(b, KEPT);
        const float *row = sk_context_logits(b->ctx, (KEPT - 1) % BATCH);
        assert_non_null(row);
        assert_int_equal(sk_reuse_record_logits(&b->h.reuse, &kept, row, 0), SKIPPY_OK);
        float first = row[0];
        sk_blob before = bed_state_of(b, LANE);
        assert_true(sk_hold_spill_wanted(&b->h));
        sk_hold_spill_flush(&b->h);
        assert_false(sk_hold_spill_wanted(&b->h));
        assert_int_equal(b->h.st.exports, 2);
        sk_hold_close(&b->h);
        sk_context_clear(b->ctx);

        bed_open(b, p);
        wait_disk(b);
        sk_reuse_hit hit;
        sk_hold_find_at(&b->h, &kept.ns, kept.tokens, KEPT, &hit);
        assert_int_equal(hit.tier[SKIPPY_TIER_DISK].length, KEPT);
        assert_int_not_equal(hit.tier[SKIPPY_TIER_DISK].terminal, 0);
        sk_recall r = {0};
        sk_lineage *lineage = NULL;
        assert_int_equal(bed_ask(b, &r, &kept, &hit, true), SK_PROMOTE_READY);
        assert_true(r.fetch->logits[0] == first);
        bed_import(b, &r, &lineage);
        bed_assert_same_state(before, bed_state_of(b, OTHER_LANE));
        sk_recall_drop(&b->h, &r);
        sk_lineage_release(lineage);
        bed_free(b);
        test_remove_tree(folder);
    }
}

static void one_step_copies_one_thing_out(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    make_folder();
    bed_open(b, (sk_hold_params){.disk_dir = folder});
    bed_keep(b);
    sk_hold_spill_step(&b->h, false); /* the disk store may still open: then it is too early */
    wait_disk(b);
    while (sk_hold_spill_wanted(&b->h)) {
        sk_hold_spill_step(&b->h, false);
        bed_next_report(b);
    }
    while (!bed_find(b).tier[SKIPPY_TIER_DISK].length) bed_next_report(b);
    assert_int_equal(b->h.st.exports, 1);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RESIDENT].length, KEPT); /* write-behind evicts nothing */
    bed_free(b);
    test_remove_tree(folder);
}

/* The next request of a conversation often follows at once: a copy that runs then would slow it down. */
static void a_busy_owner_copies_only_what_has_waited(void **state) {
    (void)state;
    const uint64_t second = 1000000000u;
    bed *b = bed_new("llama");
    make_folder();
    bed_open(b, (sk_hold_params){.disk_dir = folder});
    wait_disk(b);
    sk_hold_spill_step(&b->h, true);
    assert_int_equal(b->h.copy_due_since, 0); /* nothing to copy */
    bed_keep(b);
    sk_hold_spill_step(&b->h, true);
    assert_int_equal(b->h.st.exports, 0);
    assert_int_not_equal(b->h.copy_due_since, 0);
    b->h.copy_due_since -= 2 * second; /* as if two seconds had passed */
    sk_hold_spill_step(&b->h, true);
    assert_int_equal(b->h.st.exports, 1);
    while (!bed_find(b).tier[SKIPPY_TIER_DISK].length) bed_next_report(b);
    sk_hold_spill_step(&b->h, true);
    assert_int_equal(b->h.copy_due_since, 0);
    bed_free(b);
    test_remove_tree(folder);
}

static void record_beginning(bed *b, uint32_t n) {
    const sk_prefix p = bed_beginning(b, n);
    sk_context_seq_clear(b->ctx, LANE);
    bed_compute(b, n);
    assert_int_equal(sk_reuse_record(&b->h.reuse, &p, LANE, NULL, 0), SKIPPY_OK);
}

/* A copy while another entry is recorded would make a request wait. */
static void what_leaves_next_is_copied_while_nothing_runs(void **state) {
    (void)state;
    bed *b = bed_new("falcon-h1");
    bed_open(b, (sk_hold_params){.ram_bytes = 64 * MIB});
    record_beginning(b, 100);
    record_beginning(b, 140);
    sk_hold_spill_step(&b->h, false);
    assert_int_equal(b->h.st.exports, 0); /* there is a place left */
    record_beginning(b, 180);
    const uint64_t victim = skippy_resident_victim(b->h.reuse.resident);
    const size_t n = sk_reuse_entry_at(&b->h.reuse, victim)->prefix.n_tokens;
    sk_hold_spill_step(&b->h, true);
    assert_int_equal(b->h.st.exports, 0);
    assert_true(sk_hold_spill_wanted(&b->h));
    sk_hold_spill_step(&b->h, false);
    assert_int_equal(b->h.st.exports, 1);
    const sk_prefix p = bed_beginning(b, n);
    sk_reuse_hit hit = {0};
    while (hit.tier[SKIPPY_TIER_RAM].length != n) {
        bed_next_report(b);
        sk_hold_find_at(&b->h, &p.ns, p.tokens, n, &hit);
    }
    assert_false(sk_hold_spill_wanted(&b->h));
    record_beginning(b, 220);
    assert_null(sk_reuse_entry_at(&b->h.reuse, victim));
    assert_int_equal(b->h.st.exports, 1); /* it left without another copy */
    bed_free(b);
}

static void a_displaced_row_of_logits_comes_back_with_its_state(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    size_t n_vocab = (size_t)sk_model_get_info(b->model)->n_vocab;
    sk_err e = {0};
    const sk_prefix kept = bed_beginning(b, KEPT), shorter = bed_beginning(b, KEPT - 1);
    uint64_t one_row = n_vocab * sizeof(float) + KEPT * sizeof(int32_t);
    if (bed_try_open(b, (sk_hold_params){.ram_bytes = 64 * MIB}, one_row, &e)) fail_msg("%s", e.text);
    bed_keep(b);
    float *row = malloc(n_vocab * sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < n_vocab; i++) row[i] = (float)i / 3;
    assert_int_equal(sk_reuse_record_logits(&b->h.reuse, &kept, row, 0), SKIPPY_OK);
    assert_int_equal(sk_reuse_record_logits(&b->h.reuse, &shorter, row, 0), SKIPPY_OK);
    bed_demote(b);
    sk_reuse_hit hit;
    for (;;) {
        sk_reuse_find(&b->h.reuse, &kept.ns, kept.tokens, KEPT, &hit);
        if (hit.tier[SKIPPY_TIER_RAM].terminal) break;
        bed_next_report(b);
    }
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].terminal, 0);
    sk_recall r = {0};
    assert_int_equal(bed_ask(b, &r, &kept, &hit, true), SK_PROMOTE_READY);
    assert_int_equal(r.fetch->n_logits, n_vocab);
    assert_memory_equal(r.fetch->logits, row, n_vocab * sizeof *row);
    free(row);
    sk_recall_drop(&b->h, &r);
    bed_free(b);
}

/* ---- opening ---- */

static void a_context_in_use_is_refused(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    sk_err e = {0};
    bed_compute(b, 20);
    assert_int_equal(bed_try_open(b, (sk_hold_params){.ram_bytes = 64 * MIB}, MIB, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "state codec"));
    assert_null(b->h.ctx); /* nothing to close, and closing does no harm: free_bed does */
    bed_free(b);
}

static void memory_is_what_was_asked_for_or_a_share_of_what_is_free(void **state) {
    (void)state;
    assert_int_equal(sk_ram_cap(0), 0);
    assert_int_equal(sk_ram_cap(12345), 12345);
    assert_true(sk_ram_cap(SK_RAM_DERIVE) <= (uint64_t)8 << 30);
    bed *b = bed_new("llama");
    bed_open(b, (sk_hold_params){.ram_bytes = 64 * MIB});
    assert_int_equal(b->h.ram_bytes, 64 * MIB);
    sk_tier_stats s;
    sk_tiers_get_stats(b->h.tiers, &s);
    assert_true(s.ram_on && !s.disk_on);
    assert_int_equal(s.ram.max_bytes, 48 * MIB); /* the limit holds for what waits to be stored, too */
    bed_free(b);
}

static void without_stores_nothing_leaves_the_context(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    bed_open(b, (sk_hold_params){0});
    assert_null(b->h.tiers);
    assert_int_equal(b->h.ram_bytes, 0);
    assert_string_equal(b->h.state_reason, "");
    bed_keep(b);
    assert_false(sk_hold_spill_wanted(&b->h));
    sk_hold_spill_step(&b->h, false);
    assert_true(sk_reuse_evict_one(&b->h.reuse, SKIPPY_EVICT_CELLS));
    sk_hold_spill_flush(&b->h);
    sk_hold_take_events(&b->h);
    assert_false(sk_hold_has_events(&b->h));
    const sk_reuse_hit hit = bed_find(b);
    assert_int_equal(hit.common, 0);
    sk_recall r = {0};
    assert_int_equal(sk_hold_promote(&b->h, &r, &b->prompt, &hit, 0, false), SK_PROMOTE_NONE);
    assert_int_equal(b->h.st.exports, 0);
    bed_free(b);
}

/* ---- erasing ---- */

static void an_erase_without_stores_is_answered_at_once(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    bed_open(b, (sk_hold_params){0});
    bed_keep(b);
    assert_int_equal(sk_hold_erase(&b->h, NULL), 1);
    assert_int_equal(b->erased_calls, 1);
    assert_int_equal(b->erased_rc, SKIPPY_OK);
    assert_int_equal(b->n_erased, 0);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RESIDENT].length, 0);
    bed_free(b);
}

static void an_erase_is_answered_when_the_stores_have_done_it(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("falcon-h1", &hit);
    const sk_prefix p = bed_beginning(b, KEPT);
    assert_int_equal(sk_reuse_record(&b->h.reuse, &p, LANE, NULL, 0), SKIPPY_OK); /* resident as well */
    assert_int_equal(sk_hold_erase(&b->h, NULL), 1);
    while (!b->erased_calls) bed_next_report(b);
    assert_int_equal(b->erased_calls, 1);
    assert_int_equal(b->n_erased, 1);
    hit = bed_find(b);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, 0);
    bed_free(b);
}

static void an_erase_spares_what_its_filter_does_not_mean(void **state) {
    (void)state;
    sk_reuse_hit hit;
    bed *b = bed_demoted("llama", &hit); /* tenant a */
    sk_prefix others = bed_beginning(b, KEPT);
    others.tenant = "b";
    others.ns = (skippy_key){{2}};
    assert_int_equal(sk_reuse_record(&b->h.reuse, &others, LANE, NULL, 0), SKIPPY_OK);
    const skippy_erase_filter f = {.tenant = "b"};
    assert_int_equal(sk_hold_erase(&b->h, &f), 1);
    while (!b->erased_calls) bed_next_report(b);
    assert_int_equal(b->n_erased, 0);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RAM].length, KEPT);
    sk_hold_find_at(&b->h, &others.ns, others.tokens, KEPT, &hit);
    assert_int_equal(hit.common, 0);
    bed_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evicted_prefix_comes_back_byte_for_byte),
        cmocka_unit_test(a_restart_finds_what_was_flushed_to_disk),
        cmocka_unit_test(one_step_copies_one_thing_out),
        cmocka_unit_test(a_busy_owner_copies_only_what_has_waited),
        cmocka_unit_test(what_leaves_next_is_copied_while_nothing_runs),
        cmocka_unit_test(a_displaced_row_of_logits_comes_back_with_its_state),
        cmocka_unit_test(a_context_in_use_is_refused),
        cmocka_unit_test(memory_is_what_was_asked_for_or_a_share_of_what_is_free),
        cmocka_unit_test(without_stores_nothing_leaves_the_context),
        cmocka_unit_test(an_erase_without_stores_is_answered_at_once),
        cmocka_unit_test(an_erase_is_answered_when_the_stores_have_done_it),
        cmocka_unit_test(an_erase_spares_what_its_filter_does_not_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
