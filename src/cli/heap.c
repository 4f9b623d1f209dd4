#include "cli/heap.h"

#include <features.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void sk_heap_keep_large_blocks(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}
