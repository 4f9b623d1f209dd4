/* Test support: where the generated test models are. Not part of the product. */
#ifndef SKIPPY_RUNTIME_TEST_MODELS_H
#define SKIPPY_RUNTIME_TEST_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Path of a generated model (below SKIPPY_TEST_MODELS, else in the build folder), or NULL and a printed reason when it
 * is not there. The next call overwrites the text. */
static inline const char *test_model_path(const char *family) {
    static char path[1024];
    const char *dir = getenv("SKIPPY_TEST_MODELS"), *build = getenv("SKIPPY_BUILD_DIR");
    if (dir)
        snprintf(path, sizeof path, "%s/%s.gguf", dir, family);
    else
        snprintf(path, sizeof path, "%s/tests/models/%s.gguf", build ? build : ".", family);
    if (access(path, R_OK) == 0) return path;
    printf("skipped: the test model '%s' is not there\n", path);
    return NULL;
}

#endif
