/* Recent prompts and their tokens. A prompt that was seen is copied; one that begins like a seen one is tokenised from
 * the last control token that both share. Control tokens cut the text before any merging, so the pieces on both sides
 * of one are tokenised independently of each other, and the result is the same as from scratch. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "openai/prompt.h"

#define MEMO_ENTRIES 8
/* Longer prompts are not kept: 8 of them would hold too much memory. */
#define MEMO_MAX_BYTES (4u << 20)
/* The shared text must go on for this many bytes behind a cut, so that no longer control token can begin at or before
 * it and end in the text that differs. The longest control tokens of known vocabularies have under 64 bytes. */
#define CUT_MARGIN 128

/* Where the control token at tokens[token] begins in the text. */
typedef struct memo_cut {
    size_t offset, token;
} memo_cut;

typedef struct memo_entry {
    char *text;
    size_t len;
    int32_t *tokens;
    size_t n_tokens;
    uint64_t used;  /* 0 = free */
    memo_cut *cuts; /* ascending */
    size_t n_cuts;
} memo_entry;

/* What a seen prompt gives to one that is to be tokenised; copied, so that the lock is not held while that is done. */
typedef struct head_start {
    bool whole;      /* the prompts are equal */
    int32_t *tokens; /* NULL: nothing is known */
    size_t n_tokens;
    size_t offset; /* where the text behind the tokens begins */
    memo_cut *cuts;
    size_t n_cuts;
} head_start;

struct sk_prompt_memo {
    const sk_model *model;
    size_t longest; /* bytes of the longest token, at least 1 */
    pthread_mutex_t lock;
    uint64_t clock;                   /* under the lock */
    memo_entry entries[MEMO_ENTRIES]; /* under the lock */
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
    pthread_mutex_init(&memo->lock, NULL);
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
    pthread_mutex_destroy(&memo->lock);
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
        memo_cut *grown = realloc(e->cuts, wanted * sizeof *grown);
        if (!grown) return false;
        e->cuts = grown;
        *cap = wanted;
    }
    e->cuts[e->n_cuts++] = (memo_cut){offset, token};
    return true;
}

/* How many tokens stand before the text: a begin-of-text token that the tokeniser adds. A text that itself begins with
 * that token's text leaves it open which of the equal tokens is the added one; counting tells. False: it does not. */
static bool count_added(const sk_model *m, const memo_entry *e, size_t *added) {
    char piece[512];
    *added = 0;
    if (e->n_tokens == 0 || !is_control(m, e->tokens[0])) return true;
    size_t size = sk_model_piece(m, e->tokens[0], true, piece, sizeof piece), n_tokens = 0, n_texts = 0;
    while (n_tokens < e->n_tokens && e->tokens[n_tokens] == e->tokens[0]) n_tokens++;
    while ((n_texts + 1) * size <= e->len && memcmp(e->text + n_texts * size, piece, size) == 0) n_texts++;
    *added = n_tokens - n_texts;
    return n_tokens == n_texts || n_tokens == n_texts + 1;
}

/* Finds the control tokens of an entry by walking its tokens along its text, from the cuts it has already. Where the
 * two disagree the walk ends: no place behind that can be trusted. */
static void find_cuts(const sk_model *m, memo_entry *e, size_t cap) {
    size_t token = 0, at = 0, used;
    if (e->n_cuts > 0) {
        e->n_cuts--; /* found again by the walk */
        token = e->cuts[e->n_cuts].token;
        at = e->cuts[e->n_cuts].offset;
    } else if (!count_added(m, e, &token)) {
        return;
    }
    for (; token < e->n_tokens; token++) {
        if (!sk_token_match(m, e->tokens[token], token == 0, e->text, e->len, at, &used)) return;
        if (used > 0 && is_control(m, e->tokens[token]) && !add_cut(e, &cap, at, token)) return;
        at += used;
    }
}

