/* A recorded or generated sequence of prompts, as the eviction simulation reads it: every prompt is a path in one tree
 * of 512-token blocks, so that prompts which begin alike share the blocks of their common beginning.
 *
 *    prompt 1: a b c        a -- b -- c
 *    prompt 2: a b d             `--- d        path = block numbers, parent[d] = b
 *
 * Only whole blocks count: the last, partly filled block of a prompt is another block in the next turn of the same
 * conversation, so a trace cannot tell that the one begins like the other. A prompt's last input % 512 tokens are
 * therefore always computed, under every policy.
 *
 * Not thread-safe while it is built, immutable afterwards. */
#ifndef SKIPPY_BENCH_EVICT_TRACE_H
#define SKIPPY_BENCH_EVICT_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SK_EVICT_BLOCK_TOKENS = 512 };
#define SK_EVICT_ROOT UINT32_MAX /* parent of the first block of a prompt */

typedef struct sk_evict_request {
    uint64_t time_ms; /* since the start of the trace */
    uint64_t input_tokens, output_tokens;
    size_t first;    /* path[first .. first + n_blocks) are its blocks */
    size_t n_blocks; /* input_tokens / SK_EVICT_BLOCK_TOKENS */
} sk_evict_request;

/* Zero-initialise, then add or load. */
typedef struct sk_evict_trace {
    sk_evict_request *requests;
    size_t n_requests, cap_requests;
    uint32_t *path;
    size_t n_path, cap_path;
    uint32_t *parent; /* of each block; SK_EVICT_ROOT for the first block of a prompt */
    uint64_t *id;     /* the number that the trace file gives to each block */
    size_t n_blocks, cap_blocks;
    uint32_t *slots; /* hash table over id: block number + 1, 0 = free */
    size_t n_slots;  /* a power of two */
} sk_evict_trace;

void sk_evict_trace_free(sk_evict_trace *t);

/* Adds a prompt. ids: one for each block that the prompt fills, at least input_tokens / 512 of them, further ones are
 * ignored; equal ids mean equal prefixes. After an error the trace is as it was before. Errors: SKIPPY_E_INVALID (time
 * goes back, too few ids, an id that stands behind another block than before), SKIPPY_E_TOO_LARGE (2^32 - 1 blocks),
 * SKIPPY_E_NOMEM. */
int sk_evict_trace_add(sk_evict_trace *t, uint64_t time_ms, uint64_t input_tokens, uint64_t output_tokens,
                       const uint64_t *ids, size_t n_ids, sk_err *e);

/* Reads a file in the Mooncake format, one JSON object a line: timestamp (ms), input_length, output_length (tokens),
 * hash_ids. *t must be empty; after an error it is. Errors: SKIPPY_E_IO, SKIPPY_E_CORRUPT (not the format, with the
 * line's number), SKIPPY_E_NOMEM. */
int sk_evict_trace_load(sk_evict_trace *t, const char *path, sk_err *e);

/* What a trace holds, for the head of a report. */
typedef struct sk_evict_trace_facts {
    uint64_t input_tokens, output_tokens, longest_input, span_ms;
    size_t requests, block_uses, unique_blocks;
} sk_evict_trace_facts;
sk_evict_trace_facts sk_evict_trace_describe(const sk_evict_trace *t);

#endif
