#include "reuse/rates.h"

enum { RETRY_AFTER = 16 };

static const double GUESSED_MS = 1000.0 / (2.0 * 1024 * 1024 * 1024); /* per byte */

static void add(double *average, double sample) {
    if (!(sample > 0)) return;
    *average = *average > 0 ? *average + (sample - *average) / 4 : sample;
}

void sk_rates_add_prefill(sk_rates *r, size_t tokens, double ms) {
    if (tokens) add(&r->prefill_ms, ms / (double)tokens);
}

void sk_rates_add_fetch(sk_rates *r, uint8_t tier, uint64_t bytes, double ms) {
    if (bytes) add(&r->fetch_ms[tier], ms / (double)bytes);
}

void sk_rates_add_import(sk_rates *r, uint64_t bytes, double ms) {
    if (bytes) add(&r->import_ms, ms / (double)bytes);
}

double sk_rates_restore_ms(const sk_rates *r, uint8_t tier, uint64_t bytes) {
    double measured = r->fetch_ms[tier] + r->import_ms;
    return (double)bytes * (r->fetch_ms[tier] > 0 && r->import_ms > 0 ? measured : GUESSED_MS);
}

bool sk_rates_worth(sk_rates *r, uint8_t tier, uint64_t bytes, size_t tokens, sk_estimate *out) {
    *out = (sk_estimate){.restore_ms = (double)bytes * (r->fetch_ms[tier] + r->import_ms),
                         .recompute_ms = (double)tokens * r->prefill_ms};
    if (!(r->fetch_ms[tier] > 0) || !(r->prefill_ms > 0) || out->restore_ms < out->recompute_ms) {
        r->refused[tier] = 0;
        return true;
    }
    if (++r->refused[tier] < RETRY_AFTER) return false;
    r->refused[tier] = 0;
    return true;
}
