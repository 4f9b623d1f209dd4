/* A layer package as the family benchmark needs it: facts of its manifest, and whether one range of layers is there.
 * Not thread-safe (sk_package_load is not). */
#ifndef SKIPPY_BENCH_FAMILY_PACKAGE_FACTS_H
#define SKIPPY_BENCH_FAMILY_PACKAGE_FACTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sk_package_facts {
    char manifest[PATH_MAX]; /* FOLDER/model-package.json */
    char arch[48];
    int32_t layers, width;
    bool synthetic; /* the model's name says that its weights are not trained */
} sk_package_facts;

/* Reads the manifest in folder and looks for every part that a stage of layers [start, end) reads. Parts are not read,
 * but their sizes are compared, and none may lie outside of real_root (canonical). Errors: those of sk_package_load;
 * SKIPPY_E_NOT_FOUND (no manifest, a part is missing), SKIPPY_E_INVALID (not a folder, outside of the root, fewer
 * layers than end), SKIPPY_E_CORRUPT (size of a part). */
int sk_package_facts_read(const char *real_root, const char *folder, int32_t start, int32_t end, sk_package_facts *out,
                          sk_err *e);

#endif
