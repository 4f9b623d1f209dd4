/* Recent prompts and their tokens. A prompt that was seen is copied; one that begins like a seen one is tokenised from
 * the last control token that both share. Control tokens cut the text before any merging, so the pieces on both sides
 * of one are tokenised independently of each other, and the result is the same as from scratch. */
#include <stdlib.h>
#include <string.h>

#include "openai/prompt.h"

#define MEMO_ENTRIES 8
/* Longer prompts are not kept: 8 of them would hold too much memory. */
#define MEMO_MAX_BYTES (4u << 20)
/* The shared text must go on for this many bytes behind a cut, so that no longer control token can begin at or before
 * it and end in the text that differs. The longest control tokens of known vocabularies have under 64 bytes. */
#define CUT_MARGIN 128

typedef struct memo_entry {
    char *text;
    size_t len;
    int32_t *tokens;
    size_t n_tokens;
    uint64_t used; /* 0 = free */
    /* Where each cut is: the control token at tokens[token] begins at text[offset]. Ascending. */
    struct memo_cut {
        size_t offset, token;
    } * cuts;
    size_t n_cuts;
} memo_entry;

struct sk_prompt_memo {
    const sk_model *model;
    size_t longest; /* bytes of the longest token, at least 1 */
    uint64_t clock;
    memo_entry entries[MEMO_ENTRIES];
};

static size_t longest_piece(const sk_model *m) {
    char piece[512];
    size_t longest = 1;
    for (int32_t t = 0; t < sk_model_get_info(m)->n_vocab; t++) {
        size_t n = sk_model_piece(m, t, true, piece, sizeof piece);
        if (n > longest) longest = n;
    }
    return longest < sizeof piece ? longest : SIZE_MAX; /* a piece that was cut off has an unknown length */
}

sk_prompt_memo *sk_prompt_memo_create(const sk_model *m) {
    sk_prompt_memo *memo = calloc(1, sizeof *memo);
    if (!memo) return NULL;
    memo->model = m;
    memo->longest = longest_piece(m);
    return memo;
}

size_t sk_prompt_memo_least_tokens(const sk_prompt_memo *memo, size_t len) {
    return len / memo->longest;
}

static void entry_clear(memo_entry *e) {
    free(e->text);
    free(e->tokens);
    free(e->cuts);
    memset(e, 0, sizeof *e);
}

void sk_prompt_memo_destroy(sk_prompt_memo *memo) {
    if (!memo) return;
    for (size_t i = 0; i < MEMO_ENTRIES; i++) entry_clear(&memo->entries[i]);
    free(memo);
}

