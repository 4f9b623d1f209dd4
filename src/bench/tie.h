/* When two servers answer a cold prompt differently: was it a near tie?
 *
 * A decode's last bits depend on how the prompt was cut into batches and where its cells lie. Where the two best tokens
 * are nearly equally likely, that decides, and both answers are right. llama-server is asked for the two best tokens at
 * the place where the answers part: the difference is a near tie when these are exactly the two tokens that the answers
 * went on with, and their log-probabilities lie less than SK_TIE_GAP apart. Anything else stays a difference. Where its
 * own answer leaves both, it is led to that place: it gets the prompt and what both answers begin with. Not
 * thread-safe. */
#ifndef SKIPPY_BENCH_TIE_H
#define SKIPPY_BENCH_TIE_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/endpoint.h"
#include "bench/measurement.h"

/* Natural logarithm. Two cold runs of one server that cut the prompt into other batches were measured to differ by up
 * to 0.4 in a logit (random weights in the Falcon-H1 1.5B shape; 0.05 in the Llama 1B shape). */
#define SK_TIE_GAP 0.5

/* Judges answers a and b of one prompt by the alternatives of each token of a third answer. Pure. *gap is set when it
 * is a tie. */
bool sk_tie_judge(const sk_alternative *v, size_t n, const char *a, const char *b, double *gap);
/* Bytes that both answers begin with, whole characters of UTF-8. Pure. */
size_t sk_tie_common(const char *a, const char *b);
/* True when some cold answer of theirs differs from ours and is not known to be a tie. */
bool sk_tie_open(const sk_measurement *theirs, const sk_measurement *ours);
/* Asks the arbiter about every such answer and marks the ties in theirs. Errors: those of sk_endpoint_alternatives. */
int sk_tie_settle(sk_endpoint *arbiter, sk_measurement *theirs, const sk_measurement *ours, sk_err *e);

#endif
