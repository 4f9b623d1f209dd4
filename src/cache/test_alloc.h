/* Allocator for tests: counts what is live and fails where the test says. */
#ifndef SKIPPY_CACHE_TEST_ALLOC_H
#define SKIPPY_CACHE_TEST_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "skippy/allocator.h"

typedef struct test_heap {
    size_t live;    /* blocks handed out and not released */
    size_t calls;   /* calls of alloc */
    size_t fail_at; /* the call with this number (from 1) fails; 0: none */
    bool fail_all;  /* every call fails */
} test_heap;

/* Hooks that use *heap, which must outlive them. */
skippy_allocator test_heap_hooks(test_heap *heap);

#endif
