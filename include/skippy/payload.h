/* Payloads: exact runtime state that left the runtime, cut into content-addressed blocks.
 *
 * CAVEATS, read first:
 *  - Experimental: this interface may change in any version.
 *  - A manifest describes state; the blocks hold it. A store accepts a manifest whole or not at all, and never returns
 *    a block whose bytes do not match the digest that the manifest names.
 *  - The stores do not know what the bytes mean. Whoever exported them must check, before an import, that `layout` and
 *    the namespace key are those of the running context.
 *  - Payload kinds say what may continue from the state: FULL_STATE and RECURRENT_ONLY are for diagnosis, a serving
 *    policy never selects them.
 *
 * Vocabulary. A payload belongs to one prefix (namespace key + tokens). It consists of parts; a part covers token
 * positions [from, to) and is the concatenation of its blocks:
 *
 *    prefix of 600 tokens   |---- 256 ----|---- 256 ----|- 88 -|
 *    parts                   KV [0,256)    KV [256,512)  KV [512,600)   STATE at 600 (recurrent or window state)
 *    blocks of one part      frame | K layer 0 | K layer 1 | ... | V layer 0 | ...   (each at most 1 MiB)
 *
 * A growing conversation shares its full windows, so their blocks are stored once. */
#ifndef SKIPPY_PAYLOAD_H
#define SKIPPY_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/error.h"
#include "skippy/identity.h"
#include "skippy/index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest block. Longer spans are cut at multiples of it. */
#define SKIPPY_BLOCK_MAX ((size_t)1 << 20)

/* Values are written to disk: never renumbered. */
enum skippy_payload_kind {
    SKIPPY_PAYLOAD_RESIDENT_KV = 1,    /* attention state; with a sliding window also the window at the end */
    SKIPPY_PAYLOAD_KV_RECURRENT = 2,   /* attention and recurrent state; production for hybrid and recurrent models */
    SKIPPY_PAYLOAD_FULL_STATE = 3,     /* one opaque export of everything: diagnostic */
    SKIPPY_PAYLOAD_RECURRENT_ONLY = 4, /* recurrent state without its KV: diagnostic */
    SKIPPY_PAYLOAD_TERMINAL = 5        /* logits row after the last token, f32 little endian */
};
enum skippy_part_kind {
    SKIPPY_PART_KV = 1,     /* keys and values of positions [from, to) */
    SKIPPY_PART_STATE = 2,  /* recurrent state, or sliding-window cells, at position `to` */
    SKIPPY_PART_OPAQUE = 3, /* a whole export whose layout could not be read */
    SKIPPY_PART_LOGITS = 4
};
/* Why an entry was stored; kept for people who inspect a store. */
enum skippy_reason {
    SKIPPY_REASON_WRITE_BEHIND = 1, /* copied while it was still resident */
    SKIPPY_REASON_DEMOTED = 2,      /* evicted from the tier above */
    SKIPPY_REASON_SHUTDOWN = 3,
    SKIPPY_REASON_CERTIFY = 4
};

typedef struct skippy_block_ref {
    skippy_key digest; /* BLAKE3-256 of the block's bytes */
    uint32_t bytes;    /* 1 .. SKIPPY_BLOCK_MAX */
} skippy_block_ref;

typedef struct skippy_part {
    uint8_t kind; /* enum skippy_part_kind */
    uint64_t from, to;
    const skippy_block_ref *blocks;
    size_t n_blocks;
} skippy_part;

/* Everything about an entry but its bytes. Pointers are borrowed: from the caller in a put, from the store in a view
 * (valid until the lease that gave it ends). */
typedef struct skippy_manifest {
    skippy_key ns;         /* namespace key */
    skippy_key prefix_key; /* skippy_prefix_key(ns, tokens) */
    skippy_key layout;     /* digest of the state layout that the parts were cut for */
    uint8_t payload_kind, reach /* enum skippy_reach */, reason;
    const int32_t *tokens;
    size_t n_tokens;
    const char *tenant;           /* NULL = none */
    const char *cache_namespace;  /* NULL = none */
    double cost_ms;               /* measured cost of computing it anew */
    uint64_t created_ms, used_ms; /* Unix time; for people and for recency after a restart, never for correctness */
    uint64_t hits;
    const skippy_part *parts;
    size_t n_parts;
} skippy_manifest;

