/* libFuzzer target: no bytes may make the reader or the canonical form read outside them, allocate by a count that they
 * only claim, or run for long. Whatever is read keeps its layout in canonical form, and canonical is canonical.
 * Input: one byte of shape, then the blob. */
#include <stdlib.h>
#include <string.h>

#include "runtime/state_codec.h"
#include "runtime/state_join.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_or_trap(const uint8_t *blob, size_t len, const sk_state_shape *shape, sk_state_parse *p) {
    if (sk_state_parse_blob(blob, len, shape, p, NULL) != SKIPPY_OK) __builtin_trap();
}

static void check_accounting(const uint8_t *blob, size_t len, const sk_state_parse *p) {
    size_t end = SK_STATE_HEADER_BYTES;
    for (size_t i = 0; i < p->n_sections; i++) {
        if (p->section[i].offset != end) __builtin_trap();
        end += p->section[i].bytes;
    }
    if (end != len) __builtin_trap();
    size_t cuts[64], n = sk_state_cuts(blob, len, p, SK_STATE_CUT_ROWS, cuts, 64);
    for (size_t i = 1; i < n && i < 64; i++)
        if (cuts[i] <= cuts[i - 1]) __builtin_trap();
    if (n == 0 || (n <= 64 && cuts[n - 1] != len)) __builtin_trap();
}

static void check_canonical(uint8_t *blob, size_t len, const sk_state_shape *shape, const sk_state_parse *p) {
    sk_err e = {0};
    if (sk_state_canonicalise(blob, len, p, &e) != SKIPPY_OK) {
        if (e.text[0] == 0) __builtin_trap();
        return;
    }
    sk_state_parse q;
    skippy_key a, b;
    parse_or_trap(blob, len, shape, &q);
    sk_state_layout_digest(p, &a);
    sk_state_layout_digest(&q, &b);
    if (memcmp(&a, &b, sizeof a) != 0 || q.seq_id != 0) __builtin_trap();
    uint8_t *joined = NULL;
    size_t joined_len = 0;
    sk_state_piece piece = {blob, len, &q};
    if (sk_state_join(&piece, 1, &joined, &joined_len, &e) != SKIPPY_OK) __builtin_trap();
    if (joined_len != len || memcmp(joined, blob, len) != 0) __builtin_trap(); /* one piece is itself */
    free(joined);
    sk_state_parse_free(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    sk_state_shape shape = {
        .hybrid = data[0] & 1, .recurrent = data[0] & 2, .window = data[0] & 4, .partial = data[0] & 8};
    if (shape.recurrent) shape.hybrid = shape.window = false;
    size_t len = size - 1;
    uint8_t *blob = malloc(len ? len : 1);
    if (!blob) return 0;
    if (len) memcpy(blob, data + 1, len);
    sk_state_parse p;
    sk_err e = {0};
    if (sk_state_parse_blob(blob, len, &shape, &p, &e) == SKIPPY_OK) {
        check_accounting(blob, len, &p);
        check_canonical(blob, len, &shape, &p);
        sk_state_parse_free(&p);
    } else if (e.text[0] == 0) {
        __builtin_trap(); /* every refusal has words */
    }
    free(blob);
    return 0;
}
