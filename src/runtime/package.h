/* Packages: a model as content-addressed parts, so that a machine fetches only the layers that it runs.
 *
 *   DIR/model-package.json       the manifest (docs/formats/package.md)
 *   DIR/parts/<64 hex>.gguf      one part: a small GGUF without key-values, named by the BLAKE3 of its bytes
 *
 * Parts: "metadata" (all key-values and the tokenizer, no tensors), "embedding", "head" (output; the embedding counts
 * as part of the head where it is tied), "layer" 0..n-1, and "shared" (what every stage file has: final norm,
 * rope_freqs ...). A part that two packages share is stored once when they live in one folder of parts. Thread-safety:
 * one owner thread. */
#ifndef SKIPPY_RUNTIME_PACKAGE_H
#define SKIPPY_RUNTIME_PACKAGE_H

#include "base/err.h"
#include "runtime/slice.h"
#include "runtime/tensor_source.h"

#define SK_PACKAGE_FORMAT 1
#define SK_PACKAGE_MANIFEST "model-package.json"

enum sk_part_role { SK_PART_METADATA, SK_PART_EMBEDDING, SK_PART_HEAD, SK_PART_LAYER, SK_PART_SHARED, SK_PART_ROLES };

typedef struct sk_package_part {
    enum sk_part_role role;
    int32_t layer; /* of a layer; else -1 */
    char path[96]; /* relative to the manifest, "parts/....gguf" */
    uint64_t bytes, tensor_bytes;
    uint32_t n_tensors;
    skippy_key digest;
} sk_package_part;

/* A tensor of the model and the part that holds it. */
typedef struct sk_package_tensor {
    sk_tensor_desc desc;
    uint32_t part; /* position in parts */
} sk_package_tensor;

typedef struct sk_package {
    uint32_t format;
    char model_id[256], arch[48], family[64]; /* family: "" = unknown */
    int32_t n_layer, width;
    int32_t n_stage_layer;      /* layers that stages are made of: n_layer without MTP layers */
    skippy_key source_digest;   /* of the model that it was made from */
    skippy_key manifest_digest; /* of the manifest's bytes: identity of the package */
    sk_package_part *parts;     /* owned */
    size_t n_parts;
    sk_package_tensor *tensors; /* owned; in the order of the model's file, so that stage files come out the same */
    size_t n_tensors;
} sk_package;

/* The words of the manifest and of output for people; ends with NULL, the position is the enum's value. */
extern const char *const sk_part_role_names[SK_PART_ROLES + 1];

/* Reads a manifest. Every field is checked: unknown format, relative paths that leave the folder, missing or doubled
 * layers, sizes and digests that are not ones. Errors: SKIPPY_E_INVALID, SKIPPY_E_UNSUPPORTED (format), SKIPPY_E_NOMEM.
 */
int sk_package_parse(const char *json, size_t len, sk_package *out, sk_err *e);
void sk_package_free(sk_package *p);

/* Does a stage of layers [r.start, r.end) read this part? */
bool sk_package_stage_needs(const sk_package *p, sk_layer_range r, const sk_package_part *part);

/* Makes a package of a model. Parts that are there already (same digest, same size) are not written again. The manifest
 * is written last, so an interrupted run leaves no package and is continued by the next one. */
int sk_package_write(sk_tensor_source *s, const char *dir, sk_slice_progress progress, void *ud, sk_err *e);

typedef struct sk_package_problem {
    const sk_package_part *part;
    char text[200];
} sk_package_problem;
/* Reads every part of a package in a folder and compares size, digest and content (tensors, names). on_problem is
 * called for each that is wrong. SKIPPY_OK, SKIPPY_E_CORRUPT (there was a problem), others: could not be read at all.
 */
int sk_package_verify(const char *dir, sk_slice_progress progress, void *ud,
                      void (*on_problem)(void *ud, const sk_package_problem *p), sk_err *e);

/* Opens a package as a source of tensors. location: a folder, or http:// or https:// URL of the folder or of its
 * manifest. Parts of a URL are fetched into part_dir when they are needed (prepare), each by range requests that resume
 * what an earlier run left (`<hex>.part`), verified by size and digest before use, and removed by the close unless
 * keep_parts is set. Parts in a folder are verified before use, too. Only the parts that a stage needs are ever
 * fetched. ca_file: PEM of further authorities for https; NULL = the system's. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO
 * (with the HTTP status or the system's words), SKIPPY_E_CORRUPT (digest), those of sk_package_parse. */
typedef struct sk_package_access {
    const char *location, *part_dir, *ca_file;
    bool keep_parts;
    sk_slice_progress progress; /* bytes fetched of the current part; may be NULL */
    void *progress_ud;
} sk_package_access;
/* Reads the manifest alone, from a folder or a URL (part_dir, keep_parts and progress are not used). Errors: as below.
 */
int sk_package_load(const sk_package_access *a, sk_package *out, sk_err *e);
int sk_tensor_source_open_package(const sk_package_access *a, sk_tensor_source *out, sk_err *e);

#endif
