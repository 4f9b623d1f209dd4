/* Prefix identity: which prompts may share runtime state.
 *
 * CAVEATS, read first:
 *  - A key says "these bytes were computed by this model, this way, for these tokens". It does not say
 *    that two machines compute equal bits, and it is not an authorisation: the tenant is a field like
 *    any other, and the caller must take it from the credential, never from the request body.
 *  - A NULL string and an empty string are different values.
 *  - The short page id is for logs. A hit compares the 256-bit key and the tokens.
 *  - Floats count by their bits: -0 and 0 are different values.
 *  - weights_digest must be a content digest (skippy_file_digest), not a name.
 *
 * Thread-safety: all functions are pure (skippy_file_digest touches the file system only).
 * Format of the hashed bytes: docs/formats/identity.md; golden vectors are in the tests. */
#ifndef SKIPPY_IDENTITY_H
#define SKIPPY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the encoding. It is hashed first, so a change turns every older key into a miss. */
#define SKIPPY_IDENTITY_VERSION 1

/* A BLAKE3-256 digest. */
typedef struct skippy_key {
    uint8_t bytes[32];
} skippy_key;

typedef struct skippy_adapter {
    skippy_key digest; /* content digest of the LoRA file */
    float scale;
} skippy_adapter;

/* Everything but the tokens. All strings are NUL-terminated and borrowed for the call; NULL = absent.
 * Zero-initialise, then fill in. */
typedef struct skippy_identity {
    skippy_key weights_digest;
    const char *model_id;    /* display name; hashed, but never enough alone */
    const char *topology_id; /* shape of the split, e.g. "1" or "0-8,8-16"; never a run id */
    const char *stage_id;
    uint32_t stage_index;
    uint32_t layer_start, layer_end;   /* [start, end) */
    const char *runtime_abi;           /* llama.cpp version, build flags, codec version */
    const char *kv_type_k, *kv_type_v; /* ggml type names: "f16", "q8_0" ... */
    int flash_attn;                    /* 0 off, 1 on: the resolved choice, not "auto" */
    bool kv_unified;
    bool swa_full;
    const char *kv_layout;                 /* name of the layout, e.g. "llama.cpp-unified-1" */
    uint32_t n_ctx;                        /* cells of the context */
    float rope_freq_base, rope_freq_scale; /* 0 = from the model */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    const skippy_adapter *adapters; /* in application order */
    size_t n_adapters;
    const char *backend_device; /* "CPU", "CUDA0" ... */
    const char *cpu_arch;       /* "x86_64" ... */
    bool big_endian;
    const char *batch_schedule;  /* non-NULL only in bit-exact mode: "rows=60;pad=4" ... */
    const char *tenant;          /* from the credential */
    const char *cache_namespace; /* prompt_cache_key of the request */
    uint64_t token_start;        /* absolute position of the first token (0 today) */
} skippy_identity;

/* Digest over everything but the tokens. Errors: SKIPPY_E_INVALID (id or out NULL, adapters NULL with n_adapters > 0).
 */
SKIPPY_API int skippy_namespace_key(const skippy_identity *id, skippy_key *out);

/* Prefix keys of many lengths in one pass over the tokens.
 * lengths: n_lengths strictly ascending values in 1..n_tokens. out: n_lengths keys, same order.
 * Cost: O(n_tokens + n_lengths). Errors: SKIPPY_E_INVALID. */
SKIPPY_API int skippy_prefix_keys(const skippy_key *ns, const int32_t *tokens, size_t n_tokens, const size_t *lengths,
                                  size_t n_lengths, skippy_key *out);

/* One key: the prefix of all n_tokens tokens. */
SKIPPY_API int skippy_prefix_key(const skippy_key *ns, const int32_t *tokens, size_t n_tokens, skippy_key *out);

/* Compares all 256 bits. Not constant-time: keys are not secrets. */
SKIPPY_API bool skippy_key_equal(const skippy_key *a, const skippy_key *b);

/* "stage:token_start:token_count:layer_start:16 hex digits". Writes at most cap bytes with the NUL.
 * Errors: SKIPPY_E_TOO_SMALL, SKIPPY_E_INVALID. */
SKIPPY_API int skippy_page_id(char *buf, size_t cap, const char *stage_id, uint64_t token_start, uint64_t token_count,
                              uint32_t layer_start, const skippy_key *prefix_key);

/* "act:{page_id}:w{activation_width}". Same errors. */
SKIPPY_API int skippy_activation_id(char *buf, size_t cap, const char *page_id, uint32_t activation_width);

/* Called while a file is digested; returns false to stop. */
typedef bool (*skippy_progress_fn)(void *ud, uint64_t done_bytes, uint64_t total_bytes);

/* Content digest of a file, remembered in cache_dir under (canonical path, size, mtime and ctime in ns, inode), so that
 * a second call for the same file reads a few hundred bytes. cache_dir NULL or empty: always read everything.
 * A damaged or foreign cache record is ignored and rewritten. *from_cache (may be NULL) tells which it was.
 * A file that changed less than two seconds ago gets no record yet: its times could not tell another change.
 * cache_dir and its missing parents are created with mode 0700, records with mode 0600. Reads in pieces of 2 MiB.
 * Errors: SKIPPY_E_INVALID, SKIPPY_E_NOT_FOUND, SKIPPY_E_IO (not a readable regular file, or it changed while it was
 * read), SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED (progress returned false). A record that cannot be written is not an error:
 * the digest is right all the same. */
SKIPPY_API int skippy_file_digest(const char *path, const char *cache_dir, skippy_progress_fn progress, void *ud,
                                  skippy_key *out, bool *from_cache);

#ifdef __cplusplus
}
#endif
#endif
