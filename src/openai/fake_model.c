#include "openai/fake_model.h"

#include <stdlib.h>
#include <string.h>

struct sk_model {
    sk_model_info info;
};

static const sk_model the_model = {.info = {.id = "fake", .n_vocab = FAKE_VOCAB, .n_embd = 8, .n_ctx_train = 4096}};
static const char *const control[] = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};

const sk_model *fake_model(void) {
    return &the_model;
}

const sk_model_info *sk_model_get_info(const sk_model *m) {
    return &m->info;
}

int sk_model_tokenize(const sk_model *m, const char *text, size_t len, bool add_special, bool parse_special,
                      int32_t **out, size_t *n) {
    (void)m;
    int32_t *tokens = malloc((len + 2) * sizeof *tokens);
    if (!tokens) return SKIPPY_E_NOMEM;
    size_t count = 0;
    if (add_special) tokens[count++] = FAKE_BOS;
    for (size_t i = 0; i < len;) {
        int32_t token = (unsigned char)text[i];
        size_t step = 1;
        for (int32_t k = 0; parse_special && k < 4; k++) {
            size_t word = strlen(control[k]);
            if (len - i < word || memcmp(text + i, control[k], word) != 0) continue;
            token = FAKE_BOS + k;
            step = word;
            break;
        }
        tokens[count++] = token;
        i += step;
    }
    *out = tokens;
    *n = count;
    return SKIPPY_OK;
}

size_t sk_model_piece(const sk_model *m, int32_t token, bool special, char *buf, size_t cap) {
    (void)m;
    if (token < FAKE_BOS) {
        buf[0] = (char)token;
        return 1;
    }
    size_t n = special ? strlen(control[token - FAKE_BOS]) : 0;
    if (n > cap) n = cap;
    memcpy(buf, control[token - FAKE_BOS], n);
    return n;
}

int sk_model_detokenize(const sk_model *m, const int32_t *tokens, size_t n, bool special, char **out, size_t *len) {
    char *text = malloc(n * 16 + 1);
    if (!text) return SKIPPY_E_NOMEM;
    *len = 0;
    for (size_t i = 0; i < n; i++) *len += sk_model_piece(m, tokens[i], special, text + *len, 16);
    text[*len] = '\0';
    *out = text;
    return SKIPPY_OK;
}

bool sk_model_valid_token(const sk_model *m, int32_t token) {
    return token >= 0 && token < m->info.n_vocab;
}

void *sk_model_native(const sk_model *m) {
    (void)m;
    return NULL;
}
