/* Arithmetic on one row of raw logits. Pure functions. */
#ifndef SKIPPY_RUNTIME_LOGITS_H
#define SKIPPY_RUNTIME_LOGITS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/sampler.h"

/* Index of the largest value among [begin, end), the lowest index of equal ones; -1 when every value is NaN or minus
 * infinity. One pass. */
int32_t sk_logits_argmax(const float *row, int32_t begin, int32_t end);

/* Natural logarithm of the sum of exp(row[i]), in double; NaN values count as minus infinity. */
double sk_logits_log_sum(const float *row, int32_t n);

/* Writes the k largest of n values to top, best first, equal ones by lower token, and returns how many there were (NaN
 * is never among them). logprob = value - log_sum. O(n log k), no allocation. */
size_t sk_logits_top(const float *row, int32_t n, double log_sum, sk_token_prob *top, size_t k);

#endif
