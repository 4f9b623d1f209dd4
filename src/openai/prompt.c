#include "openai/prompt.h"

#include <stdlib.h>
#include <string.h>

bool sk_token_match(const sk_model *m, int32_t token, bool first, const char *text, size_t len, size_t at,
                    size_t *used) {
    char piece[512];
    size_t n = sk_model_piece(m, token, true, piece, sizeof piece), skip = 0;
    if (n <= len - at && memcmp(text + at, piece, n) == 0) {
        *used = n;
        return true;
    }
    if (n > 0 && piece[0] == ' ') skip = 1; /* some tokenisers put a space before words that begin a text */
    if (skip && n - skip <= len - at && memcmp(text + at, piece + skip, n - skip) == 0) {
        *used = n - skip;
        return true;
    }
    *used = 0;
    return first; /* a begin-of-text token is not in the text */
}

/* Grown by doubling; tokens of a mixed prompt come piece by piece. */
typedef struct token_list {
    int32_t *data;
    size_t n, cap;
} token_list;

static bool append(token_list *list, const int32_t *tokens, size_t n) {
    if (n > list->cap - list->n) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        while (cap < list->n + n) cap *= 2;
        int32_t *grown = realloc(list->data, cap * sizeof *grown);
        if (!grown) return false;
        list->data = grown;
        list->cap = cap;
    }
    if (n) memcpy(list->data + list->n, tokens, n * sizeof *tokens);
    list->n += n;
    return true;
}

static int tokenize_error(int rc, sk_api_error *err) {
    if (rc == SKIPPY_E_NOMEM) return sk_api_nomem(err);
    return sk_api_invalid(err, "prompt", "the prompt is too long to be tokenised");
}

static int refuse_empty(size_t n, sk_api_error *err) {
    return n ? 0 : sk_api_invalid(err, "prompt", "the prompt is empty: it has no tokens");
}

int sk_prompt_from_text(sk_prompt_memo *memo, char *text, size_t len, sk_prompt *out, sk_api_error *err) {
    memset(out, 0, sizeof *out);
    out->text = text;
    out->text_len = len;
    int rc = sk_prompt_memo_tokenize(memo, text, len, &out->tokens, &out->n_tokens);
    int status = rc ? tokenize_error(rc, err) : refuse_empty(out->n_tokens, err);
    if (status) sk_prompt_clear(out);
    return status;
}

static int append_piece(const sk_model *m, const json_t *part, bool first, token_list *list, sk_api_error *err) {
    if (json_is_integer(part)) {
        int32_t id = (int32_t)json_integer_value(part);
        return append(list, &id, 1) ? 0 : sk_api_nomem(err);
    }
    int32_t *tokens = NULL;
    size_t n = 0;
    int rc = sk_model_tokenize(m, json_string_value(part), json_string_length(part), first, true, &tokens, &n);
    if (rc) return tokenize_error(rc, err);
    bool ok = append(list, tokens, n);
    free(tokens);
    return ok ? 0 : sk_api_nomem(err);
}

static int from_pieces(const sk_model *m, const json_t *v, sk_prompt *out, sk_api_error *err) {
    token_list list = {0};
    for (size_t i = 0; i < json_array_size(v); i++) {
        int status = append_piece(m, json_array_get(v, i), i == 0, &list, err);
        if (status) {
            free(list.data);
            return status;
        }
    }
    out->tokens = list.data;
    out->n_tokens = list.n;
    return refuse_empty(list.n, err);
}

int sk_prompt_from_json(const sk_model *m, sk_prompt_memo *memo, const json_t *v, sk_prompt *out, sk_api_error *err) {
    memset(out, 0, sizeof *out);
    if (!json_is_string(v)) {
        int status = from_pieces(m, v, out, err);
        if (status) sk_prompt_clear(out);
        return status;
    }
    size_t len = json_string_length(v);
    char *text = malloc(len + 1);
    if (!text) return sk_api_nomem(err);
    memcpy(text, json_string_value(v), len + 1);
    return sk_prompt_from_text(memo, text, len, out, err);
}

void sk_prompt_clear(sk_prompt *p) {
    free(p->tokens);
    free(p->text);
    memset(p, 0, sizeof *p);
}

bool sk_prompt_need_text(const sk_model *m, sk_prompt *p) {
    if (p->text) return true;
    return sk_model_detokenize(m, p->tokens, p->n_tokens, true, &p->text, &p->text_len) == SKIPPY_OK;
}
