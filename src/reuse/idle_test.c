/* Prefixes that nobody uses leave the context once the RAM store has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reuse/hold_fixture.h"
#include "reuse/hold_internal.h"

/* A bed whose model's weights count as so many bytes. */
static bed *idle_bed(const char *family, uint64_t weight_bytes) {
    bed *b = bed_new(family);
    bed_open(b, (sk_hold_params){.ram_bytes = 64 * MIB, .weight_bytes = weight_bytes});
    bed_keep(b);
    return b;
}

static void copy_out(bed *b) {
    assert_true(sk_hold_spill_wanted(&b->h));
    sk_hold_spill_step(&b->h, false);
    while (!bed_find(b).tier[SKIPPY_TIER_RAM].length) bed_next_report(b);
    assert_false(sk_hold_spill_wanted(&b->h));
}

/* The only holder of the cells is then the entry. */
static void empty_lane(bed *b) {
    sk_context_seq_clear(b->ctx, LANE);
}

static void what_was_not_used_for_long_enough_leaves(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    copy_out(b);
    empty_lane(b);
    assert_int_equal(sk_context_cells_used(b->ctx), KEPT);
    b->h.reuse.computed_ms = 99;
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 0), 0);
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 2), 1); /* 99 ms passed, and 2 are to come */
    assert_int_equal(sk_context_cells_used(b->ctx), 0);
    const sk_reuse_hit hit = bed_find(b);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, KEPT);
    skippy_resident_stats s;
    skippy_resident_get_stats(b->h.reuse.resident, &s);
    assert_int_equal(s.evictions[SKIPPY_EVICT_IDLE], 1);
    bed_free(b);
}

static void a_use_starts_the_wait_again(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    copy_out(b);
    empty_lane(b);
    b->h.reuse.computed_ms = 1000;
    sk_lineage *lineage = NULL;
    sk_err e = {0};
    const uint64_t id = b->h.reuse.entries[0].id;
    assert_int_equal(sk_reuse_restore(&b->h.reuse, id, KEPT, OTHER_LANE, &lineage, &e), SKIPPY_OK);
    sk_lineage_release(lineage);
    sk_context_seq_clear(b->ctx, OTHER_LANE);
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 0), 0);
    b->h.reuse.computed_ms = 1100;
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 0), 1);
    bed_free(b);
}

static void the_wait_is_as_long_as_restoring_the_weights(void **state) {
    (void)state;
    bed *b = idle_bed("llama", (uint64_t)4 << 30);
    assert_false(sk_hold_is_idle(&b->h, 0, 1990)); /* 4 GiB at the guessed 2 GiB a second */
    assert_true(sk_hold_is_idle(&b->h, 0, 2010));
    sk_rates_add_fetch(&b->h.rates, SKIPPY_TIER_RAM, 4 << 20, 4);
    sk_rates_add_import(&b->h.rates, 4 << 20, 8); /* 3 ms a MiB */
    assert_false(sk_hold_is_idle(&b->h, 0, 12200));
    assert_true(sk_hold_is_idle(&b->h, 0, 12300));
    bed_free(b);
}

static void what_the_ram_store_lacks_stays(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    empty_lane(b);
    b->h.reuse.computed_ms = 1e6;
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 0), 0);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RESIDENT].length, KEPT);
    bed_free(b);
}

static void what_frees_no_cells_stays(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    copy_out(b);
    b->h.reuse.computed_ms = 1e6;
    const uint32_t lane = LANE; /* a request runs in it, on the cells of the entry */
    assert_int_equal(sk_hold_drop_idle(&b->h, &lane, 1, 0), 0);
    assert_int_equal(bed_find(b).tier[SKIPPY_TIER_RESIDENT].length, KEPT);
    bed_free(b);
}

static void few_cells_are_left_where_they_are(void **state) {
    (void)state;
    bed *b = bed_new("llama");
    bed_open(b, (sk_hold_params){.ram_bytes = 64 * MIB, .weight_bytes = 1});
    bed_compute(b, 256);
    const sk_prefix p = bed_beginning(b, 256);
    assert_int_equal(sk_reuse_record(&b->h.reuse, &p, LANE, NULL, 0), SKIPPY_OK);
    assert_false(sk_hold_spill_wanted(&b->h));
    bed_free(b);
}

static void recorded_boundaries_and_contexts_without_a_ram_store_are_left_alone(void **state) {
    (void)state;
    bed *b = idle_bed("falcon-h1", 1);
    assert_false(sk_hold_spill_wanted(&b->h));
    assert_false(sk_hold_is_idle(&b->h, 0, 1e9));
    bed_free(b);
    b = bed_new("llama");
    bed_open(b, (sk_hold_params){.weight_bytes = 1});
    bed_keep(b);
    assert_false(sk_hold_spill_wanted(&b->h));
    assert_int_equal(sk_hold_drop_idle(&b->h, NULL, 0, 1e9), 0);
    bed_free(b);
    b = idle_bed("llama", 0); /* its owner does not want it */
    assert_false(sk_hold_spill_wanted(&b->h));
    assert_false(sk_hold_is_idle(&b->h, 0, 1e9));
    bed_free(b);
}

static void the_end_waits_for_no_copy_in_ram(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    sk_hold_spill_flush(&b->h);
    assert_int_equal(b->h.st.exports, 0);
    bed_free(b);
}

static void what_is_too_large_for_the_store_is_not_copied(void **state) {
    (void)state;
    bed *b = idle_bed("llama", 1);
    const sk_reuse_entry *x = &b->h.reuse.entries[0];
    assert_true(sk_hold_copies_to_ram(&b->h, x));
    b->h.caps.cell_bytes = 16 * MIB / KEPT + 1;
    assert_false(sk_hold_copies_to_ram(&b->h, x));
    assert_false(sk_hold_spill_wanted(&b->h));
    bed_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_for_long_enough_leaves),
        cmocka_unit_test(a_use_starts_the_wait_again),
        cmocka_unit_test(the_wait_is_as_long_as_restoring_the_weights),
        cmocka_unit_test(what_the_ram_store_lacks_stays),
        cmocka_unit_test(what_frees_no_cells_stays),
        cmocka_unit_test(few_cells_are_left_where_they_are),
        cmocka_unit_test(recorded_boundaries_and_contexts_without_a_ram_store_are_left_alone),
        cmocka_unit_test(the_end_waits_for_no_copy_in_ram),
        cmocka_unit_test(what_is_too_large_for_the_store_is_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
