#include "bench/store_cuts.h"

#include <stdlib.h>

/* Takes candidates in ascending order and keeps those that leave no short span. */
typedef struct cutter {
    size_t len, last, n;
    size_t *cuts; /* NULL: only count */
} cutter;

static void offer(cutter *c, size_t end) {
    const bool is_last = end == c->len;
    if (!is_last && (end - c->last < SK_STATE_MIN_SPAN || c->len - end < SK_STATE_MIN_SPAN)) return;
    if (end == c->last) return;
    if (c->cuts) c->cuts[c->n] = end;
    c->n++;
    c->last = end;
}

static void offer_rows(cutter *c, const uint8_t *data, const sk_state_parse *p, size_t section, const sk_state_run *run,
                       uint32_t step) {
    for (uint32_t i = 1; i < p->section[section].n_cells; i++)
        if (sk_state_position(data, p, section, i) % (int64_t)step == 0)
            offer(c, run->offset + i * (size_t)run->row_bytes);
}

static void walk(cutter *c, const uint8_t *data, const sk_state_parse *p, uint32_t step) {
    for (size_t s = 0; s < p->n_sections; s++) {
        const sk_state_section *section = &p->section[s];
        for (size_t i = 0; i < section->n_runs; i++) {
            const sk_state_run *run = &p->runs[section->first_run + i];
            offer(c, run->offset - SK_STATE_RUN_HEADER_BYTES);
            /* transposed rows of neighbouring tokens do not lie one after the other */
            if (section->kind == SK_SECTION_KV && !run->transposed) offer_rows(c, data, p, s, run, step);
        }
    }
    offer(c, c->len);
}

int sk_store_cuts(const uint8_t *data, size_t len, const sk_state_shape *shape, uint32_t step, size_t **cuts,
                  size_t *n_cuts, sk_err *e) {
    sk_state_parse p;
    int rc = sk_state_parse_blob(data, len, shape, &p, e);
    if (rc) return rc;
    cutter count = {.len = len};
    walk(&count, data, &p, step);
    cutter fill = {.len = len, .cuts = calloc(count.n, sizeof *fill.cuts)};
    if (fill.cuts) {
        walk(&fill, data, &p, step);
        *cuts = fill.cuts;
        *n_cuts = fill.n;
    } else {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu cuts", count.n);
    }
    sk_state_parse_free(&p);
    return rc;
}
