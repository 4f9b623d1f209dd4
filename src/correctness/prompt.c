#include "correctness/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const char FILLER[] = " The river keeps its course, and the stones along it tell where the water was before.";

static int draw_tokens(const sk_model *m, int32_t *out, size_t n, sk_err *e) {
    uint32_t n_vocab = (uint32_t)sk_model_get_info(m)->n_vocab, x = 2024;
    size_t misses = 0;
    for (size_t i = 0; i < n;) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator: any spread of tokens will do */
        int32_t token = (int32_t)((x >> 8) % n_vocab);
        if (!sk_model_is_eog(m, token))
            out[i++] = token;
        else if (++misses > 1000 + n)
            return sk_err_set(e, SKIPPY_E_INVALID, "the vocabulary has no token that could stand in a prompt");
    }
    return SKIPPY_OK;
}

/* Every filler makes at least one token, so the loop ends. */
static int tokenize_text(const sk_model *m, const char *text, int32_t *out, size_t n, sk_err *e) {
    sk_buf b = {0};
    int32_t *tokens = NULL;
    size_t got = 0;
    int rc = SKIPPY_OK;
    sk_buf_str(&b, text);
    for (;;) {
        if (b.failed) {
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the prompt");
            break;
        }
        rc = sk_model_tokenize(m, b.data ? b.data : "", b.len, true, true, &tokens, &got);
        if (rc || got >= n) break;
        free(tokens);
        tokens = NULL;
        for (size_t i = got; i < n; i += 8) sk_buf_str(&b, FILLER); /* a sentence is at least 8 tokens */
    }
    if (rc == SKIPPY_OK) memcpy(out, tokens, n * sizeof *out);
    free(tokens);
    sk_buf_free(&b);
    return rc;
}

int sk_prompt_tokens(const sk_model *m, const char *text, int32_t *out, size_t n, sk_err *e) {
    if (!text) return draw_tokens(m, out, n, e);
    int rc = tokenize_text(m, text, out, n, e);
    if (rc == SKIPPY_E_UNSUPPORTED) return draw_tokens(m, out, n, e);
    if (rc == SKIPPY_E_INVALID) return sk_err_set(e, rc, "the prompt cannot be tokenised");
    return rc;
}
