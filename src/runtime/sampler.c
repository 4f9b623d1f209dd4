#include "runtime/sampler.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <llama.h>

#include "runtime/grammar.h"
#include "runtime/logits.h"
#include "runtime/native_guard.h"
#include "runtime/sampling.h"

/* "Whole context" for penalties is the model's context, but at most this many tokens: the history is allocated at once.
 */
#define HISTORY_MAX (1 << 20)

struct sk_sampler {
    int32_t n_vocab;
    bool greedy;
    bool grammar_first;            /* mirostat learns from every draw, so it must not draw twice for one token */
    struct llama_sampler *chain;   /* NULL: plain greedy, the row's maximum is the answer */
    struct llama_sampler *grammar; /* NULL: none */
    sk_logit_bias *bias;           /* sorted by token, one entry per token */
    size_t n_bias;
    llama_token_data *candidates; /* n_vocab; NULL when no path needs them */
    int32_t history;              /* how many prompt tokens the chain can remember */
    int32_t n_probs;
    uint32_t seed;
};

static uint32_t random_seed(void) {
    uint32_t seed;
    do {
        /* Four bytes are never cut short; before the kernel's pool is ready the call waits. */
        while (getrandom(&seed, sizeof seed, 0) < 0 && errno == EINTR) continue;
    } while (seed == UINT32_MAX); /* that value means "random" to llama.cpp */
    return seed;
}

