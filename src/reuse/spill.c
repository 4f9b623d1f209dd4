/* State on its way out of the runtime.
 *
 * With a disk store every entry is copied out soon after it was recorded (write-behind): when nothing has run for
 * SK_HOLD_REST_NS; while requests run one every SPILL_PAUSE_NS, the first so long after something was there to copy.
 * The next message of a conversation often follows at once, and should not find its answer being copied. So is what may
 * have to leave the context for the RAM store (idle.c), and, while nothing runs, what will be evicted next (AHEAD).
 * What is evicted to make room is copied first to the stores that do not have it yet, and the request waits. A copy
 * costs the owner thread one memcpy of the state; hashing and writing happen on the store thread. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "reuse/hold_internal.h"

#define SPILL_PAUSE_NS 1000000000u

/* Where each boundary has a state of its own, a request records up to AHEAD of them (start of the last message, end of
 * the prompt, end of the answer, a learned one), and in a full context as many others leave. */
enum { MAX_TRIES = 3, LAST_BOUNDARIES = 3, AHEAD = 4 };

/* ---- one export ---- */

static uint64_t entry_bytes(const sk_hold *h, const sk_reuse_entry *x) {
    return sk_hold_state_bytes(h, x->prefix.n_tokens);
}

static uint64_t row_bytes(const sk_hold *h) {
    return h->reuse.terminal.n_vocab * sizeof(float);
}

/* Opaque exports cannot be cut back, whatever the memory is. */
static uint8_t reach(const sk_hold *h) {
    return h->reuse.exact || !h->caps.windows ? SKIPPY_REACH_EXACT : SKIPPY_REACH_RANGE;
}

static sk_put *new_put(sk_hold *h, const sk_prefix *prefix, size_t n_parts, uint8_t reason) {
    sk_put *p = sk_put_new(prefix, n_parts);
    if (!p) return NULL;
    p->m.layout = h->caps.layout;
    p->m.reason = reason;
    p->m.created_ms = p->m.used_ms = sk_unix_ms();
    if (skippy_prefix_key(&prefix->ns, prefix->tokens, prefix->n_tokens, &p->m.prefix_key) != SKIPPY_OK) {
        sk_put_free(p);
        return NULL;
    }
    return p;
}

static sk_put_part *add_part(sk_put *p, uint8_t kind, size_t from, size_t to) {
    sk_put_part *part = &p->parts[p->n_parts++];
    *part = (sk_put_part){.kind = kind, .from = (uint32_t)from, .to = (uint32_t)to};
    return part;
}

/* One KV window: taken over when this very state was exported before. */
static int export_window(sk_hold *h, sk_reuse_entry *x, sk_put *p, size_t from, sk_err *e) {
    size_t to = from + SK_WINDOW_TOKENS < x->prefix.n_tokens ? from + SK_WINDOW_TOKENS : x->prefix.n_tokens;
    sk_put_part *part = add_part(p, SKIPPY_PART_KV, from, to);
    bool whole = to - from == SK_WINDOW_TOKENS;
    size_t k = from / SK_WINDOW_TOKENS;
    sk_window *known = whole ? sk_lineage_get(x->lineage, k) : NULL;
    if (known) {
        part->window = sk_window_retain(known);
        return SKIPPY_OK;
    }
    int rc = sk_state_export_kv(h->ctx, &h->caps, x->seq, h->params.scratch, part->from, part->to, &part->blob, e);
    if (rc || !whole || !x->lineage) return rc;
    part->window = sk_window_new(); /* without it the next export is a whole one */
    if (part->window && sk_lineage_set(x->lineage, k, sk_window_retain(part->window)) != SKIPPY_OK)
        sk_window_release(part->window);
    return SKIPPY_OK;
}

static int export_parts(sk_hold *h, sk_reuse_entry *x, sk_put *p, sk_err *e) {
    int rc = SKIPPY_OK;
    if (!h->caps.windows)
        return sk_state_export_whole(h->ctx, &h->caps, x->seq,
                                     &add_part(p, SKIPPY_PART_OPAQUE, 0, x->prefix.n_tokens)->blob, e);
    for (size_t from = 0; h->caps.has_kv && from < x->prefix.n_tokens && rc == SKIPPY_OK; from += SK_WINDOW_TOKENS)
        rc = export_window(h, x, p, from, e);
    if (rc == SKIPPY_OK && h->caps.has_tail)
        rc = sk_state_export_tail(h->ctx, &h->caps, x->seq,
                                  &add_part(p, SKIPPY_PART_STATE, x->prefix.n_tokens, x->prefix.n_tokens)->blob, e);
    return rc;
}