/* Supplies a block's bytes during a put, for blocks that the store does not hold yet. *data stays valid until the next
 * call or the end of the put. Any error other than SKIPPY_OK aborts the put, and nothing of the entry is kept. */
typedef int (*skippy_block_source)(void *ud, const skippy_block_ref *block, const void **data);

/* An entry left the store by itself (evicted, quarantined): remove it from every index. Called without locks held, on
 * the thread whose call caused it; must not call back into the store. */
enum skippy_drop_reason {
    SKIPPY_DROP_EVICTED = 0,
    SKIPPY_DROP_CORRUPT = 1, /* a block failed its digest */
    SKIPPY_DROP_ERASED = 2,
    SKIPPY_DROP_SUPERSEDED = 3,
    SKIPPY_DROP_REASONS = 4
};
typedef void (*skippy_dropped_fn)(void *ud, uint64_t id, enum skippy_drop_reason reason);

/* Which entries an erase means. Fields that are unset (NULL, 0) match everything, all set fields must match. */
typedef struct skippy_erase_filter {
    const char *tenant;          /* exact */
    const char *cache_namespace; /* exact */
    const skippy_key *ns;
    const int32_t *tokens; /* entries whose tokens begin with these */
    size_t n_tokens;
} skippy_erase_filter;

/* Does the filter mean this entry? A name that is set never means an entry without one. Pure. */
SKIPPY_API bool skippy_erase_matches(const skippy_erase_filter *f, const skippy_manifest *m);

/* Sum of the lengths of all blocks of all parts (logical_bytes may be NULL). SKIPPY_E_INVALID when it overflows or a
 * field is out of its range (kinds, reach, reason, a cost that is negative or not finite, block sizes, from > to,
 * to > n_tokens, no tokens, no parts, a part without blocks): what every store checks before it accepts a manifest.
 * Whether prefix_key belongs to ns and tokens is not checked: that costs a hash over the tokens. Pure. */
SKIPPY_API int skippy_manifest_check(const skippy_manifest *m, uint64_t *logical_bytes);

/* Digest and length of one block. Pure. Errors: SKIPPY_E_INVALID (0 or more than SKIPPY_BLOCK_MAX bytes). */
SKIPPY_API int skippy_block_digest(const void *data, size_t bytes, skippy_block_ref *out);

/* Cuts [0, bytes) into blocks: at each of the n_cuts ascending offsets (all above 0, the last one equal to bytes; NULL
 * and 0 = no cuts), and inside a span at multiples of SKIPPY_BLOCK_MAX from the span's own beginning, and hashes each.
 * Writes at most cap references, *n_out says how many there are (SKIPPY_E_TOO_SMALL when cap was not enough: nothing
 * was hashed; out NULL and cap 0 is a way to ask). No bytes are no blocks. SKIPPY_E_INVALID (cuts). Pure. */
SKIPPY_API int skippy_blocks_cut(const void *data, size_t bytes, const size_t *cuts, size_t n_cuts,
                                 skippy_block_ref *out, size_t cap, size_t *n_out);

/* Counters that all stores report. Bytes. */
typedef struct skippy_store_stats {
    uint64_t entries, leased, blocks, block_refs;
    uint64_t logical_bytes;  /* sum over entries of their payloads */
    uint64_t physical_bytes; /* what the store occupies, its own metadata included: the caps are on this number */
    uint64_t block_bytes;    /* unique blocks only; saved = logical - block_bytes */
    uint64_t max_bytes;
    uint64_t puts, put_bytes /* new blocks written */, refused_too_large, refused_full, refused_io;
    uint64_t reads, read_bytes, corrupt_blocks;
    uint64_t dropped[SKIPPY_DROP_REASONS];
    uint64_t hash_ns; /* spent on digests in puts and reads */
} skippy_store_stats;

#ifdef __cplusplus
}
#endif
#endif
