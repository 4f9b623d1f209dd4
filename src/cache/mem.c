#include "cache/mem.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ud, size_t size) {
    (void)ud;
    return malloc(size);
}

static void default_release(void *ud, void *block) {
    (void)ud;
    free(block);
}

skippy_allocator sk_mem_hooks(const skippy_allocator *hooks) {
    if (hooks) return *hooks;
    return (skippy_allocator){default_alloc, default_release, NULL};
}

bool sk_mem_hooks_valid(const skippy_allocator *hooks) {
    return !hooks || (hooks->alloc && hooks->release);
}

void *sk_mem_alloc(const skippy_allocator *a, size_t size) {
    void *block = a->alloc(a->ud, size);
    if (block) memset(block, 0, size);
    return block;
}

void *sk_mem_alloc_raw(const skippy_allocator *a, size_t size) {
    return a->alloc(a->ud, size);
}

void sk_mem_release(const skippy_allocator *a, void *block) {
    if (block) a->release(a->ud, block);
}
