#include "openai/boundaries.h"

#include <string.h>

/* First text of a message's content, without the white space that templates trim. */
static const char *content_start(const json_t *message, size_t *len) {
    const json_t *content = json_object_get(message, "content");
    if (json_is_array(content)) content = json_object_get(json_array_get(content, 0), "text");
    const char *s = json_string_value(content);
    if (!s) return NULL;
    size_t n = json_string_length(content), from = 0;
    while (from < n && strchr(" \t\r\n", s[from])) from++;
    while (n > from && strchr(" \t\r\n", s[n - 1])) n--;
    *len = n - from;
    return *len ? s + from : NULL;
}

static bool is_user(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "user");
}

static void add_offset(size_t out[SK_MAX_CHAT_OFFSETS], size_t *n, size_t offset) {
    if (*n == 0 || out[*n - 1] < offset) out[(*n)++] = offset;
}

size_t sk_chat_offsets(const json_t *messages, const char *text, size_t len, size_t n_generation,
                       size_t out[SK_MAX_CHAT_OFFSETS]) {
    size_t n = 0, at = 0, first = 0, last = 0;
    bool found = false;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        size_t size = 0;
        const char *content = content_start(message, &size);
        /* Searching behind the message before it: short words of a user are likely to stand in the system prompt too.
         */
        const char *hit = content ? memmem(text + at, len - at, content, size) : NULL;
        if (!hit) continue;
        size_t offset = (size_t)(hit - text);
        if (is_user(message)) {
            if (!found) first = offset;
            last = offset;
            found = true;
        }
        at = offset + size;
    }
    if (found) add_offset(out, &n, first);
    if (found) add_offset(out, &n, last);
    if (n_generation > 0 && n_generation < len) add_offset(out, &n, len - n_generation);
    return n;
}

size_t sk_boundaries_from_offsets(const sk_model *m, const char *text, size_t len, const int32_t *tokens,
                                  size_t n_tokens, const size_t *offsets, size_t n_offsets, size_t *out) {
    size_t at = 0, done = 0;
    for (size_t i = 0; i < n_tokens && done < n_offsets; i++) {
        size_t used;
        if (!sk_token_match(m, tokens[i], i == 0, text, len, at, &used)) return done;
        while (done < n_offsets && at + used > offsets[done]) out[done++] = i;
        at += used;
    }
    while (done < n_offsets && at == len && offsets[done] >= at) out[done++] = n_tokens;
    return done;
}

size_t sk_boundaries_prune(size_t *positions, size_t n, size_t n_tokens) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (positions[i] < SK_MIN_BOUNDARY || positions[i] >= n_tokens) continue;
        if (kept > 0 && positions[i] - positions[kept - 1] < SK_MIN_BOUNDARY_GAP) kept--;
        positions[kept++] = positions[i];
    }
    return kept;
}

void sk_boundaries_of_chat(const sk_model *m, const json_t *messages, size_t n_generation, sk_prompt *p) {
    size_t offsets[SK_MAX_CHAT_OFFSETS];
    size_t n = sk_chat_offsets(messages, p->text, p->text_len, n_generation, offsets);
    n = sk_boundaries_from_offsets(m, p->text, p->text_len, p->tokens, p->n_tokens, offsets, n, p->boundaries);
    p->n_boundaries = sk_boundaries_prune(p->boundaries, n, p->n_tokens);
}
