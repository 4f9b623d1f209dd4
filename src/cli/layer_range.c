#include "cli/layer_range.h"

#include <string.h>

/* Digits only: strtol would accept signs and blanks. NULL when there is no number, or one above any model's layers. */
static const char *read_layer(const char *text, int32_t *out) {
    int32_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (*p - '0');
        if (n >= SK_MAX_LAYERS) return NULL;
    }
    *out = n;
    return p == text ? NULL : p;
}

bool sk_layer_range_parse(const char *text, sk_layer_range *out, sk_err *e) {
    int32_t first = 0, last = 0;
    const char *rest = read_layer(text, &first);
    last = first;
    if (rest && strncmp(rest, "..", 2) == 0) rest = read_layer(rest + 2, &last);
    if (!rest || *rest) {
        sk_err_set(e, SKIPPY_E_INVALID, "layers are written as 3..4 (both included) or 3, from 0 to %d, not '%s'",
                   SK_MAX_LAYERS - 1, text);
        return false;
    }
    if (last < first) {
        sk_err_set(e, SKIPPY_E_INVALID, "the layers '%s' end before they begin", text);
        return false;
    }
    *out = (sk_layer_range){.start = first, .end = last + 1};
    return true;
}