static void *copy_array(const void *data, size_t n, size_t size) {
    void *copy = malloc(n ? n * size : 1);
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

/* The last cut of e that lies far enough inside the shared text; NULL when there is none. */
static const memo_cut *usable_cut(const memo_entry *e, size_t shared) {
    for (size_t i = e->n_cuts; i > 0; i--)
        if (e->cuts[i - 1].offset + CUT_MARGIN <= shared && e->cuts[i - 1].token > 0) return &e->cuts[i - 1];
    return NULL;
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

/* Under the lock. Without memory nothing is known. */
static void look_up(sk_prompt_memo *memo, const char *text, size_t len, head_start *out) {
    size_t shared;
    const memo_entry *e = closest(memo, text, len, &shared);
    if (!e) return;
    bool whole = shared == len && e->len == len;
    const memo_cut *cut = whole ? NULL : usable_cut(e, shared);
    if (!whole && !cut) return;
    size_t n = cut ? cut->token : e->n_tokens;
    out->tokens = copy_array(e->tokens, n, sizeof *e->tokens);
    if (!out->tokens) return;
    out->whole = whole;
    out->n_tokens = n;
    if (!cut) return;
    out->offset = cut->offset;
    size_t n_cuts = (size_t)(cut - e->cuts) + 1;
    out->cuts = copy_array(e->cuts, n_cuts, sizeof *e->cuts);
    out->n_cuts = out->cuts ? n_cuts : 0;
}

static void put(sk_prompt_memo *memo, memo_entry *e) {
    pthread_mutex_lock(&memo->lock);
    memo_entry *slot = &memo->entries[0];
    for (size_t i = 1; i < MEMO_ENTRIES; i++)
        if (memo->entries[i].used < slot->used) slot = &memo->entries[i];
    memo_entry old = *slot;
    *slot = *e;
    slot->used = ++memo->clock;
    pthread_mutex_unlock(&memo->lock);
    entry_clear(&old);
}

/* Keeps a prompt in the place of the least recently used one, and takes over the cuts of `h`. Without memory it is
 * simply not kept. */
static void remember(sk_prompt_memo *memo, const char *text, size_t len, const int32_t *tokens, size_t n,
                     head_start *h) {
    if (len > MEMO_MAX_BYTES) return;
    memo_entry e = {.len = len, .n_tokens = n, .cuts = h->cuts, .n_cuts = h->n_cuts};
    h->cuts = NULL;
    e.text = malloc(len + 1);
    e.tokens = copy_array(tokens, n, sizeof *tokens);
    if (!e.text || !e.tokens) {
        entry_clear(&e);
        return;
    }
    memcpy(e.text, text, len);
    e.text[len] = '\0';
    find_cuts(memo->model, &e, e.n_cuts);
    put(memo, &e);
}

static int tokenize_rest(const sk_model *m, const head_start *h, const char *text, size_t len, int32_t **out,
                         size_t *n) {
    int32_t *rest = NULL;
    size_t n_rest = 0;
    int rc = sk_model_tokenize(m, text + h->offset, len - h->offset, false, true, &rest, &n_rest);
    if (rc) return rc;
    int32_t *all = malloc((h->n_tokens + n_rest) * sizeof *all);
    if (all) {
        memcpy(all, h->tokens, h->n_tokens * sizeof *all);
        memcpy(all + h->n_tokens, rest, n_rest * sizeof *all);
        *out = all;
        *n = h->n_tokens + n_rest;
    }
    free(rest);
    return all ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

int sk_prompt_memo_tokenize(sk_prompt_memo *memo, const char *text, size_t len, int32_t **out, size_t *n) {
    head_start h = {0};
    pthread_mutex_lock(&memo->lock);
    look_up(memo, text, len, &h);
    pthread_mutex_unlock(&memo->lock);
    if (h.whole) {
        *out = h.tokens;
        *n = h.n_tokens;
        return SKIPPY_OK;
    }
    int rc = h.tokens ? tokenize_rest(memo->model, &h, text, len, out, n)
                      : sk_model_tokenize(memo->model, text, len, true, true, out, n);
    if (rc == SKIPPY_OK) remember(memo, text, len, *out, *n, &h);
    free(h.tokens);
    free(h.cuts);
    return rc;
}
