#include "correctness/parcel.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

static double ms_since(uint64_t start_ns) {
    return (double)(sk_now_ns() - start_ns) / 1e6;
}

/* ---- export ---- */

/* The next free part, or NULL when there are too many. */
static sk_blob *add_part(sk_parcel *p, int kind, uint32_t from, uint32_t to, sk_err *e) {
    if (p->n_parts == SK_PARCEL_MAX_PARTS) {
        sk_err_set(e, SKIPPY_E_TOO_LARGE, "a prefix of %u tokens has more than %d parts", p->n_tokens,
                   SK_PARCEL_MAX_PARTS);
        return NULL;
    }
    p->part[p->n_parts] = (sk_state_part){.kind = kind, .from = from, .to = to};
    return &p->blob[p->n_parts++];
}

/* The last part's bytes are known now. */
static void finish_part(sk_parcel *p) {
    p->part[p->n_parts - 1].data = p->blob[p->n_parts - 1].data;
    p->part[p->n_parts - 1].len = p->blob[p->n_parts - 1].len;
}

static int export_windows(sk_rig *r, uint32_t seq, sk_parcel *p, sk_err *e) {
    for (uint32_t from = 0; from < p->n_tokens; from += SK_PARCEL_WINDOW) {
        uint32_t to = p->n_tokens - from < SK_PARCEL_WINDOW ? p->n_tokens : from + SK_PARCEL_WINDOW;
        sk_blob *b = add_part(p, SKIPPY_PART_KV, from, to, e);
        if (!b) return SKIPPY_E_TOO_LARGE;
        int rc = sk_state_export_kv(r->ctx, &r->caps, seq, SK_RIG_SCRATCH, from, to, b, e);
        if (rc) return rc;
        finish_part(p);
    }
    return SKIPPY_OK;
}

static int export_tail(sk_rig *r, uint32_t seq, sk_parcel *p, sk_err *e) {
    sk_blob *b = add_part(p, SKIPPY_PART_STATE, p->n_tokens, p->n_tokens, e);
    if (!b) return SKIPPY_E_TOO_LARGE;
    int rc = sk_state_export_tail(r->ctx, &r->caps, seq, b, e);
    if (rc == SKIPPY_OK) finish_part(p);
    return rc;
}

static int export_whole(sk_rig *r, uint32_t seq, sk_parcel *p, sk_err *e) {
    sk_blob *b = add_part(p, SKIPPY_PART_OPAQUE, 0, p->n_tokens, e);
    if (!b) return SKIPPY_E_TOO_LARGE;
    int rc = sk_state_export_whole(r->ctx, &r->caps, seq, b, e);
    if (rc == SKIPPY_OK) finish_part(p);
    return rc;
}

int sk_parcel_export(sk_rig *r, uint32_t seq, enum skippy_payload_kind kind, uint32_t n_tokens, sk_parcel *out,
                     sk_err *e) {
    *out = (sk_parcel){.kind = kind, .n_tokens = n_tokens};
    int rc = SKIPPY_OK;
    if (kind == SKIPPY_PAYLOAD_FULL_STATE || !r->caps.windows) {
        rc = export_whole(r, seq, out, e);
    } else {
        if (kind != SKIPPY_PAYLOAD_RECURRENT_ONLY && r->caps.has_kv) rc = export_windows(r, seq, out, e);
        if (rc == SKIPPY_OK && r->caps.has_tail) rc = export_tail(r, seq, out, e);
    }
    if (rc) sk_parcel_free(out);
    return rc;
}

void sk_parcel_free(sk_parcel *p) {
    for (size_t i = 0; i < p->n_parts; i++) sk_blob_free(&p->blob[i]);
    *p = (sk_parcel){0};
}

void sk_parcel_keep(sk_parcel *p, bool keep_kv) {
    size_t kept = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        if ((p->part[i].kind == SKIPPY_PART_KV) != keep_kv) {
            sk_blob_free(&p->blob[i]);
            continue;
        }
        p->part[kept] = p->part[i];
        p->blob[kept++] = p->blob[i];
    }
    p->n_parts = kept;
}

/* ---- through a store ---- */

/* References of all blocks of a parcel; owned. */
typedef struct references {
    skippy_block_ref *ref;
    const uint8_t **data; /* where each block's bytes are */
    size_t n;
    skippy_part part[SK_PARCEL_MAX_PARTS];
    size_t next; /* the store asks in order: look here first */
} references;

static void free_references(references *refs) {
    free(refs->ref);
    free(refs->data);
}

static size_t most_blocks(const sk_parcel *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->n_parts; i++) n += p->blob[i].n_cuts + p->part[i].len / SKIPPY_BLOCK_MAX + 2;
    return n;
}

static int cut_parts(const sk_parcel *p, references *refs, sk_err *e) {
    size_t cap = most_blocks(p) + 1;
    refs->ref = calloc(cap, sizeof *refs->ref);
    refs->data = calloc(cap, sizeof *refs->data);
    if (!refs->ref || !refs->data) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for block references");
    for (size_t i = 0; i < p->n_parts; i++) {
        const sk_state_part *part = &p->part[i];
        size_t n = 0;
        int rc = skippy_blocks_cut(part->data, part->len, p->blob[i].cuts, p->blob[i].n_cuts, refs->ref + refs->n,
                                   cap - refs->n, &n);
        if (rc) return sk_err_set(e, rc, "part %zu could not be cut into blocks: %s", i, skippy_strerror(rc));
        refs->part[i] = (skippy_part){.kind = (uint8_t)part->kind,
                                      .from = part->from,
                                      .to = part->to,
                                      .blocks = refs->ref + refs->n,
                                      .n_blocks = n};
        const uint8_t *at = part->data;
        for (size_t k = refs->n; k < refs->n + n; k++) {
            refs->data[k] = at;
            at += refs->ref[k].bytes;
        }
        refs->n += n;
    }
    return SKIPPY_OK;
}

