#include "bench/family/corpus_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/corpus.h"

int sk_corpus_json(const char *text, size_t len, json_t **root, char hex[SK_SHA256_HEX], sk_err *e) {
    json_error_t where;
    *root = NULL;
    if (len > SK_CORPUS_MAX_FILE) {
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "a corpus of %zu bytes; at most %d are read", len, SK_CORPUS_MAX_FILE);
    }
    *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!*root) {
        return sk_err_set(e, SKIPPY_E_INVALID, "no valid JSON: line %d, column %d: %s", where.line, where.column,
                          sk_text_clean(where.text));
    }
    sk_sha256_text(text, len, hex);
    return SKIPPY_OK;
}

void sk_corpus_version(const sk_strict *root) {
    const sk_strict version = sk_strict_need(root, "version");
    const int64_t n = sk_strict_int(&version, INT64_MIN, INT64_MAX, 1);
    if (n != 1) {
        sk_strict_refuse(&version, SKIPPY_E_INVALID, "%" PRId64 " is not known; this program reads version 1", n);
    }
}

static char *owned(const sk_strict *v, const char *text) {
    char *copy = sk_strict_present(v) ? strdup(text) : NULL;
    if (!copy) {
        sk_strict_refuse(v, SKIPPY_E_NOMEM, "no memory for a text");
    }
    return copy;
}

char *sk_corpus_line(const sk_strict *v, const char *field, size_t max) {
    const sk_strict value = sk_strict_need(v, field);
    return owned(&value, sk_strict_text(&value, max));
}

char *sk_corpus_prose(const sk_strict *v, const char *field, size_t max) {
    const sk_strict value = sk_strict_need(v, field);
    const size_t len = json_string_length(value.json);
    if (!json_is_string(value.json)) {
        sk_strict_refuse(&value, SKIPPY_E_INVALID, "must be a text");
    } else if (len == 0 || len > max) {
        sk_strict_refuse(&value, SKIPPY_E_INVALID, "has %zu bytes; 1 to %zu are allowed", len, max);
    }
    return owned(&value, json_string_value(value.json));
}

/* Keys become names of folders and of series, so they are plain. */
static char *read_key(const sk_strict *v) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const sk_strict value = sk_strict_need(v, "key");
    const char *text = sk_strict_text(&value, SK_CORPUS_MAX_KEY);
    if (text[strspn(text, letters)] != '\0') {
        sk_strict_refuse(&value, SKIPPY_E_INVALID, "'%s' may hold only a-z, 0-9 and _", text);
    }
    return owned(&value, text);
}

char *sk_corpus_entry(sk_strict *v, const char *noun, const char *const *known) {
    char *key = NULL;
    if (json_is_object(v->json)) {
        key = read_key(v);
    }
    if (key) {
        snprintf(v->path, sizeof v->path, "%s '%s'", noun, key);
    }
    sk_strict_known(v, known);
    return key;
}

int sk_corpus_name_file(const char *path, int rc, sk_err *e) {
    if (rc != SKIPPY_OK && e) {
        const sk_err inner = *e;
        sk_err_set(e, rc, "'%s': %s", path, inner.text);
    }
    return rc;
}
