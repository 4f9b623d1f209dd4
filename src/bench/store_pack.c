#include "bench/store_pack.h"

#include <stdlib.h>
#include <string.h>

#include "skippy/disk_store.h"
#include "skippy/ram_store.h"

/* ---- cutting ---- */

static enum sk_store_content content_of(int part_kind) {
    return part_kind == SKIPPY_PART_KV ? SK_STORE_KV : part_kind == SKIPPY_PART_STATE ? SK_STORE_TAIL : SK_STORE_WHOLE;
}

static size_t most_blocks(const sk_parcel *p) {
    size_t n = 1;
    for (size_t i = 0; i < p->n_parts; i++) n += p->blob[i].n_cuts + p->part[i].len / SKIPPY_BLOCK_MAX + 1;
    return n;
}

static int cut_part(sk_store_pack *out, const sk_parcel *parcel, size_t i, size_t cap) {
    const sk_state_part *part = &parcel->part[i];
    const sk_blob *blob = &parcel->blob[i];
    const enum sk_store_content content = content_of(part->kind);
    size_t n = 0;
    int rc = skippy_blocks_cut(part->data, part->len, blob->cuts, blob->n_cuts, out->ref + out->n, cap - out->n, &n);
    if (rc) return rc;
    out->part[i] = (skippy_part){
        .kind = (uint8_t)part->kind, .from = part->from, .to = part->to, .blocks = out->ref + out->n, .n_blocks = n};
    const uint8_t *at = part->data;
    for (size_t k = out->n; k < out->n + n; k++) {
        out->data[k] = at;
        out->content[k] = (uint8_t)content;
        at += out->ref[k].bytes;
    }
    out->n += n;
    out->sum[content].logical += part->len;
    return SKIPPY_OK;
}

int sk_store_pack_make(const sk_parcel *parcel, const sk_store_name *name, sk_store_pack *out, sk_err *e) {
    const size_t cap = most_blocks(parcel);
    *out = (sk_store_pack){.m = {.ns = *name->ns,
                                 .layout = *name->layout,
                                 .payload_kind = (uint8_t)parcel->kind,
                                 .reach = SKIPPY_REACH_EXACT,
                                 .reason = SKIPPY_REASON_WRITE_BEHIND,
                                 .tokens = name->tokens,
                                 .n_tokens = parcel->n_tokens,
                                 .parts = out->part,
                                 .n_parts = parcel->n_parts},
                           .ref = calloc(cap, sizeof *out->ref),
                           .data = calloc(cap, sizeof *out->data),
                           .content = calloc(cap, sizeof *out->content)};
    int rc = out->ref && out->data && out->content ? SKIPPY_OK : SKIPPY_E_NOMEM;
    for (size_t i = 0; i < parcel->n_parts && rc == SKIPPY_OK; i++) rc = cut_part(out, parcel, i, cap);
    if (rc == SKIPPY_OK) rc = skippy_prefix_key(name->ns, name->tokens, parcel->n_tokens, &out->m.prefix_key);
    if (rc == SKIPPY_OK) return rc;
    sk_store_pack_free(out);
    return sk_err_set(e, rc, "the state of %u tokens could not be cut into blocks: %s", parcel->n_tokens,
                      skippy_strerror(rc));
}

void sk_store_pack_free(sk_store_pack *p) {
    free(p->ref);
    free(p->data);
    free(p->content);
    *p = (sk_store_pack){0};
}

int sk_store_pack_source(void *ud, const skippy_block_ref *block, const void **data) {
    sk_store_pack *p = ud;
    for (size_t i = 0; i < p->n; i++) {
        const size_t k = (p->next + i) % p->n; /* stores ask in order */
        if (p->ref[k].bytes != block->bytes || !skippy_key_equal(&p->ref[k].digest, &block->digest)) continue;
        *data = p->data[k];
        p->sum[p->content[k]].fresh += block->bytes;
        p->next = k + 1;
        return SKIPPY_OK;
    }
    return SKIPPY_E_NOT_FOUND;
}

sk_store_sum sk_store_pack_total(const sk_store_pack *p) {
    sk_store_sum total = {0};
    for (size_t i = 0; i < SK_STORE_CONTENTS; i++) {
        total.logical += p->sum[i].logical;
        total.fresh += p->sum[i].fresh;
    }
    return total;
}

void sk_store_stamp(sk_parcel *parcel, const sk_store_pack *p, uint64_t number) {
    for (size_t i = 0; i < parcel->n_parts; i++) {
        uint8_t *at = parcel->blob[i].data;
        for (size_t k = 0; k < p->part[i].n_blocks; k++) {
            const uint32_t bytes = p->part[i].blocks[k].bytes;
            memcpy(at, &number, bytes < sizeof number ? bytes : sizeof number);
            at += bytes;
        }
    }
}

/* ---- reading ---- */

int sk_store_read_ram(void *store, const skippy_block_ref *block, void *buf) {
    return skippy_ram_read(store, block, buf);
}

int sk_store_read_disk(void *store, const skippy_block_ref *block, void *buf) {
    return skippy_disk_read(store, block, buf);
}

static int unreadable(sk_err *e, int rc) {
    return sk_err_set(e, rc, "a block could not be read back: %s", skippy_strerror(rc));
}

int sk_store_read_all(const skippy_manifest *m, sk_store_reader read, void *store, uint8_t *buf, sk_err *e) {
    for (size_t i = 0; i < m->n_parts; i++) {
        for (size_t k = 0; k < m->parts[i].n_blocks; k++) {
            int rc = read(store, &m->parts[i].blocks[k], buf);
            if (rc) return unreadable(e, rc);
        }
    }
    return SKIPPY_OK;
}

static int fetch_part(const skippy_part *from, sk_store_reader read, void *store, sk_blob *blob, sk_err *e) {
    for (size_t k = 0; k < from->n_blocks; k++) blob->len += from->blocks[k].bytes;
    blob->data = malloc(blob->len ? blob->len : 1);
    if (!blob->data) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", blob->len);
    uint8_t *at = blob->data;
    for (size_t k = 0; k < from->n_blocks; k++) {
        int rc = read(store, &from->blocks[k], at);
        if (rc) return unreadable(e, rc);
        at += from->blocks[k].bytes;
    }
    return SKIPPY_OK;
}

int sk_store_fetch(const skippy_manifest *m, sk_store_reader read, void *store, sk_parcel *out, sk_err *e) {
    *out = (sk_parcel){.kind = (enum skippy_payload_kind)m->payload_kind, .n_tokens = (uint32_t)m->n_tokens};
    if (m->n_parts > SK_PARCEL_MAX_PARTS)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "the entry has more than %d parts", SK_PARCEL_MAX_PARTS);
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < m->n_parts && rc == SKIPPY_OK; i++) {
        const skippy_part *from = &m->parts[i];
        out->n_parts = i + 1;
        rc = fetch_part(from, read, store, &out->blob[i], e);
        out->part[i] = (sk_state_part){.kind = from->kind,
                                       .from = (uint32_t)from->from,
                                       .to = (uint32_t)from->to,
                                       .data = out->blob[i].data,
                                       .len = out->blob[i].len};
    }
    if (rc) sk_parcel_free(out);
    return rc;
}
