#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether `word` (len bytes) is one of the items of list, which are separated by sep. */
static bool in_list(const char *list, char sep, const char *word, size_t len) {
    while (*list) {
        const char *end = strchr(list, sep);
        size_t item = end ? (size_t)(end - list) : strlen(list);
        if (item == len && memcmp(list, word, len) == 0) return true;
        list += item + (end != NULL);
    }
    return false;
}

static const sk_arg_def *find(const sk_args *a, const char *name, size_t len) {
    for (size_t i = 0; i < a->n_defs; i++)
        if (in_list(a->defs[i].names, ' ', name, len)) return &a->defs[i];
    return NULL;
}

static bool is_choice(const sk_arg_def *d, const char *value) {
    return in_list(d->choices, '|', value, strlen(value));
}

/* Finds the value: behind '=', else the next argument. Returns false with words when one is missing. */
static bool take_value(sk_args *a, const sk_arg_def *d, const char *attached, sk_err *e) {
    const char *next = a->at < a->argc ? a->argv[a->at] : NULL;
    a->value = attached;
    if (attached && !d->value) {
        sk_err_set(e, SKIPPY_E_INVALID, "%s takes no value, but '%s' is given", a->name, attached);
        return false;
    }
    if (attached || !d->value) return true;
    if (d->value[0] == '[' && (!next || !is_choice(d, next))) return true;
    if (!next) {
        sk_err_set(e, SKIPPY_E_INVALID, "%s needs a value: %s", a->name, d->value);
        return false;
    }
    a->value = next;
    a->at++;
    return true;
}

int sk_args_next(sk_args *a, sk_err *e) {
    if (a->at >= a->argc) return 0;
    const char *word = a->argv[a->at++];
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    snprintf(a->name, sizeof a->name, "%.*s", (int)(len < sizeof a->name ? len : sizeof a->name - 1), word);
    a->value = NULL;
    if (word[0] != '-' || len < 2) {
        sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not an option", word);
        return -1;
    }
    const sk_arg_def *d = find(a, word, len);
    if (!d) {
        sk_err_set(e, SKIPPY_E_INVALID, "unknown option '%s'", a->name);
        return -1;
    }
    if (!take_value(a, d, equals ? equals + 1 : NULL, e)) return -1;
    if (a->value && d->choices && !is_choice(d, a->value)) {
        sk_err_set(e, SKIPPY_E_INVALID, "%s must be one of %s, not '%s'", a->name, d->choices, a->value);
        return -1;
    }
    return d->id;
}

static bool number(const sk_args *a, int64_t min, uint64_t max, bool negative_ok, int64_t *as_signed,
                   uint64_t *as_unsigned, sk_err *e) {
    const char *text = a->value;
    char *end = NULL;
    errno = 0;
    bool negative = text[0] == '-';
    if (negative)
        *as_signed = strtoll(text, &end, 10);
    else
        *as_unsigned = strtoull(text, &end, 10);
    bool digits = text[negative] >= '0' && text[negative] <= '9'; /* strtoull accepts blanks and signs */
    bool ok = digits && *end == '\0' && errno == 0 && (!negative || negative_ok);
    if (ok && negative)
        ok = *as_signed >= min;
    else if (ok)
        ok = *as_unsigned <= max && (min <= 0 || *as_unsigned >= (uint64_t)min);
    if (!ok)
        sk_err_set(e, SKIPPY_E_INVALID, "%s needs a whole number from %lld to %llu, not '%s'", a->name, (long long)min,
                   (unsigned long long)max, text);
    else if (!negative && *as_unsigned <= INT64_MAX)
        *as_signed = (int64_t)*as_unsigned;
    return ok;
}

bool sk_args_u64(const sk_args *a, uint64_t min, uint64_t max, uint64_t *out, sk_err *e) {
    int64_t unused = 0;
    return number(a, (int64_t)min, max, false, &unused, out, e);
}

bool sk_args_u32(const sk_args *a, uint32_t min, uint32_t max, uint32_t *out, sk_err *e) {
    uint64_t v = 0;
    if (!sk_args_u64(a, min, max, &v, e)) return false;
    *out = (uint32_t)v;
    return true;
}

bool sk_args_i32(const sk_args *a, int32_t min, int32_t max, int32_t *out, sk_err *e) {
    int64_t v = 0;
    uint64_t u = 0;
    if (!number(a, min, (uint64_t)max, min < 0, &v, &u, e)) return false;
    *out = (int32_t)v;
    return true;
}

bool sk_args_float(const sk_args *a, float above, float *out, sk_err *e) {
    char *end = NULL;
    float v = strtof(a->value, &end);
    if (end == a->value || *end || !isfinite(v) || !(v > above)) {
        sk_err_set(e, SKIPPY_E_INVALID, "%s needs a number above %g, not '%s'", a->name, (double)above, a->value);
        return false;
    }
    *out = v;
    return true;
}

void sk_args_help(const sk_arg_def *defs, size_t n, FILE *out) {
    enum { COLUMN = 34 };
    for (size_t i = 0; i < n; i++) {
        if (!defs[i].help) continue;
        char left[96];
        size_t at = 0;
        for (const char *p = defs[i].names; *p && at + 3 < sizeof left; p++) {
            if (*p == ' ') left[at++] = ',';
            left[at++] = *p;
        }
        left[at] = '\0';
        int width = fprintf(out, defs[i].value ? "  %s %s" : "  %s", left, defs[i].value);
        if (width >= COLUMN)
            fprintf(out, "\n%*s", COLUMN, "");
        else
            fprintf(out, "%*s", COLUMN - width, "");
        for (const char *p = defs[i].help; *p; p++) {
            fputc(*p, out);
            if (*p == '\n') fprintf(out, "%*s", COLUMN, "");
        }
        fputc('\n', out);
    }
}
