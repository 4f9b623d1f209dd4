#include "runtime/sampling.h"

#include <math.h>
#include <stdint.h>

void sk_sampling_defaults(sk_sampling *s) {
    *s = (sk_sampling){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .top_n_sigma = -1.0f,
        .xtc_probability = 0.0f,
        .xtc_threshold = 0.1f,
        .dynatemp_range = 0.0f,
        .dynatemp_exponent = 1.0f,
        .repeat_last_n = 64,
        .repeat_penalty = 1.0f,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_penalty_last_n = -1,
        .mirostat_tau = 5.0f,
        .mirostat_eta = 0.1f,
        .seed = UINT32_MAX,
    };
}

typedef struct float_rule {
    const char *name;
    float value;
    bool may_be_negative;
} float_rule;

static int check_floats(const sk_sampling *s, sk_err *e) {
    const float_rule rules[] = {
        {"temperature", s->temperature, true},
        {"top_p", s->top_p, false},
        {"min_p", s->min_p, false},
        {"typical_p", s->typical_p, false},
        {"top_n_sigma", s->top_n_sigma, true},
        {"xtc_probability", s->xtc_probability, false},
        {"xtc_threshold", s->xtc_threshold, false},
        {"dynatemp_range", s->dynatemp_range, false},
        {"dynatemp_exponent", s->dynatemp_exponent, true},
        {"frequency_penalty", s->frequency_penalty, true},
        {"presence_penalty", s->presence_penalty, true},
        {"dry_multiplier", s->dry_multiplier, false},
        {"dry_base", s->dry_base, false},
        {"mirostat_tau", s->mirostat_tau, false},
        {"mirostat_eta", s->mirostat_eta, false},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!isfinite(rules[i].value))
            return sk_err_set(e, SKIPPY_E_INVALID, "%s must be a finite number", rules[i].name);
        if (!rules[i].may_be_negative && rules[i].value < 0)
            return sk_err_set(e, SKIPPY_E_INVALID, "%s must not be negative, but is %g", rules[i].name,
                              (double)rules[i].value);
    }
    /* The penalty divides logits, so its reciprocal must exist too. */
    if (!isfinite(s->repeat_penalty) || s->repeat_penalty <= 0 || !isfinite(1.0f / s->repeat_penalty))
        return sk_err_set(e, SKIPPY_E_INVALID, "repeat_penalty must be greater than 0");
    return SKIPPY_OK;
}

static int check_counts(const sk_sampling *s, int32_t n_vocab, sk_err *e) {
    if (s->repeat_last_n < -1) return sk_err_set(e, SKIPPY_E_INVALID, "repeat_last_n must be -1, 0 or more");
    if (s->dry_penalty_last_n < -1) return sk_err_set(e, SKIPPY_E_INVALID, "dry_penalty_last_n must be -1, 0 or more");
    if (s->dry_allowed_length < 0) return sk_err_set(e, SKIPPY_E_INVALID, "dry_allowed_length must not be negative");
    if (s->mirostat < 0 || s->mirostat > 2) return sk_err_set(e, SKIPPY_E_INVALID, "mirostat must be 0, 1 or 2");
    if (s->min_keep < 0) return sk_err_set(e, SKIPPY_E_INVALID, "min_keep must not be negative");
    if (s->n_probs < 0 || s->n_probs > n_vocab)
        return sk_err_set(e, SKIPPY_E_INVALID, "n_probs must be between 0 and %d, the size of the vocabulary", n_vocab);
    return SKIPPY_OK;
}

static int check_tokens(const sk_model *m, const sk_sampling *s, sk_err *e) {
    for (size_t i = 0; i < s->n_bias; i++) {
        const sk_logit_bias *b = &s->bias[i];
        if (!sk_model_valid_token(m, b->token))
            return sk_err_set(e, SKIPPY_E_INVALID, "logit_bias names token %d, which the vocabulary does not have",
                              b->token);
        if (isnan(b->bias) || (isinf(b->bias) && b->bias > 0))
            return sk_err_set(e, SKIPPY_E_INVALID, "logit_bias of token %d must be a finite number or minus infinity",
                              b->token);
    }
    for (size_t i = 0; i < s->n_triggers; i++) {
        const sk_trigger *t = &s->triggers[i];
        if (t->type == SK_TRIGGER_TOKEN ? !sk_model_valid_token(m, t->token) : t->text == NULL)
            return sk_err_set(e, SKIPPY_E_INVALID, "grammar trigger %zu is not valid", i);
    }
    for (size_t i = 0; i < s->n_preserved; i++) {
        if (!sk_model_valid_token(m, s->preserved_tokens[i]))
            return sk_err_set(e, SKIPPY_E_INVALID,
                              "preserved_tokens names token %d, which the vocabulary does not have",
                              s->preserved_tokens[i]);
    }
    return SKIPPY_OK;
}

int sk_sampling_check(const sk_model *m, const sk_sampling *s, sk_err *e) {
    int rc = check_floats(s, e);
    if (rc == SKIPPY_OK) rc = check_counts(s, sk_model_get_info(m)->n_vocab, e);
    if (rc == SKIPPY_OK) rc = check_tokens(m, s, e);
    if (rc == SKIPPY_OK && s->grammar_lazy && s->grammar && s->grammar[0] && s->n_triggers == 0)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "a lazy grammar needs at least one trigger");
    return rc;
}
