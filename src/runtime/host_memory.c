#include "runtime/host_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cgroup without a limit reports a number near 2^63 (version 1) or "max" (version 2). */
#define NO_LIMIT (UINT64_C(1) << 60)

static uint64_t smaller_known(uint64_t a, uint64_t b) {
    if (a == 0) return b;
    if (b == 0) return a;
    return a < b ? a : b;
}

/* The number that follows the name at the line's beginning. */
static bool number_after(const char *line, const char *name, uint64_t *out) {
    size_t len = strlen(name);
    if (strncmp(line, name, len) != 0) return false;
    char *end;
    errno = 0;
    *out = strtoull(line + len, &end, 10);
    return end != line + len && errno == 0;
}

static void read_meminfo(const char *root, sk_host_memory *out) {
    char path[1200], line[256];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *f = fopen(path, "re");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        uint64_t kib;
        if (number_after(line, "MemTotal:", &kib) && kib < UINT64_MAX / 1024) out->total = kib * 1024;
        if (number_after(line, "MemAvailable:", &kib) && kib < UINT64_MAX / 1024) out->available = kib * 1024;
    }
    fclose(f);
}

static uint64_t read_limit(const char *root, const char *mount, const char *group, const char *file) {
    char path[3000], line[64];
    snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    uint64_t v = 0;
    if (!fgets(line, sizeof line, f) || !number_after(line, "", &v) || v >= NO_LIMIT) v = 0;
    fclose(f);
    return v;
}

/* The smallest limit of a group and its parents: any of them can stop the process. */
static uint64_t limit_of(const char *root, const char *mount, char *group, const char *file) {
    uint64_t least = 0;
    for (;;) {
        size_t n = strlen(group);
        while (n && group[n - 1] == '/') group[--n] = 0;
        least = smaller_known(least, read_limit(root, mount, group, file));
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Lines are "0::/path" (version 2) and "7:memory:/path" (version 1). Inside a container the path may not exist below
 * the mount; the walk up to the root then still finds the container's own limit. */
static uint64_t read_cgroups(const char *root) {
    char path[1200], line[1200];
    uint64_t least = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (strcmp(controllers + 1, "") == 0)
            least = smaller_known(least, limit_of(root, "/sys/fs/cgroup", group, "memory.max"));
        else if (strcmp(controllers + 1, "memory") == 0)
            least = smaller_known(least, limit_of(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
    fclose(f);
    return least;
}

void sk_host_memory_read(const char *root, sk_host_memory *out) {
    memset(out, 0, sizeof *out);
    read_meminfo(root, out);
    out->total = smaller_known(out->total, read_cgroups(root));
    if (out->total && out->available > out->total) out->available = out->total;
}
