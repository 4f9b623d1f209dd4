#include "bench/prompts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Short common words: one token each in most vocabularies. The single letters let a text end on an exact size where the
 * tokenizer splits words. */
static const char *const words[] = {
    "the",   "a",    "river", "runs", "past", "old",  "house", "and",  "we",   "see",  "many", "small", "birds", "in",
    "green", "tree", "while", "sun",  "goes", "down", "over",  "town", "then", "all",  "is",   "quiet", "again", "you",
    "can",   "hear", "wind",  "from", "hill", "when", "night", "has",  "come", "with", "its",  "cold",  "stars", "one",
    "man",   "said", "that",  "he",   "had",  "lost", "his",   "book", "near", "lake", "so",   "they",  "went",  "to",
    "look",  "for",  "it",    "but",  "did",  "not",  "find",  "any",  "x",    "b",    "c",    "k",
};

enum { MAX_TRIES = 400, MIN_TOKENS = 8, STUCK_AFTER = 12 };

typedef struct token_list {
    int32_t *ids;
    size_t n;
} token_list;

void sk_words_seed(sk_words *w, uint64_t seed) {
    w->state = seed;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed is a good one. */
static uint64_t next_random(sk_words *w) {
    uint64_t z = (w->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

const char *sk_words_next(sk_words *w) {
    return words[next_random(w) % (sizeof words / sizeof words[0])];
}

void sk_prompts_init(sk_prompts *p, sk_tokenize_fn tokenize, void *ud) {
    *p = (sk_prompts){.tokenize = tokenize, .ud = ud};
    sk_hash_init(&p->digest);
}

static void note_tokens(sk_prompts *p, const token_list *t) {
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t id = (uint32_t)t->ids[i];
        const uint8_t le[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)};
        sk_hash_update(&p->digest, le, sizeof le);
    }
}

void sk_prompts_note(sk_prompts *p, const char *text, size_t len) {
    uint8_t le[8];
    for (size_t i = 0; i < sizeof le; i++) {
        le[i] = (uint8_t)((uint64_t)len >> (8 * i));
    }
    sk_hash_update(&p->digest, le, sizeof le);
    sk_hash_update(&p->digest, text, len);
}

void sk_prompts_digest(const sk_prompts *p, uint8_t out[SK_HASH_BYTES]) {
    sk_hash_final(&p->digest, out);
}

static int tokenize(sk_prompts *p, const sk_buf *text, token_list *t, sk_err *e) {
    free(t->ids);
    *t = (token_list){0};
    if (text->failed) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt");
    }
    return p->tokenize(p->ud, text->data ? text->data : "", text->len, &t->ids, &t->n, e);
}

static void add_words(sk_words *w, size_t count, sk_buf *out) {
    for (size_t i = 0; i < count; i++) {
        if (out->len) {
            sk_buf_str(out, " ");
        }
        sk_buf_str(out, sk_words_next(w));
    }
}

static void cut(sk_buf *b, size_t len) {
    b->len = len;
    if (b->data) {
        b->data[len] = '\0';
    }
}

/* Forgets the last word, but nothing before `floor`. */
static void cut_word(sk_buf *b, size_t floor) {
    size_t len = b->len;
    while (len > floor && b->data[len - 1] != ' ') {
        len--;
    }
    cut(b, len > floor ? len - 1 : floor);
}

/* Grows out to exactly `want` tokens and never cuts below the text that it begins with. Words are added many at a time,
 * half as many after they overshot; a single word that overshoots is replaced by another, and where none fits (a byte
 * tokenizer with one token to go: a word is a space and a letter) the word before goes too. */
static int grow(sk_prompts *p, sk_words *w, size_t want, sk_buf *out, token_list *t, sk_err *e) {
    const size_t floor = out->len;
    size_t step = want;
    size_t misses = 0;
    int rc = tokenize(p, out, t, e);
    for (int tries = 0; rc == SKIPPY_OK && t->n != want && tries < MAX_TRIES; tries++) {
        const size_t keep = out->len;
        const size_t most = want > t->n ? (want - t->n + 3) / 4 : 1;
        step = step < most ? step : most;
        add_words(w, step, out);
        rc = tokenize(p, out, t, e);
        if (rc != SKIPPY_OK || t->n <= want) {
            misses = 0;
            continue;
        }
        cut(out, keep);
        misses++;
        if (step > 1) {
            step /= 2;
        } else if (misses % STUCK_AFTER == 0) {
            cut_word(out, floor);
        }
        rc = tokenize(p, out, t, e);
    }
    if (rc == SKIPPY_OK && t->n != want) {
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "the tokenizer makes no text of exactly %zu tokens from the word list", want);
    }
    return rc;
}

int sk_prompts_text(sk_prompts *p, uint64_t seed, size_t n, sk_buf *out, sk_err *e) {
    token_list t = {0};
    sk_words w;
    if (n < MIN_TOKENS) {
        return sk_err_set(e, SKIPPY_E_INVALID, "a prompt needs at least %d tokens, not %zu", MIN_TOKENS, n);
    }
    sk_words_seed(&w, seed);
    add_words(&w, 1, out);
    const int rc = grow(p, &w, n, out, &t, e);
    if (rc == SKIPPY_OK) {
        sk_prompts_note(p, out->data, out->len);
        note_tokens(p, &t);
        p->made++;
    }
    free(t.ids);
    return rc;
}

static bool is_prefix(const token_list *a, const token_list *b) {
    return a->n <= b->n && memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0;
}

int sk_prompts_extend(sk_prompts *p, uint64_t seed, const char *base, size_t n, sk_buf *out, sk_err *e) {
    token_list first = {0};
    token_list t = {0};
    sk_words w;
    sk_words_seed(&w, seed);
    sk_buf_clear(out);
    sk_buf_str(out, base);
    int rc = tokenize(p, out, &first, e);
    if (rc != SKIPPY_OK) {
        goto out;
    }
    const size_t base_len = out->len;
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        cut(out, base_len);
        rc = grow(p, &w, first.n + n, out, &t, e);
        if (rc != SKIPPY_OK) {
            goto out;
        }
        if (is_prefix(&first, &t)) {
            sk_prompts_note(p, out->data, out->len);
            note_tokens(p, &t);
            p->made++;
            goto out;
        }
    }
    rc = sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the tokenizer merges every continuation into the end of a prompt");
out:
    free(first.ids);
    free(t.ids);
    return rc;
}