static bool same_block(const skippy_block_ref *a, const skippy_block_ref *b) {
    return a->bytes == b->bytes && skippy_key_equal(&a->digest, &b->digest);
}

static int give_block(void *ud, const skippy_block_ref *block, const void **data) {
    references *refs = ud;
    for (size_t i = 0; i < refs->n; i++) {
        size_t k = (refs->next + i) % refs->n;
        if (!same_block(&refs->ref[k], block)) continue;
        *data = refs->data[k];
        refs->next = (k + 1) % refs->n;
        return SKIPPY_OK;
    }
    return SKIPPY_E_NOT_FOUND;
}

static void describe(const sk_parcel *p, const references *refs, sk_parcel_cost *cost, sk_parcel_block *blocks,
                     size_t cap) {
    uint64_t offset[SKIPPY_PART_LOGITS + 1] = {0};
    size_t k = 0;
    sk_hasher h;
    sk_hash_init(&h);
    for (size_t i = 0; i < p->n_parts; i++) {
        sk_hash_update(&h, p->part[i].data, p->part[i].len);
        *(p->part[i].kind == SKIPPY_PART_KV ? &cost->kv_bytes : &cost->state_bytes) += p->part[i].len;
        cost->total_bytes += p->part[i].len;
        for (size_t j = 0; j < refs->part[i].n_blocks; j++, k++) {
            uint64_t *at = &offset[p->part[i].kind];
            if (k < cap) blocks[k] = (sk_parcel_block){refs->part[i].kind, *at, refs->ref[k]};
            *at += refs->ref[k].bytes;
        }
    }
    cost->blocks = refs->n;
    sk_hash_final(&h, cost->digest.bytes);
}

int sk_parcel_put(const sk_parcel *p, skippy_ram_store *s, const skippy_key *ns, const skippy_key *layout,
                  const int32_t *tokens, uint64_t *id, sk_parcel_cost *cost, sk_parcel_block *blocks, size_t cap,
                  sk_err *e) {
    references refs = {0};
    skippy_store_stats before, after;
    uint64_t start = sk_now_ns();
    skippy_ram_get_stats(s, &before);
    int rc = cut_parts(p, &refs, e);
    if (rc) goto out;
    skippy_manifest m = {.ns = *ns,
                         .layout = *layout,
                         .payload_kind = (uint8_t)p->kind,
                         .reason = SKIPPY_REASON_CERTIFY,
                         .tokens = tokens,
                         .n_tokens = p->n_tokens,
                         .parts = refs.part,
                         .n_parts = p->n_parts};
    rc = skippy_prefix_key(ns, tokens, p->n_tokens, &m.prefix_key);
    if (rc == SKIPPY_OK) rc = skippy_ram_put(s, &m, give_block, &refs, id);
    if (rc) {
        sk_err_set(e, rc, "the block store refused the payload: %s", skippy_strerror(rc));
        goto out;
    }
    cost->put_ms += ms_since(start);
    skippy_ram_get_stats(s, &after);
    cost->storage_bytes = after.physical_bytes - before.physical_bytes;
    cost->unique_blocks = after.blocks - before.blocks;
    describe(p, &refs, cost, blocks, blocks ? cap : 0);
out:
    free_references(&refs);
    return rc;
}

static int read_part(skippy_ram_store *s, const skippy_part *from, sk_parcel *out, sk_err *e) {
    sk_blob *b = add_part(out, from->kind, (uint32_t)from->from, (uint32_t)from->to, e);
    if (!b) return SKIPPY_E_TOO_LARGE;
    for (size_t i = 0; i < from->n_blocks; i++) b->len += from->blocks[i].bytes;
    b->data = malloc(b->len ? b->len : 1);
    if (!b->data) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", b->len);
    uint8_t *at = b->data;
    for (size_t i = 0; i < from->n_blocks; i++) {
        int rc = skippy_ram_read(s, &from->blocks[i], at);
        if (rc) return sk_err_set(e, rc, "a block could not be read back: %s", skippy_strerror(rc));
        at += from->blocks[i].bytes;
    }
    finish_part(out);
    return SKIPPY_OK;
}

int sk_parcel_fetch(skippy_ram_store *s, uint64_t id, sk_parcel *out, sk_err *e) {
    const skippy_manifest *m = NULL;
    *out = (sk_parcel){0};
    int rc = skippy_ram_lease(s, id, &m);
    if (rc) return sk_err_set(e, rc, "the payload is not in the block store: %s", skippy_strerror(rc));
    out->kind = (enum skippy_payload_kind)m->payload_kind;
    out->n_tokens = (uint32_t)m->n_tokens;
    for (size_t i = 0; rc == SKIPPY_OK && i < m->n_parts; i++) rc = read_part(s, &m->parts[i], out, e);
    skippy_ram_release(s, id);
    if (rc) sk_parcel_free(out);
    return rc;
}

int sk_parcel_import(const sk_parcel *p, sk_rig *r, uint32_t seq, uint32_t n_tokens, sk_err *e) {
    int (*import)(sk_context *, const sk_state_caps *, uint32_t, uint32_t, const sk_state_part *, size_t, uint32_t,
                  sk_err *) = p->forced ? sk_state_import_forced : sk_state_import;
    return import(r->ctx, &r->caps, seq, SK_RIG_SCRATCH, p->part, p->n_parts, n_tokens, e);
}
