/* Canonical bytes of a parsed state, and what is read from them: digest of the layout, positions, cuts. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/state_bytes.h"
#include "runtime/state_codec.h"

int32_t sk_state_position(const uint8_t *blob, const sk_state_parse *p, size_t section, uint32_t i) {
    const sk_state_section *s = &p->section[section];
    return (int32_t)sk_le32(blob + s->cells_offset + (size_t)i * s->cell_bytes);
}

bool sk_state_positions_are(const uint8_t *blob, const sk_state_parse *p, size_t section, uint32_t from, uint32_t to) {
    if (section >= p->n_sections || to < from || p->section[section].kind != SK_SECTION_KV) return false;
    if (p->section[section].n_cells != to - from) return false;
    for (uint32_t i = 0; i < to - from; i++)
        if ((int64_t)sk_state_position(blob, p, section, i) != (int64_t)from + i) return false;
    return true;
}

/* ---- digest ---- */

static void hash_u32(sk_hasher *h, uint32_t v) {
    uint8_t b[4];
    sk_put_le32(b, v);
    sk_hash_update(h, b, sizeof b);
}

static void hash_run(sk_hasher *h, const sk_state_run *r) {
    hash_u32(h, r->what);
    hash_u32(h, r->transposed);
    hash_u32(h, (uint32_t)r->type);
    hash_u32(h, (uint32_t)r->row_bytes);
    hash_u32(h, (uint32_t)(r->row_bytes >> 32));
    hash_u32(h, r->element_bytes);
    hash_u32(h, r->n_embd_v);
}

/* Every field has a fixed width and every list its length before it, so no two layouts hash the same bytes. */
void sk_state_layout_digest(const sk_state_parse *p, skippy_key *out) {
    static const char NAME[] = "skippy state layout 1";
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, NAME, sizeof NAME);
    hash_u32(&h, (uint32_t)p->n_sections);
    for (size_t i = 0; i < p->n_sections; i++) {
        const sk_state_section *s = &p->section[i];
        hash_u32(&h, s->kind);
        hash_u32(&h, s->ext);
        hash_u32(&h, s->transposed);
        hash_u32(&h, s->n_layer);
        hash_u32(&h, (uint32_t)s->n_runs);
        for (size_t k = 0; k < s->n_runs; k++) hash_run(&h, &p->runs[s->first_run + k]);
    }
    sk_hash_final(&h, out->bytes);
}

/* ---- canonical order ---- */

typedef struct placed {
    int32_t position;
    uint32_t index; /* of the cell as written */
} placed;

static int by_position(const void *a, const void *b) {
    int32_t x = ((const placed *)a)->position, y = ((const placed *)b)->position;
    return (x > y) - (x < y);
}

/* Items of one array of n, each `bytes` long, in the new order. tmp has room for all of them. */
static void permute(uint8_t *items, size_t bytes, const placed *order, uint32_t n, uint8_t *tmp) {
    for (uint32_t i = 0; i < n; i++) memcpy(tmp + (size_t)i * bytes, items + (size_t)order[i].index * bytes, bytes);
    memcpy(items, tmp, (size_t)n * bytes);
}

static void permute_run(uint8_t *blob, const sk_state_run *run, const placed *order, uint32_t n, uint8_t *tmp) {
    if (!run->transposed) {
        permute(blob + run->offset, (size_t)run->row_bytes, order, n, tmp);
        return;
    }
    size_t element_row = (size_t)run->element_bytes * n; /* one value of every cell */
    for (uint32_t j = 0; j < run->n_embd_v; j++)
        permute(blob + run->offset + j * element_row, run->element_bytes, order, n, tmp);
}

static size_t largest_permutation(const sk_state_parse *p, const sk_state_section *s) {
    size_t most = (size_t)s->n_cells * s->cell_bytes;
    for (size_t i = 0; i < s->n_runs; i++) {
        const sk_state_run *run = &p->runs[s->first_run + i];
        if (run->bytes > most) most = run->bytes;
    }
    return most;
}

