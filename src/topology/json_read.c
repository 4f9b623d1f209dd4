#include "topology/json_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sk_read_fail(sk_reader *r, const char *fmt, ...) {
    if (r->failed) return;
    char text[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sk_err_set(r->e, SKIPPY_E_INVALID, "%s: %s", r->where, text);
    r->failed = true;
}

static bool listed(const char *word, const char *const *words, int *at) {
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], word) != 0) continue;
        *at = i;
        return true;
    }
    return false;
}

void sk_read_keys(sk_reader *r, const json_t *o, const char *const *allowed) {
    if (r->failed) return;
    if (!json_is_object(o)) {
        sk_read_fail(r, "an object is needed here");
        return;
    }
    int at;
    for (void *it = json_object_iter((json_t *)o); it; it = json_object_iter_next((json_t *)o, it)) {
        const char *key = json_object_iter_key(it);
        if (!listed(key, allowed, &at)) sk_read_fail(r, "there is no key '%.60s'", key);
    }
}

/* The value, or NULL after a failure. */
static const json_t *required(sk_reader *r, const json_t *o, const char *key) {
    if (r->failed) return NULL;
    const json_t *v = json_object_get(o, key);
    if (!v) sk_read_fail(r, "the key '%s' is missing", key);
    return v;
}

static const json_t *optional(sk_reader *r, const json_t *o, const char *key) {
    return r->failed ? NULL : json_object_get(o, key);
}

static void take_text(sk_reader *r, const json_t *v, const char *key, const char **out) {
    if (!v) return;
    if (!json_is_string(v) || json_string_length(v) == 0)
        sk_read_fail(r, "'%s' must be text that is not empty", key);
    else
        *out = json_string_value(v);
}

static void take_i64(sk_reader *r, const json_t *v, const char *key, int64_t min, int64_t max, int64_t *out) {
    if (!v) return;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        sk_read_fail(r, "'%s' must be a whole number from %" PRId64 " to %" PRId64, key, min, max);
    else
        *out = json_integer_value(v);
}

static void take_i32(sk_reader *r, const json_t *v, const char *key, int32_t min, int32_t max, int32_t *out) {
    int64_t wide = *out;
    take_i64(r, v, key, min, max, &wide);
    *out = (int32_t)wide;
}

void sk_read_text(sk_reader *r, const json_t *o, const char *key, const char **out) {
    take_text(r, required(r, o, key), key, out);
}

void sk_read_opt_text(sk_reader *r, const json_t *o, const char *key, const char **out) {
    take_text(r, optional(r, o, key), key, out);
}

void sk_read_i64(sk_reader *r, const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out) {
    take_i64(r, required(r, o, key), key, min, max, out);
}

void sk_read_i32(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out) {
    take_i32(r, required(r, o, key), key, min, max, out);
}

void sk_read_opt_i32(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out) {
    take_i32(r, optional(r, o, key), key, min, max, out);
}

void sk_read_opt_bool(sk_reader *r, const json_t *o, const char *key, bool *out) {
    const json_t *v = optional(r, o, key);
    if (!v) return;
    if (!json_is_boolean(v))
        sk_read_fail(r, "'%s' must be true or false", key);
    else
        *out = json_is_true(v);
}

void sk_read_word(sk_reader *r, const json_t *o, const char *key, const char *const *words, int *out) {
    const char *word = NULL;
    sk_read_text(r, o, key, &word);
    if (word && !listed(word, words, out)) sk_read_fail(r, "'%s' cannot be '%.60s'", key, word);
}

const json_t *sk_read_opt_array(sk_reader *r, const json_t *o, const char *key, size_t cap) {
    const json_t *v = optional(r, o, key);
    if (!v) return NULL;
    if (json_is_array(v) && json_array_size(v) >= 1 && json_array_size(v) <= cap) return v;
    sk_read_fail(r, "'%s' must be a list of 1 to %zu elements", key, cap);
    return NULL;
}

void sk_read_opt_i32s(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out,
                      size_t cap, size_t *n) {
    const json_t *list = sk_read_opt_array(r, o, key, cap);
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        take_i32(r, json_array_get(list, i), key, min, max, &out[i]);
        *n = i + 1;
    }
}

void sk_read_opt_texts(sk_reader *r, const json_t *o, const char *key, const char **out, size_t cap, size_t *n) {
    const json_t *list = sk_read_opt_array(r, o, key, cap);
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        take_text(r, json_array_get(list, i), key, &out[i]);
        *n = i + 1;
    }
}
