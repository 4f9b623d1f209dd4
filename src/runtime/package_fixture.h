/* Test support: small models written with llama.cpp's GGUF functions, and comparisons. Not part of the product. */
#ifndef SKIPPY_RUNTIME_PACKAGE_FIXTURE_H
#define SKIPPY_RUNTIME_PACKAGE_FIXTURE_H

#include <stdbool.h>

#include "base/buf.h"
#include "runtime/package.h"

enum { MODEL_LAYERS = 3, MODEL_WIDTH = 32 };

/* A model of the architecture llama with tensors of sizes that need padding. Its bytes follow from these values. */
typedef struct model_spec {
    const char *name; /* general.name; NULL: none */
    unsigned seed;
    bool tied;         /* no output.weight */
    bool half;         /* matrices as F16 */
    int changed_layer; /* this layer has other bytes than the seed gives; -1 = none */
} model_spec;

/* Everything in one file. A failure fails the running test. */
void fixture_model(const char *path, const model_spec *spec);
/* The same model as two shards, DIR/model-0000i-of-00002.gguf; first: gets the first shard's path. */
void fixture_shards(const char *dir, const model_spec *spec, char *first, size_t cap);

/* Opens, packs, closes. */
void fixture_package(const char *model, const char *dir);

/* Metadata (split.* apart), tensors and all their bytes are the same. */
void assert_same_source(sk_tensor_source *a, sk_tensor_source *b);

/* The manifest of a package in a folder. The caller frees. */
void fixture_manifest(const char *dir, sk_package *out);
/* The part with this role (and layer), which must be there. */
const sk_package_part *fixture_part(const sk_package *p, enum sk_part_role role, int32_t layer);
/* Files in DIR/parts. */
size_t fixture_count_parts(const char *dir);

#endif
