#include "bench/family/row_reader.h"

#include <stdio.h>
#include <string.h>

json_t *sk_row_at(json_t *row, const char *path) {
    char name[64];
    json_t *v = row;
    while (v && *path) {
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        v = json_object_get(v, name);
        path += n + (path[n] == '.');
    }
    return json_is_null(v) ? NULL : v;
}

void sk_row_refuse(sk_row_reader *rd, const char *field, const char *what) {
    if (rd->rc != SKIPPY_OK) return;
    const char *key = json_string_value(json_object_get(rd->row, "key"));
    rd->rc = sk_err_set(rd->e, SKIPPY_E_INVALID, "row %zu%s%.60s%s: %s must be %s", rd->number, key ? " (" : "",
                        key ? key : "", key ? ")" : "", field, what);
    if (rd->e) sk_text_clean(rd->e->text);
}

const char *sk_row_text(sk_row_reader *rd, const char *path, const char *fallback) {
    json_t *v = sk_row_at(rd->row, path);
    if (json_is_string(v)) return json_string_value(v);
    if (v || !fallback) sk_row_refuse(rd, path, "a string");
    return fallback ? fallback : "";
}

int64_t sk_row_count_of(sk_row_reader *rd, const char *path) {
    json_t *v = sk_row_at(rd->row, path);
    if (!v) return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0) {
        sk_row_refuse(rd, path, "a whole number, at least 0");
        return 0;
    }
    return json_integer_value(v);
}

double sk_row_ms(sk_row_reader *rd, const char *path) {
    json_t *v = sk_row_at(rd->row, path);
    if (!v) return 0.0;
    const double ms = json_number_value(v);
    if (!json_is_number(v) || !(ms >= 0.0 && ms <= SK_ROW_MAX_MS)) {
        sk_row_refuse(rd, path, "a time in milliseconds, 0 to 1e12");
        return 0.0;
    }
    return ms;
}

int sk_row_flag(sk_row_reader *rd, const char *path) {
    json_t *v = sk_row_at(rd->row, path);
    if (!json_is_boolean(v)) sk_row_refuse(rd, path, "true or false");
    return json_is_true(v);
}
