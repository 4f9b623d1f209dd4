#include "correctness/stage_class.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROWS = 56, /* below the 64 rows from which flash attention takes its tiled path; a multiple of every class */
    LARGEST_MULTIPLE = 8,
    TAIL = 16, /* rows that are computed one by one behind the prompt */
    COMPANY = 24,
    N_ROWS = 1 + TAIL
};

typedef struct probe {
    sk_rig *r;
    uint32_t n_prompt;
    float *large, *small; /* N_ROWS each: after the prompt, and after each row of the tail */
} probe;

static int feed_tail(const probe *p, uint32_t seq, float *rows, sk_err *e) {
    static const uint32_t first = 0;
    int rc = SKIPPY_OK;
    for (uint32_t i = 0; rc == SKIPPY_OK && i < TAIL; i++)
        rc = sk_rig_feed(p->r, seq, p->r->feed.script->tokens + p->n_prompt + i, 1, &first, 1,
                         rows + (1 + i) * p->r->n_vocab, e);
    return rc;
}

static int feed_prompt(const probe *p, uint32_t seq, float *row, sk_err *e) {
    const uint32_t last = p->n_prompt - 1;
    return sk_rig_feed(p->r, seq, p->r->feed.script->tokens, p->n_prompt, &last, 1, row, e);
}

/* Attention: a row must not depend on whether it came alone, so the tail comes in the same pieces as the prompt.
 * Recurrent state cannot be cut back, so a certification computes each row of it in one way only. */
static int run_large(const probe *p, sk_err *e) {
    uint32_t wanted[N_ROWS];
    if (sk_context_get_info(p->r->ctx)->recurrent) {
        int rc = feed_prompt(p, SK_RIG_LANE, p->large, e);
        return rc ? rc : feed_tail(p, SK_RIG_LANE, p->large, e);
    }
    for (uint32_t i = 0; i < N_ROWS; i++) wanted[i] = p->n_prompt - 1 + i;
    return sk_rig_feed(p->r, SK_RIG_LANE, p->r->feed.script->tokens, p->n_prompt + TAIL, wanted, N_ROWS, p->large, e);
}

static int run_small(const probe *p, sk_err *e) {
    sk_row_class *rows = &p->r->rows;
    int rc = sk_rig_feed(p->r, SK_RIG_CACHE, p->r->feed.script->tokens, COMPANY, NULL, 0, NULL, e);
    rows->max_rows = rows->multiple;
    if (rc == SKIPPY_OK) rc = feed_prompt(p, SK_RIG_OTHER, p->small, e);
    if (rc == SKIPPY_OK) rc = feed_tail(p, SK_RIG_OTHER, p->small, e);
    rows->max_rows = MOST_ROWS;
    return rc;
}

static int try_multiple(const probe *p, uint32_t multiple, bool *holds, sk_err *e) {
    p->r->rows = (sk_row_class){.multiple = multiple, .max_rows = MOST_ROWS};
    int rc = run_large(p, e);
    if (rc == SKIPPY_OK) rc = run_small(p, e);
    sk_context_clear(p->r->ctx);
    *holds = rc == SKIPPY_OK && memcmp(p->large, p->small, N_ROWS * p->r->n_vocab * sizeof *p->large) == 0;
    return rc;
}

int sk_stage_class_find(sk_rig *r, sk_err *e) {
    const uint32_t n = r->feed.script->n > TAIL ? r->feed.script->n - TAIL : 0;
    probe p = {.r = r, .n_prompt = n - n % LARGEST_MULTIPLE};
    bool holds = false;
    int rc = SKIPPY_OK;
    if (p.n_prompt == 0) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the script is too short to compare rows");
    p.large = malloc(2 * N_ROWS * r->n_vocab * sizeof *p.large);
    if (!p.large) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for rows of output");
    p.small = p.large + N_ROWS * r->n_vocab;
    for (uint32_t m = 2; rc == SKIPPY_OK && !holds && m <= LARGEST_MULTIPLE; m *= 2)
        rc = try_multiple(&p, m, &holds, e);
    free(p.large);
    if (holds) return SKIPPY_OK;
    r->rows = (sk_row_class){0};
    return rc ? rc
              : sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                           "rows in small pieces beside another sequence have other bits than rows in large ones");
}
