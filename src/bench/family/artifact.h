/* Is what lies at a path the artifact that a preset wants, and what does it say about itself? Not thread-safe: loading
 * headers uses llama.cpp's process-wide log. */
#ifndef SKIPPY_BENCH_FAMILY_ARTIFACT_H
#define SKIPPY_BENCH_FAMILY_ARTIFACT_H

#include "bench/family/locate.h"

/* Looks at path, which exists, and fills out (but `requested`): status PRESENT with files and facts, or REFUSED with
 * the reason. real_root: the cache root behind all links; nothing outside of it is opened. A GGUF's header is read, and
 * its tensors' shapes are checked; weights are not. Errors: SKIPPY_E_NOMEM. */
int sk_artifact_read(const char *real_root, const char *path, const sk_preset *p, sk_found_model *out, sk_err *e);

#endif