static int sort_cells(uint8_t *blob, const sk_state_parse *p, size_t section, sk_err *e) {
    const sk_state_section *s = &p->section[section];
    bool sorted = true;
    for (uint32_t i = 0; i < s->n_cells; i++) {
        int32_t at = sk_state_position(blob, p, section, i);
        if (at < 0) return sk_err_set(e, SKIPPY_E_CORRUPT, "a cell of the state has the position %d", (int)at);
        if (i && at <= sk_state_position(blob, p, section, i - 1)) sorted = false;
    }
    if (sorted) return SKIPPY_OK;
    placed *order = malloc(s->n_cells * sizeof *order);
    uint8_t *tmp = malloc(largest_permutation(p, s));
    int rc = SKIPPY_OK;
    if (!order || !tmp) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for sorting %u cells", s->n_cells);
        goto out;
    }
    for (uint32_t i = 0; i < s->n_cells; i++) order[i] = (placed){sk_state_position(blob, p, section, i), i};
    qsort(order, s->n_cells, sizeof *order, by_position);
    for (uint32_t i = 1; i < s->n_cells; i++) {
        if (order[i].position == order[i - 1].position) {
            rc = sk_err_set(e, SKIPPY_E_CORRUPT, "two cells of the state have the position %d", (int)order[i].position);
            goto out;
        }
    }
    permute(blob + s->cells_offset, s->cell_bytes, order, s->n_cells, tmp);
    for (size_t i = 0; i < s->n_runs; i++) permute_run(blob, &p->runs[s->first_run + i], order, s->n_cells, tmp);
out:
    free(order);
    free(tmp);
    return rc;
}

int sk_state_canonicalise(uint8_t *blob, size_t len, const sk_state_parse *p, sk_err *e) {
    if (len < SK_STATE_HEADER_BYTES) return sk_err_set(e, SKIPPY_E_CORRUPT, "%zu bytes are no state", len);
    for (size_t i = 0; i < p->n_sections; i++) {
        const sk_state_section *s = &p->section[i];
        if (s->kind != SK_SECTION_KV) continue;
        int rc = sort_cells(blob, p, i, e);
        if (rc) return rc;
        for (uint32_t k = 0; k < s->n_cells; k++)
            sk_put_le32(blob + s->cells_offset + (size_t)(k + 1) * s->cell_bytes - 4, 0);
    }
    sk_put_le32(blob + 4, 0);
    return SKIPPY_OK;
}

/* ---- cuts ---- */

/* Offsets that were chosen so far. */
typedef struct cutting {
    size_t *cuts;
    size_t cap, n, last, len;
} cutting;

/* Cuts at this offset unless the span before it, or what is left after it, is too short to be a block. */
static void cut_at(cutting *c, size_t offset) {
    bool end = offset == c->len;
    if (offset <= c->last || (!end && (offset - c->last < SK_STATE_MIN_SPAN || c->len - offset < SK_STATE_MIN_SPAN)))
        return;
    if (c->n < c->cap) c->cuts[c->n] = offset;
    c->n++;
    c->last = offset;
}

/* Positions between two cuts inside a run: step, or a power of two times as many where rows are short. 0 = not cut. */
static uint32_t positions_between(const sk_state_run *r, uint32_t step) {
    if (step == 0 || r->transposed || r->row_bytes == 0) return 0; /* transposed: neighbours do not lie side by side */
    while (step < r->bytes && step * r->row_bytes < 2 * SK_STATE_MIN_SPAN) step *= 2;
    return step;
}

/* A short rest of a run stays with the rows before it: with the beginning of the next run it would make that one new,
 * too. */
static void cut_rows(cutting *c, const uint8_t *blob, const sk_state_parse *p, size_t section, const sk_state_run *r,
                     uint32_t step) {
    uint32_t every = positions_between(r, step);
    for (uint32_t i = 1; every && i < p->section[section].n_cells; i++) {
        size_t at = i * (size_t)r->row_bytes;
        if (r->bytes - at < SK_STATE_MIN_SPAN) return;
        if (sk_state_position(blob, p, section, i) % (int64_t)every == 0) cut_at(c, r->offset + at);
    }
}

size_t sk_state_cuts(const uint8_t *blob, size_t len, const sk_state_parse *p, uint32_t step, size_t *cuts,
                     size_t cap) {
    cutting c = {.cuts = cuts, .cap = cap, .len = len};
    for (size_t s = 0; s < p->n_sections; s++) {
        const sk_state_section *section = &p->section[s];
        for (size_t i = 0; i < section->n_runs; i++) {
            const sk_state_run *r = &p->runs[section->first_run + i];
            cut_at(&c, r->offset - SK_STATE_RUN_HEADER_BYTES); /* the end of the frame, or of the run before */
            if (section->kind == SK_SECTION_KV) cut_rows(&c, blob, p, s, r, step);
        }
    }
    cut_at(&c, len);
    return c.n;
}
