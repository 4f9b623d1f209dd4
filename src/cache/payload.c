#include "skippy/payload.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

/* ---- checks ---- */

static bool within(unsigned value, unsigned first, unsigned last) {
    return value >= first && value <= last;
}

static bool fields_valid(const skippy_manifest *m) {
    return within(m->payload_kind, SKIPPY_PAYLOAD_RESIDENT_KV, SKIPPY_PAYLOAD_TERMINAL) &&
           within(m->reach, SKIPPY_REACH_EXACT, SKIPPY_REACH_RANGE) &&
           within(m->reason, SKIPPY_REASON_WRITE_BEHIND, SKIPPY_REASON_CERTIFY) && m->cost_ms >= 0 &&
           isfinite(m->cost_ms) && m->tokens && m->n_tokens > 0 && m->n_tokens <= SIZE_MAX / sizeof *m->tokens &&
           m->parts && m->n_parts > 0;
}

/* Adds the lengths of the part's blocks to *sum. A part without blocks is refused: state that is missing must never
 * look like state that is empty. */
static bool part_valid(const skippy_part *p, size_t n_tokens, uint64_t *sum) {
    if (!within(p->kind, SKIPPY_PART_KV, SKIPPY_PART_LOGITS)) return false;
    if (p->from > p->to || p->to > n_tokens || !p->blocks || p->n_blocks == 0) return false;
    for (size_t i = 0; i < p->n_blocks; i++) {
        uint32_t bytes = p->blocks[i].bytes;
        if (bytes == 0 || bytes > SKIPPY_BLOCK_MAX || *sum > UINT64_MAX - bytes) return false;
        *sum += bytes;
    }
    return true;
}

int skippy_manifest_check(const skippy_manifest *m, uint64_t *logical_bytes) {
    if (!m || !fields_valid(m)) return SKIPPY_E_INVALID;
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n_parts; i++)
        if (!part_valid(&m->parts[i], m->n_tokens, &sum)) return SKIPPY_E_INVALID;
    if (logical_bytes) *logical_bytes = sum;
    return SKIPPY_OK;
}

/* ---- erase ---- */

static bool same_name(const char *wanted, const char *have) {
    return !wanted || (have && strcmp(wanted, have) == 0);
}

static bool begins_with(const skippy_manifest *m, const int32_t *tokens, size_t n) {
    if (n == 0 || !tokens) return true;
    return n <= m->n_tokens && memcmp(m->tokens, tokens, n * sizeof *tokens) == 0;
}

bool skippy_erase_matches(const skippy_erase_filter *f, const skippy_manifest *m) {
    return same_name(f->tenant, m->tenant) && same_name(f->cache_namespace, m->cache_namespace) &&
           (!f->ns || skippy_key_equal(f->ns, &m->ns)) && begins_with(m, f->tokens, f->n_tokens);
}

/* ---- blocks ---- */

int skippy_block_digest(const void *data, size_t bytes, skippy_block_ref *out) {
    if (!data || !out || bytes == 0 || bytes > SKIPPY_BLOCK_MAX) return SKIPPY_E_INVALID;
    sk_hash(data, bytes, out->digest.bytes);
    out->bytes = (uint32_t)bytes;
    return SKIPPY_OK;
}

/* Blocks of a span; without overflow for every length. */
static size_t blocks_in(size_t bytes) {
    return bytes / SKIPPY_BLOCK_MAX + (bytes % SKIPPY_BLOCK_MAX != 0);
}

/* How many blocks the cuts make, or SKIPPY_E_INVALID when they do not ascend from above 0 to `bytes`. A sum of blocks
 * cannot overflow: each holds at least one of the bytes. */
static int count_blocks(size_t bytes, const size_t *cuts, size_t n_cuts, size_t *n) {
    size_t at = 0;
    *n = 0;
    for (size_t i = 0; i < n_cuts; at = cuts[i++]) {
        if (cuts[i] <= at || cuts[i] > bytes) return SKIPPY_E_INVALID;
        *n += blocks_in(cuts[i] - at);
    }
    if (n_cuts && at != bytes) return SKIPPY_E_INVALID;
    if (!n_cuts) *n = blocks_in(bytes);
    return SKIPPY_OK;
}

static void hash_span(const uint8_t *span, size_t bytes, skippy_block_ref *out) {
    for (; bytes > 0; out++) {
        size_t piece = bytes < SKIPPY_BLOCK_MAX ? bytes : SKIPPY_BLOCK_MAX;
        sk_hash(span, piece, out->digest.bytes);
        out->bytes = (uint32_t)piece;
        span += piece;
        bytes -= piece;
    }
}

int skippy_blocks_cut(const void *data, size_t bytes, const size_t *cuts, size_t n_cuts, skippy_block_ref *out,
                      size_t cap, size_t *n_out) {
    if (!n_out || (bytes && !data) || (n_cuts && !cuts) || (cap && !out)) return SKIPPY_E_INVALID;
    int status = count_blocks(bytes, cuts, n_cuts, n_out);
    if (status != SKIPPY_OK) return status;
    if (*n_out > cap) return SKIPPY_E_TOO_SMALL;
    size_t at = 0;
    for (size_t i = 0; i < (n_cuts ? n_cuts : 1); i++) {
        size_t end = n_cuts ? cuts[i] : bytes;
        hash_span((const uint8_t *)data + at, end - at, out);
        out += blocks_in(end - at);
        at = end;
    }
    return SKIPPY_OK;
}
