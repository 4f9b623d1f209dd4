/* Which lengths of a prompt can be restored from what a context and its stores hold. */
#include <string.h>

#include "reuse/hold.h"

/* ---- sets of lengths ---- */

static void raise_range(sk_restorable *r, size_t length) {
    if (length <= r->range_max) return;
    r->range_max = length;
    while (r->n_exact && r->exact[r->n_exact - 1] <= length) r->n_exact--;
}

static void insert_exact(sk_restorable *r, uint32_t length) {
    size_t at = 0;
    while (at < r->n_exact && r->exact[at] > length) at++;
    if (at == SK_MAX_LENGTHS || (at < r->n_exact && r->exact[at] == length)) return;
    if (r->n_exact == SK_MAX_LENGTHS) r->n_exact--; /* the shortest one makes room */
    memmove(&r->exact[at + 1], &r->exact[at], (r->n_exact - at) * sizeof *r->exact);
    r->exact[at] = length;
    r->n_exact++;
}

void sk_restorable_add(sk_restorable *r, size_t length, bool reach_down) {
    if (reach_down)
        raise_range(r, length);
    else if (length > r->range_max && length <= UINT32_MAX)
        insert_exact(r, (uint32_t)length);
}

bool sk_restorable_has(const sk_restorable *r, size_t n) {
    if (n <= r->range_max) return true;
    for (size_t i = 0; i < r->n_exact; i++)
        if (r->exact[i] == n) return true;
    return false;
}

/* ---- what is stored ---- */

static bool tier_is_usable(const sk_hold *h, int tier) {
    return tier == SKIPPY_TIER_RESIDENT || tier == SKIPPY_TIER_RAM || (tier == SKIPPY_TIER_DISK && h->disk_ready);
}

typedef struct exact_lengths {
    const sk_hold *h;
    size_t n; /* of the whole prompt */
    sk_restorable *out;
} exact_lengths;

static int visit_exact(void *ud, const skippy_residency *res, size_t length) {
    const exact_lengths *x = ud;
    bool placed = length == x->n || length % x->h->reuse.align == 0;
    if (res->reach == SKIPPY_REACH_EXACT && placed && tier_is_usable(x->h, res->tier))
        sk_restorable_add(x->out, length, false);
    return 0;
}

/* Longest beginning that some state of this tier gives with every shorter one. A match names the longest state only, so
 * behind one that gives just its own length it is looked again. */
static size_t range_length(const sk_hold *h, const skippy_key *ns, const int32_t *tokens, size_t n, int tier) {
    for (size_t limit = n; limit > 0;) {
        skippy_match m;
        if (skippy_index_match(h->reuse.index, ns, tokens, n, limit, &m) != SKIPPY_OK) return 0;
        if (m.state[tier].length == 0 || m.state[tier].reach == SKIPPY_REACH_RANGE) return m.state[tier].length;
        limit = m.state[tier].length - 1;
    }
    return 0;
}

void sk_hold_restorable(const sk_hold *h, const skippy_key *ns, const int32_t *tokens, size_t n, sk_restorable *out) {
    skippy_match m;
    if (!h->reuse.enabled || skippy_index_match(h->reuse.index, ns, tokens, n, n, &m) != SKIPPY_OK) return;
    for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++) {
        if (!tier_is_usable(h, tier)) continue;
        out->terminal = out->terminal || m.terminal[tier];
        /* where boundaries are exact, nothing is stored that reaches further down */
        if (!h->reuse.exact) sk_restorable_add(out, range_length(h, ns, tokens, n, tier), true);
    }
    exact_lengths x = {.h = h, .n = n, .out = out};
    skippy_index_walk(h->reuse.index, ns, tokens, n, visit_exact, &x);
}

void sk_hold_find_at(const sk_hold *h, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out) {
    *out = (sk_reuse_hit){0};
    skippy_match m;
    if (!h->reuse.enabled || skippy_index_match(h->reuse.index, ns, tokens, n, n, &m) != SKIPPY_OK) return;
    out->common = m.common;
    for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++) {
        if (!tier_is_usable(h, tier)) continue;
        out->tier[tier].terminal = sk_index_native(m.terminal[tier]);
        if (m.state[tier].length != n) continue;
        out->tier[tier].length = n;
        out->tier[tier].id = sk_index_native(m.state[tier].id);
    }
}
