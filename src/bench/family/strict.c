#include "bench/family/strict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

sk_strict sk_strict_root(sk_strict_reader *r, json_t *root) {
    return (sk_strict){.reader = r, .json = root};
}

bool sk_strict_failed(const sk_strict *v) {
    return v->reader->rc != SKIPPY_OK;
}

bool sk_strict_present(const sk_strict *v) {
    return v->json && !sk_strict_failed(v);
}

void sk_strict_refuse(const sk_strict *v, int code, const char *fmt, ...) {
    char text[384];
    va_list args;
    if (sk_strict_failed(v)) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    v->reader->rc = code;
    sk_err_set(v->reader->e, code, "%s: %s", v->path[0] ? v->path : "the document", sk_text_clean(text));
}

static const char *type_name(const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a text";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number with a fraction";
    default: return "true, false or null";
    }
}

/* True when v is there and has the type; refuses another type. */
static bool has_type(const sk_strict *v, bool matches, const char *wanted) {
    if (!sk_strict_present(v)) return false;
    if (!matches) sk_strict_refuse(v, SKIPPY_E_INVALID, "must be %s, not %s", wanted, type_name(v->json));
    return matches;
}

/* ---- objects and arrays ---- */

static bool is_known(const char *name, const char *const *known) {
    while (*known && strcmp(*known, name) != 0) known++;
    return *known != NULL;
}

void sk_strict_version(const sk_strict *v, int64_t version) {
    if (!has_type(v, json_is_object(v->json), "an object")) return;
    const sk_strict found = sk_strict_need(v, "schema_version");
    const int64_t n = sk_strict_int(&found, INT64_MIN, INT64_MAX, version);
    if (n != version) {
        sk_strict_refuse(&found, SKIPPY_E_INVALID, "%" PRId64 " is not known here; this program reads %" PRId64, n,
                         version);
    }
}

void sk_strict_known(const sk_strict *v, const char *const *known) {
    const char *name;
    json_t *value;
    if (!has_type(v, json_is_object(v->json), "an object")) return;
    json_object_foreach(v->json, name, value) {
        if (!is_known(name, known)) sk_strict_refuse(v, SKIPPY_E_INVALID, "there is no field '%.80s' here", name);
    }
}

size_t sk_strict_count(const sk_strict *v, size_t min, size_t max) {
    if (!has_type(v, json_is_array(v->json), "an array")) return 0;
    const size_t n = json_array_size(v->json);
    if (n >= min && n <= max) return n;
    sk_strict_refuse(v, SKIPPY_E_INVALID, "has %zu elements; %zu to %zu are allowed", n, min, max);
    return 0;
}

sk_strict sk_strict_field(const sk_strict *v, const char *name) {
    sk_strict child = {.reader = v->reader};
    json_t *json = json_object_get(v->json, name);
    child.json = json_is_null(json) ? NULL : json;
    /* a path that does not fit is cut: it only says where something is wrong */
    const size_t n = (size_t)snprintf(child.path, sizeof child.path, "%s%s", v->path, v->path[0] ? "." : "");
    if (n < sizeof child.path) snprintf(child.path + n, sizeof child.path - n, "%s", name);
    return child;
}

sk_strict sk_strict_need(const sk_strict *v, const char *name) {
    sk_strict child = sk_strict_field(v, name);
    if (sk_strict_present(v) && !child.json) sk_strict_refuse(&child, SKIPPY_E_INVALID, "is missing");
    return child;
}

sk_strict sk_strict_item(const sk_strict *v, size_t i) {
    sk_strict child = {.reader = v->reader, .json = json_array_get(v->json, i)};
    char place[32];
    snprintf(place, sizeof place, "[%zu]", i);
    snprintf(child.path, sizeof child.path, "%.*s%s", (int)(sizeof child.path - sizeof place), v->path, place);
    return child;
}

/* ---- values ---- */

int64_t sk_strict_int(const sk_strict *v, int64_t min, int64_t max, int64_t absent) {
    if (!has_type(v, json_is_integer(v->json), "a whole number")) return absent;
    const int64_t n = json_integer_value(v->json);
    if (n >= min && n <= max) return n;
    sk_strict_refuse(v, SKIPPY_E_INVALID, "%" PRId64 " is out of bounds: %" PRId64 " to %" PRId64, n, min, max);
    return absent;
}

