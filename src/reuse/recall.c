/* State on its way back: from a store into a lane. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "reuse/hold_internal.h"

/* Fewer tokens than this are not worth a read and an import. */
enum { MIN_GAIN = 32, MAX_EVICTIONS = 64 };

/* ---- recalls ---- */

static void link_fetch(sk_hold *h, sk_recall *r, sk_fetch *f) {
    r->fetch = f;
    r->next = h->recalls;
    h->recalls = r;
}

static void unlink_fetch(sk_hold *h, sk_recall *r) {
    sk_recall **at = &h->recalls;
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
    r->next = NULL;
    r->fetch = NULL;
}

bool sk_hold_awaits(const sk_hold *h, const sk_fetch *f) {
    for (const sk_recall *r = h->recalls; r; r = r->next)
        if (r->fetch == f) return true;
    return false;
}

sk_fetch *sk_recall_take(sk_hold *h, sk_recall *r) {
    sk_fetch *f = r->fetch;
    if (!f) return NULL;
    unlink_fetch(h, r);
    if (f->done) return f;
    atomic_store(&f->abandoned, true); /* its event frees it */
    return NULL;
}

void sk_recall_drop(sk_hold *h, sk_recall *r) {
    sk_fetch_free(sk_recall_take(h, r));
}

/* ---- choosing ---- */

/* The tier to restore from; SKIPPY_TIER_COUNT = none. RAM is asked first: it is faster wherever both have the same. */
static uint8_t choose(sk_hold *h, sk_recall *r, const sk_reuse_hit *hit, size_t have, bool gate) {
    uint8_t best = SKIPPY_TIER_COUNT;
    const uint8_t tiers[] = {SKIPPY_TIER_RAM, SKIPPY_TIER_DISK};
    const size_t gain = gate ? MIN_GAIN : 0;
    for (size_t i = 0; i < sizeof tiers; i++) {
        const uint8_t tier = tiers[i];
        const size_t length = hit->tier[tier].length;
        if (length <= have || length - have < gain || (tier == SKIPPY_TIER_DISK && !h->disk_ready)) continue;
        if (best < SKIPPY_TIER_COUNT && length <= hit->tier[best].length + gain) continue;
        bool worth =
            !gate || sk_rates_worth(&h->rates, tier, sk_hold_state_bytes(h, length), length - have, &r->estimate);
        r->gated = r->gated || !worth;
        if (worth) best = tier;
    }
    return best;
}

/* Another recall is fetching the same entry: it will be there for both. */
static bool somebody_fetches(const sk_hold *h, uint8_t tier, uint64_t id) {
    for (const sk_recall *r = h->recalls; r; r = r->next)
        if (r->fetch->tier == tier && r->fetch->state_id == id) return true;
    return false;
}

static sk_fetch *new_fetch(const sk_hold *h, const sk_prefix *prompt, const sk_reuse_hit *hit, uint8_t tier) {
    sk_fetch *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->length = (uint32_t)hit->tier[tier].length;
    f->tokens = malloc(f->length * sizeof *f->tokens);
    if (!f->tokens) {
        free(f);
        return NULL;
    }
    memcpy(f->tokens, prompt->tokens, f->length * sizeof *f->tokens);
    f->tier = tier;
    f->state_id = hit->tier[tier].id;
    f->terminal_id = f->length == prompt->n_tokens ? hit->tier[tier].terminal : 0;
    f->ns = prompt->ns;
    f->layout = h->caps.layout;
    atomic_init(&f->abandoned, false);
    return f;
}

/* The last token must be computed when nobody has its logits. */
static bool lacks_logits(const sk_fetch *f, const sk_prefix *prompt, const sk_reuse_hit *hit) {
    return f->length == prompt->n_tokens && !f->logits && !hit->tier[SKIPPY_TIER_RESIDENT].terminal;
}

/* What became of a fetch that is done. */
static enum sk_promotion look_at_result(sk_hold *h, sk_recall *r, const sk_prefix *prompt, const sk_reuse_hit *hit,
                                        size_t have, bool gate) {
    const sk_fetch *f = r->fetch;
    bool no_logits = gate && lacks_logits(f, prompt, hit);
    if (f->rc == SKIPPY_OK && f->length > have && !no_logits) return SK_PROMOTE_READY;
    if (f->rc)
        sk_log(f->rc == SKIPPY_E_CORRUPT ? SK_LOG_WARN : SK_LOG_DEBUG,
               "a stored prefix of %u tokens could not be read and is computed: %s", f->length, f->why);
    r->no_tiers = f->rc != SKIPPY_OK || no_logits;
    sk_recall_drop(h, r);
    return SK_PROMOTE_NONE;
}

