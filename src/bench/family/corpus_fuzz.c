/* libFuzzer target: no bytes may make a corpus parser read outside them or loop for long; every refusal has words; and
 * what was taken keeps to the limits that its readers rely on. The first byte chooses the corpus. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void check_use_cases(const sk_corpus *c) {
    check(c->n >= 1 && c->n <= SK_CORPUS_MAX_USE_CASES && sk_sha256_is_hex(c->sha256));
    for (size_t i = 0; i < c->n; i++) {
        const sk_use_case *u = &c->v[i];
        check(sk_corpus_find(c, u->key) == u); /* unique */
        check(u->prompt[0] != '\0' && strlen(u->prompt) <= SK_CORPUS_MAX_PROMPT);
        check(u->prefix_tokens >= 1 && u->row_idx >= 0 && u->label && u->dataset && u->config && u->split);
    }
}

static void check_conversations(const sk_replay_corpus *c) {
    check(c->n >= 1 && sk_sha256_is_hex(c->sha256));
    for (size_t i = 0; i < c->n; i++) {
        const sk_replay_conversation *talk = &c->v[i];
        size_t measured = 0;
        for (size_t k = 0; k < talk->n_steps; k++) {
            const sk_replay_step *s = &talk->step[k];
            const bool silent = s->kind == SK_REPLAY_ASK || s->kind == SK_REPLAY_REGENERATE;
            check((s->text == NULL) == silent);
            check((s->drop > 0) == (s->kind == SK_REPLAY_EDIT));
            check(s->strip_percent == 0 || s->kind == SK_REPLAY_ASK);
            measured += s->max_tokens > 0;
        }
        check(talk->n_asks == measured && measured > 0 && talk->key && talk->label && talk->what);
    }
}

static void fuzz_use_cases(const char *text, size_t len) {
    sk_corpus c;
    sk_err e = {0};
    const int rc = sk_corpus_parse(text, len, &c, &e);
    check(rc == SKIPPY_OK || e.text[0] != '\0');
    if (rc == SKIPPY_OK) check_use_cases(&c);
    sk_corpus_free(&c);
}

static void fuzz_conversations(const char *text, size_t len) {
    sk_replay_corpus c;
    sk_err e = {0};
    const int rc = sk_replay_parse(text, len, &c, &e);
    check(rc == SKIPPY_OK || e.text[0] != '\0');
    if (rc == SKIPPY_OK) check_conversations(&c);
    sk_replay_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    if (data[0] % 2) {
        fuzz_conversations(text, size - 1);
    } else {
        fuzz_use_cases(text, size - 1);
    }
    return 0;
}