uint32_t sk_strict_u32(const sk_strict *v, uint32_t min, uint32_t max, uint32_t absent) {
    return (uint32_t)sk_strict_int(v, min, max, absent);
}

bool sk_strict_bool(const sk_strict *v, bool absent) {
    return has_type(v, json_is_boolean(v->json), "true or false") ? json_is_true(v->json) : absent;
}

static bool has_control(const char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return true;
    }
    return false;
}

const char *sk_strict_text(const sk_strict *v, size_t max) {
    if (!has_type(v, json_is_string(v->json), "a text")) return "";
    const char *text = json_string_value(v->json);
    const size_t len = json_string_length(v->json);
    if (len == 0 || len > max) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "has %zu bytes; 1 to %zu are allowed", len, max);
    } else if (has_control(text)) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "has control characters");
    }
    return sk_strict_failed(v) ? "" : text;
}

void sk_strict_copy(const sk_strict *v, char *out, size_t cap) {
    snprintf(out, cap, "%s", sk_strict_text(v, cap - 1));
}

void sk_strict_absolute(const sk_strict *v, char *out, size_t cap) {
    sk_strict_copy(v, out, cap);
    if (out[0] && out[0] != '/') {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "'%.200s' is no absolute path", out);
        out[0] = '\0';
    }
}

void sk_strict_sha256(const sk_strict *v, char out[SK_SHA256_HEX]) {
    const char *text = sk_strict_text(v, 1024);
    out[0] = '\0';
    if (!sk_strict_present(v)) return;
    if (sk_sha256_is_hex(text)) {
        memcpy(out, text, SK_SHA256_HEX);
    } else {
        sk_strict_refuse(v, SKIPPY_E_INVALID,
                         "'%.80s' is no SHA-256: 64 lower-case hexadecimal digits, as sha256sum prints them", text);
    }
}

void sk_strict_commit(const sk_strict *v, char out[65]) {
    const char *text = sk_strict_text(v, 1024);
    const size_t len = strlen(text);
    out[0] = '\0';
    if (!sk_strict_present(v)) return;
    if ((len == 40 || len == 64) && strspn(text, "0123456789abcdef") == len) {
        memcpy(out, text, len + 1);
    } else {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "'%.80s' is no commit: 40 or 64 lower-case hexadecimal digits", text);
    }
}

size_t sk_strict_choice(const sk_strict *v, const char *const *names) {
    const char *text = sk_strict_text(v, 1024);
    if (!sk_strict_present(v)) return 0;
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) return i;
    }
    sk_strict_refuse(v, SKIPPY_E_INVALID, "'%.80s' is none of the allowed words ('%s' ...)", text, names[0]);
    return 0;
}

/* ---- files ---- */

int sk_strict_read(const char *path, size_t limit, sk_buf *out, sk_err *e) {
    int rc = SKIPPY_OK;
    FILE *f = fopen(path, "re");
    if (!f) {
        return sk_err_set(e, errno == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "cannot read '%s': %s", path,
                          strerror(errno));
    }
    while (rc == SKIPPY_OK && sk_buf_reserve(out, READ_BYTES)) {
        const size_t n = fread(out->data + out->len, 1, READ_BYTES, f);
        if (n == 0) break;
        out->len += n;
        if (out->len > limit) rc = sk_err_set(e, SKIPPY_E_TOO_LARGE, "'%s' has more than %zu bytes", path, limit);
    }
    if (rc == SKIPPY_OK && ferror(f)) rc = sk_err_set(e, SKIPPY_E_IO, "cannot read '%s': %s", path, strerror(errno));
    if (rc == SKIPPY_OK && out->failed) rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for '%s'", path);
    fclose(f);
    return rc;
}

int sk_strict_load(const char *path, size_t limit, json_t **root, char hex[SK_SHA256_HEX], sk_err *e) {
    sk_buf text = {0};
    json_error_t where;
    *root = NULL;
    int rc = sk_strict_read(path, limit, &text, e);
    if (rc == SKIPPY_OK) {
        *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
        if (!*root) {
            rc = sk_err_set(e, SKIPPY_E_INVALID, "'%s' is no valid JSON: line %d, column %d: %s", path, where.line,
                            where.column, sk_text_clean(where.text));
        } else if (hex) {
            sk_sha256_text(text.data, text.len, hex);
        }
    }
    sk_buf_free(&text);
    return rc;
}
