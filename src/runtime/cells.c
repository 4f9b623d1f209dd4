#include "runtime/cells.h"

#include <stdlib.h>
#include <string.h>

#include "skippy/error.h"

int sk_cells_init(sk_cells *c, uint32_t size, uint32_t n_seq) {
    memset(c, 0, sizeof *c);
    c->refs = calloc(size ? size : 1, sizeof *c->refs);
    c->seq = calloc(n_seq ? n_seq : 1, sizeof *c->seq);
    if (!c->refs || !c->seq) {
        sk_cells_free(c);
        return SKIPPY_E_NOMEM;
    }
    c->size = size;
    c->n_seq = n_seq;
    return SKIPPY_OK;
}

void sk_cells_free(sk_cells *c) {
    for (uint32_t s = 0; s < c->n_seq; s++) free(c->seq[s].cell);
    free(c->seq);
    free(c->refs);
    memset(c, 0, sizeof *c);
}

void sk_cells_clear(sk_cells *c) {
    memset(c->refs, 0, c->size * sizeof *c->refs);
    for (uint32_t s = 0; s < c->n_seq; s++) c->seq[s].len = 0;
    c->used = c->head = c->span = 0;
}

static bool grow(sk_cells_seq *q, uint32_t need) {
    if (q->cell && need <= q->cap) return true;
    uint32_t cap = q->cap ? q->cap : 256;
    while (cap < need) cap = cap > UINT32_MAX / 2 ? need : cap * 2;
    uint32_t *cell = realloc(q->cell, (size_t)cap * sizeof *cell);
    if (!cell) return false;
    q->cell = cell;
    q->cap = cap;
    return true;
}

void sk_cells_rm(sk_cells *c, uint32_t seq, uint32_t p0) {
    sk_cells_seq *q = &c->seq[seq];
    uint32_t lowest = c->size;
    for (uint32_t p = p0; p < q->len; p++) {
        uint32_t i = q->cell[p];
        if (--c->refs[i] == 0) {
            c->used--;
            if (i < lowest) lowest = i;
        }
    }
    if (p0 < q->len) q->len = p0;
    while (c->span && c->refs[c->span - 1] == 0) c->span--;
    /* the pool's search starts again at the lowest cell that became free */
    if (lowest < c->size && lowest < c->head) c->head = lowest;
}

int sk_cells_cp(sk_cells *c, uint32_t src, uint32_t dst, uint32_t p1) {
    const sk_cells_seq *a = &c->seq[src];
    sk_cells_seq *b = &c->seq[dst];
    if (p1 > a->len) p1 = a->len;
    if (!grow(b, p1)) return SKIPPY_E_NOMEM;
    if (p1) memcpy(b->cell, a->cell, p1 * sizeof *b->cell);
    for (uint32_t p = 0; p < p1; p++) c->refs[b->cell[p]]++;
    b->len = p1;
    return SKIPPY_OK;
}

/* First cell that the pool tests when it looks for n cells. */
static uint32_t search_start(const sk_cells *c, uint32_t n) {
    return (uint64_t)c->head > (uint64_t)c->used + 2u * (uint64_t)n || c->head >= c->size ? 0 : c->head;
}

/* Next free cell at or after *at, going round once; *tested counts cells looked at. */
static bool next_free(const sk_cells *c, uint32_t *at, uint32_t *tested, uint32_t *out) {
    while (*tested < c->size) {
        uint32_t i = *at;
        *at = i + 1 == c->size ? 0 : i + 1;
        (*tested)++;
        if (c->refs[i] == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

int sk_cells_place(sk_cells *c, const uint32_t *seq, uint32_t n) {
    if (n > c->size - c->used) return SKIPPY_E_FULL;
    for (uint32_t i = 0; i < n; i++)
        if (!grow(&c->seq[seq[i]], c->seq[seq[i]].len + n)) return SKIPPY_E_NOMEM;
    uint32_t at = search_start(c, n), tested = 0, cell = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!next_free(c, &at, &tested, &cell)) return SKIPPY_E_FULL; /* excluded by the count above */
        sk_cells_seq *q = &c->seq[seq[i]];
        q->cell[q->len++] = cell;
        c->refs[cell] = 1;
        c->used++;
        c->head = cell + 1;
        if (cell >= c->span) c->span = cell + 1;
    }
    return SKIPPY_OK;
}

int sk_cells_extend(sk_cells *c, uint32_t seq, uint32_t n) {
    if (n == 0) return SKIPPY_OK;
    uint32_t *rows = malloc(n * sizeof *rows);
    if (!rows) return SKIPPY_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) rows[i] = seq;
    int rc = sk_cells_place(c, rows, n);
    free(rows);
    return rc;
}

