/* Which parts of a layer package lie in its folder. Thread-safe (no shared state). */
#ifndef SKIPPY_BENCH_FAMILY_PACKAGE_PARTS_H
#define SKIPPY_BENCH_FAMILY_PACKAGE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* Does the folder of a package hold every part that layers 0 to end - 1 need? False when end is 0 or the manifest
 * cannot be read. */
bool sk_package_parts_before(const char *package, int32_t end);

#endif