static void hand_over(sk_hold *h, sk_put *p) {
    for (size_t i = 0; i < p->n_parts; i++) p->staged += p->parts[i].blob.len;
    h->st.exports++;
    h->st.export_bytes += p->staged;
    sk_tiers_put(h->tiers, p);
}

static bool export_entry(sk_hold *h, sk_reuse_entry *x, unsigned tiers, uint8_t reason) {
    if (!x->lineage) x->lineage = sk_lineage_new();
    sk_put *p = new_put(h, &x->prefix, x->prefix.n_tokens / SK_WINDOW_TOKENS + 2, reason);
    if (!p) return false;
    p->m.payload_kind = sk_hold_payload_kind(h);
    p->m.reach = reach(h);
    p->m.cost_ms = (double)x->prefix.n_tokens * h->rates.prefill_ms;
    skippy_resident_entry info;
    if (skippy_resident_get(h->reuse.resident, x->id, &info) == SKIPPY_OK) p->m.hits = info.hits;
    p->owner = x->id;
    p->tiers = tiers;
    sk_err err = {0};
    int rc = export_parts(h, x, p, &err);
    if (rc) {
        sk_log(SK_LOG_WARN, "a prefix of %zu tokens could not be exported: %s", x->prefix.n_tokens, err.text);
        for (size_t i = 0; i < p->n_parts; i++) /* nobody will hash what was exported so far */
            if (p->parts[i].blob.data && p->parts[i].window) sk_window_fail(p->parts[i].window);
        sk_put_free(p);
        x->copies.refused |= tiers; /* not tried again */
        return false;
    }
    x->copies.in_flight |= tiers;
    hand_over(h, p);
    return true;
}

static bool export_row(sk_hold *h, sk_terminal_row *row, unsigned tiers, uint8_t reason) {
    sk_put *p = new_put(h, &row->prompt, 1, reason);
    if (!p) return false;
    p->m.payload_kind = SKIPPY_PAYLOAD_TERMINAL;
    p->m.reach = SKIPPY_REACH_EXACT;
    p->m.cost_ms = h->rates.prefill_ms;
    p->owner = row->id;
    p->tiers = tiers;
    sk_put_part *part = add_part(p, SKIPPY_PART_LOGITS, row->prompt.n_tokens, row->prompt.n_tokens);
    part->blob.len = row_bytes(h);
    part->blob.data = malloc(part->blob.len);
    if (!part->blob.data) {
        sk_put_free(p);
        return false;
    }
    memcpy(part->blob.data, row->row, part->blob.len);
    row->copies.in_flight |= tiers;
    hand_over(h, p);
    return true;
}

/* ---- when ---- */

enum { DISK = 1 << SKIPPY_TIER_DISK, RAM = 1 << SKIPPY_TIER_RAM, ON_EVICTION = DISK | RAM };

/* The tiers that should have it when it leaves the context, and have not. */
static unsigned missing(const sk_hold *h, const sk_prefix *p, const sk_copies *c, bool terminal) {
    unsigned tiers = sk_tiers_mask(h->tiers) & ON_EVICTION & ~c->refused & ~c->in_flight;
    skippy_match m;
    if (!tiers || skippy_index_match(h->reuse.index, &p->ns, p->tokens, p->n_tokens, p->n_tokens, &m) != SKIPPY_OK)
        return tiers;
    for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++)
        if (terminal ? m.terminal[tier] != 0 : m.state[tier].length == p->n_tokens) tiers &= ~(1u << tier);
    return tiers;
}

/* Is an entry worth its copy? Where every boundary has a state of its own, a conversation leaves several behind with
 * each turn. The next turn begins at one of the last ones (end of the answer, of the prompt, start of the last
 * message), and by that uses each boundary of a straight conversation once. What was used more often is the beginning
 * of several conversations, as the end of a system prompt is, and kept however old it is. */
