/* Paths that must not leave a folder, whatever links lead to. Thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_ROOT_PATH_H
#define SKIPPY_BENCH_FAMILY_ROOT_PATH_H

#include <limits.h>

#include "base/err.h"

/* Follows every link of path into real. real_root is canonical (realpath). Errors: SKIPPY_E_NOT_FOUND (a link or the
 * path itself leads nowhere), SKIPPY_E_INVALID (it ends outside of the root). */
int sk_root_resolve(const char *real_root, const char *path, char real[PATH_MAX], sk_err *e);

#endif
