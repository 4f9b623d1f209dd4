/* A conversation whose last user message is edited: each round asks it in another version, as chat messages and as
 * plain text.
 *
 * The two forms share no tokens, so on one lane each of them displaces the other. That is not what is measured:
 * before an edited message is timed, the version before it is asked once more, as a user has just seen its answer. That
 * answer has some tokens, so that every server decodes then, also one that knows the first token already: what ran last
 * finds its weights in the processor's cache, and that alone made a difference of 40 %. */
#include <stdlib.h>
#include <string.h>

#include "bench/conversation.h"
#include "bench/family/part.h"

static const char *const roles[] = {"system", "user", "assistant", "user", "assistant"};
enum { MESSAGES = sizeof roles / sizeof roles[0], MIN_TOKENS = 8, SEEN_TOKENS = 8, WARM_UP_EDITS = 1 };

enum { CHAT, TEXT, FORMS };
static const char *const series_of[FORMS] = {"edit", "edit text"};

/* Pieces of the seeds: messages of the history, then the edited message. */
enum { PIECE_HISTORY = 0, PIECE_EDIT = 100 };

typedef struct edit_state {
    sk_buf history;              /* all messages but the last one, joined: the plain form */
    sk_buf before, latest;       /* versions of the last message */
    sk_conversation form[FORMS]; /* as it was asked last */
} edit_state;

static size_t message_tokens(const sk_family_sizes *s) {
    const size_t n = s->history_tokens / MESSAGES;
    return n < MIN_TOKENS ? MIN_TOKENS : n;
}

static size_t lane_tokens(const sk_part_task *t) {
    return MESSAGES * message_tokens(t->sizes) + t->sizes->edit_tokens + SK_PART_TEMPLATE_TOKENS +
           SK_PART_SPARE_TOKENS + SEEN_TOKENS;
}

static int no_memory(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation");
}

static int add_history(sk_part_host *h, edit_state *s, sk_err *e) {
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < MESSAGES; i++) {
        sk_buf_clear(&text);
        rc = sk_prompts_text(&h->prompts, sk_part_seed(h, "edit", 0, PIECE_HISTORY + i), message_tokens(h->task->sizes),
                             &text, e);
        if (rc == SKIPPY_OK) {
            rc = sk_conversation_add(&s->form[CHAT], roles[i], text.data, e);
            sk_buf_str(&s->history, i ? " " : "");
            sk_buf_str(&s->history, rc == SKIPPY_OK ? text.data : "");
        }
    }
    sk_buf_free(&text);
    if (rc == SKIPPY_OK && s->history.failed) {
        rc = no_memory(e);
    }
    return rc == SKIPPY_OK ? sk_conversation_add(&s->form[CHAT], "user", "", e) : rc;
}

/* Makes version k of the last message; the one that was the latest is kept as the version before. */
static int new_version(sk_part_host *h, size_t k, sk_err *e) {
    edit_state *s = h->state;
    const sk_buf before = s->before;
    s->before = s->latest;
    s->latest = before;
    sk_buf_clear(&s->latest);
    return sk_prompts_text(&h->prompts, sk_part_seed(h, "edit", k, PIECE_EDIT), h->task->sizes->edit_tokens, &s->latest,
                           e);
}

/* Asks with this version of the last message. */
static int ask(sk_part_host *h, size_t form, const sk_buf *version, size_t n_predict, const char *series, bool cold,
               sk_err *e) {
    edit_state *s = h->state;
    sk_buf plain = {0};
    int rc = SKIPPY_OK;
    if (form == CHAT) {
        rc = sk_conversation_replace(&s->form[CHAT], version->data, e);
    } else {
        sk_buf_printf(&plain, "%s %s", s->history.data, version->data);
        rc = plain.failed ? no_memory(e) : sk_conversation_replace(&s->form[TEXT], plain.data, e);
    }
    sk_buf_free(&plain);
    return rc == SKIPPY_OK ? sk_part_send(h, &s->form[form], n_predict, series, cold, NULL, e) : rc;
}

static int edit(sk_part_host *h, size_t k, bool measured, sk_err *e) {
    edit_state *s = h->state;
    int rc = new_version(h, k, e);
    for (size_t form = 0; rc == SKIPPY_OK && form < FORMS; form++) {
        rc = ask(h, form, &s->before, SEEN_TOKENS, NULL, false, e);
        if (rc == SKIPPY_OK) {
            rc = ask(h, form, &s->latest, 1, measured ? series_of[form] : NULL, false, e);
        }
    }
    return rc;
}

/* The first version: nobody knows anything of it. */
static int ask_cold(sk_part_host *h, sk_err *e) {
    edit_state *s = h->state;
    int rc = new_version(h, 0, e);
    if (rc == SKIPPY_OK) {
        rc = ask(h, CHAT, &s->latest, 1, NULL, true, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_note_template(&h->prompts, &h->host->ep, &s->form[CHAT], e);
    }
    return rc == SKIPPY_OK ? ask(h, TEXT, &s->latest, 1, NULL, true, e) : rc;
}

static int prepare(sk_part_host *h, sk_err *e) {
    edit_state *s = calloc(1, sizeof *s);
    h->state = s;
    if (!s) {
        return no_memory(e);
    }
    int rc = SKIPPY_OK;
    for (size_t form = 0; rc == SKIPPY_OK && form < FORMS; form++) {
        rc = sk_conversation_init(&s->form[form], form == CHAT, e);
    }
    if (rc == SKIPPY_OK) {
        rc = add_history(h, s, e);
    }
    if (rc == SKIPPY_OK) {
        rc = ask_cold(h, e);
    }
    for (size_t k = 1; rc == SKIPPY_OK && k <= WARM_UP_EDITS; k++) {
        rc = edit(h, k, false, e);
    }
    return rc;
}

static int measure(sk_part_host *h, size_t i, sk_err *e) {
    return edit(h, 1 + WARM_UP_EDITS + i, true, e);
}

static void finish(sk_part_host *h) {
    edit_state *s = h->state;
    for (size_t form = 0; s && form < FORMS; form++) {
        sk_conversation_free(&s->form[form]);
    }
    if (s) {
        sk_buf_free(&s->history);
        sk_buf_free(&s->before);
        sk_buf_free(&s->latest);
    }
    free(s);
    h->state = NULL;
}

const sk_part sk_part_edit = {.name = "edit",
                              .title = "last message edited",
                              .rounds = sk_part_conversation_repeats,
                              .lane_tokens = lane_tokens,
                              .prepare = prepare,
                              .round = measure,
                              .finish = finish};
