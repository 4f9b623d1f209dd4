/* State on its way back: from a store into a lane. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"

/* Fewer tokens than this are not worth a read and an import. */
enum { MIN_GAIN = 32, MAX_EVICTIONS = 64 };

/* ---- choosing ---- */

static uint64_t bytes_of(const sk_engine *en, size_t length) {
    return length * en->caps.cell_bytes + en->caps.tail_bytes;
}

static bool offers_more(const sk_reuse_hit *hit, uint8_t tier, size_t have) {
    return hit->tier[tier].length >= have + MIN_GAIN;
}

/* The tier to restore from; SKIPPY_TIER_COUNT = none. RAM is asked first: it is faster wherever both have the same. */
static uint8_t choose(sk_engine *en, sk_job *j, const sk_reuse_hit *hit, size_t have) {
    uint8_t best = SKIPPY_TIER_COUNT;
    const uint8_t tiers[] = {SKIPPY_TIER_RAM, SKIPPY_TIER_DISK};
    for (size_t i = 0; i < sizeof tiers; i++) {
        const uint8_t tier = tiers[i];
        if (!offers_more(hit, tier, have) || (tier == SKIPPY_TIER_DISK && !en->disk_ready)) continue;
        if (best < SKIPPY_TIER_COUNT && hit->tier[tier].length <= hit->tier[best].length + MIN_GAIN) continue;
        size_t length = hit->tier[tier].length;
        bool worth = sk_rates_worth(&en->rates, tier, bytes_of(en, length), length - have, &j->estimate);
        j->gated = j->gated || !worth;
        if (worth) best = tier;
    }
    return best;
}

/* Another request is fetching the same entry: it will be there for both. */
static bool somebody_fetches(const sk_engine *en, uint8_t tier, uint64_t id) {
    for (const sk_job *j = en->queue_head; j; j = j->next)
        if (j->fetch && j->fetch->tier == tier && j->fetch->state_id == id) return true;
    return false;
}

static sk_fetch *new_fetch(const sk_engine *en, const sk_job *j, const sk_reuse_hit *hit, uint8_t tier) {
    sk_fetch *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->length = (uint32_t)hit->tier[tier].length;
    f->tokens = malloc(f->length * sizeof *f->tokens);
    if (!f->tokens) {
        free(f);
        return NULL;
    }
    memcpy(f->tokens, j->tokens, f->length * sizeof *f->tokens);
    f->tier = tier;
    f->state_id = hit->tier[tier].id;
    f->terminal_id = f->length == j->n_tokens ? hit->tier[tier].terminal : 0;
    f->ns = j->ns;
    f->layout = en->caps.layout;
    atomic_init(&f->abandoned, false);
    return f;
}

/* What became of a fetch that is done. */
static enum sk_promotion look_at_result(sk_job *j, const sk_reuse_hit *hit, size_t have) {
    sk_fetch *f = j->fetch;
    /* the last token must be computed when nobody has its logits */
    bool no_logits = f->length == j->n_tokens && !f->logits && !hit->tier[SKIPPY_TIER_RESIDENT].terminal;
    if (f->rc == SKIPPY_OK && f->length > have && !no_logits) return SK_PROMOTE_READY;
    if (f->rc)
        sk_log(f->rc == SKIPPY_E_CORRUPT ? SK_LOG_WARN : SK_LOG_DEBUG,
               "a stored prefix of %u tokens could not be read and is computed: %s", f->length, f->why);
    j->no_tiers = f->rc != SKIPPY_OK || no_logits;
    sk_job_drop_fetch(j);
    return SK_PROMOTE_NONE;
}

enum sk_promotion sk_promote(sk_engine *en, sk_job *j, const sk_reuse_hit *hit, size_t have) {
    if (!en->tiers || j->no_tiers) return SK_PROMOTE_NONE;
    if (j->fetch) return j->fetch->done ? look_at_result(j, hit, have) : SK_PROMOTE_WAIT;
    uint8_t tier = choose(en, j, hit, have);
    if (tier == SKIPPY_TIER_COUNT) return SK_PROMOTE_NONE;
    if (somebody_fetches(en, tier, hit->tier[tier].id)) return SK_PROMOTE_WAIT;
    j->fetch = new_fetch(en, j, hit, tier);
    if (!j->fetch) return SK_PROMOTE_NONE;
    sk_tiers_fetch(en->tiers, j->fetch);
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

static int import(sk_engine *en, sk_lane *l, const sk_fetch *f, sk_err *e) {
    if (sk_context_get_info(en->ctx)->has_kv && !sk_make_room(en, f->length))
        return sk_err_set(e, SKIPPY_E_FULL, "no cells for %u tokens", f->length);
    for (int tries = 0;; tries++) {
        int rc = sk_state_import(en->ctx, &en->caps, l->id, en->tier_scratch, f->parts, f->n_parts, f->length, e);
        /* a window pool may be full though cells are free */
        if (rc != SKIPPY_E_FULL || tries == MAX_EVICTIONS || !sk_evict_any(en)) return rc;
    }
}

/* Makes the imported state resident under its own name, so that the next request finds it without a store. */
static void record(sk_engine *en, sk_lane *l, sk_job *j, const sk_fetch *f) {
    const sk_prefix prefix = sk_job_prefix(j, f->length);
    unsigned stored = f->stored_tokens == f->length ? 1u << f->tier : 0;
    if (en->reuse.exact) sk_reuse_record(&en->reuse, &prefix, l->id, l->lineage, stored);
    if (f->logits && f->n_logits == en->reuse.terminal.n_vocab)
        sk_reuse_record_logits(&en->reuse, &prefix, f->logits, 1u << f->tier);
}

int sk_promote_import(sk_engine *en, sk_lane *l, sk_job *j, sk_err *e) {
    sk_fetch *f = j->fetch;
    uint64_t start = sk_now_ns();
    int rc = import(en, l, f, e);
    if (rc == SKIPPY_OK) {
        sk_rates_add_import(&en->rates, f->bytes, (double)(sk_now_ns() - start) / 1e6);
        en->st.imports++;
        en->st.import_bytes += f->bytes;
        sk_lineage_release(l->lineage);
        l->lineage = lineage_of(f);
        record(en, l, j, f);
    } else if (rc == SKIPPY_E_CORRUPT) {
        /* its digests were right, so it is not what it was taken for */
        sk_log(SK_LOG_WARN, "a stored prefix of %u tokens is not usable and was dropped: %s", f->length, e->text);
        uint64_t index_id = sk_index_id(f->state_id, f->tier == SKIPPY_TIER_RAM ? SK_TAG_RAM : SK_TAG_DISK);
        if (sk_tiers_drop(en->tiers, f->tier, f->state_id, SKIPPY_DROP_CORRUPT) == SKIPPY_OK)
            skippy_index_remove(en->reuse.index, index_id);
    }
    if (rc) j->no_tiers = true;
    return rc;
}
