#include "bench/family/prompt_cut.h"

#include <stdlib.h>
#include <string.h>

/* Characters on both sides of the place that the search found. The number of tokens nearly grows with the length, but
 * a character more can also join two tokens into one. */
enum { NEAR = 24 };

static bool inside_character(char c) {
    return ((unsigned char)c & 0xC0u) == 0x80u;
}

size_t sk_utf8_floor(const char *text, size_t n) {
    while (n > 0 && inside_character(text[n])) {
        n--;
    }
    return n;
}

static size_t next_boundary(const char *text, size_t at, size_t len) {
    do {
        at++;
    } while (at < len && inside_character(text[at]));
    return at;
}

static int count_tokens(sk_prompts *p, const char *text, size_t len, size_t *n, sk_err *e) {
    int32_t *ids = NULL;
    const int rc = p->tokenize(p->ud, text, len, &ids, n, e);
    free(ids);
    return rc;
}

/* *at: a boundary whose beginning has at most n tokens, while that of the next one was seen to have more. len has more
 * than n. */
static int search(sk_prompts *p, const char *text, size_t len, size_t n, size_t *at, sk_err *e) {
    size_t low = 0;
    size_t high = len;
    int rc = SKIPPY_OK;
    while (rc == SKIPPY_OK && next_boundary(text, low, len) < high) {
        size_t middle = sk_utf8_floor(text, low + (high - low) / 2);
        if (middle == low) {
            middle = next_boundary(text, low, len);
        }
        size_t count = 0;
        rc = count_tokens(p, text, middle, &count, e);
        if (count <= n) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *at = low;
    return rc;
}

/* Looks at the boundaries around `at`. *exact: length of the longest beginning with exactly n tokens, 0 = none;
 * *below: of the longest with fewer. */
static int look_around(sk_prompts *p, const char *text, size_t len, size_t n, size_t at, size_t *exact, size_t *below,
                       sk_err *e) {
    size_t from = at;
    int rc = SKIPPY_OK;
    for (int i = 0; i < NEAR && from > 0; i++) {
        from = sk_utf8_floor(text, from - 1);
    }
    *exact = *below = 0;
    for (int i = 0; rc == SKIPPY_OK && i <= 2 * NEAR && from <= len; i++, from = next_boundary(text, from, len)) {
        size_t count = 0;
        rc = count_tokens(p, text, from, &count, e);
        if (count == n) {
            *exact = from;
        } else if (count < n) {
            *below = from;
        }
    }
    return rc;
}

/* The digest holds text and token ids, as it does of texts that were made from words. Both come from servers on one
 * machine, so the ids may go in as they lie in memory. */
static int note(sk_prompts *p, const sk_buf *text, sk_err *e) {
    int32_t *ids = NULL;
    size_t n = 0;
    const int rc = p->tokenize(p->ud, text->data, text->len, &ids, &n, e);
    if (rc == SKIPPY_OK) {
        sk_prompts_note(p, text->data, text->len);
        sk_prompts_note(p, (const char *)ids, n * sizeof *ids);
        p->made++;
    }
    free(ids);
    return rc;
}

/* What is left of text, with words behind it up to n tokens. */
static int lengthen(sk_prompts *p, uint64_t seed, const char *text, size_t len, size_t n, sk_buf *out, sk_err *e) {
    size_t count = 0;
    char *base = strndup(text, len);
    int rc = base ? count_tokens(p, base, len, &count, e)
                  : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt of %zu bytes", len);
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_extend(p, seed, base, n - count, out, e);
    }
    free(base);
    return rc;
}

int sk_prompt_cut(sk_prompts *p, uint64_t seed, const char *text, size_t n, sk_buf *out, bool *lengthened, sk_err *e) {
    const size_t len = strlen(text);
    size_t count = 0;
    size_t at = 0;
    size_t exact = len;
    size_t below = len;
    sk_buf_clear(out);
    *lengthened = false;
    int rc = count_tokens(p, text, len, &count, e);
    if (rc == SKIPPY_OK && count > n) {
        rc = search(p, text, len, n, &at, e);
        rc = rc == SKIPPY_OK ? look_around(p, text, len, n, at, &exact, &below, e) : rc;
    }
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (count < n || exact == 0) {
        *lengthened = true;
        return lengthen(p, seed, text, below, n, out, e);
    }
    sk_buf_add(out, text, exact);
    return out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt of %zu bytes", exact)
                       : note(p, out, e);
}
