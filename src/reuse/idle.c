/* What nobody uses leaves the context.
 *
 * All sequences share one pool of cells, and a decode walks past every cell up to the highest one in use, whoever owns
 * it: a prefix that only waits makes everybody else slower. A cell costs a decode about what its bytes are beside those
 * of the weights (measured: 2,200 cells of 32 KiB beside 770 MiB of weights, 12 % of a decode). A prefix of B bytes
 * that waits through C ms of decodes has cost C * B / weights; bringing it back from the RAM store costs B * restore.
 * It leaves when the one has reached the other, which is never more than twice as dear as knowing the future (the
 * ski-rental rule), and B drops out: when the decodes since its last use took as long as it would take to restore as
 * many bytes as the weights have.
 *
 * So that it can leave at once, it is copied to the RAM store while nothing runs (spill.c). Attention-only memory only:
 * where each boundary has a state of its own, cells are few and states are dear. */
#include <stdlib.h>

#include "reuse/hold_internal.h"

/* llama.cpp rounds the cells that a decode walks past up to a multiple of this. */
enum { CELL_STEP = 256 };
/* An idle cell is worth less than this (ms): a shorter wait says nothing about what will be used next. */
static const double LEAST_RENT_MS = 100;
/* A copy is made in one go by the owner thread. */
static const uint64_t MOST_BYTES = (uint64_t)512 << 20;

static bool is_on(const sk_hold *h) {
    return h->params.weight_bytes && h->tiers && h->ram_bytes && h->reuse.enabled && !h->reuse.exact;
}

bool sk_hold_copies_to_ram(const sk_hold *h, const sk_reuse_entry *x) {
    uint64_t bytes = sk_hold_state_bytes(h, x->prefix.n_tokens);
    return bytes <= MOST_BYTES && bytes <= h->ram_bytes / 4;
}

bool sk_hold_wants_ram_copies(const sk_hold *h) {
    return is_on(h) && sk_context_cells_used(h->ctx) > CELL_STEP;
}

bool sk_hold_is_idle(const sk_hold *h, double used_ms, double coming_ms) {
    if (!sk_hold_wants_ram_copies(h)) return false;
    double rent = sk_rates_restore_ms(&h->rates, SKIPPY_TIER_RAM, h->params.weight_bytes);
    return h->reuse.computed_ms - used_ms + coming_ms >= (rent > LEAST_RENT_MS ? rent : LEAST_RENT_MS);
}

static sk_reuse_hit find(const sk_hold *h, const sk_prefix *p) {
    sk_reuse_hit hit;
    sk_hold_find_at(h, &p->ns, p->tokens, p->n_tokens, &hit);
    return hit;
}

bool sk_hold_has(const sk_hold *h, const sk_prefix *p) {
    const sk_reuse_hit hit = find(h, p);
    return hit.tier[SKIPPY_TIER_RESIDENT].length || hit.tier[SKIPPY_TIER_RAM].length;
}

size_t sk_hold_drop_idle(sk_hold *h, const uint32_t *keep, uint32_t n_keep, double coming_ms) {
    if (!sk_hold_wants_ram_copies(h)) return 0; /* before any work: this runs with every request */
    uint32_t *with = malloc((n_keep + 1) * sizeof *with);
    if (!with) return 0;
    for (uint32_t i = 0; i < n_keep; i++) with[i] = keep[i];
    uint32_t kept = sk_context_cells_union(h->ctx, keep, n_keep);
    size_t dropped = 0;
    for (size_t i = h->reuse.n_entries; i-- > 0 && sk_context_cells_used(h->ctx) > kept + CELL_STEP;) {
        const sk_reuse_entry *x = &h->reuse.entries[i];
        if (!sk_hold_is_idle(h, x->used_ms, coming_ms) || !find(h, &x->prefix).tier[SKIPPY_TIER_RAM].length) continue;
        with[n_keep] = x->seq;
        if (sk_context_cells_union(h->ctx, with, n_keep + 1) == kept) continue; /* it frees nothing */
        dropped += sk_reuse_drop_idle(&h->reuse, x->id) == SKIPPY_OK;
    }
    free(with);
    return dropped;
}