static bool is_valuable(const sk_hold *h, const sk_reuse_entry *x) {
    skippy_resident_entry info;
    if (!h->reuse.exact || x->deeper < LAST_BOUNDARIES) return true;
    return skippy_resident_get(h->reuse.resident, x->id, &info) == SKIPPY_OK && info.hits > 1;
}

void sk_hold_keep_entry(void *ud, sk_reuse_entry *x) {
    sk_hold *h = ud;
    if (!is_valuable(h, x) || x->tries >= MAX_TRIES) return;
    unsigned tiers = missing(h, &x->prefix, &x->copies, false);
    if (!tiers) return;
    if (!sk_tiers_accepts(h->tiers, entry_bytes(h, x)))
        h->st.exports_skipped++;
    else
        export_entry(h, x, tiers, SKIPPY_REASON_DEMOTED);
}

void sk_hold_keep_row(void *ud, sk_terminal_row *row) {
    sk_hold *h = ud;
    unsigned tiers = missing(h, &row->prompt, &row->copies, true);
    if (tiers && sk_tiers_accepts(h->tiers, row_bytes(h))) export_row(h, row, tiers, SKIPPY_REASON_DEMOTED);
}

/* What is copied out next: the newest entry that a store should have and has not, else a row that the disk store
 * should have. */
typedef struct candidate {
    unsigned tiers;        /* where to */
    sk_reuse_entry *entry; /* NULL: row */
    sk_terminal_row *row;  /* both NULL: nothing */
    uint64_t bytes;
} candidate;

/* The stores of these that should have it and have not. */
static unsigned behind(const sk_copies *c, unsigned tiers) {
    return tiers & ~(c->stored | c->refused | c->in_flight);
}

/* The disk store, once it is open. */
static unsigned usable_disk(const sk_hold *h) {
    return h->disk_ready ? sk_tiers_mask(h->tiers) & DISK : 0;
}

/* Where what is in the context is copied to before it has to leave. */
typedef struct aims {
    unsigned tiers;       /* of all of it */
    uint64_t soon[AHEAD]; /* entries that leave next: these to the RAM store as well */
    size_t n_soon;
} aims;

/* The entries that a request could push out. At most half of the context's: with few places most entries would be
 * copied that may be used again before they have to leave. */
static size_t leaves_soon(const sk_hold *h, uint64_t ids[AHEAD]) {
    skippy_resident_stats s;
    if (!h->reuse.exact || !h->reuse.enabled || !h->ram_bytes) return 0;
    skippy_resident_get_stats(h->reuse.resident, &s);
    const size_t half = (s.entries + s.free_seq_ids) / 2, ahead = half < AHEAD ? half : AHEAD;
    return s.free_seq_ids < ahead ? skippy_resident_victims(h->reuse.resident, ids, ahead - s.free_seq_ids) : 0;
}

static aims write_behind(const sk_hold *h, bool busy) {
    aims a = {.tiers = usable_disk(h) | (sk_hold_wants_ram_copies(h) ? RAM : 0)};
    if (!busy) a.n_soon = leaves_soon(h, a.soon);
    return a;
}

static unsigned entry_behind(const sk_hold *h, const sk_reuse_entry *x, const aims *a) {
    unsigned tiers = a->tiers;
    for (size_t i = 0; i < a->n_soon; i++)
        if (a->soon[i] == x->id) tiers |= RAM;
    return behind(&x->copies, sk_hold_copies_to_ram(h, x) ? tiers : tiers & ~(unsigned)RAM);
}

static sk_reuse_entry *next_entry(const sk_hold *h, const aims *a) {
    sk_reuse_entry *best = NULL;
    for (size_t i = 0; i < h->reuse.n_entries; i++) {
        sk_reuse_entry *x = &h->reuse.entries[i];
        bool newer = !best || x->copies.since > best->copies.since;
        if (newer && entry_behind(h, x, a) && x->tries < MAX_TRIES && is_valuable(h, x)) best = x;
    }
    return best;
}

