#include "reuse/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "skippy/error.h"

void sk_terminal_init(sk_terminal *t, size_t n_vocab, uint64_t max_bytes) {
    memset(t, 0, sizeof *t);
    t->n_vocab = n_vocab;
    t->max_bytes = max_bytes;
}

static void row_free(sk_terminal_row *r) {
    free(r->row);
    sk_prefix_free(&r->prompt);
}

void sk_terminal_free(sk_terminal *t) {
    for (size_t i = 0; i < t->n; i++) row_free(&t->rows[i]);
    free(t->rows);
    memset(t, 0, sizeof *t);
}

static uint64_t row_bytes(const sk_terminal *t, size_t n_tokens) {
    return (uint64_t)t->n_vocab * sizeof(float) + (uint64_t)n_tokens * sizeof(int32_t);
}

int sk_terminal_fits(const sk_terminal *t, size_t n_tokens) {
    return row_bytes(t, n_tokens) <= t->max_bytes;
}

sk_terminal_row *sk_terminal_find(const sk_terminal *t, uint64_t id) {
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].id == id) return &t->rows[i];
    return NULL;
}

uint64_t sk_terminal_victim(const sk_terminal *t, size_t n_tokens) {
    if (t->n == 0 || t->bytes + row_bytes(t, n_tokens) <= t->max_bytes) return 0;
    const sk_terminal_row *oldest = &t->rows[0];
    for (size_t i = 1; i < t->n; i++)
        if (t->rows[i].last_use < oldest->last_use) oldest = &t->rows[i];
    return oldest->id;
}

static int add_row(sk_terminal *t, const sk_terminal_row *r) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16;
        sk_terminal_row *grown = realloc(t->rows, cap * sizeof *grown);
        if (!grown) return SKIPPY_E_NOMEM;
        t->rows = grown;
        t->cap = cap;
    }
    t->rows[t->n++] = *r;
    t->bytes += row_bytes(t, r->prompt.n_tokens);
    return SKIPPY_OK;
}

int sk_terminal_put(sk_terminal *t, uint64_t id, const sk_prefix *prompt, const sk_copies *copies, const float *row) {
    if (t->bytes + row_bytes(t, prompt->n_tokens) > t->max_bytes) return SKIPPY_E_FULL;
    sk_terminal_row r = {
        .id = id, .last_use = ++t->clock, .copies = *copies, .row = malloc(t->n_vocab * sizeof(float))};
    int rc = r.row ? sk_prefix_copy(&r.prompt, prompt) : SKIPPY_E_NOMEM;
    if (rc == SKIPPY_OK) {
        memcpy(r.row, row, t->n_vocab * sizeof(float));
        rc = add_row(t, &r);
    }
    if (rc) row_free(&r);
    return rc;
}

const float *sk_terminal_get(sk_terminal *t, uint64_t id) {
    sk_terminal_row *r = sk_terminal_find(t, id);
    if (!r) return NULL;
    r->last_use = ++t->clock;
    return r->row;
}

void sk_terminal_drop(sk_terminal *t, uint64_t id) {
    sk_terminal_row *r = sk_terminal_find(t, id);
    if (!r) return;
    t->bytes -= row_bytes(t, r->prompt.n_tokens);
    row_free(r);
    *r = t->rows[--t->n];
}
