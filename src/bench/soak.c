#include "bench/soak.h"

#include <stdlib.h>

#include "bench/endpoint.h"
#include "bench/interrupt.h"
#include "bench/prompts.h"
#include "bench/scenario.h"

enum { POINTS = 40, BEGINNINGS = 32, BEGINNING_WORDS = 24, END_WORDS = 6 };

static void add_words(sk_buf *b, uint64_t seed, size_t n) {
    sk_words w;
    sk_words_seed(&w, seed);
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(b, "%s%s", b->len ? " " : "", sk_words_next(&w));
    }
}

static int one_request(sk_endpoint *ep, const sk_sizes *s, size_t i, sk_buf *text, sk_err *e) {
    sk_reply reply = {0};
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    sk_buf_clear(text);
    add_words(text, sk_sizes_seed(s, SK_SCENARIO_SOAK, 0, i % BEGINNINGS), BEGINNING_WORDS);
    add_words(text, sk_sizes_seed(s, SK_SCENARIO_SOAK, 1 + i, 0), END_WORDS);
    const int rc = text->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt")
                                : sk_endpoint_complete(ep, text->data, 1, &reply, e);
    sk_reply_free(&reply);
    return rc;
}

int sk_soak_run(const sk_process *p, uint16_t port, int timeout_ms, uint64_t seed, size_t requests,
                sk_soak_point **points, size_t *n_points, sk_err *e) {
    const sk_sizes s = {.seed = seed};
    const size_t step = requests / POINTS ? requests / POINTS : 1;
    sk_endpoint ep;
    sk_buf text = {0};
    *n_points = 0;
    *points = calloc(requests / step + 2, sizeof **points);
    if (!*points) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the soak");
    }
    sk_endpoint_init(&ep, port, timeout_ms);
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i <= requests; i++) {
        if (i % step == 0 || i == requests) {
            sk_soak_point *point = &(*points)[*n_points];
            point->requests = i;
            if (sk_process_memory_read(p, &point->memory) == SKIPPY_OK) {
                ++*n_points;
            }
        }
        if (i < requests) {
            rc = one_request(&ep, &s, i, &text, e);
        }
    }
    sk_endpoint_close(&ep);
    sk_buf_free(&text);
    return rc;
}
