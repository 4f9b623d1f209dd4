#include "correctness/check.h"

#include <stdio.h>
#include <string.h>

bool sk_criterion_allows(const sk_criterion *criterion, const sk_drift *d) {
    return criterion->bit ? !d->differs : d->max_abs <= criterion->tolerance;
}

static void compare_greedy(const sk_trial *recorded, const sk_trial *restored, const sk_criterion *c, sk_check *out) {
    uint32_t i = 0;
    while (i < SK_TRIAL_GREEDY && recorded->greedy[i] == restored->greedy[i]) i++;
    out->greedy_equal = i;
    out->near_tie = !c->bit && i < SK_TRIAL_GREEDY && (double)recorded->lead[i] <= c->tolerance;
    /* after a near tie the two texts are different prompts: their rows say nothing */
    if (i == SK_TRIAL_GREEDY)
        sk_drift_measure(sk_trial_row(recorded, SK_ROW_LAST), sk_trial_row(restored, SK_ROW_LAST), recorded->n_vocab,
                         &out->last);
}

static bool greedy_equal(const sk_check *c, const sk_criterion *criterion) {
    if (criterion->bit) return c->greedy_equal == SK_TRIAL_GREEDY && !c->last.differs;
    return c->greedy_equal == SK_TRIAL_GREEDY || c->near_tie;
}

void sk_check_compare(const sk_trial *recorded, const sk_trial *restored, const sk_criterion *criterion,
                      sk_check *out) {
    const float *next = sk_trial_row(recorded, SK_ROW_NEXT);
    size_t n = recorded->n_vocab;
    *out = (sk_check){.ran = true, .hits = restored->repeats > 0};
    sk_drift_measure(next, sk_trial_row(restored, SK_ROW_NEXT), n, &out->next);
    sk_drift_measure(sk_trial_row(recorded, SK_ROW_SUFFIX), sk_trial_row(restored, SK_ROW_SUFFIX), n,
                     &out->suffix_drift);
    for (uint32_t i = 0; i < restored->repeats; i++) {
        sk_drift d;
        sk_drift_measure(next, sk_trial_row(restored, SK_ROW_HITS + i), n, &d);
        out->hits = out->hits && sk_criterion_allows(criterion, &d);
        sk_drift_fold(&out->worst_hit, &d);
    }
    compare_greedy(recorded, restored, criterion, out);
    out->token = restored->greedy[0];
    out->predicted_token = out->greedy_equal > 0 || out->near_tie;
    out->output = sk_criterion_allows(criterion, &out->next) && greedy_equal(out, criterion);
    out->suffix = sk_criterion_allows(criterion, &out->suffix_drift);
    out->state_known = recorded->state_bytes > 0 && restored->state_bytes > 0;
    out->state = out->state_known && recorded->state_bytes == restored->state_bytes &&
                 skippy_key_equal(&recorded->state, &restored->state);
}

static bool state_holds(const sk_check *c, const sk_criterion *criterion) {
    return criterion->bit || !c->state_known || c->state;
}

bool sk_check_passed(const sk_check *c, const sk_criterion *criterion) {
    return c->ran && c->predicted_token && c->output && c->suffix && c->hits && state_holds(c, criterion);
}

void sk_check_complaint(const sk_check *c, const sk_criterion *criterion, char *buf, size_t cap) {
    const struct {
        bool ok;
        const char *what;
    } parts[] = {{c->ran, "nothing was compared"},
                 {c->predicted_token, "the next token"},
                 {c->output, "the logits or greedy tokens"},
                 {c->suffix, "the suffix prefill"},
                 {c->hits, "repeated hits"},
                 {state_holds(c, criterion), "state bytes"}};
    size_t at = 0;
    if (cap) buf[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && at < cap; i++) {
        if (parts[i].ok) continue;
        int n = snprintf(buf + at, cap - at, "%s%s", at ? ", " : "", parts[i].what);
        at += n > 0 ? (size_t)n : 0;
        if (!c->ran) break;
    }
}
