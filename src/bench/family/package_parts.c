#include "bench/family/package_parts.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/package.h"

static bool part_is_there(const char *package, const sk_package_part *part) {
    char path[1200];
    const int n = snprintf(path, sizeof path, "%s/%s", package, part->path);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

bool sk_package_parts_before(const char *package, int32_t end) {
    const sk_package_access look = {.location = package};
    const sk_layer_range before = {.start = 0, .end = end};
    sk_package p;
    if (end <= 0 || sk_package_load(&look, &p, NULL) != SKIPPY_OK) {
        return false;
    }
    bool whole = true;
    for (size_t i = 0; whole && i < p.n_parts; i++) {
        whole = !sk_package_stage_needs(&p, before, &p.parts[i]) || part_is_there(package, &p.parts[i]);
    }
    sk_package_free(&p);
    return whole;
}
