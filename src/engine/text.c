#include "engine/text.h"

#include <stdlib.h>
#include <string.h>

#include "skippy/error.h"

int sk_text_init(sk_text *t, const char *const *stop, size_t n_stop) {
    memset(t, 0, sizeof *t);
    if (n_stop == 0) return SKIPPY_OK;
    t->stop = calloc(n_stop, sizeof *t->stop);
    if (!t->stop) return SKIPPY_E_NOMEM;
    for (size_t i = 0; i < n_stop; i++) {
        size_t len = strlen(stop[i]);
        if (len == 0) continue;
        t->stop[t->n_stop] = strdup(stop[i]);
        if (!t->stop[t->n_stop]) {
            sk_text_free(t);
            return SKIPPY_E_NOMEM;
        }
        t->n_stop++;
        if (len > t->longest_stop) t->longest_stop = len;
    }
    return SKIPPY_OK;
}

void sk_text_free(sk_text *t) {
    for (size_t i = 0; i < t->n_stop; i++) free(t->stop[i]);
    free(t->stop);
    sk_buf_free(&t->pending);
    memset(t, 0, sizeof *t);
}

/* Length of the longest beginning of s that does not end inside a UTF-8 sequence. Invalid bytes count as complete. */
static size_t complete_utf8(const char *s, size_t len) {
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)s[len - 1 - back] & 0xc0) == 0x80) back++;
    if (back == len) return len;
    unsigned char lead = (unsigned char)s[len - 1 - back];
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return need > back + 1 ? len - 1 - back : len;
}

/* Offset of the earliest complete stop string in pending, SIZE_MAX when none. Only the part that new bytes can have
 * completed is searched. */
static size_t find_stop(sk_text *t, size_t added) {
    size_t len = t->pending.len, best = (size_t)-1;
    size_t from = len > added + t->longest_stop ? len - added - t->longest_stop : 0;
    for (size_t i = 0; i < t->n_stop; i++) {
        size_t n = strlen(t->stop[i]);
        if (n > len - from) continue;
        const char *at = memmem(t->pending.data + from, len - from, t->stop[i], n);
        if (at && (size_t)(at - t->pending.data) < best) {
            best = (size_t)(at - t->pending.data);
            t->hit = t->stop[i];
        }
    }
    return best;
}

/* Longest tail of pending that is the beginning of some stop string: it must wait. */
static size_t held_back(const sk_text *t) {
    size_t len = t->pending.len, most = 0;
    for (size_t i = 0; i < t->n_stop; i++) {
        size_t n = strlen(t->stop[i]);
        size_t k = n - 1 < len ? n - 1 : len;
        for (; k > most; k--) {
            if (memcmp(t->pending.data + len - k, t->stop[i], k) == 0) {
                most = k;
                break;
            }
        }
    }
    return most;
}

size_t sk_text_push(sk_text *t, const char *piece, size_t len) {
    sk_buf_add(&t->pending, piece, len);
    if (t->pending.len == 0) return 0;
    size_t at = find_stop(t, len);
    if (t->hit) {
        t->pending.len = at;
        t->pending.data[at] = '\0';
        return at;
    }
    size_t ready = t->pending.len - held_back(t);
    return complete_utf8(t->pending.data, ready);
}

void sk_text_release(sk_text *t, size_t n) {
    sk_buf_consume(&t->pending, n);
}

size_t sk_text_flush(sk_text *t) {
    return t->pending.len ? complete_utf8(t->pending.data, t->pending.len) : 0;
}
