/* What the measurements of stored state share: sizes, model, context, tokens. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_LAB_H
#define SKIPPY_BENCH_STORE_LAB_H

#include "base/err.h"
#include "bench/store_pack.h"
#include "correctness/rig.h"
#include "runtime/model.h"

enum { SK_STORE_MAX_STEPS = 4 };

/* Lengths in tokens, counts of runs. */
typedef struct sk_store_sizes {
    uint32_t turns, turn_tokens;        /* chat */
    uint32_t agents, shared, own;       /* agents */
    uint32_t prefix, runs;              /* speed, restore */
    uint32_t steps[SK_STORE_MAX_STEPS]; /* further ways to cut: every so many tokens inside of tensors; 0 ends them */
} sk_store_sizes;

enum { SK_STORE_MAX_TOKENS = SK_PARCEL_WINDOW * (SK_PARCEL_MAX_PARTS - 1), SK_STORE_MAX_RUNS = 10000 };

/* What happens now, for people who wait. */
typedef void (*sk_store_note)(void *ud, const char *what);

/* Strings are borrowed. */
typedef struct sk_store_options {
    const char *model;
    int32_t n_threads;
    const char *dir; /* where a folder for the disk store is made and removed again */
    sk_store_sizes sizes;
    sk_load_progress load;
    sk_store_note note;
    void *ud;
} sk_store_options;

typedef struct sk_store_lab {
    const sk_store_options *o;
    sk_model *model;
    sk_rig rig;
    sk_state_shape shape; /* of the parts that are exported */
    int32_t *tokens;      /* as many as the largest scenario needs, always the same ones */
    size_t n_tokens;
    float *row; /* one row of logits */
    skippy_key ns;
} sk_store_lab;

/* 20 turns of 60 tokens; 16 agents with 2,000 shared and 50 own tokens; a prefix of 1,000 tokens, 20 runs;
 * also cut every 256 tokens (a whole window, so not at all inside of tensors) and every 64. */
sk_store_sizes sk_store_sizes_default(void);
/* Errors: SKIPPY_E_INVALID in words (a scenario of no tokens, or longer than SK_STORE_MAX_TOKENS, too many runs). Pure.
 */
int sk_store_sizes_check(const sk_store_sizes *s, sk_err *e);
/* Tokens that the context must hold. Pure. */
uint32_t sk_store_sizes_context(const sk_store_sizes *s);

/* Loads the model, makes the context, checks that its state can be moved. Errors: those of sk_model_load,
 * sk_rig_open; SKIPPY_E_UNSUPPORTED (state of this model cannot be moved). */
int sk_store_lab_open(const sk_store_options *o, sk_store_lab *out, sk_err *e);
/* lab may be all zero. */
void sk_store_lab_close(sk_store_lab *lab);

/* Appends n tokens to a sequence as the server does, 512 at a time. Errors: those of sk_context_decode;
 * SKIPPY_E_CANCELLED (somebody interrupted the program). */
int sk_store_lab_feed(sk_store_lab *lab, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e);
/* The state of a sequence of n tokens as a server stores it: KV windows, and the tail where there is one. */
int sk_store_lab_export(sk_store_lab *lab, uint32_t seq, uint32_t n, sk_parcel *out, sk_err *e);
/* All of it as one piece, cut every MiB. */
int sk_store_lab_export_whole(sk_store_lab *lab, uint32_t seq, uint32_t n, sk_parcel *out, sk_err *e);
/* Name of an entry of these tokens. */
sk_store_name sk_store_lab_name(const sk_store_lab *lab, const int32_t *tokens);
void sk_store_lab_note(const sk_store_lab *lab, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
