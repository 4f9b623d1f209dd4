#include "correctness/drift.h"

#include <math.h>
#include <string.h>

static double log_sum(const float *row, size_t n) {
    double best = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < n; i++)
        if ((double)row[i] > best) best = (double)row[i];
    if (!isfinite(best)) return best;
    for (size_t i = 0; i < n; i++) sum += exp((double)row[i] - best);
    return best + log(sum);
}

/* Banned tokens are minus infinity in both rows: they have no share in either distribution. */
static double divergence(const float *p, const float *q, size_t n) {
    double zp = log_sum(p, n), zq = log_sum(q, n), kl = 0.0;
    for (size_t i = 0; i < n; i++) {
        double lp = (double)p[i] - zp;
        double share = exp(lp);
        if (share > 0.0) kl += share * (lp - ((double)q[i] - zq));
    }
    return isnan(kl) ? (double)INFINITY : kl > 0.0 ? kl : 0.0; /* rounding may leave a tiny negative sum */
}

static double difference(float a, float b) {
    if (a == b || (isnan(a) && isnan(b))) return 0.0;
    double d = fabs((double)a - (double)b);
    return isnan(d) ? (double)INFINITY : d;
}

void sk_drift_measure(const float *reference, const float *row, size_t n, sk_drift *out) {
    double squares = 0.0, norm = 0.0;
    *out = (sk_drift){.differs = memcmp(reference, row, n * sizeof *row) != 0};
    if (!out->differs) return;
    for (size_t i = 0; i < n; i++) {
        double d = difference(reference[i], row[i]);
        if (d > out->max_abs) out->max_abs = d;
        squares += d * d;
        if (isfinite(reference[i])) norm += (double)reference[i] * (double)reference[i];
    }
    out->rel_l2 = norm > 0.0 ? sqrt(squares / norm) : (double)INFINITY;
    out->kl = divergence(reference, row, n);
}

void sk_drift_fold(sk_drift *worst, const sk_drift *d) {
    worst->differs = worst->differs || d->differs;
    worst->max_abs = fmax(worst->max_abs, d->max_abs);
    worst->kl = fmax(worst->kl, d->kl);
    worst->rel_l2 = fmax(worst->rel_l2, d->rel_l2);
}

int32_t sk_drift_best(const float *row, size_t n, float *lead) {
    size_t best = n, second = n;
    for (size_t i = 0; i < n; i++) {
        if (isnan(row[i])) continue;
        if (best == n || row[i] > row[best]) {
            second = best;
            best = i;
        } else if (second == n || row[i] > row[second]) {
            second = i;
        }
    }
    if (lead) *lead = second < n ? row[best] - row[second] : 0.0f;
    return best < n ? (int32_t)best : -1;
}
