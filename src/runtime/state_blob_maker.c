#include "runtime/state_blob_maker.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "runtime/state_bytes.h"

static void put32(sk_buf *b, uint32_t v) {
    uint8_t bytes[4];
    sk_put_le32(bytes, v);
    sk_buf_add(b, bytes, sizeof bytes);
}

static void put64(sk_buf *b, uint64_t v) {
    put32(b, (uint32_t)v);
    put32(b, (uint32_t)(v >> 32));
}

/* A byte of a tensor, from everything that names it. */
static char value(char what, uint32_t layer, uint32_t position, uint32_t byte) {
    uint32_t x = (uint32_t)(unsigned char)what * 2654435761u + layer * 40503u + position * 69069u + byte * 97u;
    return (char)(x >> 13 ^ x);
}

/* Position of cell i: ascending from m->first, or a permutation of it. */
static uint32_t position_of(const sk_made *m, uint32_t n, uint32_t i) {
    if (!m->shuffle || n < 2) return m->first + i;
    return m->first + (n - 1 - i + m->shuffle) % n;
}

static void put_row(sk_buf *b, char what, uint32_t layer, uint32_t position, uint32_t bytes) {
    for (uint32_t k = 0; k < bytes; k++) {
        char c = value(what, layer, position, k);
        sk_buf_add(b, &c, 1);
    }
}

static void put_transposed_v(sk_buf *b, const sk_made *m, uint32_t layer, uint32_t n) {
    put32(b, (uint32_t)m->type);
    put32(b, SK_MADE_ELEMENT);
    put32(b, SK_MADE_ROW / SK_MADE_ELEMENT);
    for (uint32_t j = 0; j < SK_MADE_ROW / SK_MADE_ELEMENT; j++) {
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < SK_MADE_ELEMENT; k++) {
                char c = value('V', layer, position_of(m, n, i), j * SK_MADE_ELEMENT + k);
                sk_buf_add(b, &c, 1);
            }
        }
    }
}

static void put_rows(sk_buf *b, const sk_made *m, char what, uint32_t layer, uint32_t n, uint32_t bytes) {
    put32(b, (uint32_t)m->type);
    put64(b, bytes);
    for (uint32_t i = 0; i < n; i++) put_row(b, what, layer, position_of(m, n, i), bytes);
}

static void put_kv(sk_buf *b, const sk_made *m, uint32_t n) {
    put32(b, 1);
    put32(b, n);
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++) {
        put32(b, position_of(m, n, i));
        put32(b, 1);
        if (m->ext) put_row(b, 'E', 0, position_of(m, n, i), 12);
        put32(b, (uint32_t)m->id);
    }
    put32(b, m->transposed);
    put32(b, SK_MADE_LAYERS);
    for (uint32_t l = 0; l < SK_MADE_LAYERS; l++) put_rows(b, m, 'K', l, n, SK_MADE_ROW + m->extra_row);
    for (uint32_t l = 0; l < SK_MADE_LAYERS && m->has_v; l++) {
        if (m->transposed)
            put_transposed_v(b, m, l, n);
        else
            put_rows(b, m, 'V', l, n, SK_MADE_ROW);
    }
}

static void put_rs(sk_buf *b, const sk_made *m) {
    uint32_t last = m->first + (m->n_kv && m->cells[0] ? m->cells[0] - 1 : 0);
    put32(b, m->rs_cells);
    if (m->rs_cells) {
        put32(b, last);
        put32(b, 0);
    }
    put32(b, 0);
    put32(b, SK_MADE_LAYERS + SK_MADE_RS_LAYERS);
    for (int s = 0; s < 2; s++) {
        for (uint32_t l = 0; l < SK_MADE_RS_LAYERS; l++) {
            uint32_t bytes = s ? (m->no_s ? 0 : 40) : 16;
            put32(b, 0);
            put64(b, bytes);
            if (m->rs_cells) put_row(b, s ? 'S' : 'R', l, 0, bytes);
        }
    }
}

