/* The caller's allocator hooks, with malloc and free behind the default. */
#ifndef SKIPPY_CACHE_MEM_H
#define SKIPPY_CACHE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "skippy/allocator.h"

/* The hooks to use from now on: *hooks, or malloc and free when hooks is NULL. */
skippy_allocator sk_mem_hooks(const skippy_allocator *hooks);
/* True when hooks is NULL or both functions are set. */
bool sk_mem_hooks_valid(const skippy_allocator *hooks);

/* Zero-filled memory of `size` > 0 bytes, NULL when the hook has none. */
void *sk_mem_alloc(const skippy_allocator *a, size_t size);
/* The same without the zeroes, for memory that is filled at once. */
void *sk_mem_alloc_raw(const skippy_allocator *a, size_t size);
/* block may be NULL. */
void sk_mem_release(const skippy_allocator *a, void *block);

#endif
