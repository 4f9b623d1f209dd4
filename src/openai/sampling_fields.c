#include "openai/sampling_fields.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "openai/fields.h"

/* Largest number of biased tokens: OpenAI's documented limit is 300; tools that ban whole scripts send more. */
#define MAX_LOGIT_BIAS 4096

typedef struct float_field {
    const char *name;
    size_t offset;
    double min, max;
} float_field;

/* temperature, penalties and top_p: ranges of the OpenAI API, temperature wider as local clients use it. */
static const float_field float_fields[] = {
    {"temperature", offsetof(sk_sampling, temperature), 0, 100},
    {"top_p", offsetof(sk_sampling, top_p), 0, 1},
    {"min_p", offsetof(sk_sampling, min_p), 0, 1},
    {"typical_p", offsetof(sk_sampling, typical_p), 0, 1},
    {"top_n_sigma", offsetof(sk_sampling, top_n_sigma), -1, 1000},
    {"xtc_probability", offsetof(sk_sampling, xtc_probability), 0, 1},
    {"xtc_threshold", offsetof(sk_sampling, xtc_threshold), 0, 1},
    {"dynatemp_range", offsetof(sk_sampling, dynatemp_range), 0, 100},
    {"dynatemp_exponent", offsetof(sk_sampling, dynatemp_exponent), 0, 100},
    {"repeat_penalty", offsetof(sk_sampling, repeat_penalty), 0.01, 100},
    {"frequency_penalty", offsetof(sk_sampling, frequency_penalty), -2, 2},
    {"presence_penalty", offsetof(sk_sampling, presence_penalty), -2, 2},
    {"dry_multiplier", offsetof(sk_sampling, dry_multiplier), 0, 100},
    {"dry_base", offsetof(sk_sampling, dry_base), 0, 100},
    {"mirostat_tau", offsetof(sk_sampling, mirostat_tau), 0, 1000},
    {"mirostat_eta", offsetof(sk_sampling, mirostat_eta), 0, 100},
};

typedef struct int_field {
    const char *name;
    size_t offset;
    int64_t min, max;
} int_field;

static const int_field int_fields[] = {
    {"top_k", offsetof(sk_sampling, top_k), -1, INT32_MAX},
    {"repeat_last_n", offsetof(sk_sampling, repeat_last_n), -1, INT32_MAX},
    {"dry_allowed_length", offsetof(sk_sampling, dry_allowed_length), 0, INT32_MAX},
    {"dry_penalty_last_n", offsetof(sk_sampling, dry_penalty_last_n), -1, INT32_MAX},
    {"mirostat", offsetof(sk_sampling, mirostat), 0, 2},
    {"min_keep", offsetof(sk_sampling, min_keep), 0, INT32_MAX},
    {"n_probs", offsetof(sk_sampling, n_probs), 0, SK_MAX_PROBS},
};

/* Seeds are 32 bits wide below; a wider one from a client is folded, so that it stays deterministic. -1 means random.
 */
static int parse_seed(const json_t *body, sk_sampling *s, sk_api_error *err) {
    int64_t seed = -1;
    int rc = sk_field_int(body, "seed", INT64_MIN, INT64_MAX, &seed, err);
    if (rc) return rc;
    if (!sk_field(body, "seed") || seed == -1) return 0;
    uint64_t wide = (uint64_t)seed;
    uint32_t folded = (uint32_t)(wide ^ (wide >> 32));
    s->seed = folded == UINT32_MAX ? UINT32_MAX - 1 : folded;
    return 0;
}

int sk_sampling_parse(const json_t *body, sk_sampling *s, sk_api_error *err) {
    char *base = (char *)s;
    for (size_t i = 0; i < sizeof float_fields / sizeof *float_fields; i++) {
        const float_field *f = &float_fields[i];
        int rc = sk_field_float(body, f->name, f->min, f->max, (float *)(void *)(base + f->offset), err);
        if (rc) return rc;
    }
    for (size_t i = 0; i < sizeof int_fields / sizeof *int_fields; i++) {
        const int_field *f = &int_fields[i];
        int32_t *slot = (int32_t *)(void *)(base + f->offset);
        int64_t value = *slot;
        int rc = sk_field_int(body, f->name, f->min, f->max, &value, err);
        if (rc) return rc;
        *slot = (int32_t)value;
    }
    int rc = sk_field_bool(body, "ignore_eos", &s->ignore_eos, err);
    return rc ? rc : parse_seed(body, s, err);
}

static int bias_value(const json_t *v, bool list_form, float *out, sk_api_error *err) {
    if (list_form && json_is_false(v)) {
        *out = -INFINITY;
        return 0;
    }
    double value = json_number_value(v);
    if (!json_is_number(v) || !isfinite(value) || fabs(value) > 1e6)
        return sk_api_invalid(err, "logit_bias", "a value in 'logit_bias' must be a number from -1e6 to 1e6%s",
                              list_form ? ", or false" : "");
    *out = (float)value;
    return 0;
}

static int bias_token(long long id, int32_t n_vocab, int32_t *out, sk_api_error *err) {
    if (id < 0 || id >= n_vocab)
        return sk_api_invalid(err, "logit_bias",
                              "token %lld in 'logit_bias' does not exist: the vocabulary has %d tokens", id, n_vocab);
    *out = (int32_t)id;
    return 0;
}

static int bias_from_object(const json_t *v, int32_t n_vocab, sk_logit_bias *out, sk_api_error *err) {
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)v, key, value) {
        char *end;
        errno = 0;
        long long id = strtoll(key, &end, 10);
        if (errno || end == key || *end)
            return sk_api_invalid(err, "logit_bias", "the key '%.40s' in 'logit_bias' is not a token id", key);
        int rc = bias_token(id, n_vocab, &out[i].token, err);
        if (!rc) rc = bias_value(value, false, &out[i].bias, err);
        if (rc) return rc;
        i++;
    }
    return 0;
}

static int bias_from_array(const json_t *v, int32_t n_vocab, sk_logit_bias *out, sk_api_error *err) {
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *pair = json_array_get(v, i);
        const json_t *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return sk_api_invalid(err, "logit_bias", "an entry of 'logit_bias' must be [token id, bias]");
        int rc = bias_token(json_integer_value(id), n_vocab, &out[i].token, err);
        if (!rc) rc = bias_value(json_array_get(pair, 1), true, &out[i].bias, err);
        if (rc) return rc;
    }
    return 0;
}

int sk_logit_bias_parse(const json_t *body, int32_t n_vocab, sk_logit_bias **out, size_t *n, sk_api_error *err) {
    *out = NULL;
    *n = 0;
    const json_t *v = sk_field(body, "logit_bias");
    if (!v) return 0;
    if (!json_is_object(v) && !json_is_array(v))
        return sk_api_invalid(err, "logit_bias",
                              "'logit_bias' must be an object {\"id\": bias} or an array of [id, bias]");
    size_t count = json_is_object(v) ? json_object_size(v) : json_array_size(v);
    if (count == 0) return 0;
    if (count > MAX_LOGIT_BIAS)
        return sk_api_invalid(err, "logit_bias", "'logit_bias' has %zu entries; at most %d are allowed", count,
                              MAX_LOGIT_BIAS);
    sk_logit_bias *list = calloc(count, sizeof *list);
    if (!list) return sk_api_nomem(err);
    int rc = json_is_object(v) ? bias_from_object(v, n_vocab, list, err) : bias_from_array(v, n_vocab, list, err);
    if (rc) {
        free(list);
        return rc;
    }
    *out = list;
    *n = count;
    return 0;
}