static int by_token(const void *a, const void *b) {
    const sk_logit_bias *x = a, *y = b;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Joins the caller's biases, the bans of ignore_eos and the tokens the vocabulary itself suppresses. */
static int build_bias(sk_sampler *s, const sk_model *m, const struct llama_vocab *vocab, const sk_sampling *p,
                      sk_err *e) {
    size_t n_eog = 0;
    int32_t n_suppress = 0;
    const int32_t *eog = sk_model_eog_tokens(m, &n_eog);
    const int32_t *suppress = llama_vocab_get_suppress_tokens(vocab, &n_suppress);
    if (!p->ignore_eos) n_eog = 0;
    size_t cap = p->n_bias + n_eog + (size_t)n_suppress, n = 0;
    if (cap == 0) return SKIPPY_OK;
    s->bias = malloc(cap * sizeof *s->bias);
    if (!s->bias) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (p->n_bias) memcpy(s->bias, p->bias, p->n_bias * sizeof *s->bias);
    n = p->n_bias;
    for (size_t i = 0; i < n_eog; i++) s->bias[n++] = (sk_logit_bias){.token = eog[i], .bias = -INFINITY};
    for (int32_t i = 0; i < n_suppress; i++) {
        if (sk_model_valid_token(m, suppress[i]))
            s->bias[n++] = (sk_logit_bias){.token = suppress[i], .bias = -INFINITY};
    }
    qsort(s->bias, n, sizeof *s->bias, by_token);
    for (size_t i = 0; i < n; i++) { /* several entries for one token add up */
        if (s->n_bias && s->bias[s->n_bias - 1].token == s->bias[i].token)
            s->bias[s->n_bias - 1].bias += s->bias[i].bias;
        else
            s->bias[s->n_bias++] = s->bias[i];
    }
    return SKIPPY_OK;
}

static int32_t history_length(const sk_model *m, int32_t wanted) {
    int32_t limit = sk_model_get_info(m)->n_ctx_train;
    if (limit <= 0 || limit > HISTORY_MAX) limit = HISTORY_MAX;
    if (wanted < 0) return limit;
    return wanted < HISTORY_MAX ? wanted : HISTORY_MAX;
}

static bool add(struct llama_sampler *chain, struct llama_sampler *link) {
    if (!link) return false;
    llama_sampler_chain_add(chain, link);
    return true;
}

/* Samplers that look at earlier tokens. A disabled one is left out, so that nothing is remembered for it. */
static bool add_history(sk_sampler *s, const sk_model *m, const struct llama_vocab *vocab, const sk_sampling *p) {
    static const char *breakers[] = {"\n", ":", "\"", "*"};
    int32_t last = history_length(m, p->repeat_last_n);
    if (last > 0 && (p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f)) {
        s->history = last;
        if (!add(s->chain, llama_sampler_init_penalties(s->n_vocab, last, p->repeat_penalty, p->frequency_penalty,
                                                        p->presence_penalty)))
            return false;
    }
    last = history_length(m, p->dry_penalty_last_n);
    if (last > 0 && p->dry_multiplier > 0 && p->dry_base >= 1.0f) {
        if (last > s->history) s->history = last;
        return add(s->chain, llama_sampler_init_dry(vocab, p->dry_multiplier, p->dry_base, p->dry_allowed_length, last,
                                                    breakers, sizeof breakers / sizeof breakers[0]));
    }
    return true;
}

/* Samplers that narrow the candidates, in llama-server's default order. */
static bool add_truncation(struct llama_sampler *chain, const sk_sampling *p, uint32_t seed) {
    size_t keep = (size_t)p->min_keep;
    bool ok = true;
    if (p->top_n_sigma > 0) ok = ok && add(chain, llama_sampler_init_top_n_sigma(p->top_n_sigma));
    if (p->top_k > 0) ok = ok && add(chain, llama_sampler_init_top_k(p->top_k));
    if (p->typical_p < 1.0f) ok = ok && add(chain, llama_sampler_init_typical(p->typical_p, keep));
    if (p->top_p < 1.0f) ok = ok && add(chain, llama_sampler_init_top_p(p->top_p, keep));
    if (p->min_p > 0) ok = ok && add(chain, llama_sampler_init_min_p(p->min_p, keep));
    if (p->xtc_probability > 0)
        ok = ok && add(chain, llama_sampler_init_xtc(p->xtc_probability, p->xtc_threshold, keep, seed));
    return ok && add(chain, llama_sampler_init_temp_ext(p->temperature, p->dynatemp_range, p->dynatemp_exponent)) &&
           add(chain, llama_sampler_init_dist(seed));
}

static bool add_mirostat(struct llama_sampler *chain, const sk_sampling *p, int32_t n_vocab, uint32_t seed) {
    if (!add(chain, llama_sampler_init_temp(p->temperature))) return false;
    if (p->mirostat == 1)
        return add(chain, llama_sampler_init_mirostat(n_vocab, seed, p->mirostat_tau, p->mirostat_eta, 100));
    return add(chain, llama_sampler_init_mirostat_v2(seed, p->mirostat_tau, p->mirostat_eta));
}

static int build_chain(sk_sampler *s, const sk_model *m, const struct llama_vocab *vocab, const sk_sampling *p,
                       sk_err *e) {
    struct llama_sampler_chain_params cp = llama_sampler_chain_default_params();
    cp.no_perf = true;
    s->chain = llama_sampler_chain_init(cp);
    if (!s->chain) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    bool ok = true;
    if (s->greedy || p->mirostat == 0) ok = add_history(s, m, vocab, p);
    if (ok && !s->greedy)
        ok = p->mirostat ? add_mirostat(s->chain, p, s->n_vocab, s->seed) : add_truncation(s->chain, p, s->seed);
    if (!ok) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (llama_sampler_chain_n(s->chain) == 0) {
        llama_sampler_free(s->chain);
        s->chain = NULL;
    }
    return SKIPPY_OK;
}

int sk_sampler_create(const sk_model *m, const sk_sampling *p, sk_sampler **out, sk_err *e) {
    *out = NULL;
    int rc = sk_sampling_check(m, p, e);
    if (rc != SKIPPY_OK) return rc;
    const struct llama_vocab *vocab = llama_model_get_vocab(sk_model_native(m));
    sk_sampler *s = calloc(1, sizeof *s);
    if (!s) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    s->n_vocab = sk_model_get_info(m)->n_vocab;
    s->greedy = p->temperature <= 0;
    s->grammar_first = !s->greedy && p->mirostat != 0;
    s->n_probs = p->n_probs;
    s->seed = p->seed == UINT32_MAX ? random_seed() : p->seed;
    rc = build_bias(s, m, vocab, p, e);
    if (rc == SKIPPY_OK) rc = build_chain(s, m, vocab, p, e);
    if (rc == SKIPPY_OK) rc = sk_grammar_create(vocab, p, &s->grammar, e);
    if (rc == SKIPPY_OK && (s->chain || s->grammar)) {
        s->candidates = malloc((size_t)s->n_vocab * sizeof *s->candidates);
        if (!s->candidates) rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    }
    if (rc != SKIPPY_OK) {
        sk_sampler_free(s);
        return rc;
    }
    *out = s;
    return SKIPPY_OK;
}

void sk_sampler_free(sk_sampler *s) {
    if (!s) return;
    if (s->chain) llama_sampler_free(s->chain);
    if (s->grammar) llama_sampler_free(s->grammar);
    free(s->bias);
    free(s->candidates);
    free(s);
}

uint32_t sk_sampler_seed(const sk_sampler *s) {
    return s->seed;
}

void sk_sampler_prime(sk_sampler *s, const int32_t *tokens, size_t n) {
    if (!s->chain) return;
    size_t first = n > (size_t)s->history ? n - (size_t)s->history : 0;
    for (size_t i = first; i < n; i++) llama_sampler_accept(s->chain, tokens[i]);
}

/* A logit the samplers can work with: NaN is never chosen, and infinity would make a softmax of NaN. */
static float usable(float x) {
    if (isnan(x)) return -INFINITY;
    return x > FLT_MAX ? FLT_MAX : x;
}

static int no_logits(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_RUNTIME, "the model produced no usable logits (all are NaN or minus infinity)");
}

