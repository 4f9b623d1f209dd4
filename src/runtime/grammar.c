#include "runtime/grammar.h"

#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/buf.h"
#include "runtime/native_guard.h"
#include "runtime/native_log.h"

/* Everything llama.cpp's constructor takes, so that it can be called through the guard. */
typedef struct build {
    const struct llama_vocab *vocab;
    const char *text;
    bool lazy;
    const char **patterns; /* owned, each malloc'ed */
    size_t n_patterns;
    int32_t *tokens; /* owned */
    size_t n_tokens;
    struct llama_sampler *result;
} build;

static void append_escaped(sk_buf *b, const char *word) {
    for (; *word; word++) {
        if (strchr(".^$|()*+?[]{}\\", *word)) sk_buf_str(b, "\\");
        sk_buf_add(b, word, 1);
    }
}

static void append_anchored(sk_buf *b, const char *pattern) {
    size_t n = strlen(pattern);
    if (n == 0 || pattern[0] != '^') sk_buf_str(b, "^");
    sk_buf_str(b, pattern);
    if (n == 0 || pattern[n - 1] != '$') sk_buf_str(b, "$");
}

static bool add_pattern(build *g, const sk_trigger *t) {
    sk_buf b = {0};
    if (t->type == SK_TRIGGER_WORD)
        append_escaped(&b, t->text);
    else if (t->type == SK_TRIGGER_PATTERN_FULL)
        append_anchored(&b, t->text);
    else
        sk_buf_str(&b, t->text);
    if (!b.failed && !b.data) sk_buf_reserve(&b, 1);
    if (b.failed) {
        sk_buf_free(&b);
        return false;
    }
    b.data[b.len] = 0;
    g->patterns[g->n_patterns++] = b.data; /* the buffer's memory is taken over */
    return true;
}

static bool collect_triggers(build *g, const sk_sampling *s) {
    if (!s->grammar_lazy || s->n_triggers == 0) return true;
    g->patterns = calloc(s->n_triggers, sizeof *g->patterns);
    g->tokens = calloc(s->n_triggers, sizeof *g->tokens);
    if (!g->patterns || !g->tokens) return false;
    for (size_t i = 0; i < s->n_triggers; i++) {
        if (s->triggers[i].type == SK_TRIGGER_TOKEN)
            g->tokens[g->n_tokens++] = s->triggers[i].token;
        else if (!add_pattern(g, &s->triggers[i]))
            return false;
    }
    return true;
}

static void free_triggers(build *g) {
    for (size_t i = 0; i < g->n_patterns; i++) free((void *)g->patterns[i]);
    free(g->patterns);
    free(g->tokens);
}

static void call_constructor(void *ud) {
    build *g = ud;
    if (g->lazy)
        g->result = llama_sampler_init_grammar_lazy_patterns(g->vocab, g->text, "root", g->patterns, g->n_patterns,
                                                             g->tokens, g->n_tokens);
    else
        g->result = llama_sampler_init_grammar(g->vocab, g->text, "root");
}

int sk_grammar_create(const struct llama_vocab *vocab, const sk_sampling *s, struct llama_sampler **out, sk_err *e) {
    build g = {.vocab = vocab, .text = s->grammar, .lazy = s->grammar_lazy};
    char reason[300];
    int rc = SKIPPY_OK;
    *out = NULL;
    if (!s->grammar || !s->grammar[0]) return SKIPPY_OK;
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "a grammar needs a model with a tokenizer");
    if (!collect_triggers(&g, s)) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto out;
    }
    sk_native_log_clear();
    if (!sk_native_call(call_constructor, &g, reason, sizeof reason)) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the grammar or one of its triggers is not valid: %s", reason);
    } else if (!g.result) {
        sk_native_log_errors(reason, sizeof reason);
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the grammar is not valid: %s", reason[0] ? reason : "it does not parse");
    }
    *out = g.result;
out:
    free_triggers(&g);
    return rc;
}
