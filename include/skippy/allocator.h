/* Allocator hooks. NULL hooks mean malloc and free. The hooks must be thread-safe if the objects that use
 * them are used from several threads. */
#ifndef SKIPPY_ALLOCATOR_H
#define SKIPPY_ALLOCATOR_H

#include <stddef.h>

typedef struct skippy_allocator {
    void *(*alloc)(void *ud, size_t size);  /* may return NULL: the call fails with SKIPPY_E_NOMEM */
    void (*release)(void *ud, void *block); /* block may be NULL */
    void *ud;
} skippy_allocator;

#endif
