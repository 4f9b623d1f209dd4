#include <stdlib.h>
#include <string.h>

#include "bench/family/corpus.h"
#include "bench/family/corpus_text.h"

enum { MAX_CONVERSATIONS = 32, MAX_STEPS = 256, MAX_ANSWER = 4096, MAX_PERCENT = 100 };

/* ---- kinds ---- */

static const char *const words[] = {[SK_REPLAY_SYSTEM] = "system", [SK_REPLAY_USER] = "user",
                                    [SK_REPLAY_TOOL] = "tool",     [SK_REPLAY_ASK] = "ask",
                                    [SK_REPLAY_EDIT] = "edit",     [SK_REPLAY_REGENERATE] = "regenerate",
                                    [SK_REPLAY_SIDE] = "side",     NULL};

/* Fields beside "do"; each kind needs all of its own but strip_percent. */
static const char *const text_fields[] = {"do", "text", NULL};
static const char *const ask_fields[] = {"do", "max_tokens", "strip_percent", NULL};
static const char *const edit_fields[] = {"do", "drop", "text", NULL};
static const char *const regenerate_fields[] = {"do", "max_tokens", NULL};
static const char *const side_fields[] = {"do", "text", "max_tokens", NULL};

static const char *const *fields_of(sk_replay_kind kind) {
    switch (kind) {
    case SK_REPLAY_ASK: return ask_fields;
    case SK_REPLAY_EDIT: return edit_fields;
    case SK_REPLAY_REGENERATE: return regenerate_fields;
    case SK_REPLAY_SIDE: return side_fields;
    default: return text_fields;
    }
}

static bool has_text(sk_replay_kind kind) {
    return kind != SK_REPLAY_ASK && kind != SK_REPLAY_REGENERATE;
}

static bool is_measured(sk_replay_kind kind) {
    return kind == SK_REPLAY_ASK || kind == SK_REPLAY_REGENERATE || kind == SK_REPLAY_SIDE;
}

/* ---- steps ---- */

static uint32_t need_number(const sk_strict *v, const char *field, uint32_t max) {
    const sk_strict value = sk_strict_need(v, field);
    return sk_strict_u32(&value, 1, max, 1);
}

static void read_step(const sk_strict *v, sk_replay_step *s) {
    if (!json_is_object(v->json)) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "must be an object");
    }
    const sk_strict word = sk_strict_need(v, "do");
    s->kind = (sk_replay_kind)sk_strict_choice(&word, words);
    sk_strict_known(v, fields_of(s->kind));
    if (has_text(s->kind)) {
        s->text = sk_corpus_prose(v, "text", SK_CORPUS_MAX_PROMPT);
    }
    if (is_measured(s->kind)) {
        s->max_tokens = need_number(v, "max_tokens", MAX_ANSWER);
    }
    if (s->kind == SK_REPLAY_EDIT) {
        s->drop = need_number(v, "drop", MAX_STEPS);
    }
    const sk_strict strip = sk_strict_field(v, "strip_percent");
    s->strip_percent = sk_strict_u32(&strip, 0, MAX_PERCENT, 0);
}

/* The conversation as it stands before a step; the system message does not count. */
typedef struct history {
    size_t messages;
    bool answered; /* the last message is an answer */
} history;

static void check_ask(const sk_strict *v, const history *h) {
    if (h->messages == 0 || h->answered) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "'ask' needs a message of the user or a tool's result before it");
    }
}

static void check_edit(const sk_strict *v, const history *h, const sk_replay_step *s) {
    const sk_strict drop = sk_strict_field(v, "drop");
    if (s->drop > h->messages) {
        sk_strict_refuse(&drop, SKIPPY_E_INVALID, "%u messages cannot be dropped where there are %zu", s->drop,
                         h->messages);
    }
}

/* Refuses a step that makes no sense where it stands; such a corpus would fail in the middle of a run otherwise. */
static void check_place(const sk_strict *v, const history *h, const sk_replay_step *s) {
    switch (s->kind) {
    case SK_REPLAY_ASK: check_ask(v, h); break;
    case SK_REPLAY_EDIT: check_edit(v, h, s); break;
    case SK_REPLAY_REGENERATE:
        if (!h->answered) {
            sk_strict_refuse(v, SKIPPY_E_INVALID, "'regenerate' needs an answer before it");
        }
        break;
    case SK_REPLAY_SIDE:
        if (h->messages == 0) {
            sk_strict_refuse(v, SKIPPY_E_INVALID, "'side' needs a message of the user before it");
        }
        break;
    case SK_REPLAY_SYSTEM:
    case SK_REPLAY_USER:
    case SK_REPLAY_TOOL: break;
    }
}

static void take_step(history *h, const sk_replay_step *s) {
    switch (s->kind) {
    case SK_REPLAY_USER:
    case SK_REPLAY_TOOL:
        h->messages++;
        h->answered = false;
        break;
    case SK_REPLAY_ASK:
        h->messages++;
        h->answered = true;
        break;
    case SK_REPLAY_EDIT:
        h->messages = h->messages - s->drop + 1;
        h->answered = false;
        break;
    case SK_REPLAY_SYSTEM:
    case SK_REPLAY_REGENERATE: /* one answer for another */
    case SK_REPLAY_SIDE: break;
    }
}

