#include "bench/family/json_text.h"

#include <string.h>

#include "base/buf.h"

json_t *sk_json_text(const char *text) {
    json_t *out = json_string(text);
    if (out) {
        return out;
    }
    sk_buf quoted = {0};
    sk_buf_str(&quoted, "\"");
    sk_buf_json_escape(&quoted, text, strlen(text));
    sk_buf_str(&quoted, "\"");
    out = quoted.failed ? NULL : json_loads(quoted.data, JSON_DECODE_ANY, NULL);
    sk_buf_free(&quoted);
    return out;
}
