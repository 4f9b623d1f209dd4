#include "bench/family/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "bench/family/corpus_text.h"

enum { DEFAULT_PREFIX = 128, MAX_PREFIX = 65536 };

/* ---- the eight keys ---- */

static const char *const ranked[] = {"tool_calling",    "text_to_sql",        "coding_agent_loop", "issue_fixing",
                                     "code_refinement", "few_shot_reasoning", "open_chat",         "summarization_rag"};

enum { RANKED = sizeof ranked / sizeof ranked[0] };

const char *sk_use_case_key_at(size_t i) {
    return i < RANKED ? ranked[i] : NULL;
}

size_t sk_use_case_rank(const char *key) {
    size_t i = 0;
    while (i < RANKED && strcmp(ranked[i], key) != 0) i++;
    return i;
}

/* ---- reading ---- */

static void read_source(const sk_strict *v, sk_use_case *u) {
    static const char *const known[] = {"dataset", "config", "split", "row_idx", "written", NULL};
    const sk_strict source = sk_strict_need(v, "source");
    sk_strict_known(&source, known);
    u->dataset = sk_corpus_line(&source, "dataset", SK_CORPUS_MAX_LABEL);
    u->config = sk_corpus_line(&source, "config", SK_CORPUS_MAX_LABEL);
    u->split = sk_corpus_line(&source, "split", SK_CORPUS_MAX_LABEL);
    const sk_strict row = sk_strict_need(&source, "row_idx");
    u->row_idx = sk_strict_int(&row, 0, INT64_MAX, 0);
    const sk_strict written = sk_strict_field(&source, "written");
    u->written = sk_strict_bool(&written, false);
}

static void read_use_case(sk_strict *v, sk_use_case *u) {
    static const char *const known[] = {"key", "label", "prompt", "prefix_tokens", "source", NULL};
    u->key = sk_corpus_entry(v, "use case", known);
    u->label = sk_corpus_line(v, "label", SK_CORPUS_MAX_LABEL);
    u->prompt = sk_corpus_prose(v, "prompt", SK_CORPUS_MAX_PROMPT);
    const sk_strict prefix = sk_strict_field(v, "prefix_tokens");
    u->prefix_tokens = sk_strict_u32(&prefix, 1, MAX_PREFIX, DEFAULT_PREFIX);
    read_source(v, u);
}

static void read_use_cases(const sk_strict *list, sk_corpus *c) {
    const size_t n = sk_strict_count(list, 1, SK_CORPUS_MAX_USE_CASES);
    sk_use_case *v = n ? calloc(n, sizeof *v) : NULL;
    if (!v) {
        sk_strict_refuse(list, SKIPPY_E_NOMEM, "no memory for %zu use cases", n); /* none: refused before */
        return;
    }
    for (c->v = v; c->n < n && !sk_strict_failed(list); c->n++) {
        sk_strict item = sk_strict_item(list, c->n);
        sk_use_case *u = &v[c->n];
        read_use_case(&item, u);
        if (u->key && sk_corpus_find(c, u->key)) {
            sk_strict_refuse(&item, SKIPPY_E_INVALID, "there is another one with this key");
        }
    }
}

static int read_corpus(json_t *json, sk_corpus *out, sk_err *e) {
    static const char *const known[] = {"version", "use_cases", NULL};
    sk_strict_reader reader = {.e = e};
    const sk_strict root = sk_strict_root(&reader, json);
    if (json_is_object(json)) {
        sk_corpus_version(&root);
    }
    sk_strict_known(&root, known);
    const sk_strict list = sk_strict_need(&root, "use_cases");
    read_use_cases(&list, out);
    if (reader.rc != SKIPPY_OK) {
        sk_corpus_free(out);
    }
    return reader.rc;
}

int sk_corpus_parse(const char *text, size_t len, sk_corpus *out, sk_err *e) {
    json_t *root = NULL;
    *out = (sk_corpus){0};
    int rc = sk_corpus_json(text, len, &root, out->sha256, e);
    if (rc == SKIPPY_OK) {
        rc = read_corpus(root, out, e);
    }
    json_decref(root);
    return rc;
}

int sk_corpus_load(const char *path, sk_corpus *out, sk_err *e) {
    json_t *root = NULL;
    *out = (sk_corpus){0};
    int rc = sk_strict_load(path, SK_CORPUS_MAX_FILE, &root, out->sha256, e);
    if (rc == SKIPPY_OK) {
        rc = sk_corpus_name_file(path, read_corpus(root, out, e), e);
    }
    json_decref(root);
    return rc;
}

void sk_corpus_free(sk_corpus *c) {
    for (size_t i = 0; c->v && i < c->n; i++) {
        sk_use_case *u = &c->v[i];
        free(u->key);
        free(u->label);
        free(u->prompt);
        free(u->dataset);
        free(u->config);
        free(u->split);
    }
    free(c->v);
    *c = (sk_corpus){0};
}

const sk_use_case *sk_corpus_find(const sk_corpus *c, const char *key) {
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->v[i].key, key) == 0) {
            return &c->v[i];
        }
    }
    return NULL;
}
