/* How much memory this process may use, for refusing a model that cannot fit. */
#ifndef SKIPPY_RUNTIME_HOST_MEMORY_H
#define SKIPPY_RUNTIME_HOST_MEMORY_H

#include <stdint.h>

typedef struct sk_host_memory {
    uint64_t total;     /* bytes: physical memory or the cgroup's limit, whichever is smaller; 0 = unknown */
    uint64_t available; /* bytes the kernel can give without swapping, at most `total`; 0 = unknown */
} sk_host_memory;

/* Reads /proc/meminfo and the cgroup limits (version 2, and version 1's memory controller) below `root`, which is ""
 * for the real machine. Does file I/O; never fails: what cannot be read counts as unknown. */
void sk_host_memory_read(const char *root, sk_host_memory *out);

#endif
