/* Sampling from a row of logits. The row may come from a decode or from the cache: the sampler cannot tell.
 * Not thread-safe; one per request. */
#ifndef SKIPPY_RUNTIME_SAMPLER_H
#define SKIPPY_RUNTIME_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/model.h"

typedef struct sk_logit_bias {
    int32_t token;
    float bias; /* -INFINITY bans the token */
} sk_logit_bias;

enum sk_trigger_type { SK_TRIGGER_TOKEN = 0, SK_TRIGGER_WORD = 1, SK_TRIGGER_PATTERN = 2, SK_TRIGGER_PATTERN_FULL = 3 };
typedef struct sk_trigger {
    enum sk_trigger_type type;
    int32_t token;    /* for SK_TRIGGER_TOKEN */
    const char *text; /* otherwise */
} sk_trigger;

/* Sampling settings with llama-server's names and defaults (see sk_sampling_defaults). Strings and arrays are borrowed
 * for the call that takes the struct. */
typedef struct sk_sampling {
    float temperature;                              /* 0.8; <= 0 is greedy */
    int32_t top_k;                                  /* 40; <= 0 = off */
    float top_p;                                    /* 0.95 */
    float min_p;                                    /* 0.05 */
    float typical_p;                                /* 1.0 = off */
    float top_n_sigma;                              /* -1 = off */
    float xtc_probability, xtc_threshold;           /* 0.0, 0.1 */
    float dynatemp_range, dynatemp_exponent;        /* 0.0, 1.0 */
    int32_t repeat_last_n;                          /* 64; 0 = off, -1 = whole context */
    float repeat_penalty;                           /* 1.0 */
    float frequency_penalty, presence_penalty;      /* 0.0 */
    float dry_multiplier, dry_base;                 /* 0.0, 1.75 */
    int32_t dry_allowed_length, dry_penalty_last_n; /* 2, -1 */
    int32_t mirostat;                               /* 0 */
    float mirostat_tau, mirostat_eta;               /* 5.0, 0.1 */
    uint32_t seed;                                  /* UINT32_MAX = random */
    int32_t min_keep;                               /* 0 */
    bool ignore_eos;
    int32_t n_probs; /* how many alternatives to report per token, 0 = none */
    const sk_logit_bias *bias;
    size_t n_bias;
    const char *grammar; /* GBNF, NULL or "" = none; root rule "root" */
    bool grammar_lazy;   /* starts at a trigger */
    const sk_trigger *triggers;
    size_t n_triggers;
    const int32_t *preserved_tokens; /* special tokens whose text is kept in the output */
    size_t n_preserved;
} sk_sampling;

typedef struct sk_token_prob {
    int32_t token;
    float logprob; /* natural logarithm of the softmax of the raw logits, before any sampler */
} sk_token_prob;

typedef struct sk_sampler sk_sampler;

void sk_sampling_defaults(sk_sampling *s);
/* Errors: SKIPPY_E_INVALID with words (grammar that does not parse, token out of range, negative or non-finite value).
 */
int sk_sampler_create(const sk_model *m, const sk_sampling *s, sk_sampler **out, sk_err *e);
void sk_sampler_free(sk_sampler *s);
/* Tells the sampler a token of the prompt (for penalties); the grammar does not see it. */
void sk_sampler_prime(sk_sampler *s, const int32_t *tokens, size_t n);
/* Picks the next token from n_vocab raw logits and accepts it (grammar, penalties). logits is not changed.
 * chosen (may be NULL) receives its log-probability; top (may be NULL) receives up to n_probs alternatives, best first,
 * and *n_top their number. Greedy without grammar, penalties and bias is a plain argmax. Cost without logprobs on the
 * greedy path: one pass over the row. The seed that is in use: sk_sampler_seed. Errors: SKIPPY_E_INVALID (the grammar
 * allows no token), SKIPPY_E_RUNTIME (row of NaN), SKIPPY_E_NOMEM. */
int sk_sampler_sample(sk_sampler *s, const float *logits, int32_t *token, sk_token_prob *chosen, sk_token_prob *top,
                      size_t *n_top, sk_err *e);
uint32_t sk_sampler_seed(const sk_sampler *s);

/* Can a token be chosen from the largest logits of a row alone? Greedy, without grammar, penalties, log-probabilities
 * and biases that lift tokens. */
bool sk_sampler_takes_best(const sk_sampler *s);
/* Chooses from the n largest logits of a row, best first, of equal ones the lower token first; complete: there are no
 * others above minus infinity. The same token as sk_sampler_sample of the row. SKIPPY_E_NOT_FOUND: biases leave none of
 * them, the whole row is needed. Only where sk_sampler_takes_best. */
int sk_sampler_sample_best(const sk_sampler *s, const int32_t *tokens, const float *logits, size_t n, bool complete,
                           int32_t *token);

#endif
