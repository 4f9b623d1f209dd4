/* For tests only: a layer package of a model file. Apart from tiny_gguf.h, because runtime/package.h and
 * bench/family/locate.h have an enumerator in common and do not go into one file. */
#ifndef SKIPPY_BENCH_FAMILY_TINY_PACKAGE_H
#define SKIPPY_BENCH_FAMILY_TINY_PACKAGE_H

#include <stdbool.h>

/* False when it could not be made. */
bool tiny_package_write(const char *model, const char *folder);

#endif
