#include "stage/frame.h"

#include <stdlib.h>
#include <string.h>

#include "stage/frame_codec.h"

const char *sk_frame_name(unsigned kind) {
    static const char *const names[SK_FRAME_KINDS] = {
        [SK_FRAME_HELLO] = "HELLO",     [SK_FRAME_WELCOME] = "WELCOME",   [SK_FRAME_REFUSE] = "REFUSE",
        [SK_FRAME_OPEN] = "OPEN",       [SK_FRAME_PROBE] = "PROBE",       [SK_FRAME_PROBED] = "PROBED",
        [SK_FRAME_RESTORE] = "RESTORE", [SK_FRAME_RESTORED] = "RESTORED", [SK_FRAME_CHUNK] = "CHUNK",
        [SK_FRAME_RESULT] = "RESULT",   [SK_FRAME_RECORD] = "RECORD",     [SK_FRAME_TRIM] = "TRIM",
        [SK_FRAME_STOP] = "STOP",       [SK_FRAME_FAULT] = "FAULT",       [SK_FRAME_CREDIT] = "CREDIT",
        [SK_FRAME_ERASE] = "ERASE",     [SK_FRAME_ERASED] = "ERASED",     [SK_FRAME_PING] = "PING",
        [SK_FRAME_PONG] = "PONG",
    };
    return kind < SK_FRAME_KINDS && names[kind] ? names[kind] : "?";
}

void sk_frame_free(sk_frame *f) {
    free(f->owned);
    memset(f, 0, sizeof *f);
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint32_t sk_frame_limit(uint32_t n_batch, uint32_t width, uint32_t n_vocab, uint32_t n_ctx) {
    const uint64_t header = SK_FRAME_HEADER - SK_FRAME_PREFIX, words = 4 * SK_FRAME_TEXT_MAX;
    const uint64_t most =
        (uint64_t)SK_FRAME_ACTIVATIONS_MAX + 4u * (uint64_t)SK_FRAME_TOKENS_MAX + SK_FRAME_FIRST_LIMIT;
    uint64_t hidden = sk_frame_hidden_bytes(n_batch, width, 0);
    uint64_t chunk = hidden > SK_FRAME_ACTIVATIONS_MAX
                         ? most
                         : header + SK_FRAME_CHUNK_BYTES + SK_SPANS_MAX * (uint64_t)SK_FRAME_SPAN_BYTES +
                               4u * (uint64_t)n_batch + hidden;
    uint64_t row = header + words + 4u * (uint64_t)n_vocab;
    uint64_t prompt = header + words + 4u * (uint64_t)n_ctx;
    uint64_t limit = larger(larger(chunk, row), larger(prompt, SK_FRAME_FIRST_LIMIT));
    return (uint32_t)(limit < most ? limit : most);
}
