/* State on its way out of the runtime.
 *
 * With a disk store every entry is copied out soon after it was recorded (write-behind): at once when nothing runs,
 * else one every SPILL_PAUSE_NS. An entry that is evicted to make room is copied out first, into the RAM store too. A
 * copy costs the engine thread one memcpy of the state; hashing and writing happen on the store thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"
#include "runtime/host_memory.h"

#define SPILL_PAUSE_NS 500000000u
#define MIB (1024u * 1024u)

enum { MAX_TRIES = 3, LAST_BOUNDARIES = 3 };

/* ---- opening ---- */

static void on_tier_event(void *ud) {
    sk_engine *en = ud;
    pthread_mutex_lock(&en->lock);
    en->tier_event = true;
    pthread_cond_signal(&en->wake);
    pthread_mutex_unlock(&en->lock);
}

static uint64_t ram_limit(uint64_t asked) {
    if (asked != SK_RAM_DERIVE) return asked;
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    uint64_t most = (uint64_t)8 * 1024 * MIB, quarter = memory.available / 4;
    return quarter < most ? quarter : most;
}

static void keep_row(void *ud, sk_terminal_row *row);
static void keep_entry(void *ud, sk_reuse_entry *x);

static int start_stores(sk_engine *en, uint64_t ram, sk_err *e) {
    /* the limit on memory holds for what waits as well */
    uint64_t staging = ram / 4 < 64 * MIB ? ram / 4 : 64 * MIB;
    if (ram == 0) staging = 64 * MIB;
    char name[64];
    snprintf(name, sizeof name, "%.16s", en->ns_hex);
    const sk_tiers_params p = {.ram_bytes = ram ? ram - staging : 0,
                               .disk_dir = en->params.disk_dir,
                               .disk_bytes = en->params.disk_bytes,
                               .store_name = name,
                               .staging_bytes = staging,
                               .throttle_bytes = en->params.disk_throttle,
                               .wake = on_tier_event,
                               .ud = en};
    int rc = sk_tiers_open(&p, &en->tiers, e);
    if (rc) return rc;
    en->reuse.before_evict = keep_entry;
    en->reuse.before_evict_row = keep_row;
    en->reuse.ud = en;
    en->facts.ram_store = ram > 0;
    en->facts.ram_bytes = ram;
    en->facts.disk_store = en->params.disk_dir != NULL;
    return SKIPPY_OK;
}

int sk_spill_open(sk_engine *en, sk_err *e) {
    en->facts.state_reason = "";
    uint64_t ram = ram_limit(en->params.ram_bytes);
    if (!en->reuse.enabled || (ram == 0 && !en->params.disk_dir)) return SKIPPY_OK;
    sk_err why = {0};
    int rc = sk_state_selfcheck(en->ctx, 0, en->tier_scratch - 1, en->tier_scratch, &en->caps, &why);
    if (rc == SKIPPY_E_UNSUPPORTED) {
        snprintf(en->caps.why, sizeof en->caps.why, "%.255s", why.text);
        en->facts.state_reason = en->caps.why;
        sk_log(SK_LOG_WARN,
               "state of this model cannot be moved exactly, so nothing is stored outside of the runtime: %s",
               why.text);
        return SKIPPY_OK;
    }
    if (rc) return sk_err_set(e, rc, "the check of the state codec failed: %s", why.text);
    en->facts.state_windows = en->caps.windows;
    en->facts.state_reason = en->caps.why;
    return start_stores(en, ram, e);
}

/* ---- one export ---- */

static uint64_t entry_bytes(const sk_engine *en, const sk_reuse_entry *x) {
    return x->prefix.n_tokens * en->caps.cell_bytes + en->caps.tail_bytes;
}

static uint64_t row_bytes(const sk_engine *en) {
    return en->reuse.terminal.n_vocab * sizeof(float);
}

/* Opaque exports cannot be cut back, whatever the memory is. */
static uint8_t reach(const sk_engine *en) {
    return en->reuse.exact || !en->caps.windows ? SKIPPY_REACH_EXACT : SKIPPY_REACH_RANGE;
}

