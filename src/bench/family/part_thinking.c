/* A conversation that grows turn by turn, whose answers lose their first half in the next turn, as clients do that
 * remove a model's thinking from the history: what the server has of the last turn ends before that answer.
 *
 * A turn asks for one token, and that is timed like all other parts, then for the whole answer, which becomes part of
 * the conversation. */
#include <stdlib.h>
#include <string.h>

#include "bench/conversation.h"
#include "bench/family/part.h"
#include "bench/family/prompt_cut.h"

/* After MAX_TURNS turns another conversation begins, so that the context has a bound. Its first turn is not measured:
 * there is nothing yet to strip. */
enum { MAX_TURNS = 12, MEASURED_TURNS = MAX_TURNS - 1, ANSWER_TOKENS = 24 };
/* An answer is read as text and tokenized again, which makes more tokens of it where it was no good UTF-8. */
enum { ANSWER_ROOM = 3 * ANSWER_TOKENS, MESSAGE_ROOM = 16 };
enum { PIECE_SYSTEM = 0, PIECE_USER = 100 };

static size_t lane_tokens(const sk_part_task *t) {
    const size_t turn = (size_t)t->sizes->edit_tokens + ANSWER_ROOM + 2 * MESSAGE_ROOM;
    return t->sizes->history_tokens + MAX_TURNS * turn + SK_PART_TEMPLATE_TOKENS + SK_PART_SPARE_TOKENS;
}

static int add_text(sk_part_host *h, const char *role, size_t conversation, size_t piece, size_t n, sk_err *e) {
    sk_buf text = {0};
    int rc = sk_prompts_text(&h->prompts, sk_part_seed(h, "thinking", conversation, piece), n, &text, e);
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_add(h->state, role, text.data, e);
    }
    sk_buf_free(&text);
    return rc;
}

/* Takes the first half from the answer that ends the conversation. One of a single character stays. */
static int strip_answer(sk_conversation *c, sk_err *e) {
    const json_t *last = json_array_get(c->messages, json_array_size(c->messages) - 1);
    const char *content = json_string_value(json_object_get(last, "content"));
    const size_t half = content ? sk_utf8_floor(content, strlen(content) / 2) : 0;
    if (half == 0) {
        return SKIPPY_OK;
    }
    char *rest = strdup(content + half); /* the message lets its text go when it gets another one */
    const int rc =
        rest ? sk_conversation_replace(c, rest, e) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer");
    free(rest);
    return rc;
}

/* Asks, and puts the answer behind. */
static int ask(sk_part_host *h, const char *series, bool cold, sk_err *e) {
    char *answer = NULL;
    int rc = sk_part_send(h, h->state, 1, series, cold, NULL, e);
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, h->state, ANSWER_TOKENS, NULL, false, &answer, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_add(h->state, "assistant", answer, e);
    }
    free(answer);
    return rc;
}

/* The first turn of a new conversation. */
static int begin(sk_part_host *h, size_t conversation, sk_err *e) {
    sk_conversation *c = h->state;
    sk_conversation_free(c);
    int rc = sk_conversation_init(c, true, e);
    if (rc == SKIPPY_OK) {
        rc = add_text(h, "system", conversation, PIECE_SYSTEM, h->task->sizes->history_tokens, e);
    }
    if (rc == SKIPPY_OK) {
        rc = add_text(h, "user", conversation, PIECE_USER, h->task->sizes->edit_tokens, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_note_template(&h->prompts, &h->host->ep, c, e);
    }
    return rc == SKIPPY_OK ? ask(h, NULL, true, e) : rc;
}

static int prepare(sk_part_host *h, sk_err *e) {
    h->state = calloc(1, sizeof(sk_conversation));
    return h->state ? begin(h, 0, e) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation");
}

static int measure(sk_part_host *h, size_t i, sk_err *e) {
    const size_t conversation = i / MEASURED_TURNS;
    const size_t turn = 1 + i % MEASURED_TURNS;
    int rc = turn == 1 && conversation > 0 ? begin(h, conversation, e) : SKIPPY_OK;
    if (rc == SKIPPY_OK) {
        rc = strip_answer(h->state, e);
    }
    if (rc == SKIPPY_OK) {
        rc = add_text(h, "user", conversation, PIECE_USER + turn, h->task->sizes->edit_tokens, e);
    }
    return rc == SKIPPY_OK ? ask(h, "thinking", false, e) : rc;
}

static void finish(sk_part_host *h) {
    if (h->state) {
        sk_conversation_free(h->state);
    }
    free(h->state);
    h->state = NULL;
}

const sk_part sk_part_thinking = {.name = "thinking",
                                  .title = "stripped thinking",
                                  .rounds = sk_part_conversation_repeats,
                                  .lane_tokens = lane_tokens,
                                  .prepare = prepare,
                                  .round = measure,
                                  .finish = finish};
