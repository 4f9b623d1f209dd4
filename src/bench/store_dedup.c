#include "bench/store_dedup.h"

#include <stdlib.h>

#include "bench/store_cuts.h"
#include "runtime/host_memory.h"
#include "skippy/ram_store.h"

/* One store for each way, open at the same time, so that every way sees the same exports. */
typedef struct trial {
    sk_store_lab *lab;
    skippy_ram_store *store[SK_STORE_WAYS];
    sk_store_savings *out;
} trial;

/* Nothing may be evicted while it is counted, and the machine must survive it. */
static uint64_t store_limit(void) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    return memory.available ? memory.available / (SK_STORE_WAYS + 1) : (uint64_t)4 << 30;
}

static void close_trial(trial *t) {
    for (size_t i = 0; i < SK_STORE_WAYS; i++) skippy_ram_destroy(t->store[i]);
    sk_context_clear(t->lab->rig.ctx);
}

static int open_trial(trial *t, sk_err *e) {
    const skippy_ram_params p = {.max_bytes = store_limit()};
    for (size_t i = 0; i < SK_STORE_WAYS; i++) {
        int rc = skippy_ram_create(NULL, &p, &t->store[i]);
        if (rc) return sk_err_set(e, rc, "a RAM store could not be made: %s", skippy_strerror(rc));
        t->out->way[i].measured = i != SK_STORE_BY_TOKENS || t->lab->o->sizes.subcut > 0;
    }
    return SKIPPY_OK;
}

/* ---- one export ---- */

static int put(trial *t, enum sk_store_way way, const sk_parcel *parcel, const int32_t *tokens, sk_err *e) {
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
static int cut_finer(sk_store_lab *lab, sk_parcel *parcel, sk_err *e) {
    for (size_t i = 0; i < parcel->n_parts; i++) {
        sk_blob *b = &parcel->blob[i];
        size_t *cuts = NULL, n = 0;
        sk_state_shape shape = lab->shape;
        shape.partial = parcel->part[i].kind == SKIPPY_PART_STATE;
        if (parcel->part[i].kind == SKIPPY_PART_OPAQUE) continue;
        int rc = sk_store_cuts(b->data, b->len, &shape, lab->o->sizes.subcut, &cuts, &n, e);
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
    if (rc) return rc;
    rc = put(t, SK_STORE_BY_LAYOUT, &parcel, tokens, e);
    if (rc == SKIPPY_OK && t->out->way[SK_STORE_BY_TOKENS].measured) {
        rc = cut_finer(t->lab, &parcel, e);
        if (rc == SKIPPY_OK) rc = put(t, SK_STORE_BY_TOKENS, &parcel, tokens, e);
    }
    sk_parcel_free(&parcel);
    return rc;
}

static int put_whole(trial *t, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e) {
    sk_parcel parcel;
    int rc = sk_store_lab_export_whole(t->lab, seq, n, &parcel, e);
    if (rc) return rc;
    rc = put(t, SK_STORE_FIXED, &parcel, tokens, e);
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
    int rc = sk_context_seq_copy(lab->rig.ctx, SK_RIG_LANE, SK_RIG_OTHER, s->shared, e);
    if (rc == SKIPPY_OK) rc = sk_store_lab_feed(lab, SK_RIG_OTHER, own, s->own, e);
    if (rc == SKIPPY_OK) rc = put_all(t, SK_RIG_OTHER, tokens, s->shared + s->own, e);
    sk_context_seq_clear(lab->rig.ctx, SK_RIG_OTHER);
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
    sk_store_lab_note(lab, "agents: computing the shared prefix");
    if (rc == SKIPPY_OK) rc = sk_store_lab_feed(lab, SK_RIG_LANE, tokens, s->shared, e);
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
