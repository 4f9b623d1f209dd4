#include "bench/store_dedup.h"

#include <stdlib.h>

#include "bench/store_cuts.h"
#include "runtime/host_memory.h"
#include "skippy/ram_store.h"

/* One store for each way, open at the same time, so that every way sees the same exports. */
typedef struct trial {
    sk_store_lab *lab;
    skippy_ram_store *store[SK_STORE_MAX_WAYS];
    sk_store_savings *out;
} trial;

/* Nothing may be evicted while it is counted, and the machine must survive it. */
static uint64_t store_limit(size_t n_stores) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    return memory.available ? memory.available / (n_stores + 1) : (uint64_t)4 << 30;
}

static void close_trial(trial *t) {
    for (size_t i = 0; i < SK_STORE_MAX_WAYS; i++) skippy_ram_destroy(t->store[i]);
    sk_context_clear(t->lab->rig.ctx);
}

static void list_ways(sk_store_savings *out, const sk_store_sizes *s) {
    out->way[out->n_ways++].cut = SK_STORE_BY_LAYOUT;
    for (size_t i = 0; i < SK_STORE_MAX_STEPS && s->steps[i]; i++)
        out->way[out->n_ways++] = (sk_store_use){.cut = SK_STORE_BY_TOKENS, .step = s->steps[i]};
    out->way[out->n_ways++].cut = SK_STORE_FIXED;
}

static int open_trial(trial *t, sk_err *e) {
    list_ways(t->out, &t->lab->o->sizes);
    const skippy_ram_params p = {.max_bytes = store_limit(t->out->n_ways)};
    for (size_t i = 0; i < t->out->n_ways; i++) {
        int rc = skippy_ram_create(NULL, &p, &t->store[i]);
        if (rc) return sk_err_set(e, rc, "a RAM store could not be made: %s", skippy_strerror(rc));
    }
    return SKIPPY_OK;
}

/* ---- one export ---- */

static int put(trial *t, size_t way, const sk_parcel *parcel, const int32_t *tokens, sk_err *e) {
    const sk_store_name name = sk_store_lab_name(t->lab, tokens);
    sk_store_use *use = &t->out->way[way];
    sk_store_pack pack;
    uint64_t id;
    int rc = sk_store_pack_make(parcel, &name, &pack, e);
    if (rc) return rc;
    rc = skippy_ram_put(t->store[way], &pack.m, sk_store_pack_source, &pack, &id);
    if (rc) sk_err_set(e, rc, "the RAM store refused an export: %s", skippy_strerror(rc));
    for (size_t i = 0; i < SK_STORE_CONTENTS; i++) {
        use->sum[i].logical += pack.sum[i].logical;
        use->sum[i].fresh += pack.sum[i].fresh;
    }
    sk_store_pack_free(&pack);
    skippy_ram_get_stats(t->store[way], &use->stats);
    if (rc == SKIPPY_OK && use->stats.dropped[SKIPPY_DROP_EVICTED])
        rc =
            sk_err_set(e, SKIPPY_E_NOMEM,
                       "the exports do not fit into %llu MiB, a share of the free memory: choose fewer or shorter ones",
                       (unsigned long long)(use->stats.max_bytes >> 20));
    return rc;
}

/* Whole exports keep the cuts they have. */
static int cut_by_tokens(const sk_store_lab *lab, uint32_t step, sk_parcel *parcel, sk_err *e) {
    for (size_t i = 0; i < parcel->n_parts; i++) {
        sk_blob *b = &parcel->blob[i];
        size_t *cuts = NULL, n = 0;
        sk_state_shape shape = lab->shape;
        shape.partial = parcel->part[i].kind == SKIPPY_PART_STATE;
        if (parcel->part[i].kind == SKIPPY_PART_OPAQUE) continue;
        int rc = sk_store_cuts(b->data, b->len, &shape, step, &cuts, &n, e);
        if (rc) return rc;
        free(b->cuts);
        b->cuts = cuts;
        b->n_cuts = n;
    }
    return SKIPPY_OK;
}

static int put_parts(trial *t, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e) {
    sk_parcel parcel;
    int rc = sk_store_lab_export(t->lab, seq, n, &parcel, e);
    for (size_t way = 0; way < t->out->n_ways && rc == SKIPPY_OK; way++) {
        const sk_store_use *use = &t->out->way[way];
        if (use->cut == SK_STORE_FIXED) continue;
        if (use->cut == SK_STORE_BY_TOKENS) rc = cut_by_tokens(t->lab, use->step, &parcel, e);
        if (rc == SKIPPY_OK) rc = put(t, way, &parcel, tokens, e);
    }
    sk_parcel_free(&parcel); /* empty after an error of the export */
    return rc;
}

