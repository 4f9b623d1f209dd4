#include "engine/shadow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sk_shadow_init(sk_shadow *s, double share, size_t n_vocab) {
    memset(s, 0, sizeof *s);
    s->share = share > 1 ? 1 : share;
    s->n_vocab = n_vocab;
}

void sk_shadow_drop(sk_shadow *s) {
    free(s->hit.tokens);
    free(s->hit.row);
    s->hit = (sk_shadow_case){0};
    s->waiting = s->running = false;
}

void sk_shadow_free(sk_shadow *s) {
    sk_shadow_drop(s);
    free(s->distrusted);
    s->distrusted = NULL;
    s->n_distrusted = 0;
}

bool sk_shadow_due(sk_shadow *s) {
    if (!(s->share > 0)) return false;
    s->due += s->share;
    if (s->due < 1) return false;
    s->due -= 1;
    if (!s->waiting && !s->running) return true;
    s->skipped++;
    return false;
}

bool sk_shadow_take(sk_shadow *s, const skippy_key *ns, const int32_t *tokens, size_t n, const float *row) {
    sk_shadow_drop(s);
    s->hit.ns = *ns;
    s->hit.n_tokens = n;
    s->hit.tokens = malloc(n * sizeof *tokens);
    s->hit.row = malloc(s->n_vocab * sizeof *row);
    if (!s->hit.tokens || !s->hit.row) {
        sk_shadow_drop(s);
        return false;
    }
    memcpy(s->hit.tokens, tokens, n * sizeof *tokens);
    memcpy(s->hit.row, row, s->n_vocab * sizeof *row);
    s->waiting = true;
    return true;
}

bool sk_shadow_distrusts(const sk_shadow *s, const skippy_key *ns) {
    for (size_t i = 0; i < s->n_distrusted; i++)
        if (skippy_key_equal(&s->distrusted[i], ns)) return true;
    return s->all;
}

void sk_shadow_distrust(sk_shadow *s, const skippy_key *ns) {
    if (sk_shadow_distrusts(s, ns)) return;
    skippy_key *grown = realloc(s->distrusted, (s->n_distrusted + 1) * sizeof *grown);
    if (!grown) {
        s->all = true; /* rather too much than too little */
        return;
    }
    s->distrusted = grown;
    s->distrusted[s->n_distrusted++] = *ns;
}

/* Two values that are not finite: the same kind of infinity, or the same NaN. */
static bool same_bits(float a, float b) {
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

double sk_shadow_distance(const float *a, const float *b, size_t n) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            if (!same_bits(a[i], b[i])) return INFINITY;
            continue;
        }
        double d = (double)a[i] - (double)b[i];
        difference += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    if (difference == 0) return 0;
    return norm > 0 ? sqrt(difference / norm) : INFINITY;
}

bool sk_shadow_disagree(double distance, bool bit_mode) {
    return bit_mode ? distance != 0 : !(distance <= SK_SHADOW_LIMIT);
}
