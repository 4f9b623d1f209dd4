#include "bench/family/prepare_publish.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/family/input_parts.h"
#include "bench/report.h"

int sk_prepare_write_json(const char *path, const json_t *json, sk_err *e) {
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for '%s'", path);
    const size_t len = strlen(text);
    const int rc = len <= SK_INPUT_MAX_BYTES ? sk_report_write_file(path, text, len, e)
                                             : sk_err_set(e, SKIPPY_E_TOO_LARGE,
                                                          "'%s' would have %zu bytes, more than %d: fewer cases, use "
                                                          "cases or prefixes are needed",
                                                          path, len, SK_INPUT_MAX_BYTES);
    free(text);
    return rc;
}

int sk_prepare_publish(const char *path, const json_t *json, const sk_prepare_watch *w, sk_err *e) {
    int rc = sk_prepare_write_json(path, json, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_prepare_may_go_on(w, e);
    if (rc != SKIPPY_OK) unlink(path);
    return rc;
}
