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

/* Opaque exports cannot be cut back, whatever the memory is. */
static uint8_t reach(const sk_engine *en) {
    return en->reuse.exact || !en->caps.windows ? SKIPPY_REACH_EXACT : SKIPPY_REACH_RANGE;
}

static uint8_t payload_kind(const sk_engine *en) {
    return en->policy.mode == SK_CACHE_KV_RECURRENT ? SKIPPY_PAYLOAD_KV_RECURRENT : SKIPPY_PAYLOAD_RESIDENT_KV;
}

typedef struct subject {
    const skippy_key *ns;
    const int32_t *tokens;
    size_t n_tokens;
    const char *tenant, *cache_namespace;
} subject;

static sk_put *new_put(sk_engine *en, const subject *s, size_t n_parts) {
    sk_put *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    int32_t *tokens = malloc(s->n_tokens * sizeof *tokens);
    p->m.tokens = tokens;
    p->m.tenant = s->tenant ? strdup(s->tenant) : NULL;
    p->m.cache_namespace = s->cache_namespace ? strdup(s->cache_namespace) : NULL;
    p->parts = calloc(n_parts, sizeof *p->parts);
    if (!tokens || !p->parts || !p->m.tenant != !s->tenant || !p->m.cache_namespace != !s->cache_namespace) {
        sk_put_free(p);
        return NULL;
    }
    memcpy(tokens, s->tokens, s->n_tokens * sizeof *tokens);
    p->m.ns = *s->ns;
    p->m.layout = en->caps.layout;
    p->m.n_tokens = s->n_tokens;
    p->m.cost_ms = (double)s->n_tokens * en->rates.prefill_ms;
    p->m.created_ms = p->m.used_ms = sk_unix_ms();
    if (skippy_prefix_key(s->ns, s->tokens, s->n_tokens, &p->m.prefix_key) != SKIPPY_OK) {
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
    size_t to = from + SK_WINDOW_TOKENS < x->n_tokens ? from + SK_WINDOW_TOKENS : x->n_tokens;
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
        return sk_state_export_whole(en->ctx, &en->caps, x->seq, &add_part(p, SKIPPY_PART_OPAQUE, 0, x->n_tokens)->blob,
                                     e);
    for (size_t from = 0; en->caps.has_kv && from < x->n_tokens && rc == SKIPPY_OK; from += SK_WINDOW_TOKENS)
        rc = export_window(en, x, p, from, e);
    if (rc == SKIPPY_OK && en->caps.has_tail)
        rc = sk_state_export_tail(en->ctx, &en->caps, x->seq,
                                  &add_part(p, SKIPPY_PART_STATE, x->n_tokens, x->n_tokens)->blob, e);
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
    const subject s = {.ns = &x->ns,
                       .tokens = x->tokens,
                       .n_tokens = x->n_tokens,
                       .tenant = x->tenant,
                       .cache_namespace = x->cache_namespace};
    sk_put *p = new_put(en, &s, x->n_tokens / SK_WINDOW_TOKENS + 2);
    if (!p) return false;
    p->m.payload_kind = payload_kind(en);
    p->m.reach = reach(en);
    p->m.reason = reason;
    skippy_resident_entry info;
    if (skippy_resident_get(en->reuse.resident, x->id, &info) == SKIPPY_OK) p->m.hits = info.hits;
    p->owner = sk_index_id(x->id, SK_TAG_ENTRY);
    p->tiers = tiers;
    sk_err err = {0};
    int rc = export_parts(en, x, p, &err);
    if (rc) {
        sk_log(SK_LOG_WARN, "a prefix of %zu tokens could not be exported: %s", x->n_tokens, err.text);
        for (size_t i = 0; i < p->n_parts; i++) /* nobody will hash what was exported so far */
            if (p->parts[i].blob.data && p->parts[i].window) sk_window_fail(p->parts[i].window);
        sk_put_free(p);
        x->refused |= tiers; /* not tried again */
        return false;
    }
    x->in_flight |= tiers;
    hand_over(en, p);
    return true;
}

static bool export_row(sk_engine *en, sk_terminal_row *row, unsigned tiers, uint8_t reason) {
    const subject s = {.ns = &row->ns,
                       .tokens = row->tokens,
                       .n_tokens = row->n_tokens,
                       .tenant = row->tenant,
                       .cache_namespace = row->cache_namespace};
    sk_put *p = new_put(en, &s, 1);
    if (!p) return false;
    p->m.payload_kind = SKIPPY_PAYLOAD_TERMINAL;
    p->m.reach = SKIPPY_REACH_EXACT;
    p->m.reason = reason;
    p->m.cost_ms = en->rates.prefill_ms;
    p->owner = sk_index_id(row->id, SK_TAG_ROW);
    p->tiers = tiers;
    sk_put_part *part = add_part(p, SKIPPY_PART_LOGITS, row->n_tokens, row->n_tokens);
    part->blob.len = en->reuse.terminal.n_vocab * sizeof(float);
    part->blob.data = malloc(part->blob.len);
    if (!part->blob.data) {
        sk_put_free(p);
        return false;
    }
    memcpy(part->blob.data, row->row, part->blob.len);
    row->in_flight |= tiers;
    hand_over(en, p);
    return true;
}

/* ---- when ---- */

enum { WRITE_BEHIND = 1 << SKIPPY_TIER_DISK, ON_EVICTION = 1 << SKIPPY_TIER_DISK | 1 << SKIPPY_TIER_RAM };

static uint64_t entry_bytes(const sk_engine *en, const sk_reuse_entry *x) {
    return x->n_tokens * en->caps.cell_bytes + en->caps.tail_bytes;
}

static uint64_t row_bytes(const sk_engine *en) {
    return en->reuse.terminal.n_vocab * sizeof(float);
}

/* The tiers that hold exactly this now. */
static unsigned present(const sk_engine *en, const skippy_key *ns, const int32_t *tokens, size_t n, bool terminal) {
    skippy_match m;
    unsigned mask = 0;
    if (skippy_index_match(en->reuse.index, ns, tokens, n, n, &m) != SKIPPY_OK) return 0;
    for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++)
        if (terminal ? m.terminal[tier] != 0 : m.state[tier].length == n) mask |= 1u << tier;
    return mask;
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
    if (!is_valuable(en, x)) return;
    unsigned tiers = sk_tiers_mask(en->tiers) & ON_EVICTION & ~x->refused & ~x->in_flight;
    if (tiers) tiers &= ~present(en, &x->ns, x->tokens, x->n_tokens, false);
    if (!tiers || x->tries >= MAX_TRIES) return;
    if (!sk_tiers_accepts(en->tiers, entry_bytes(en, x)))
        en->st.exports_skipped++;
    else
        export_entry(en, x, tiers, SKIPPY_REASON_DEMOTED);
}