static uint8_t payload_kind(const sk_engine *en) {
    return en->policy.mode == SK_CACHE_KV_RECURRENT ? SKIPPY_PAYLOAD_KV_RECURRENT : SKIPPY_PAYLOAD_RESIDENT_KV;
}

static sk_put *new_put(sk_engine *en, const sk_prefix *prefix, size_t n_parts, uint8_t reason) {
    sk_put *p = sk_put_new(prefix, n_parts);
    if (!p) return NULL;
    p->m.layout = en->caps.layout;
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
static int export_window(sk_engine *en, sk_reuse_entry *x, sk_put *p, size_t from, sk_err *e) {
    size_t to = from + SK_WINDOW_TOKENS < x->prefix.n_tokens ? from + SK_WINDOW_TOKENS : x->prefix.n_tokens;
    sk_put_part *part = add_part(p, SKIPPY_PART_KV, from, to);
    bool whole = to - from == SK_WINDOW_TOKENS;
    size_t k = from / SK_WINDOW_TOKENS;
    sk_window *known = whole ? sk_lineage_get(x->lineage, k) : NULL;
    if (known) {
        part->window = sk_window_retain(known);
        return SKIPPY_OK;
    }
    int rc = sk_state_export_kv(en->ctx, &en->caps, x->seq, en->tier_scratch, part->from, part->to, &part->blob, e);
    if (rc || !whole || !x->lineage) return rc;
    part->window = sk_window_new(); /* without it the next export is a whole one */
    if (part->window && sk_lineage_set(x->lineage, k, sk_window_retain(part->window)) != SKIPPY_OK)
        sk_window_release(part->window);
    return SKIPPY_OK;
}

static int export_parts(sk_engine *en, sk_reuse_entry *x, sk_put *p, sk_err *e) {
    int rc = SKIPPY_OK;
    if (!en->caps.windows)
        return sk_state_export_whole(en->ctx, &en->caps, x->seq,
                                     &add_part(p, SKIPPY_PART_OPAQUE, 0, x->prefix.n_tokens)->blob, e);
    for (size_t from = 0; en->caps.has_kv && from < x->prefix.n_tokens && rc == SKIPPY_OK; from += SK_WINDOW_TOKENS)
        rc = export_window(en, x, p, from, e);
    if (rc == SKIPPY_OK && en->caps.has_tail)
        rc = sk_state_export_tail(en->ctx, &en->caps, x->seq,
                                  &add_part(p, SKIPPY_PART_STATE, x->prefix.n_tokens, x->prefix.n_tokens)->blob, e);
    return rc;
}

static void hand_over(sk_engine *en, sk_put *p) {
    for (size_t i = 0; i < p->n_parts; i++) p->staged += p->parts[i].blob.len;
    en->st.exports++;
    en->st.export_bytes += p->staged;
    sk_tiers_put(en->tiers, p);
}

static bool export_entry(sk_engine *en, sk_reuse_entry *x, unsigned tiers, uint8_t reason) {
    if (!x->lineage) x->lineage = sk_lineage_new();
    sk_put *p = new_put(en, &x->prefix, x->prefix.n_tokens / SK_WINDOW_TOKENS + 2, reason);
    if (!p) return false;
    p->m.payload_kind = payload_kind(en);
    p->m.reach = reach(en);
    p->m.cost_ms = (double)x->prefix.n_tokens * en->rates.prefill_ms;
    skippy_resident_entry info;
    if (skippy_resident_get(en->reuse.resident, x->id, &info) == SKIPPY_OK) p->m.hits = info.hits;
    p->owner = x->id;
    p->tiers = tiers;
    sk_err err = {0};
    int rc = export_parts(en, x, p, &err);
    if (rc) {
        sk_log(SK_LOG_WARN, "a prefix of %zu tokens could not be exported: %s", x->prefix.n_tokens, err.text);
        for (size_t i = 0; i < p->n_parts; i++) /* nobody will hash what was exported so far */
            if (p->parts[i].blob.data && p->parts[i].window) sk_window_fail(p->parts[i].window);
        sk_put_free(p);
        x->copies.refused |= tiers; /* not tried again */
        return false;
    }
    x->copies.in_flight |= tiers;
    hand_over(en, p);
    return true;
}

static bool export_row(sk_engine *en, sk_terminal_row *row, unsigned tiers, uint8_t reason) {
    sk_put *p = new_put(en, &row->prompt, 1, reason);
    if (!p) return false;
    p->m.payload_kind = SKIPPY_PAYLOAD_TERMINAL;
    p->m.reach = SKIPPY_REACH_EXACT;
    p->m.cost_ms = en->rates.prefill_ms;
    p->owner = row->id;
    p->tiers = tiers;
    sk_put_part *part = add_part(p, SKIPPY_PART_LOGITS, row->prompt.n_tokens, row->prompt.n_tokens);
    part->blob.len = row_bytes(en);
    part->blob.data = malloc(part->blob.len);
    if (!part->blob.data) {
        sk_put_free(p);
        return false;
    }
    memcpy(part->blob.data, row->row, part->blob.len);
    row->copies.in_flight |= tiers;
    hand_over(en, p);
    return true;
}

/* ---- when ---- */

enum { WRITE_BEHIND = 1 << SKIPPY_TIER_DISK, ON_EVICTION = 1 << SKIPPY_TIER_DISK | 1 << SKIPPY_TIER_RAM };

/* The tiers that should have it when it leaves the context, and have not. */
static unsigned missing(const sk_engine *en, const sk_prefix *p, const sk_copies *c, bool terminal) {
    unsigned tiers = sk_tiers_mask(en->tiers) & ON_EVICTION & ~c->refused & ~c->in_flight;
    skippy_match m;
    if (!tiers || skippy_index_match(en->reuse.index, &p->ns, p->tokens, p->n_tokens, p->n_tokens, &m) != SKIPPY_OK)
        return tiers;
    for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++)
        if (terminal ? m.terminal[tier] != 0 : m.state[tier].length == p->n_tokens) tiers &= ~(1u << tier);
    return tiers;
}

