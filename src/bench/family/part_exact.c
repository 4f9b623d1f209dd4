/* The same prompt again and again, one token of an answer each time. */
#include <stdlib.h>
#include <string.h>

#include "bench/conversation.h"
#include "bench/family/part.h"
#include "bench/family/prompt_cut.h"
#include "bench/family/sha256.h"

/* The prompt has one token more than the prefix: the state of a prefix alone has no next token yet. */
static size_t prompt_tokens(const sk_family_cell *cell) {
    return (size_t)cell->prefix_tokens + 1;
}

static size_t lane_tokens(const sk_part_task *t) {
    return prompt_tokens(t->cell) + SK_PART_SPARE_TOKENS;
}

static int make_prompt(sk_part_host *h, sk_buf *text, bool *lengthened, sk_err *e) {
    const sk_family_cell *cell = h->task->cell;
    const uint64_t seed = sk_part_seed(h, "exact", 0, 0);
    *lengthened = false;
    if (cell->kind != SK_CELL_USE_CASE) {
        return sk_prompts_text(&h->prompts, seed, prompt_tokens(cell), text, e);
    }
    if (!h->task->use_case) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the corpus has no use case '%s'", cell->use_case);
    }
    return sk_prompt_cut(&h->prompts, seed, h->task->use_case->prompt, prompt_tokens(cell), text, lengthened, e);
}

/* What was asked, for the record. */
static int describe(const sk_part_host *h, const sk_buf *text, bool lengthened, sk_err *e) {
    char hex[SK_SHA256_HEX];
    sk_sha256_text(text->data, text->len, hex);
    json_t *facts = json_pack("{s:I, s:s, s:b}", "prompt_tokens", (json_int_t)prompt_tokens(h->task->cell),
                              "prompt_sha256", hex, "lengthened", lengthened);
    const bool kept = facts && json_object_update(h->extra, facts) == 0;
    json_decref(facts);
    return kept ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the facts about a prompt");
}

static int prepare(sk_part_host *h, sk_err *e) {
    bool lengthened = false;
    sk_conversation *c = calloc(1, sizeof *c);
    h->state = c;
    if (!c) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt");
    }
    int rc = sk_conversation_init(c, false, e);
    if (rc == SKIPPY_OK) {
        rc = make_prompt(h, &c->text, &lengthened, e);
    }
    if (rc == SKIPPY_OK) {
        rc = describe(h, &c->text, lengthened, e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < 1 + SK_WARM_UPS; i++) {
        rc = sk_part_send(h, c, 1, NULL, i == 0, NULL, e);
    }
    return rc;
}

static int measure(sk_part_host *h, size_t i, sk_err *e) {
    (void)i;
    return sk_part_send(h, h->state, 1, "exact", false, NULL, e);
}

static void finish(sk_part_host *h) {
    if (h->state) {
        sk_conversation_free(h->state);
    }
    free(h->state);
    h->state = NULL;
}

const sk_part sk_part_exact = {.name = "exact",
                               .title = "exact repeat",
                               .rounds = sk_part_repeats,
                               .lane_tokens = lane_tokens,
                               .prepare = prepare,
                               .round = measure,
                               .finish = finish};