static sk_made_blob done(sk_buf *b) {
    if (b->failed) abort();
    return (sk_made_blob){(uint8_t *)b->data, b->len};
}

sk_made_blob sk_make_blob(const sk_made *m) {
    sk_buf b = {0};
    put32(&b, SK_STATE_MAGIC);
    put32(&b, (uint32_t)m->id);
    for (size_t i = 0; i < m->n_kv; i++) put_kv(&b, m, m->cells[i]);
    if (m->rs) put_rs(&b, m);
    return done(&b);
}

sk_made_blob sk_make_ambiguous_blob(void) {
    enum { V_ROW = 40, R_ROW = 16, S_ROW = 8 };
    sk_buf b = {0};
    put32(&b, SK_STATE_MAGIC);
    put32(&b, 0);
    put32(&b, 1), put32(&b, 1);                /* one stream, one cell */
    put32(&b, 0), put32(&b, 1), put32(&b, 0);  /* position, ids, id */
    put32(&b, 0), put32(&b, 1);                /* plain V, one layer */
    put32(&b, 0), put64(&b, 4), put32(&b, 77); /* K */
    put32(&b, 1), put64(&b, V_ROW);            /* V of type 1; or: one recurrent cell at position V_ROW */
    put32(&b, 0), put32(&b, 1);                /* V bytes; or: not transposed, one layer */
    /* V bytes; or: an R row that reaches to the last header */
    put32(&b, 0), put64(&b, V_ROW - 20 + 20 + 12 + R_ROW);
    for (int i = 0; i < V_ROW - 20; i++) sk_buf_add(&b, "v", 1);
    put32(&b, 1), put32(&b, 0), put32(&b, 0); /* one recurrent cell */
    put32(&b, 0), put32(&b, 1);
    put32(&b, 0), put64(&b, R_ROW);
    for (int i = 0; i < R_ROW; i++) sk_buf_add(&b, "r", 1);
    put32(&b, 0), put64(&b, S_ROW);
    for (int i = 0; i < S_ROW; i++) sk_buf_add(&b, "s", 1);
    return done(&b);
}

void sk_made_free(sk_made_blob *b) {
    free(b->bytes);
    *b = (sk_made_blob){0};
}

uint32_t sk_made_get32(const sk_made_blob *b, size_t at) {
    return sk_le32(b->bytes + at);
}

void sk_made_put32(sk_made_blob *b, size_t at, uint32_t v) {
    sk_put_le32(b->bytes + at, v);
}

bool *sk_made_unchecked(const sk_made_blob *b, const sk_state_parse *p) {
    bool *u = calloc(b->len, sizeof *u);
    if (!u) abort();
    for (size_t i = 0; i < p->n_runs; i++)
        for (size_t k = 0; k < p->runs[i].bytes; k++) u[p->runs[i].offset + k] = true;
    for (size_t s = 0; s < p->n_sections; s++) {
        if (!p->section[s].ext) continue;
        for (uint32_t i = 0; i < p->section[s].n_cells; i++)
            for (size_t k = 8; k < 20; k++)
                u[p->section[s].cells_offset + (size_t)i * p->section[s].cell_bytes + k] = true;
    }
    return u;
}

bool sk_made_same_positions(const sk_made_blob *b, const sk_state_parse *p, const sk_made *m) {
    for (size_t s = 0; s < p->n_sections; s++) {
        if (s < m->n_kv) {
            if (!sk_state_positions_are(b->bytes, p, s, m->first, m->first + m->cells[s])) return false;
        } else {
            uint32_t last = m->first + (m->n_kv && m->cells[0] ? m->cells[0] - 1 : 0);
            if (p->section[s].n_cells != m->rs_cells) return false;
            if (m->rs_cells && sk_state_position(b->bytes, p, s, 0) != (int32_t)last) return false;
        }
    }
    return true;
}
