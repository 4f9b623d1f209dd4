/* Where a preset's model lies under an operator's cache root, and what exactly was found. Not thread-safe per result.
 */
#ifndef SKIPPY_BENCH_FAMILY_LOCATE_H
#define SKIPPY_BENCH_FAMILY_LOCATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/family/catalog.h"

typedef enum sk_found_status {
    SK_FOUND_PRESENT, /* "present-unqualified": it is there; nothing says yet that it is good */
    SK_FOUND_MISSING, /* "missing-model" */
    SK_FOUND_REFUSED  /* "refused": something is there that must not be used; why says it */
} sk_found_status;

typedef struct sk_found_file {
    char path[1024];            /* canonical: behind all links */
    char sha256[SK_SHA256_HEX]; /* "" until sk_found_digest */
    uint64_t bytes;
} sk_found_file;

typedef struct sk_found_model {
    sk_found_status status;
    char why[256];            /* missing: where was looked; refused: the reason */
    char requested[1024];     /* the path that was looked for first */
    char runtime_entry[1024]; /* what the programs get: the logical path (a Hugging Face link stays a link, so that
                                 shards find their siblings); "" unless present */
    const char *kind;         /* "single-gguf", "split-gguf-first-shard", "layer-package-tree" */
    sk_found_file file[SK_PRESET_MAX_SHARDS];
    size_t n_files; /* package: 1, its manifest */
    /* Read from the GGUF header, zero for a package whose manifest does not say: */
    char arch[48];
    int32_t layers, width;
    bool synthetic; /* the metadata says that the weights are not trained */
    char quant[32]; /* of the file name or the header, "" when neither says */
} sk_found_model;

/* Looks under root for, in this order: ROOT/KEY.gguf (or ROOT/KEY/ for a package); ROOT/FILE; ROOT/REPO/FILE;
 * ROOT/models--ORG--NAME/snapshots/REVISION.../FILE and then any other snapshot; the same below ROOT/hub. Split files
 * need every shard. Anything that resolves outside of root is refused, and so are wrong kinds (a folder for a GGUF, a
 * file without the magic number, a shard that is not the first). A missing model is no error. root must be absolute.
 * Errors: SKIPPY_E_INVALID (root), SKIPPY_E_NOT_FOUND (root is no folder), SKIPPY_E_IO. */
int sk_locate_model(const char *root, const sk_preset *p, sk_found_model *out, sk_err *e);
/* Fills the digests: reads every byte. Errors: those of sk_sha256_file. */
int sk_found_digest(sk_found_model *m, const sk_sha256_watch *w, sk_err *e);
const char *sk_found_status_name(sk_found_status s);

#endif