static int all_banned(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_INVALID, "logit_bias and ignore_eos leave no token to choose");
}

/* The largest biased logit without a copy of the row: runs between biased tokens, and those tokens by themselves. */
static int pick_argmax(const sk_sampler *s, const float *row, int32_t *token, sk_err *e) {
    int32_t best = -1, begin = 0;
    float best_value = -INFINITY;
    for (size_t i = 0; i <= s->n_bias; i++) {
        int32_t end = i < s->n_bias ? s->bias[i].token : s->n_vocab;
        int32_t at = sk_logits_argmax(row, begin, end);
        if (at >= 0 && row[at] > best_value) {
            best = at;
            best_value = row[at];
        }
        if (i == s->n_bias) break;
        float value = usable(usable(row[end]) + s->bias[i].bias);
        if (value > best_value) {
            best = end;
            best_value = value;
        }
        begin = end + 1;
    }
    *token = best;
    if (best >= 0) return SKIPPY_OK;
    return sk_logits_argmax(row, 0, s->n_vocab) < 0 ? no_logits(e) : all_banned(e);
}

static bool any_left(const llama_token_data_array *a) {
    for (size_t i = 0; i < a->size; i++) {
        if (a->data[i].logit > -INFINITY) return true;
    }
    return false;
}

static int fill_candidates(sk_sampler *s, const float *row, llama_token_data_array *a, sk_err *e) {
    for (int32_t i = 0; i < s->n_vocab; i++) s->candidates[i] = (llama_token_data){.id = i, .logit = usable(row[i])};
    *a = (llama_token_data_array){.data = s->candidates, .size = (size_t)s->n_vocab, .selected = -1, .sorted = false};
    if (!any_left(a)) return no_logits(e);
    for (size_t i = 0; i < s->n_bias; i++) {
        llama_token_data *c = &s->candidates[s->bias[i].token];
        c->logit = usable(c->logit + s->bias[i].bias);
    }
    return any_left(a) ? SKIPPY_OK : all_banned(e);
}

/* Best candidate, the lowest token of equal ones. */
static int64_t best_candidate(const llama_token_data_array *a) {
    int64_t best = -1;
    for (size_t i = 0; i < a->size; i++) {
        const llama_token_data *c = &a->data[i], *b = best < 0 ? NULL : &a->data[best];
        if (c->logit == -INFINITY) continue;
        if (!b || c->logit > b->logit || (c->logit == b->logit && c->id < b->id)) best = (int64_t)i;
    }
    return best;
}

/* Draws from all candidates, or only from those the grammar allows. */
static int pick_candidate(sk_sampler *s, const float *row, bool constrained, int32_t *token, sk_err *e) {
    llama_token_data_array a;
    int rc = fill_candidates(s, row, &a, e);
    if (rc != SKIPPY_OK) return rc;
    if (constrained) {
        llama_sampler_apply(s->grammar, &a);
        if (!any_left(&a)) return sk_err_set(e, SKIPPY_E_INVALID, "the grammar allows no token here");
    }
    if (s->chain) llama_sampler_apply(s->chain, &a);
    int64_t at = s->greedy ? best_candidate(&a) : a.selected;
    if (at < 0 || (size_t)at >= a.size || !(a.data[at].logit > -INFINITY))
        return sk_err_set(e, SKIPPY_E_RUNTIME, "the samplers left no token to choose");
    *token = a.data[at].id;
    return SKIPPY_OK;
}

