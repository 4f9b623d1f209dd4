/* Stage files: a GGUF that holds the layers [start, end) of a model and loads in unmodified llama.cpp.
 *
 * CAVEATS, read first:
 *  - A stage computes what the whole model computes only where the rules say so (topology/split_rule.h, and what only
 * the file can tell: shared layers, pattern arrays, n_layer-dependent scales). Everything else is refused with the
 * reason: llama.cpp would abort or be silently wrong.
 *  - Bytes are deterministic: the same source and range give the same file. */
#ifndef SKIPPY_RUNTIME_SLICE_H
#define SKIPPY_RUNTIME_SLICE_H

#include "base/err.h"
#include "runtime/tensor_source.h"
#include "topology/capability.h"

/* Version of the rules below; part of cache file names and of `skippy.stage.version`. */
#define SK_SLICE_VERSION 1

/* Number of layers that can be cut: block_count without MTP layers (which are dropped from every stage). */
int32_t sk_slice_layers(const sk_tensor_source *s);

/* May these layers be a stage of this model? SKIPPY_OK; SKIPPY_E_UNSUPPORTED with the reason and, where there is one,
 * what to do instead (nearest cuts that work); SKIPPY_E_INVALID: not a range of this model. The whole range is always
 * fine. */
int sk_slice_check(const sk_tensor_source *s, sk_layer_range r, sk_err *e);

/* Bytes of tensor data that the stage file will hold; 0 for what is not a range of this model. */
uint64_t sk_slice_bytes(const sk_tensor_source *s, sk_layer_range r);

/* done and total in bytes; returns false to stop. */
typedef bool (*sk_slice_progress)(void *ud, uint64_t done, uint64_t total);

/* Writes the stage file: to a temporary name beside path, synced, renamed. Adds the metadata
 *   skippy.stage.version u32, .layer_start u32, .layer_end u32, .layer_count u32 (sk_slice_layers of the whole model),
 *   .source str (64 hex digits of the source's digest), .source_name str, .width u32 (n_embd).
 * Errors: those of sk_slice_check, SKIPPY_E_IO, SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED, SKIPPY_E_CORRUPT (from the source).
 */
int sk_slice_write(sk_tensor_source *s, sk_layer_range r, const char *path, sk_slice_progress progress, void *ud,
                   sk_err *e);

/* The stage file in a cache folder: "{16 hex of source}-{start}-{end}-v{version}.gguf" beside a record with the file's
 * size and BLAKE3 digest. Written when it is not there; when it is, its record, size, stage metadata and content are
 * checked, the content by its digest, which is remembered in digest_dir (skippy_file_digest). A file that does not
 * agree is written anew. A lock file keeps two processes from writing the same file at once: the second waits and takes
 * the first one's. max_bytes: files of this folder that were used longest ago are removed until the new one fits (0 =
 * no limit); a file that is in use stays, since it is held by a shared lock until sk_slice_release. *path is malloc'ed.
 * Errors: those of sk_slice_write; SKIPPY_E_TOO_LARGE: the stage alone is larger than max_bytes. */
typedef struct sk_slice_cache {
    const char *dir;
    uint64_t max_bytes;
    const char *digest_dir; /* NULL: the whole file is read each time */
} sk_slice_cache;
typedef struct sk_slice_file {
    char *path;
    int lock;          /* descriptor of the shared lock, -1 = none */
    bool written;      /* false: it was there */
    skippy_key digest; /* of the stage file's content */
} sk_slice_file;
int sk_slice_materialise(sk_tensor_source *s, sk_layer_range r, const sk_slice_cache *c, sk_slice_progress progress,
                         void *ud, sk_slice_file *out, sk_err *e);
void sk_slice_release(sk_slice_file *f);

#endif
