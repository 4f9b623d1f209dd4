#include "skippy/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "cache/identity_codec.h"

static void hash_sink(void *ud, const void *data, size_t len) {
    sk_hash_update(ud, data, len);
}

int skippy_namespace_key(const skippy_identity *id, skippy_key *out) {
    if (!id || !out) return SKIPPY_E_INVALID;
    sk_hasher h;
    sk_hash_init(&h);
    int status = sk_identity_encode(id, hash_sink, &h);
    if (status == SKIPPY_OK) sk_hash_final(&h, out->bytes);
    return status;
}

/* Opens the encoding of a prefix: the namespace key as a field of its own, then the header of a last field without a
 * length, because one pass over the tokens yields the keys of many lengths. Its first tag keeps it apart from every
 * encoding of a namespace. */
static void prefix_begin(sk_hasher *h, const skippy_key *ns) {
    static const uint8_t namespace_header[] = {0x01, 0x80, 32, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t tokens_header[] = {0x02, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    sk_hash_init(h);
    sk_hash_update(h, namespace_header, sizeof namespace_header);
    sk_hash_update(h, ns->bytes, sizeof ns->bytes);
    sk_hash_update(h, tokens_header, sizeof tokens_header);
}

static void prefix_feed(sk_hasher *h, const int32_t *tokens, size_t n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    sk_hash_update(h, tokens, n * sizeof *tokens);
#else
    for (size_t i = 0; i < n; i++) {
        uint32_t v = (uint32_t)tokens[i];
        uint8_t le[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
        sk_hash_update(h, le, sizeof le);
    }
#endif
}

int skippy_prefix_keys(const skippy_key *ns, const int32_t *tokens, size_t n_tokens, const size_t *lengths,
                       size_t n_lengths, skippy_key *out) {
    if (!ns || n_tokens > SIZE_MAX / sizeof *tokens) return SKIPPY_E_INVALID;
    if (n_lengths == 0) return SKIPPY_OK;
    if (!tokens || !lengths || !out) return SKIPPY_E_INVALID;
    size_t last = 0;
    for (size_t i = 0; i < n_lengths; last = lengths[i++])
        if (lengths[i] <= last || lengths[i] > n_tokens) return SKIPPY_E_INVALID;

    sk_hasher h;
    prefix_begin(&h, ns);
    size_t done = 0;
    for (size_t i = 0; i < n_lengths; i++) {
        prefix_feed(&h, tokens + done, lengths[i] - done);
        done = lengths[i];
        sk_hash_final(&h, out[i].bytes);
    }
    return SKIPPY_OK;
}

int skippy_prefix_key(const skippy_key *ns, const int32_t *tokens, size_t n_tokens, skippy_key *out) {
    if (!out || n_tokens == 0) return SKIPPY_E_INVALID;
    return skippy_prefix_keys(ns, tokens, n_tokens, &n_tokens, 1, out);
}

bool skippy_key_equal(const skippy_key *a, const skippy_key *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* snprintf's result as a status. */
static int written(int n, size_t cap) {
    if (n < 0) return SKIPPY_E_INVALID;
    return (size_t)n < cap ? SKIPPY_OK : SKIPPY_E_TOO_SMALL;
}

int skippy_page_id(char *buf, size_t cap, const char *stage_id, uint64_t token_start, uint64_t token_count,
                   uint32_t layer_start, const skippy_key *prefix_key) {
    if (!buf || cap == 0 || !stage_id || !prefix_key) return SKIPPY_E_INVALID;
    char hex[17];
    sk_hex(prefix_key->bytes, 8, hex);
    int n = snprintf(buf, cap, "%s:%" PRIu64 ":%" PRIu64 ":%" PRIu32 ":%s", stage_id, token_start, token_count,
                     layer_start, hex);
    return written(n, cap);
}

int skippy_activation_id(char *buf, size_t cap, const char *page_id, uint32_t activation_width) {
    if (!buf || cap == 0 || !page_id) return SKIPPY_E_INVALID;
    return written(snprintf(buf, cap, "act:%s:w%" PRIu32, page_id, activation_width), cap);
}
