/* The last message of a long conversation is edited again and again: everything before it stays the same. */
#include "bench/conversation.h"
#include "bench/scenario.h"

/* A conversation's history in the chat form: a system message, then user and assistant in turn. */
static const char *const history_roles[] = {"system", "user", "assistant", "user", "assistant"};
enum { HISTORY_PARTS = sizeof history_roles / sizeof history_roles[0], FIRST_EDIT_PART = 100 };

static int chat_history(sk_run *r, size_t round, sk_conversation *c, sk_err *e) {
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < HISTORY_PARTS; i++) {
        sk_buf_clear(&text);
        rc = sk_prompts_text(&r->prompts, sk_sizes_seed(r->sizes, SK_SCENARIO_EDIT, round, i),
                             r->sizes->history_tokens / HISTORY_PARTS, &text, e);
        if (rc == SKIPPY_OK) {
            rc = sk_conversation_add(c, history_roles[i], text.data, e);
        }
    }
    sk_buf_free(&text);
    return rc == SKIPPY_OK ? sk_conversation_add(c, "user", "", e) : rc;
}

/* Puts the text of edit number k where the last message is. */
static int put_edit(sk_run *r, size_t round, size_t k, const sk_buf *history, sk_conversation *c, sk_err *e) {
    const uint64_t seed = sk_sizes_seed(r->sizes, SK_SCENARIO_EDIT, round, FIRST_EDIT_PART + k);
    sk_buf text = {0};
    int rc = r->chat ? sk_prompts_text(&r->prompts, seed, r->sizes->edit_tokens, &text, e)
                     : sk_prompts_extend(&r->prompts, seed, history->data, r->sizes->edit_tokens, &text, e);
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_replace(c, text.data, e);
    }
    sk_buf_free(&text);
    return rc;
}

/* The first version is answered at length, as in a chat whose answer did not please; then come the edits. */
static int one_round(sk_run *r, size_t round, sk_err *e) {
    sk_conversation c;
    sk_buf history = {0};
    int rc = sk_conversation_init(&c, r->chat, e);
    if (rc == SKIPPY_OK) {
        rc = r->chat ? chat_history(r, round, &c, e)
                     : sk_prompts_text(&r->prompts, sk_sizes_seed(r->sizes, SK_SCENARIO_EDIT, round, 0),
                                       r->sizes->history_tokens, &history, e);
    }
    for (size_t k = 0; rc == SKIPPY_OK && k <= r->sizes->edits; k++) {
        const bool first = k == 0;
        rc = put_edit(r, round, k, &history, &c, e);
        if (rc == SKIPPY_OK && first) {
            rc = sk_run_note_template(r, &c, e);
        }
        if (rc == SKIPPY_OK) {
            rc = sk_run_send(r, &c, first ? SK_GATE_TOKENS : 1,
                             first ? "first version, answered (cold)" : "edited message", first, NULL, e);
        }
    }
    sk_buf_free(&history);
    sk_conversation_free(&c);
    return rc;
}

int sk_scenario_edit(sk_run *r, sk_err *e) {
    const size_t edits = r->sizes->edits;
    const size_t rounds = (r->sizes->runs + edits - 1) / edits;
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < rounds; i++) {
        rc = one_round(r, i, e);
    }
    return rc;
}
