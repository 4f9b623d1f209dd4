/* Intrusive hash map: the link lives inside the element, so that adding one never allocates for itself and
 * therefore never fails.
 *
 *   bucket[hash & mask] -> link -> link -> NULL        (each link is a member of the caller's element)
 *
 * The bucket array doubles when there are as many elements as buckets. When memory for a larger array is not to be
 * had, the map goes on with longer chains: slower, still right. */
#ifndef SKIPPY_CACHE_MAP_H
#define SKIPPY_CACHE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"

typedef struct sk_map_link {
    struct sk_map_link *next;
    uint64_t hash;
} sk_map_link;

typedef struct sk_map {
    skippy_allocator alloc;
    sk_map_link **bucket;
    size_t n_buckets; /* a power of two */
    size_t count;
} sk_map;

/* False when out of memory. */
bool sk_map_init(sk_map *m, const skippy_allocator *alloc);
/* Frees the bucket array only: the elements are the caller's. */
void sk_map_free(sk_map *m);
void sk_map_add(sk_map *m, sk_map_link *link, uint64_t hash);
void sk_map_remove(sk_map *m, sk_map_link *link);
/* First link with this hash, then the next one with the same hash; NULL at the end. The caller compares the keys. */
sk_map_link *sk_map_first(const sk_map *m, uint64_t hash);
sk_map_link *sk_map_same(const sk_map_link *link);
/* Takes any element out, NULL when empty: for tearing everything down. */
sk_map_link *sk_map_pop(sk_map *m);
/* Bytes of the bucket array. */
size_t sk_map_bytes(const sk_map *m);

/* Spreads an integer over 64 bits (finaliser of splitmix64), so that sequential ids do not share buckets. */
uint64_t sk_map_hash_u64(uint64_t x);

#endif