static void read_steps(const sk_strict *v, sk_replay_conversation *c) {
    const sk_strict list = sk_strict_need(v, "steps");
    const size_t n = sk_strict_count(&list, 1, MAX_STEPS);
    history h = {0};
    bool asked = false;
    sk_replay_step *steps = n ? calloc(n, sizeof *steps) : NULL;
    if (!steps) {
        sk_strict_refuse(&list, SKIPPY_E_NOMEM, "no memory for %zu steps", n); /* none: refused before */
        return;
    }
    for (c->step = steps; c->n_steps < n && !sk_strict_failed(v); c->n_steps++) {
        const sk_strict item = sk_strict_item(&list, c->n_steps);
        sk_replay_step *s = &steps[c->n_steps];
        read_step(&item, s);
        check_place(&item, &h, s);
        if (!sk_strict_failed(v)) {
            take_step(&h, s);
        }
        asked = asked || s->kind == SK_REPLAY_ASK;
        c->n_asks += is_measured(s->kind);
    }
    if (!asked) {
        sk_strict_refuse(&list, SKIPPY_E_INVALID, "there is no 'ask', so nothing would be measured");
    }
}

/* ---- the corpus ---- */

static bool has_key(const sk_replay_corpus *c, const char *key) {
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->v[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

static void read_conversation(sk_strict *v, sk_replay_conversation *c) {
    static const char *const known[] = {"key", "label", "what", "steps", NULL};
    c->key = sk_corpus_entry(v, "conversation", known);
    c->label = sk_corpus_line(v, "label", SK_CORPUS_MAX_LABEL);
    c->what = sk_corpus_line(v, "what", SK_CORPUS_MAX_NOTE);
    read_steps(v, c);
}

static void read_conversations(const sk_strict *list, sk_replay_corpus *c) {
    const size_t n = sk_strict_count(list, 1, MAX_CONVERSATIONS);
    sk_replay_conversation *v = n ? calloc(n, sizeof *v) : NULL;
    if (!v) {
        sk_strict_refuse(list, SKIPPY_E_NOMEM, "no memory for %zu conversations", n); /* none: refused before */
        return;
    }
    for (c->v = v; c->n < n && !sk_strict_failed(list); c->n++) {
        sk_strict item = sk_strict_item(list, c->n);
        read_conversation(&item, &v[c->n]);
        if (v[c->n].key && has_key(c, v[c->n].key)) {
            sk_strict_refuse(&item, SKIPPY_E_INVALID, "there is another one with this key");
        }
    }
}

/* Nothing but people reads where the conversations come from; a mistake in it is one all the same. */
static void check_source(const sk_strict *root) {
    static const char *const known[] = {"written", "note", NULL};
    const sk_strict source = sk_strict_field(root, "source");
    if (!sk_strict_present(&source)) {
        return;
    }
    sk_strict_known(&source, known);
    const sk_strict written = sk_strict_need(&source, "written");
    (void)sk_strict_bool(&written, false);
    const sk_strict note = sk_strict_field(&source, "note");
    (void)sk_strict_text(&note, SK_CORPUS_MAX_NOTE);
}

static int read_replay(json_t *json, sk_replay_corpus *out, sk_err *e) {
    static const char *const known[] = {"version", "source", "conversations", NULL};
    sk_strict_reader reader = {.e = e};
    const sk_strict root = sk_strict_root(&reader, json);
    if (json_is_object(json)) {
        sk_corpus_version(&root);
    }
    sk_strict_known(&root, known);
    check_source(&root);
    const sk_strict list = sk_strict_need(&root, "conversations");
    read_conversations(&list, out);
    if (reader.rc != SKIPPY_OK) {
        sk_replay_free(out);
    }
    return reader.rc;
}

int sk_replay_parse(const char *text, size_t len, sk_replay_corpus *out, sk_err *e) {
    json_t *root = NULL;
    *out = (sk_replay_corpus){0};
    int rc = sk_corpus_json(text, len, &root, out->sha256, e);
    if (rc == SKIPPY_OK) {
        rc = read_replay(root, out, e);
    }
    json_decref(root);
    return rc;
}

int sk_replay_load(const char *path, sk_replay_corpus *out, sk_err *e) {
    json_t *root = NULL;
    *out = (sk_replay_corpus){0};
    int rc = sk_strict_load(path, SK_CORPUS_MAX_FILE, &root, out->sha256, e);
    if (rc == SKIPPY_OK) {
        rc = sk_corpus_name_file(path, read_replay(root, out, e), e);
    }
    json_decref(root);
    return rc;
}

static void free_conversation(sk_replay_conversation *c) {
    for (size_t i = 0; c->step && i < c->n_steps; i++) {
        free(c->step[i].text);
    }
    free(c->step);
    free(c->key);
    free(c->label);
    free(c->what);
}

void sk_replay_free(sk_replay_corpus *c) {
    for (size_t i = 0; c->v && i < c->n; i++) {
        free_conversation(&c->v[i]);
    }
    free(c->v);
    *c = (sk_replay_corpus){0};
}