uint32_t sk_cells_exclusive(const sk_cells *c, uint32_t seq) {
    const sk_cells_seq *q = &c->seq[seq];
    uint32_t n = 0;
    for (uint32_t p = 0; p < q->len; p++) n += c->refs[q->cell[p]] == 1;
    return n;
}

uint32_t sk_cells_union(const sk_cells *c, const uint32_t *seqs, uint32_t n) {
    uint8_t *seen = calloc(c->size ? c->size : 1, 1);
    if (!seen) return c->size;
    uint32_t count = 0;
    for (uint32_t k = 0; k < n; k++) {
        const sk_cells_seq *q = &c->seq[seqs[k]];
        for (uint32_t p = 0; p < q->len; p++) {
            count += !seen[q->cell[p]];
            seen[q->cell[p]] = 1;
        }
    }
    free(seen);
    return count;
}

bool sk_cells_sorted(const sk_cells *c, uint32_t seq) {
    const sk_cells_seq *q = &c->seq[seq];
    for (uint32_t p = 1; p < q->len; p++)
        if (q->cell[p] < q->cell[p - 1]) return false;
    return true;
}

bool sk_cells_place_sorted(const sk_cells *c, const uint32_t *seq, uint32_t n) {
    if (n > c->size - c->used) return false;
    uint32_t at = search_start(c, n), tested = 0, cell = 0, previous = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!next_free(c, &at, &tested, &cell)) return false;
        const sk_cells_seq *q = &c->seq[seq[i]];
        bool same = i > 0 && seq[i] == seq[i - 1];
        if (same ? cell < previous : q->len && cell < q->cell[q->len - 1]) return false;
        previous = cell;
    }
    return true;
}

int sk_cells_relocate(sk_cells *c, uint32_t seq) {
    uint32_t n = c->seq[seq].len;
    if (n == 0) return SKIPPY_OK;
    uint32_t *rows = malloc(n * sizeof *rows);
    if (!rows) return SKIPPY_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) rows[i] = seq;
    sk_cells_rm(c, seq, 0);
    int rc = sk_cells_place(c, rows, n);
    free(rows);
    return rc;
}

int sk_cells_try_relocate(const sk_cells *c, uint32_t seq, uint32_t extra) {
    sk_cells t = {0};
    uint32_t *rows = NULL;
    int rc = sk_cells_init(&t, c->size, 1);
    if (rc) return rc;
    /* A one-sequence picture of the pool is enough: other sequences are just occupied cells. */
    memcpy(t.refs, c->refs, c->size * sizeof *t.refs);
    t.used = c->used;
    t.head = c->head;
    t.span = c->span;
    const sk_cells_seq *q = &c->seq[seq];
    rows = calloc(extra ? extra : 1, sizeof *rows);
    if (!rows || !grow(&t.seq[0], q->len + extra)) {
        rc = SKIPPY_E_NOMEM;
        goto out;
    }
    if (q->len > 0) memcpy(t.seq[0].cell, q->cell, q->len * sizeof *q->cell);
    t.seq[0].len = q->len;
    rc = sk_cells_relocate(&t, 0);
    if (rc == SKIPPY_OK && !(sk_cells_sorted(&t, 0) && sk_cells_place_sorted(&t, rows, extra))) rc = SKIPPY_E_FULL;
out:
    free(rows);
    sk_cells_free(&t);
    return rc;
}