static bool grammar_allows(const sk_sampler *s, int32_t token) {
    llama_token_data one = {.id = token, .logit = 1.0f};
    llama_token_data_array a = {.data = &one, .size = 1, .selected = -1, .sorted = false};
    llama_sampler_apply(s->grammar, &a);
    return one.logit > -INFINITY;
}

/* Looking at all tokens through a grammar costs milliseconds, and most of the time the model wants an allowed token
 * anyway: choose freely first, and again under the grammar only when it refuses that choice. Which path is taken
 * follows from the logits and the seed alone, so equal requests draw equal random numbers. */
static int pick(sk_sampler *s, const float *row, int32_t *token, sk_err *e) {
    int rc;
    if (s->grammar && s->grammar_first) return pick_candidate(s, row, true, token, e);
    if (s->chain)
        rc = pick_candidate(s, row, false, token, e);
    else
        rc = pick_argmax(s, row, token, e);
    if (rc == SKIPPY_OK && s->grammar && !grammar_allows(s, *token)) rc = pick_candidate(s, row, true, token, e);
    return rc;
}

typedef struct accept_call {
    struct llama_sampler *sampler;
    int32_t token;
} accept_call;

static void accept_native(void *ud) {
    accept_call *a = ud;
    llama_sampler_accept(a->sampler, a->token);
}

/* An allowed token is always accepted; a lazy grammar can still refuse the text that triggers it, and throws then. */
static int accept_token(sk_sampler *s, int32_t token, sk_err *e) {
    char reason[200];
    accept_call call = {.sampler = s->grammar, .token = token};
    if (s->grammar && !sk_native_call(accept_native, &call, reason, sizeof reason))
        return sk_err_set(e, SKIPPY_E_INVALID, "the output does not follow the grammar that it triggered: %s", reason);
    if (s->chain) llama_sampler_accept(s->chain, token);
    return SKIPPY_OK;
}

static void report(const sk_sampler *s, const float *row, int32_t token, sk_token_prob *chosen, sk_token_prob *top,
                   size_t *n_top) {
    bool want_top = top && n_top && s->n_probs > 0;
    if (n_top) *n_top = 0;
    if (!chosen && !want_top) return;
    double log_sum = sk_logits_log_sum(row, s->n_vocab);
    if (chosen) *chosen = (sk_token_prob){.token = token, .logprob = (float)((double)row[token] - log_sum)};
    if (want_top) *n_top = sk_logits_top(row, s->n_vocab, log_sum, top, (size_t)s->n_probs);
}

int sk_sampler_sample(sk_sampler *s, const float *logits, int32_t *token, sk_token_prob *chosen, sk_token_prob *top,
                      size_t *n_top, sk_err *e) {
    int rc = pick(s, logits, token, e);
    if (rc == SKIPPY_OK) rc = accept_token(s, *token, e);
    if (rc == SKIPPY_OK) report(s, logits, *token, chosen, top, n_top);
    return rc;
}

bool sk_sampler_takes_best(const sk_sampler *s) {
    if (!s->greedy || s->chain || s->grammar || s->n_probs > 0) return false;
    for (size_t i = 0; i < s->n_bias; i++)
        if (!(s->bias[i].bias <= 0)) return false;
    return true;
}

static float bias_of(const sk_sampler *s, int32_t token) {
    for (size_t i = 0; i < s->n_bias && s->bias[i].token <= token; i++)
        if (s->bias[i].token == token) return s->bias[i].bias;
    return 0;
}

int sk_sampler_sample_best(const sk_sampler *s, const int32_t *tokens, const float *logits, size_t n, bool complete,
                           int32_t *token) {
    float best_value = -INFINITY;
    int32_t best = -1;
    bool biased = false;
    for (size_t i = 0; i < n; i++) {
        float bias = bias_of(s, tokens[i]), value = usable(usable(logits[i]) + bias);
        if (value < best_value || value == -INFINITY || (value == best_value && tokens[i] > best)) continue;
        best_value = value;
        best = tokens[i];
        biased = bias < 0;
    }
    /* A token that was not sent is at most as good as the last one, and behind it where they are equal. */
    bool beats_the_rest = best >= 0 && (best_value > logits[n - 1] || (best_value == logits[n - 1] && !biased));
    if (best < 0 || (!complete && !beats_the_rest)) return SKIPPY_E_NOT_FOUND;
    *token = best;
    return SKIPPY_OK;
}
