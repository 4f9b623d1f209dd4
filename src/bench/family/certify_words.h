/* The command line that certifies a cell's model. Pure. */
#ifndef SKIPPY_BENCH_FAMILY_CERTIFY_WORDS_H
#define SKIPPY_BENCH_FAMILY_CERTIFY_WORDS_H

#include <stdbool.h>

#include "bench/family/input.h"

/* What `skippy certify` accepts. */
enum {
    SK_CERTIFY_LEAST_PREFIX = 32,
    SK_CERTIFY_MOST_PREFIX = 8192,
    SK_CERTIFY_LEAST_REPEATS = 3,
    SK_CERTIFY_MOST_REPEATS =
        5, /* of 16: each restores and decodes into every target, and the measured hits are HTTP requests */
    SK_CERTIFY_WORDS = 32
};

/* v ends with NULL and points into the struct and the input: neither may move. */
typedef struct sk_certify_words {
    const char *v[SK_CERTIFY_WORDS];
    size_t n;
    char prefix[16], repeats[16], threads[16], n_gpu_layers[16], layers[32], stage[16], producer[32];
} sk_certify_words;

/* The length that is certified for a cell: its prefix, moved into the bounds of the program. */
uint32_t sk_certify_prefix(const sk_family_cell *cell);
uint32_t sk_certify_repeats(const sk_family_sizes *sizes);
/* producer: feed a package's stage with the real layers before it. */
void sk_certify_words_make(const sk_family_input *in, const sk_family_cell *cell, const char *report_path,
                           bool producer, sk_certify_words *out);

#endif
