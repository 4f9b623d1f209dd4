/* A known prefix, each time with other tokens behind it. */
#include <stdlib.h>

#include "bench/conversation.h"
#include "bench/family/part.h"

typedef struct suffix_state {
    sk_conversation prefix;
    sk_conversation prompt; /* prefix and new tokens */
} suffix_state;

static size_t lane_tokens(const sk_part_task *t) {
    return (size_t)t->cell->prefix_tokens + t->sizes->suffix_tokens + SK_PART_SPARE_TOKENS;
}

/* Request i of the part, the warm-ups included: each has tokens of its own. */
static int ask(sk_part_host *h, size_t i, const char *series, sk_err *e) {
    suffix_state *s = h->state;
    const int rc = sk_prompts_extend(&h->prompts, sk_part_seed(h, "suffix", i, 1), s->prefix.text.data,
                                     h->task->sizes->suffix_tokens, &s->prompt.text, e);
    return rc == SKIPPY_OK ? sk_part_send(h, &s->prompt, 1, series, false, NULL, e) : rc;
}

static int prepare(sk_part_host *h, sk_err *e) {
    suffix_state *s = calloc(1, sizeof *s);
    h->state = s;
    if (!s) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt");
    }
    int rc =
        sk_prompts_text(&h->prompts, sk_part_seed(h, "suffix", 0, 0), h->task->cell->prefix_tokens, &s->prefix.text, e);
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &s->prefix, 1, NULL, true, NULL, e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_WARM_UPS; i++) {
        rc = ask(h, i, NULL, e);
    }
    return rc;
}

static int measure(sk_part_host *h, size_t i, sk_err *e) {
    return ask(h, SK_WARM_UPS + i, "suffix", e);
}

static void finish(sk_part_host *h) {
    suffix_state *s = h->state;
    if (s) {
        sk_conversation_free(&s->prefix);
        sk_conversation_free(&s->prompt);
    }
    free(s);
    h->state = NULL;
}

const sk_part sk_part_suffix = {.name = "suffix",
                                .title = "known prefix, new tokens behind it",
                                .rounds = sk_part_repeats,
                                .lane_tokens = lane_tokens,
                                .prepare = prepare,
                                .round = measure,
                                .finish = finish};