static sk_terminal_row *next_row(const sk_hold *h, unsigned tiers) {
    sk_terminal_row *best = NULL;
    for (size_t i = 0; i < h->reuse.terminal.n; i++) {
        sk_terminal_row *x = &h->reuse.terminal.rows[i];
        if (behind(&x->copies, tiers) && (!best || x->copies.since > best->copies.since)) best = x;
    }
    return best;
}

/* False when there is nothing to copy out. */
static bool next_candidate(const sk_hold *h, const aims *a, candidate *c) {
    *c = (candidate){0};
    if (!a->tiers && !a->n_soon) return false;
    c->entry = next_entry(h, a);
    if (!c->entry) c->row = next_row(h, a->tiers & DISK);
    if (!c->entry && !c->row) return false;
    c->tiers = c->entry ? entry_behind(h, c->entry, a) : DISK;
    c->bytes = c->entry ? entry_bytes(h, c->entry) : row_bytes(h);
    return true;
}

bool sk_hold_spill_wanted(const sk_hold *h) {
    candidate c;
    if (!h->tiers) return false;
    const aims a = write_behind(h, false);
    return next_candidate(h, &a, &c) && sk_tiers_accepts(h->tiers, c.bytes);
}

/* False when there is nothing, or no room for it. */
static bool spill_one(sk_hold *h, const aims *a, uint8_t reason) {
    candidate c;
    if (!next_candidate(h, a, &c) || !sk_tiers_accepts(h->tiers, c.bytes)) return false;
    if (c.entry)
        c.entry->tries += !export_entry(h, c.entry, c.tiers, reason);
    else if (!export_row(h, c.row, c.tiers, reason))
        c.row->copies.refused |= c.tiers;
    return true;
}

void sk_hold_worked(sk_hold *h) {
    h->last_work_ns = sk_now_ns();
}

bool sk_hold_rests(const sk_hold *h) {
    return sk_now_ns() - h->last_work_ns >= SK_HOLD_REST_NS;
}

void sk_hold_spill_step(sk_hold *h, bool busy) {
    if (!busy && !sk_hold_rests(h)) return;
    candidate c;
    const aims a = h->tiers ? write_behind(h, busy) : (aims){0};
    if (!next_candidate(h, &a, &c)) {
        h->copy_due_since = 0;
        return;
    }
    uint64_t now = sk_now_ns();
    if (!h->copy_due_since) h->copy_due_since = now;
    if (busy && now - h->copy_due_since < SPILL_PAUSE_NS) return;
    h->copy_due_since = now;
    spill_one(h, &a, SKIPPY_REASON_WRITE_BEHIND);
}

/* Is anything on its way whose result may still ask for another try? */
static bool any_in_flight(const sk_hold *h) {
    for (size_t i = 0; i < h->reuse.n_entries; i++)
        if (h->reuse.entries[i].copies.in_flight) return true;
    for (size_t i = 0; i < h->reuse.terminal.n; i++)
        if (h->reuse.terminal.rows[i].copies.in_flight) return true;
    return false;
}

/* Waits until the store thread has finished something. False when it has nothing to do and reports nothing: a report
 * was lost for lack of memory. */
static bool wait_for_report(sk_hold *h) {
    for (;;) {
        const struct timespec until = sk_wall_after_ms(1000);
        pthread_mutex_lock(&h->lock);
        while (!h->event && pthread_cond_timedwait(&h->reported, &h->lock, &until) == 0) {
        }
        bool reported = h->event;
        pthread_mutex_unlock(&h->lock);
        sk_tier_stats s;
        sk_tiers_get_stats(h->tiers, &s);
        if (reported || s.staging_bytes == 0) return reported;
    }
}

void sk_hold_spill_flush(sk_hold *h) {
    if (!h->tiers || !h->disk_ready) return;
    size_t n = 0;
    candidate c;
    const aims disk = {.tiers = usable_disk(h)};
    while (next_candidate(h, &disk, &c) || any_in_flight(h)) {
        if (spill_one(h, &disk, SKIPPY_REASON_SHUTDOWN)) {
            n++;
            continue;
        }
        /* no room, or all of it handed over */
        if (!wait_for_report(h)) break;
        sk_hold_take_events(h);
    }
    if (n) sk_log(SK_LOG_INFO, "%zu prefixes and rows of logits were written to disk", n);
}
