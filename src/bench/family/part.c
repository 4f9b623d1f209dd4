#include "bench/family/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "bench/conversation.h"
#include "bench/interrupt.h"

enum { CONTEXT_STEP = 256 };

static size_t add_part(const sk_part *out[SK_MAX_PARTS], size_t n, const sk_part *part, bool wanted) {
    if (wanted) {
        out[n++] = part;
    }
    return n;
}

/* Use cases and other prefix lengths are rows of the exact repeat alone: what else a cell asks for is measured once for
 * each family. restart ends the server's process: last. */
size_t sk_parts_of(const sk_family_cell *cell, const sk_family_sizes *s, const sk_part *out[SK_MAX_PARTS]) {
    const sk_cell_tasks *t = &cell->tasks;
    const bool serial = t->serial_baseline || t->serial_skippy;
    size_t n = add_part(out, 0, &sk_part_exact, serial);
    n = add_part(out, n, &sk_part_suffix, serial && cell->kind == SK_CELL_FULL);
    n = add_part(out, n, &sk_part_edit, t->moved_boundary);
    n = add_part(out, n, &sk_part_thinking, t->moved_boundary);
    n = add_part(out, n, &sk_part_agent, t->agent);
    n = add_part(out, n, &sk_part_curve, t->concurrent && s->n_concurrency > 0);
    return add_part(out, n, &sk_part_restart, t->restart);
}

uint32_t sk_parts_context(const sk_part *const *parts, size_t n, const sk_part_task *t) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t need = parts[i]->lane_tokens(t);
        most = need > most ? need : most;
    }
    const size_t steps = most / CONTEXT_STEP + (most % CONTEXT_STEP != 0);
    const size_t max_steps = UINT32_MAX / CONTEXT_STEP;
    return (uint32_t)((steps < max_steps ? steps : max_steps) * CONTEXT_STEP);
}

size_t sk_part_repeats(const sk_part_host *h) {
    const sk_family_sizes *s = h->task->sizes;
    return h->host->ours ? s->cache_hit_repeats : s->llama_repeats;
}

size_t sk_part_conversation_repeats(const sk_part_host *h) {
    return h->task->sizes->conversation_repeats;
}

uint64_t sk_part_seed(const sk_part_host *h, const char *part, size_t round, size_t piece) {
    const sk_family_cell *cell = h->task->cell;
    char text[256];
    uint8_t digest[SK_HASH_BYTES];
    uint64_t seed = 0;
    const int n = snprintf(text, sizeof text, "%" PRIu64 "/%d/%s/%" PRIu32 "/%s/%zu/%zu", h->task->sizes->seed,
                           (int)cell->kind, cell->use_case, cell->prefix_tokens, part, round, piece);
    sk_hash(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, digest);
    for (size_t i = 0; i < sizeof seed; i++) {
        seed |= (uint64_t)digest[i] << (8 * i);
    }
    return seed;
}

void sk_part_rest(const sk_part_host *h) {
    const uint32_t ms = h->task->sizes->rest_ms;
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

int sk_part_send(sk_part_host *h, const sk_conversation *c, size_t n_predict, const char *series, bool cold,
                 char **text, sk_err *e) {
    const char *answer = NULL;
    if (text) {
        *text = NULL;
    }
    if (series) {
        sk_part_rest(h);
    }
    const int rc = sk_measured_send(&h->host->ep, h->m, c, n_predict, series, cold, &answer, e);
    if (rc != SKIPPY_OK || !text) {
        return rc;
    }
    *text = strdup(answer);
    return *text ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer");
}
