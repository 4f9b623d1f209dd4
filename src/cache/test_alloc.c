#include "cache/test_alloc.h"

#include <stdlib.h>

static void *heap_alloc(void *ud, size_t size) {
    test_heap *h = ud;
    h->calls++;
    if (h->fail_all || h->calls == h->fail_at) return NULL;
    void *block = malloc(size);
    h->live += block != NULL;
    return block;
}

static void heap_release(void *ud, void *block) {
    test_heap *h = ud;
    if (block) h->live--;
    free(block);
}

skippy_allocator test_heap_hooks(test_heap *heap) {
    return (skippy_allocator){heap_alloc, heap_release, heap};
}
