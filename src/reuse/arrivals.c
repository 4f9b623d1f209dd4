/* What the stores report: entries that are stored now, that were found at the start, that left, that were fetched. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "reuse/hold_internal.h"

static enum sk_index_tag tag_of(uint8_t tier, uint8_t payload_kind) {
    bool terminal = payload_kind == SKIPPY_PAYLOAD_TERMINAL;
    if (tier == SKIPPY_TIER_RAM) return terminal ? SK_TAG_RAM_TERMINAL : SK_TAG_RAM;
    return terminal ? SK_TAG_DISK_TERMINAL : SK_TAG_DISK;
}

typedef struct shorter {
    size_t n;
    uint8_t tier;
    uint64_t ids[16];
    size_t n_ids;
} shorter;

static int visit_shorter(void *ud, const skippy_residency *res, size_t length) {
    shorter *s = ud;
    if (length >= s->n) return 1;
    if (res->tier == s->tier && res->reach == SKIPPY_REACH_RANGE && s->n_ids < sizeof s->ids / sizeof *s->ids)
        s->ids[s->n_ids++] = res->id;
    return 0;
}

/* Attention-only state that a longer entry of the same tier covers is not needed any more. */
static void supersede(sk_hold *h, uint8_t tier, const skippy_manifest *m) {
    shorter s = {.n = m->n_tokens, .tier = tier};
    skippy_index_walk(h->reuse.index, &m->ns, m->tokens, m->n_tokens, visit_shorter, &s);
    for (size_t i = 0; i < s.n_ids; i++) {
        if (sk_tiers_drop(h->tiers, tier, sk_index_native(s.ids[i]), SKIPPY_DROP_SUPERSEDED) != SKIPPY_OK) continue;
        skippy_index_remove(h->reuse.index, s.ids[i]);
    }
}

/* Makes a stored entry findable. */
static void add_to_index(sk_hold *h, uint8_t tier, uint64_t id, const skippy_manifest *m) {
    bool terminal = m->payload_kind == SKIPPY_PAYLOAD_TERMINAL;
    uint64_t index_id = sk_index_id(id, tag_of(tier, m->payload_kind));
    if (skippy_index_length(h->reuse.index, index_id)) return; /* it was there already */
    if (!terminal && m->reach == SKIPPY_REACH_RANGE) supersede(h, tier, m);
    const skippy_residency res = {
        .id = index_id, .kind = terminal ? SKIPPY_KIND_TERMINAL : SKIPPY_KIND_STATE, .tier = tier, .reach = m->reach};
    int rc = skippy_index_insert(h->reuse.index, &m->ns, m->tokens, m->n_tokens, &res);
    if (rc) sk_log(SK_LOG_WARN, "a stored prefix of %zu tokens cannot be found: %s", m->n_tokens, skippy_strerror(rc));
}

/* May this kind of payload continue a request here? FullState and RecurrentOnly are for diagnosis. */
static bool is_usable(const sk_hold *h, const skippy_manifest *m) {
    if (!skippy_key_equal(&m->layout, &h->caps.layout)) return false;
    if (m->payload_kind == SKIPPY_PAYLOAD_TERMINAL) return true;
    return m->payload_kind == sk_hold_payload_kind(h) && (m->reach == SKIPPY_REACH_EXACT || !h->reuse.exact);
}

/* A window that this entry took over is in no store any more: the next export must be a whole one. */
static void forget_windows(sk_put *p) {
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].window) sk_window_fail(p->parts[i].window);
}

static void note_result(sk_hold *h, const sk_put *p, unsigned stored, unsigned refused, bool again) {
    uint64_t id = p->owner;
    if (p->m.payload_kind == SKIPPY_PAYLOAD_TERMINAL) {
        sk_terminal_row *row = sk_terminal_find(&h->reuse.terminal, id);
        if (row) sk_copies_settle(&row->copies, p->tiers, stored, refused);
        return;
    }
    sk_reuse_entry *x = sk_reuse_entry_at(&h->reuse, id);
    if (!x) { /* it left the context meanwhile: no second try */
        h->st.exports_lost += again;
        return;
    }
    sk_copies_settle(&x->copies, p->tiers, stored, refused);
    x->tries += again;
}

static void take_put(sk_hold *h, sk_put *p) {
    unsigned stored = 0, refused = 0;
    bool lost = false;
    for (unsigned tier = SKIPPY_TIER_RAM; tier <= SKIPPY_TIER_DISK; tier++) {
        if (!(p->tiers & 1u << tier)) continue;
        int rc = p->rc[tier];
        if (rc == SKIPPY_OK || rc == SKIPPY_E_EXISTS) {
            add_to_index(h, (uint8_t)tier, p->id[tier], &p->m);
            stored |= 1u << tier;
        } else if (rc == SKIPPY_E_NOT_FOUND || rc == SKIPPY_E_CORRUPT) {
            lost = true;
        } else {
            refused |= 1u << tier;
        }
    }
    if (lost) forget_windows(p);
    note_result(h, p, stored, refused, lost);
}

static void take_fetch(sk_hold *h, sk_tier_event *ev) {
    sk_fetch *f = ev->fetch;
    if (f->rc == SKIPPY_OK && !atomic_load(&f->abandoned)) sk_rates_add_fetch(&h->rates, f->tier, f->bytes, f->ms);
    if (!atomic_load(&f->abandoned) && sk_hold_awaits(h, f)) {
        f->done = true;
        ev->fetch = NULL; /* the recall's now */
    }
}

static void take(sk_hold *h, sk_tier_event *ev) {
    switch (ev->type) {
    case SK_TIER_PUT: take_put(h, ev->put); break;
    case SK_TIER_FOUND:
        if (is_usable(h, &ev->put->m)) add_to_index(h, ev->tier, ev->id, &ev->put->m);
        break;
    case SK_TIER_DROPPED:
        /* the report does not say what kind of payload it was */
        if (skippy_index_remove(h->reuse.index, sk_index_id(ev->id, tag_of(ev->tier, 0))) != SKIPPY_OK)
            skippy_index_remove(h->reuse.index, sk_index_id(ev->id, tag_of(ev->tier, SKIPPY_PAYLOAD_TERMINAL)));
        break;
    case SK_TIER_FETCHED: take_fetch(h, ev); break;
    case SK_TIER_ERASED:
        if (h->params.erased) h->params.erased(h->params.ud, ev->count, ev->rc);
        break;
    case SK_TIER_OPENED: h->disk_ready = ev->rc == SKIPPY_OK; break;
    }
}

bool sk_hold_has_events(sk_hold *h) {
    pthread_mutex_lock(&h->lock);
    bool event = h->event;
    pthread_mutex_unlock(&h->lock);
    return event;
}

void sk_hold_take_events(sk_hold *h) {
    if (!h->tiers) return;
    pthread_mutex_lock(&h->lock);
    h->event = false;
    pthread_mutex_unlock(&h->lock);
    for (sk_tier_event *ev = sk_tiers_events(h->tiers), *next; ev; ev = next) {
        next = ev->next;
        take(h, ev);
        sk_tier_event_free(ev);
    }
}
