#include "engine/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "skippy/error.h"

void sk_terminal_init(sk_terminal *t, size_t n_vocab, uint64_t max_bytes) {
    memset(t, 0, sizeof *t);
    t->n_vocab = n_vocab;
    t->max_bytes = max_bytes;
}

void sk_terminal_free(sk_terminal *t) {
    for (size_t i = 0; i < t->n; i++) {
        free(t->rows[i].row);
        free(t->rows[i].tenant);
    }
    free(t->rows);
    memset(t, 0, sizeof *t);
}

static uint64_t row_bytes(const sk_terminal *t) {
    return (uint64_t)t->n_vocab * sizeof(float);
}

int sk_terminal_fits(const sk_terminal *t) {
    return row_bytes(t) <= t->max_bytes;
}

static sk_terminal_row *find(sk_terminal *t, uint64_t id) {
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].id == id) return &t->rows[i];
    return NULL;
}

uint64_t sk_terminal_victim(const sk_terminal *t) {
    if (t->n == 0 || t->bytes + row_bytes(t) <= t->max_bytes) return 0;
    const sk_terminal_row *oldest = &t->rows[0];
    for (size_t i = 1; i < t->n; i++)
        if (t->rows[i].last_use < oldest->last_use) oldest = &t->rows[i];
    return oldest->id;
}

int sk_terminal_put(sk_terminal *t, uint64_t id, const float *row, const char *tenant) {
    if (t->bytes + row_bytes(t) > t->max_bytes) return SKIPPY_E_FULL;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16;
        sk_terminal_row *grown = realloc(t->rows, cap * sizeof *grown);
        if (!grown) return SKIPPY_E_NOMEM;
        t->rows = grown;
        t->cap = cap;
    }
    float *copy = malloc(row_bytes(t));
    char *who = tenant ? strdup(tenant) : NULL;
    if (!copy || (tenant && !who)) {
        free(copy);
        free(who);
        return SKIPPY_E_NOMEM;
    }
    memcpy(copy, row, row_bytes(t));
    t->rows[t->n++] = (sk_terminal_row){.id = id, .last_use = ++t->clock, .row = copy, .tenant = who};
    t->bytes += row_bytes(t);
    return SKIPPY_OK;
}

const float *sk_terminal_get(sk_terminal *t, uint64_t id) {
    sk_terminal_row *r = find(t, id);
    if (!r) return NULL;
    r->last_use = ++t->clock;
    return r->row;
}

void sk_terminal_drop(sk_terminal *t, uint64_t id) {
    sk_terminal_row *r = find(t, id);
    if (!r) return;
    free(r->row);
    free(r->tenant);
    t->bytes -= row_bytes(t);
    *r = t->rows[--t->n];
}
