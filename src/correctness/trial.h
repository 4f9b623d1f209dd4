/* A trial: what a sequence says and holds after it was given the state of a prefix. The recorded run makes one, every
 * restore makes one, and certification compares them.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_TRIAL_H
#define SKIPPY_CORRECTNESS_TRIAL_H

#include "correctness/rig.h"

enum { SK_TRIAL_SUFFIX = 16, SK_TRIAL_GREEDY = 64, SK_TRIAL_MAX_REPEATS = 16 };

/* Rows of logits in a trial; repeated hits follow. */
enum {
    SK_ROW_NEXT = 0 /* after the token that follows the prefix */,
    SK_ROW_SUFFIX = 1 /* after 16 of them */,
    SK_ROW_LAST = 2 /* after the greedy tokens */,
    SK_ROW_HITS = 3
};

typedef struct sk_trial {
    size_t n_vocab;
    uint32_t repeats; /* 0 in the recorded run */
    float *rows;      /* SK_ROW_HITS + repeats rows; owned */
    int32_t greedy[SK_TRIAL_GREEDY];
    float lead[SK_TRIAL_GREEDY]; /* by how much each greedy token led */
    skippy_key state;            /* digest of the canonical export, when state_bytes > 0 */
    uint64_t state_bytes;
    double export_ms;                                                                /* of that export */
    double import_ms[1 + SK_TRIAL_MAX_REPEATS], decode_ms[1 + SK_TRIAL_MAX_REPEATS]; /* first restore, then hits */
} sk_trial;

/* Errors: SKIPPY_E_INVALID (more than SK_TRIAL_MAX_REPEATS), SKIPPY_E_NOMEM. */
int sk_trial_init(sk_trial *t, size_t n_vocab, uint32_t repeats, sk_err *e);
void sk_trial_free(sk_trial *t);
float *sk_trial_row(const sk_trial *t, size_t row);

/* Fills the empty sequence seq with the prefix's state. */
typedef int (*sk_restore_fn)(void *ud, sk_rig *r, uint32_t seq, sk_err *e);

/* Restores into SK_RIG_OTHER again and again and fills the trial (which sk_trial_init made): state, next row and greedy
 * tokens from the first restore, one next row from each repeat, the suffix from the last. tokens: the prefix of
 * n_prefix tokens and the SK_TRIAL_SUFFIX that follow. The sequence is empty afterwards. Errors: those of restore and
 * of sk_context_decode. */
int sk_trial_run(sk_trial *t, sk_rig *r, sk_restore_fn restore, void *ud, const int32_t *tokens, uint32_t n_prefix,
                 sk_err *e);

#endif
