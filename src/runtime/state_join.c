#include "runtime/state_join.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/state_bytes.h"

typedef struct joiner {
    const sk_state_piece *pieces;
    size_t n;
    uint8_t *out;
    size_t at;
} joiner;

static void copy(joiner *j, const uint8_t *bytes, size_t len) {
    memcpy(j->out + j->at, bytes, len);
    j->at += len;
}

static void put_u32(joiner *j, uint32_t v) {
    sk_put_le32(j->out + j->at, v);
    j->at += 4;
}

/* First piece with cells in this section: the one that shows its layers. NULL when none has. */
static const sk_state_piece *shown(const joiner *j, size_t section) {
    for (size_t i = 0; i < j->n; i++)
        if (j->pieces[i].parse->section[section].n_cells > 0) return &j->pieces[i];
    return NULL;
}

static void join_rows(joiner *j, size_t section, size_t k) {
    for (size_t i = 0; i < j->n; i++) {
        const sk_state_parse *p = j->pieces[i].parse;
        if (p->section[section].n_cells == 0) continue;
        const sk_state_run *run = &p->runs[p->section[section].first_run + k];
        copy(j, j->pieces[i].blob + run->offset, run->bytes);
    }
}

/* Transposed: all cells' values of one element follow each other. */
static void join_elements(joiner *j, size_t section, size_t k, uint32_t n_elements) {
    for (uint32_t element = 0; element < n_elements; element++) {
        for (size_t i = 0; i < j->n; i++) {
            const sk_state_parse *p = j->pieces[i].parse;
            const sk_state_section *s = &p->section[section];
            if (s->n_cells == 0) continue;
            const sk_state_run *run = &p->runs[s->first_run + k];
            size_t bytes = (size_t)s->n_cells * run->element_bytes;
            copy(j, j->pieces[i].blob + run->offset + element * bytes, bytes);
        }
    }
}

static void join_kv(joiner *j, size_t section) {
    const sk_state_piece *first = shown(j, section);
    uint32_t cells = 0;
    for (size_t i = 0; i < j->n; i++) cells += j->pieces[i].parse->section[section].n_cells;
    put_u32(j, 1);
    put_u32(j, cells);
    if (!first) return;
    for (size_t i = 0; i < j->n; i++) {
        const sk_state_section *s = &j->pieces[i].parse->section[section];
        copy(j, j->pieces[i].blob + s->cells_offset, s->n_cells * s->cell_bytes);
    }
    const sk_state_section *s = &first->parse->section[section];
    copy(j, first->blob + s->cells_offset + s->n_cells * s->cell_bytes, 8); /* V order and layer count */
    for (size_t k = 0; k < s->n_runs; k++) {
        const sk_state_run *run = &first->parse->runs[s->first_run + k];
        copy(j, first->blob + run->offset - SK_STATE_RUN_HEADER_BYTES, SK_STATE_RUN_HEADER_BYTES);
        if (run->transposed)
            join_elements(j, section, k, run->n_embd_v);
        else
            join_rows(j, section, k);
    }
}

static int check_layouts(const sk_state_piece *pieces, size_t n, size_t *total, sk_err *e) {
    skippy_key first, other;
    sk_state_layout_digest(pieces[0].parse, &first);
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        sk_state_layout_digest(pieces[i].parse, &other);
        if (memcmp(&first, &other, sizeof first) != 0)
            return sk_err_set(e, SKIPPY_E_CORRUPT, "pieces of state with different layouts cannot be joined");
        *total += pieces[i].len; /* all are in memory, so the sum fits */
    }
    return SKIPPY_OK;
}

int sk_state_join(const sk_state_piece *pieces, size_t n, uint8_t **out, size_t *len, sk_err *e) {
    if (n == 0) return sk_err_set(e, SKIPPY_E_INVALID, "no pieces of state to join");
    size_t total;
    int rc = check_layouts(pieces, n, &total, e);
    if (rc) return rc;
    joiner j = {.pieces = pieces, .n = n, .out = malloc(total)};
    if (!j.out) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", total);
    copy(&j, pieces[0].blob, SK_STATE_HEADER_BYTES);
    const sk_state_piece *last = &pieces[n - 1];
    for (size_t i = 0; i < pieces[0].parse->n_sections; i++) {
        const sk_state_section *s = &last->parse->section[i];
        if (s->kind == SK_SECTION_KV)
            join_kv(&j, i);
        else
            copy(&j, last->blob + s->offset, s->bytes);
    }
    *out = j.out;
    *len = j.at;
    return SKIPPY_OK;
}