/* Is an entry worth its copy? Where every boundary has a state of its own, a conversation leaves several behind with
 * each turn. The next turn begins at one of the last ones (end of the answer, of the prompt, start of the last
 * message); an older one is kept when it was of use before, as the end of a system prompt is. */
static bool is_valuable(const sk_engine *en, const sk_reuse_entry *x) {
    skippy_resident_entry info;
    if (!en->reuse.exact || x->deeper < LAST_BOUNDARIES) return true;
    return skippy_resident_get(en->reuse.resident, x->id, &info) == SKIPPY_OK && info.hits > 0;
}

static void keep_entry(void *ud, sk_reuse_entry *x) {
    sk_engine *en = ud;
    if (!is_valuable(en, x) || x->tries >= MAX_TRIES) return;
    unsigned tiers = missing(en, &x->prefix, &x->copies, false);
    if (!tiers) return;
    if (!sk_tiers_accepts(en->tiers, entry_bytes(en, x)))
        en->st.exports_skipped++;
    else
        export_entry(en, x, tiers, SKIPPY_REASON_DEMOTED);
}

static void keep_row(void *ud, sk_terminal_row *row) {
    sk_engine *en = ud;
    unsigned tiers = missing(en, &row->prompt, &row->copies, true);
    if (tiers && sk_tiers_accepts(en->tiers, row_bytes(en))) export_row(en, row, tiers, SKIPPY_REASON_DEMOTED);
}

/* What is copied out next: the newest entry that the disk store should have and has not, else such a row. */
typedef struct candidate {
    sk_reuse_entry *entry; /* NULL: row */
    sk_terminal_row *row;  /* both NULL: nothing */
    uint64_t bytes;
} candidate;

static bool is_behind(const sk_copies *c) {
    return !((c->stored | c->refused | c->in_flight) & WRITE_BEHIND);
}