static size_t common_prefix(const char *a, size_t na, const char *b, size_t nb) {
    size_t n = na < nb ? na : nb, i = 0;
    while (i + 64 <= n && memcmp(a + i, b + i, 64) == 0) i += 64;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* A token that shows text only when special tokens are shown is a control token. */
static bool is_control(const sk_model *m, int32_t token) {
    char text[512];
    return sk_model_piece(m, token, false, text, sizeof text) == 0 &&
           sk_model_piece(m, token, true, text, sizeof text) > 0;
}

static bool add_cut(memo_entry *e, size_t *cap, size_t offset, size_t token) {
    if (e->n_cuts == *cap) {
        size_t wanted = *cap ? *cap * 2 : 16;
        struct memo_cut *grown = realloc(e->cuts, wanted * sizeof *grown);
        if (!grown) return false;
        e->cuts = grown;
        *cap = wanted;
    }
    e->cuts[e->n_cuts++] = (struct memo_cut){offset, token};
    return true;
}

/* Finds the control tokens of an entry by walking its tokens along its text, from the cuts it has already. Where the
 * two disagree the walk ends: no place behind that can be trusted. */
static void find_cuts(const sk_model *m, memo_entry *e, size_t cap) {
    size_t token = 0, at = 0, used;
    if (e->n_cuts > 0) {
        e->n_cuts--; /* found again by the walk */
        token = e->cuts[e->n_cuts].token;
        at = e->cuts[e->n_cuts].offset;
    }
    for (; token < e->n_tokens; token++) {
        if (!sk_token_match(m, e->tokens[token], token == 0, e->text, e->len, at, &used)) return;
        if (used > 0 && is_control(m, e->tokens[token]) && !add_cut(e, &cap, at, token)) return;
        at += used;
    }
}

static int32_t *copy_tokens(const int32_t *tokens, size_t n) {
    int32_t *copy = malloc((n ? n : 1) * sizeof *copy);
    if (copy && n) memcpy(copy, tokens, n * sizeof *copy);
    return copy;
}

/* Takes over the cuts of `from` up to and with `cut`; both may be NULL. Returns the capacity. */
static size_t inherit_cuts(memo_entry *slot, const memo_entry *from, const struct memo_cut *cut) {
    if (!cut) return 0;
    size_t n = (size_t)(cut - from->cuts) + 1;
    slot->cuts = malloc(n * sizeof *slot->cuts);
    if (!slot->cuts) return 0;
    memcpy(slot->cuts, from->cuts, n * sizeof *slot->cuts);
    slot->n_cuts = n;
    return n;
}

/* Keeps a prompt in the place of the least recently used one, which is never `from`. Without memory it is simply not
 * kept. */
static void remember(sk_prompt_memo *memo, const char *text, size_t len, const int32_t *tokens, size_t n,
                     const memo_entry *from, const struct memo_cut *cut) {
    if (len > MEMO_MAX_BYTES) return;
    memo_entry *slot = &memo->entries[0];
    for (size_t i = 1; i < MEMO_ENTRIES; i++)
        if (memo->entries[i].used < slot->used) slot = &memo->entries[i];
    entry_clear(slot);
    slot->text = malloc(len + 1);
    slot->tokens = copy_tokens(tokens, n);
    if (!slot->text || !slot->tokens) {
        entry_clear(slot);
        return;
    }
    memcpy(slot->text, text, len);
    slot->text[len] = '\0';
    slot->len = len;
    slot->n_tokens = n;
    slot->used = ++memo->clock;
    find_cuts(memo->model, slot, inherit_cuts(slot, from, cut));
}

/* The last cut of e that lies far enough inside the shared text; NULL when there is none. */
static const struct memo_cut *usable_cut(const memo_entry *e, size_t shared) {
    for (size_t i = e->n_cuts; i > 0; i--)
        if (e->cuts[i - 1].offset + CUT_MARGIN <= shared && e->cuts[i - 1].token > 0) return &e->cuts[i - 1];
    return NULL;
}

static int tokenize_rest(sk_prompt_memo *memo, const memo_entry *e, const struct memo_cut *cut, const char *text,
                         size_t len, int32_t **out, size_t *n) {
    int32_t *rest = NULL;
    size_t n_rest = 0;
    int rc = sk_model_tokenize(memo->model, text + cut->offset, len - cut->offset, false, true, &rest, &n_rest);
    if (rc) return rc;
    int32_t *all = malloc((cut->token + n_rest) * sizeof *all);
    if (all) {
        memcpy(all, e->tokens, cut->token * sizeof *all);
        memcpy(all + cut->token, rest, n_rest * sizeof *all);
        *out = all;
        *n = cut->token + n_rest;
    }
    free(rest);
    return all ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

/* The entry that shares the longest beginning; of equals the shortest, so that an identical one wins. */
static memo_entry *closest(sk_prompt_memo *memo, const char *text, size_t len, size_t *shared) {
    memo_entry *best = NULL;
    *shared = 0;
    for (size_t i = 0; i < MEMO_ENTRIES; i++) {
        memo_entry *e = &memo->entries[i];
        if (!e->used) continue;
        size_t common = common_prefix(e->text, e->len, text, len);
        if (!best || common > *shared || (common == *shared && e->len < best->len)) {
            best = e;
            *shared = common;
        }
    }
    if (best) best->used = ++memo->clock;
    return best;
}

int sk_prompt_memo_tokenize(sk_prompt_memo *memo, const char *text, size_t len, int32_t **out, size_t *n) {
    size_t shared;
    memo_entry *best = closest(memo, text, len, &shared);
    if (best && shared == len && best->len == len) {
        *out = copy_tokens(best->tokens, best->n_tokens);
        *n = best->n_tokens;
        return *out ? SKIPPY_OK : SKIPPY_E_NOMEM;
    }
    const struct memo_cut *cut = best ? usable_cut(best, shared) : NULL;
    int rc = cut ? tokenize_rest(memo, best, cut, text, len, out, n)
                 : sk_model_tokenize(memo->model, text, len, true, true, out, n);
    if (rc == SKIPPY_OK) remember(memo, text, len, *out, *n, best, cut);
    return rc;
}