static void keep_row(void *ud, sk_terminal_row *row) {
    sk_engine *en = ud;
    unsigned tiers = sk_tiers_mask(en->tiers) & ON_EVICTION & ~row->refused & ~row->in_flight;
    if (tiers) tiers &= ~present(en, &row->ns, row->tokens, row->n_tokens, true);
    if (tiers && sk_tiers_accepts(en->tiers, row_bytes(en))) export_row(en, row, tiers, SKIPPY_REASON_DEMOTED);
}

/* Tiers that should have it soon and do not. */
static unsigned behind(const sk_engine *en, unsigned stored, unsigned refused, unsigned in_flight) {
    return sk_tiers_mask(en->tiers) & WRITE_BEHIND & ~stored & ~refused & ~in_flight;
}

/* The newest of what the disk store should have and has not. */
static sk_reuse_entry *next_entry(const sk_engine *en) {
    sk_reuse_entry *best = NULL;
    for (size_t i = 0; i < en->reuse.n_entries; i++) {
        sk_reuse_entry *x = &en->reuse.entries[i];
        if (x->tries < MAX_TRIES && is_valuable(en, x) && behind(en, x->stored, x->refused, x->in_flight) &&
            (!best || x->since > best->since))
            best = x;
    }
    return best;
}

static sk_terminal_row *next_row(const sk_engine *en) {
    sk_terminal_row *best = NULL;
    for (size_t i = 0; i < en->reuse.terminal.n; i++) {
        sk_terminal_row *x = &en->reuse.terminal.rows[i];
        if (behind(en, x->stored, x->refused, x->in_flight) && (!best || x->since > best->since)) best = x;
    }
    return best;
}

bool sk_spill_wanted(const sk_engine *en) {
    return en->tiers && en->disk_ready && (next_entry(en) || next_row(en)) && sk_tiers_accepts(en->tiers, 1);
}

static bool spill_one(sk_engine *en, uint8_t reason) {
    sk_reuse_entry *x = next_entry(en);
    if (x && !sk_tiers_accepts(en->tiers, entry_bytes(en, x))) return false;
    if (x) {
        if (!export_entry(en, x, WRITE_BEHIND, reason)) x->tries++;
        return true;
    }
    sk_terminal_row *row = next_row(en);
    if (!row || !sk_tiers_accepts(en->tiers, row_bytes(en))) return false;
    if (!export_row(en, row, WRITE_BEHIND, reason)) row->refused |= WRITE_BEHIND;
    return true;
}

void sk_spill_step(sk_engine *en, bool busy) {
    if (!en->tiers || !en->disk_ready) return;
    uint64_t now = busy ? sk_now_ns() : 0;
    if (busy && now - en->last_spill < SPILL_PAUSE_NS) return;
    if (busy) en->last_spill = now;
    spill_one(en, SKIPPY_REASON_WRITE_BEHIND);
}

/* Is anything on its way whose result may still ask for another try? */
static bool any_in_flight(const sk_engine *en) {
    for (size_t i = 0; i < en->reuse.n_entries; i++)
        if (en->reuse.entries[i].in_flight) return true;
    for (size_t i = 0; i < en->reuse.terminal.n; i++)
        if (en->reuse.terminal.rows[i].in_flight) return true;
    return false;
}

/* Waits until the store thread has finished something. False when it has nothing to do and reports nothing: a report
 * was lost for lack of memory. */
static bool wait_for_report(sk_engine *en) {
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
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
    while (next_entry(en) || next_row(en) || any_in_flight(en)) {
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
