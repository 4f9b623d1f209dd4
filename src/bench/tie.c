#include "bench/tie.h"

#include <string.h>

static bool starts_with(const char *text, const char *with) {
    return *with && strncmp(text, with, strlen(with)) == 0;
}

bool sk_tie_judge(const sk_alternative *v, size_t n, const char *a, const char *b, double *gap) {
    size_t at = 0; /* bytes of both answers that the tokens so far made */
    for (size_t i = 0; i < n; i++) {
        const char *x = a + at;
        const char *y = b + at;
        if (starts_with(x, v[i].best) && starts_with(y, v[i].best)) {
            at += strlen(v[i].best);
            continue;
        }
        const bool best_in_a = starts_with(x, v[i].best) && starts_with(y, v[i].second);
        const bool best_in_b = starts_with(y, v[i].best) && starts_with(x, v[i].second);
        if ((!best_in_a && !best_in_b) || !(v[i].gap < SK_TIE_GAP)) {
            return false;
        }
        *gap = v[i].gap;
        return true;
    }
    return false;
}

static bool is_open(const sk_answer *theirs, const sk_answer *ours) {
    return theirs->cold && !theirs->tie && strcmp(theirs->text, ours->text) != 0;
}

static size_t common_count(const sk_measurement *a, const sk_measurement *b) {
    return a->n_answers < b->n_answers ? a->n_answers : b->n_answers;
}

bool sk_tie_open(const sk_measurement *theirs, const sk_measurement *ours) {
    for (size_t i = 0; i < common_count(theirs, ours); i++) {
        if (is_open(&theirs->answers[i], &ours->answers[i])) {
            return true;
        }
    }
    return false;
}

int sk_tie_settle(sk_endpoint *arbiter, sk_measurement *theirs, const sk_measurement *ours, sk_err *e) {
    for (size_t i = 0; i < common_count(theirs, ours); i++) {
        sk_answer *a = &theirs->answers[i];
        sk_alternative *v = NULL;
        size_t n = 0;
        if (!is_open(a, &ours->answers[i])) {
            continue;
        }
        const int rc = sk_endpoint_alternatives(arbiter, a->chat, a->prompt, a->n_predict, &v, &n, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        a->tie = sk_tie_judge(v, n, a->text, ours->answers[i].text, &a->tie_gap);
        sk_alternatives_free(v, n);
    }
    return SKIPPY_OK;
}