enum sk_promotion sk_hold_promote(sk_hold *h, sk_recall *r, const sk_prefix *prompt, const sk_reuse_hit *hit,
                                  size_t have, bool gate) {
    if (!h->tiers || r->no_tiers) return SK_PROMOTE_NONE;
    if (r->fetch) return r->fetch->done ? look_at_result(h, r, prompt, hit, have, gate) : SK_PROMOTE_WAIT;
    uint8_t tier = choose(h, r, hit, have, gate);
    if (tier == SKIPPY_TIER_COUNT) return SK_PROMOTE_NONE;
    if (somebody_fetches(h, tier, hit->tier[tier].id)) return SK_PROMOTE_WAIT;
    sk_fetch *f = new_fetch(h, prompt, hit, tier);
    if (!f) return SK_PROMOTE_NONE;
    link_fetch(h, r, f);
    sk_tiers_fetch(h->tiers, f);
    return SK_PROMOTE_WAIT;
}

/* ---- importing ---- */

/* The imported windows are those of the store, so what grows from here need not be exported again. */
static sk_lineage *lineage_of(sk_fetch *f) {
    sk_lineage *l = sk_lineage_new();
    for (size_t i = 0; l && i < f->n_parts; i++) {
        if (!f->windows[i]) continue;
        if (sk_lineage_set(l, f->parts[i].from / SK_WINDOW_TOKENS, f->windows[i]) == SKIPPY_OK) f->windows[i] = NULL;
    }
    return l;
}

static int import(sk_hold *h, uint32_t lane, const sk_fetch *f, sk_err *e) {
    const sk_hold_params *p = &h->params;
    if (sk_context_get_info(h->ctx)->has_kv && !p->make_room(p->ud, f->length))
        return sk_err_set(e, SKIPPY_E_FULL, "no cells for %u tokens", f->length);
    for (int tries = 0;; tries++) {
        int rc = sk_state_import(h->ctx, &h->caps, lane, p->scratch, f->parts, f->n_parts, f->length, e);
        /* a window pool may be full though cells are free */
        if (rc != SKIPPY_E_FULL || tries == MAX_EVICTIONS || !p->evict_any(p->ud)) return rc;
    }
}

/* Makes the imported state resident under its own name, so that the next request finds it without a store. */
static void record(sk_hold *h, const sk_prefix *prompt, uint32_t lane, sk_lineage *lineage, const sk_fetch *f) {
    sk_prefix prefix = *prompt;
    prefix.n_tokens = f->length;
    unsigned stored = f->stored_tokens == f->length ? 1u << f->tier : 0;
    if (h->reuse.exact) sk_reuse_record(&h->reuse, &prefix, lane, lineage, stored);
    if (f->logits && f->n_logits == h->reuse.terminal.n_vocab)
        sk_reuse_record_logits(&h->reuse, &prefix, f->logits, 1u << f->tier);
}

/* Its digests were right, so it is not what it was taken for. */
static void drop_unusable(sk_hold *h, const sk_fetch *f, const sk_err *e) {
    sk_log(SK_LOG_WARN, "a stored prefix of %u tokens is not usable and was dropped: %s", f->length, e->text);
    uint64_t index_id = sk_index_id(f->state_id, f->tier == SKIPPY_TIER_RAM ? SK_TAG_RAM : SK_TAG_DISK);
    if (sk_tiers_drop(h->tiers, f->tier, f->state_id, SKIPPY_DROP_CORRUPT) == SKIPPY_OK)
        skippy_index_remove(h->reuse.index, index_id);
}

int sk_hold_import(sk_hold *h, sk_recall *r, const sk_prefix *prompt, uint32_t lane, sk_lineage **lineage, sk_err *e) {
    sk_fetch *f = r->fetch;
    uint64_t start = sk_now_ns();
    int rc = import(h, lane, f, e);
    if (rc) {
        if (rc == SKIPPY_E_CORRUPT) drop_unusable(h, f, e);
        r->no_tiers = true;
        return rc;
    }
    sk_rates_add_import(&h->rates, f->bytes, (double)(sk_now_ns() - start) / 1e6);
    h->st.imports++;
    h->st.import_bytes += f->bytes;
    sk_lineage_release(*lineage);
    *lineage = lineage_of(f);
    record(h, prompt, lane, *lineage, f);
    return SKIPPY_OK;
}
