/* Memory whose resident size is known to the page: what is freed leaves the process at once.
 *
 * malloc cannot promise that: it keeps freed pieces for later, and after the first release of a large piece it serves
 * large pieces from the heap, too, where they are trapped between others. One mmap per piece cannot either: Linux
 * allows some 65,000 mappings in a process. So pieces of one size class lie side by side in a region:
 *
 *   region, 32 MiB of address space, aligned to its size      (the address of any piece leads to its region)
 *   +--------+---------+---------+---------+ - - - - - - - +
 *   | header | slot    | slot    | slot    |  never touched |
 *   +--------+---------+---------+---------+ - - - - - - - +
 *
 * A slot is a whole number of pages; its surplus over the piece is never touched and costs address space only. A freed
 * slot is given back to the system with madvise, the last one takes its region along; a few freed slots may be kept
 * warm for the next piece of their size, because first touches are the dearest part of filling a piece (on some virtual
 * machines twenty times the copy). Pieces of at most
 * SK_POOL_SMALL_MAX bytes share one-page slots ("runs"); pieces larger than the largest slot have mappings of their
 * own.
 *
 * Not thread-safe. Linux (and other systems whose MADV_DONTNEED drops anonymous pages at once). */
#ifndef SKIPPY_CACHE_POOL_H
#define SKIPPY_CACHE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"

/* A multiple of the system's page. Kernels for x86-64 have pages of 4 KiB, others up to 64 KiB. */
#if defined(__x86_64__) || defined(__i386__)
#define SK_POOL_PAGE ((size_t)4096)
#else
#define SK_POOL_PAGE ((size_t)65536)
#endif

enum {
    SK_POOL_SMALL_STEP = 64,
    SK_POOL_SMALL_MAX = 960,
    SK_POOL_SMALL_CLASSES = SK_POOL_SMALL_MAX / SK_POOL_SMALL_STEP,
    SK_POOL_PAGE_CLASSES = 64,
    SK_POOL_WARM_MAX = 1024
};

typedef struct sk_pool_region sk_pool_region;
typedef struct sk_pool_run sk_pool_run;

typedef struct sk_pool {
    sk_pool_region *open[SK_POOL_PAGE_CLASSES]; /* regions with free slots; [0] holds runs, [c] slots of class c */
    sk_pool_run *partial[SK_POOL_SMALL_CLASSES];
    uint64_t resident; /* bytes of pages in use, headers and warm slots included: an upper bound of what the process
                        * holds for the pool */
    uint64_t limit;    /* warm slots are given up before `resident` exceeds it; 0: none are kept */
    uint64_t warm, warm_limit; /* bytes of warm slots, and the most of them to keep */
    void *warm_slot[SK_POOL_WARM_MAX];
    size_t n_warm;
} sk_pool;

/* limit, warm_limit: see the struct. */
void sk_pool_init(sk_pool *p, uint64_t limit, uint64_t warm_limit);
/* Gives warm slots back until `bytes` more keep the limit, or none is left. */
void sk_pool_cool(sk_pool *p, uint64_t bytes);
/* 16-byte aligned; pieces over SK_POOL_SMALL_MAX start on a page (after a header when they have their own mapping).
 * Not zeroed. NULL when the system has no memory, or size is 0. */
void *sk_pool_alloc(sk_pool *p, size_t size);
/* piece may be NULL. When the last piece is gone and the pool is cooled, nothing of it is left. */
void sk_pool_release(sk_pool *p, void *piece);
/* Brings a fresh piece into memory in one go: on virtual machines a page fault costs more than filling the page. Only
 * saves time, never fails. Thread-safe. */
void sk_pool_prefault(void *piece, size_t size);
/* The most that one piece adds to `resident`, apart from started runs and headers: those add at most
 * SK_POOL_SLACK however many pieces there are. */
uint64_t sk_pool_charge(size_t size);
#define SK_POOL_SLACK ((uint64_t)24 * SK_POOL_PAGE)
/* The pool as allocator hooks. */
skippy_allocator sk_pool_hooks(sk_pool *p);

#endif
