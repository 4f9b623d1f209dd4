/* Compares a restored trial with the recorded one. Pure functions. */
#ifndef SKIPPY_CORRECTNESS_CHECK_H
#define SKIPPY_CORRECTNESS_CHECK_H

#include "correctness/drift.h"
#include "correctness/trial.h"

/* What "equal" means. Where a row class holds, rows are equal when they are the same bits. Elsewhere the placement of
 * cells moves the last bits even between cold runs; then the restored state must be the same bytes, a logit may differ
 * by at most `tolerance`, and a token may differ only where the recorded one led by less than that. */
typedef struct sk_criterion {
    bool bit;
    double tolerance;
} sk_criterion;

typedef struct sk_check {
    bool ran;
    bool predicted_token;    /* the token after prefix + 1 */
    bool output;             /* its row of logits, and the greedy tokens after it */
    bool suffix;             /* the row after a 16-token prefill, against a cold run of everything */
    bool hits;               /* every repeated hit */
    bool state_known, state; /* the canonical re-export is the same bytes; unknown where state cannot be exported */
    bool near_tie;           /* greedy tokens part where the recorded one led by less than the tolerance */
    uint32_t greedy_equal;   /* equal greedy tokens before the first difference */
    int32_t token;           /* predicted after the restore */
    sk_drift next, suffix_drift, last, worst_hit;
} sk_check;

void sk_check_compare(const sk_trial *recorded, const sk_trial *restored, const sk_criterion *criterion, sk_check *out);
/* Predicted token, output, suffix and hits are equal; and, when bits cannot be compared, the state's bytes. */
bool sk_check_passed(const sk_check *c, const sk_criterion *criterion);
/* What failed, in words: "suffix prefill, repeated hits". Empty when the check passed. */
void sk_check_complaint(const sk_check *c, const sk_criterion *criterion, char *buf, size_t cap);
/* Is this drift small enough to call the rows equal? */
bool sk_criterion_allows(const sk_criterion *criterion, const sk_drift *d);

#endif
