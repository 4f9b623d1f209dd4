/* A model before it is loaded: its metadata and its tensors, whether they lie in one GGUF, in shards, or in a package.
 * What a stage needs is read from here, and nothing else is.
 * Thread-safety: one owner thread; the metadata is read-only. */
#ifndef SKIPPY_RUNTIME_TENSOR_SOURCE_H
#define SKIPPY_RUNTIME_TENSOR_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "skippy/identity.h"

struct gguf_context; /* gguf.h; only runtime/ looks inside */

typedef struct sk_tensor_desc {
    char name[64]; /* NUL-terminated (GGML_MAX_NAME) */
    uint32_t type; /* enum ggml_type */
    uint32_t n_dims;
    int64_t ne[4];
    uint64_t bytes; /* of its data */
    int32_t layer;  /* of "blk.N.": N; else -1 */
} sk_tensor_desc;

typedef struct sk_tensor_source {
    char arch[48];
    int32_t n_layer;   /* block_count, MTP layers included */
    skippy_key digest; /* content digest of the whole model (skippy_file_digest of one file; of the shards' digests in
                        * order; of the package's manifest): names the source in stage files and caches */
    char name[256];    /* general.name, else the file's or package's name; for people */
    struct gguf_context *meta; /* key-values of the whole model (of the first shard); owned */
    sk_tensor_desc *tensors;   /* owned; in file order */
    size_t n_tensors;
    /* Reads n bytes of a tensor's data at an offset. Errors in words: SKIPPY_E_IO, SKIPPY_E_CORRUPT,
     * SKIPPY_E_CANCELLED.
     */
    int (*read)(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e);
    /* Called before the tensors of a layer (-1: the others) are read, with what follows in order, so that a source that
     * fetches parts can do so. May be NULL. */
    int (*prepare)(void *ud, int32_t layer, sk_err *e);
    void (*close)(void *ud);
    void *ud;
} sk_tensor_source;

/* Opens a GGUF, or the first of several shards, after the checks of gguf_check.h. digest_dir: where content digests are
 * remembered (skippy_file_digest); NULL = nowhere. progress may be NULL: bytes of the digest. Reads headers only (and
 * each file once for its digest, when it is not remembered). Errors: those of sk_gguf_check_file, SKIPPY_E_CANCELLED,
 * SKIPPY_E_NOMEM, SKIPPY_E_IO. */
int sk_tensor_source_open_gguf(const char *path, const char *digest_dir, skippy_progress_fn progress, void *ud,
                               sk_tensor_source *out, sk_err *e);
/* A zeroed source is fine. */
void sk_tensor_source_close(sk_tensor_source *s);

/* Integer or boolean metadata under "{arch}.{key}" (key without the prefix) or under the key itself; false when absent
 * or of another type. */
bool sk_tensor_source_int(const sk_tensor_source *s, const char *key, int64_t *out);

#endif
