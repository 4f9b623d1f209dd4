/* The output folder of a preparation, and that it does not touch what is measured. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PREPARE_FOLDER_H
#define SKIPPY_BENCH_FAMILY_PREPARE_FOLDER_H

#include "bench/family/operator.h"

/* Makes out_dir, or takes it when it is empty. Behind all links it must neither lie in the cache root, the native build
 * or a toolkit folder nor contain one of them: the pins of these folders would change with every file that is written.
 * Errors: SKIPPY_E_INVALID (not disjoint, not empty, no folder), SKIPPY_E_NOT_FOUND (a folder of the request, or the
 * one in which out_dir is to be made), SKIPPY_E_IO. */
int sk_prepare_folder(const char *out_dir, const sk_operator *op, sk_err *e);
/* Library paths of the request must lie in a pinned folder also behind their links. Errors: SKIPPY_E_INVALID,
 * SKIPPY_E_NOT_FOUND. */
int sk_prepare_library_paths(const sk_operator *op, sk_err *e);

#endif
