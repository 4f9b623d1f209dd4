/* How far two rows of logits are apart. Pure functions. */
#ifndef SKIPPY_CORRECTNESS_DRIFT_H
#define SKIPPY_CORRECTNESS_DRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero when the rows are the same bits. */
typedef struct sk_drift {
    bool differs;   /* some value has other bits */
    double max_abs; /* largest difference of one logit; infinite when a value is not finite in only one of the rows */
    double kl;      /* Kullback-Leibler divergence of softmax(reference) from softmax(row), in nats */
    double rel_l2;  /* ||row - reference|| / ||reference||; about 1.4 for unrelated rows */
} sk_drift;

/* Compares n logits. */
void sk_drift_measure(const float *reference, const float *row, size_t n, sk_drift *out);

/* Keeps the larger of each number in *worst. */
void sk_drift_fold(sk_drift *worst, const sk_drift *d);

/* The best token of a row (lowest id of equal ones; -1 when no value is a number), and by how much its logit leads the
 * second best (may be NULL; 0 with fewer than two tokens). */
int32_t sk_drift_best(const float *row, size_t n, float *lead);

#endif