static sk_reuse_entry *next_entry(const sk_engine *en) {
    sk_reuse_entry *best = NULL;
    for (size_t i = 0; i < en->reuse.n_entries; i++) {
        sk_reuse_entry *x = &en->reuse.entries[i];
        bool newer = !best || x->copies.since > best->copies.since;
        if (newer && is_behind(&x->copies) && x->tries < MAX_TRIES && is_valuable(en, x)) best = x;
    }
    return best;
}

static sk_terminal_row *next_row(const sk_engine *en) {
    sk_terminal_row *best = NULL;
    for (size_t i = 0; i < en->reuse.terminal.n; i++) {
        sk_terminal_row *x = &en->reuse.terminal.rows[i];
        if (is_behind(&x->copies) && (!best || x->copies.since > best->copies.since)) best = x;
    }
    return best;
}

/* False when there is nothing to copy out. */
static bool next_candidate(const sk_engine *en, candidate *c) {
    *c = (candidate){0};
    if (!en->tiers || !en->disk_ready || !(sk_tiers_mask(en->tiers) & WRITE_BEHIND)) return false;
    c->entry = next_entry(en);
    if (!c->entry) c->row = next_row(en);
    if (!c->entry && !c->row) return false;
    c->bytes = c->entry ? entry_bytes(en, c->entry) : row_bytes(en);
    return true;
}

bool sk_spill_wanted(const sk_engine *en) {
    candidate c;
    return next_candidate(en, &c) && sk_tiers_accepts(en->tiers, c.bytes);
}

/* False when there is nothing, or no room for it. */
static bool spill_one(sk_engine *en, uint8_t reason) {
    candidate c;
    if (!next_candidate(en, &c) || !sk_tiers_accepts(en->tiers, c.bytes)) return false;
    if (c.entry)
        c.entry->tries += !export_entry(en, c.entry, WRITE_BEHIND, reason);
    else if (!export_row(en, c.row, WRITE_BEHIND, reason))
        c.row->copies.refused |= WRITE_BEHIND;
    return true;
}

void sk_spill_step(sk_engine *en, bool busy) {
    if (!en->disk_ready) return;
    if (busy) {
        uint64_t now = sk_now_ns();
        if (now - en->last_spill < SPILL_PAUSE_NS) return;
        en->last_spill = now;
    }
    spill_one(en, SKIPPY_REASON_WRITE_BEHIND);
}

/* Is anything on its way whose result may still ask for another try? */
static bool any_in_flight(const sk_engine *en) {
    for (size_t i = 0; i < en->reuse.n_entries; i++)
        if (en->reuse.entries[i].copies.in_flight) return true;
    for (size_t i = 0; i < en->reuse.terminal.n; i++)
        if (en->reuse.terminal.rows[i].copies.in_flight) return true;
    return false;
}

/* Waits until the store thread has finished something. False when it has nothing to do and reports nothing: a report
 * was lost for lack of memory. */
static bool wait_for_report(sk_engine *en) {
    for (;;) {
        const struct timespec until = sk_wall_after_ms(1000);
        pthread_mutex_lock(&en->lock);
        while (!en->tier_event && pthread_cond_timedwait(&en->wake, &en->lock, &until) == 0) {
        }
        bool reported = en->tier_event;
        pthread_mutex_unlock(&en->lock);
        sk_tier_stats s;
        sk_tiers_get_stats(en->tiers, &s);
        if (reported || s.staging_bytes == 0) return reported;
    }
}

void sk_spill_flush(sk_engine *en) {
    if (!en->tiers || !en->disk_ready) return;
    size_t n = 0;
    candidate c;
    while (next_candidate(en, &c) || any_in_flight(en)) {
        if (spill_one(en, SKIPPY_REASON_SHUTDOWN)) {
            n++;
            continue;
        }
        /* no room, or all of it handed over */
        if (!wait_for_report(en)) break;
        sk_take_tier_events(en);
    }
    if (n) sk_log(SK_LOG_INFO, "%zu prefixes and rows of logits were written to disk", n);
}