static int put_whole(trial *t, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e) {
    sk_parcel parcel;
    int rc = sk_store_lab_export_whole(t->lab, seq, n, &parcel, e);
    if (rc) return rc;
    rc = put(t, t->out->n_ways - 1, &parcel, tokens, e);
    sk_parcel_free(&parcel);
    return rc;
}

static int put_all(trial *t, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e) {
    t->out->exports++;
    t->out->tokens += n;
    int rc = put_parts(t, seq, tokens, n, e);
    return rc == SKIPPY_OK ? put_whole(t, seq, tokens, n, e) : rc;
}

/* ---- scenarios ---- */

int sk_store_chat(sk_store_lab *lab, sk_store_savings *out, sk_err *e) {
    const sk_store_sizes *s = &lab->o->sizes;
    trial t = {.lab = lab, .out = out};
    *out = (sk_store_savings){.name = "chat", .title = "one conversation that grows"};
    int rc = open_trial(&t, e);
    for (uint32_t i = 0; i < s->turns && rc == SKIPPY_OK; i++) {
        const uint32_t before = i * s->turn_tokens;
        sk_store_lab_note(lab, "chat: turn %u of %u", i + 1, s->turns);
        rc = sk_store_lab_feed(lab, SK_RIG_LANE, lab->tokens + before, s->turn_tokens, e);
        if (rc == SKIPPY_OK) rc = put_all(&t, SK_RIG_LANE, lab->tokens, before + s->turn_tokens, e);
    }
    close_trial(&t);
    return rc;
}

/* tokens: room for shared and own ones; the shared ones are there. */
static int run_agent(trial *t, uint32_t agent, int32_t *tokens, sk_err *e) {
    sk_store_lab *lab = t->lab;
    const sk_store_sizes *s = &lab->o->sizes;
    const int32_t *own = lab->tokens + s->shared + (size_t)agent * s->own;
    for (uint32_t i = 0; i < s->own; i++) tokens[s->shared + i] = own[i];
    int rc = sk_context_seq_copy(lab->rig.ctx, SK_RIG_CACHE, SK_RIG_OTHER, s->shared, e);
    if (rc == SKIPPY_OK) rc = sk_store_lab_feed(lab, SK_RIG_OTHER, own, s->own, e);
    if (rc == SKIPPY_OK) rc = put_all(t, SK_RIG_OTHER, tokens, s->shared + s->own, e);
    sk_context_seq_clear(lab->rig.ctx, SK_RIG_OTHER);
    return rc;
}

/* As the server keeps a prefix: in a sequence of its own, with a window of its own. */
static int make_shared(sk_store_lab *lab, const int32_t *tokens, sk_err *e) {
    sk_store_lab_note(lab, "agents: computing the shared prefix");
    int rc = sk_store_lab_feed(lab, SK_RIG_LANE, tokens, lab->o->sizes.shared, e);
    if (rc == SKIPPY_OK) rc = sk_context_seq_snapshot(lab->rig.ctx, SK_RIG_LANE, SK_RIG_CACHE, e);
    sk_context_seq_clear(lab->rig.ctx, SK_RIG_LANE);
    return rc;
}

int sk_store_agents(sk_store_lab *lab, sk_store_savings *out, sk_err *e) {
    const sk_store_sizes *s = &lab->o->sizes;
    trial t = {.lab = lab, .out = out};
    *out = (sk_store_savings){.name = "agents", .title = "agents with a shared prefix"};
    int32_t *tokens = calloc((size_t)s->shared + s->own, sizeof *tokens);
    if (!tokens) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %u tokens", s->shared + s->own);
    for (uint32_t i = 0; i < s->shared; i++) tokens[i] = lab->tokens[i];
    int rc = open_trial(&t, e);
    if (rc == SKIPPY_OK) rc = make_shared(lab, tokens, e);
    for (uint32_t i = 0; i < s->agents && rc == SKIPPY_OK; i++) {
        sk_store_lab_note(lab, "agents: %u of %u", i + 1, s->agents);
        rc = run_agent(&t, i, tokens, e);
    }
    close_trial(&t);
    free(tokens);
    return rc;
}

/* ---- numbers ---- */

double sk_store_saved(sk_store_sum sum) {
    return sum.logical ? 100.0 * (1.0 - (double)sum.fresh / (double)sum.logical) : 0.0;
}

sk_store_sum sk_store_use_total(const sk_store_use *use) {
    sk_store_sum total = {0};
    for (size_t i = 0; i < SK_STORE_CONTENTS; i++) {
        total.logical += use->sum[i].logical;
        total.fresh += use->sum[i].fresh;
    }
    return total;
}
