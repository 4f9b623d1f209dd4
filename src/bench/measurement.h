/* What one server did in one scenario: series of timed requests, and the answers that prove equal work.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_MEASUREMENT_H
#define SKIPPY_BENCH_MEASUREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "bench/process.h"

enum { SK_MAX_SERIES = 40 };

typedef struct sk_sample {
    double ms;
    size_t cache_n, prompt_n;
} sk_sample;

/* Samples that are summarised together; the name is static. */
typedef struct sk_series {
    const char *name;
    sk_sample *v;
    size_t n, cap;
} sk_series;

/* An answer in the order of the scenario. Cold: nothing of its prompt was in any cache, so that equal servers must
 * agree. */
typedef struct sk_answer {
    bool cold;
    int32_t first_token; /* -1 = unknown: then the text decides */
    char *text;
    char *prompt;     /* of a cold answer: the text, or the messages as JSON; NULL otherwise */
    bool chat;        /* prompt holds messages */
    size_t n_predict; /* tokens asked for */
    bool tie;         /* differs from ours, but where two tokens are as good as equal; see bench/tie.h */
    double tie_gap;   /* how far the two lie apart, natural logarithm of the ratio of their probabilities */
} sk_answer;

typedef struct sk_measurement {
    sk_series series[SK_MAX_SERIES];
    size_t n_series;
    sk_answer *answers;
    size_t n_answers, cap_answers;
    size_t n_prompts;
    uint8_t prompts_digest[SK_HASH_BYTES]; /* of texts and token ids: equal digests mean equal work */
    sk_process_memory memory;              /* when the scenario ended */
    bool forced_end;                       /* the server did not end on SIGTERM */
    char version[64];
    char command[1024];
    sk_err error; /* code SKIPPY_OK when the scenario was completed */
} sk_measurement;

/* How far two measurements of one scenario are comparable. */
typedef struct sk_gate {
    bool same_prompts;
    size_t cold, cold_equal;     /* cold answers, and those with equal text */
    size_t cold_ties;            /* cold answers that differ at a near tie only */
    size_t answers, first_equal; /* all answers, and those with an equal first token */
    bool comparable;             /* both completed, same prompts, every cold answer equal or a near tie */
} sk_gate;

void sk_measurement_free(sk_measurement *m);
/* The series with this name, made on first use; NULL when SK_MAX_SERIES are in use. */
sk_series *sk_measurement_series(sk_measurement *m, const char *name);
/* Existing series or NULL. */
const sk_series *sk_measurement_find(const sk_measurement *m, const char *name);
/* Errors: SKIPPY_E_NOMEM. */
int sk_measurement_add(sk_measurement *m, const char *series, double ms, size_t cache_n, size_t prompt_n, sk_err *e);
/* Takes over the malloc'ed text and prompt of a (also on error). Errors: SKIPPY_E_NOMEM. */
int sk_measurement_answer(sk_measurement *m, sk_answer a, sk_err *e);
/* Compares the answers of two servers in order. Pure. */
void sk_gate_compare(const sk_measurement *a, const sk_measurement *b, sk_gate *out);

#endif
