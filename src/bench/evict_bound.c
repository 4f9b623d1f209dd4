#include "bench/evict_bound.h"

#include <stdbool.h>
#include <stdlib.h>

/* Held blocks in a binary heap, the one that goes next on top.
 *   when[i]  next use of heap[i] as a position in the trace's path array; never used again = SIZE_MAX (never held) */
typedef struct bound {
    const sk_evict_trace *trace;
    size_t *next;   /* of each position in path: the next position of the same block, SIZE_MAX = none */
    size_t *when;   /* of each block: its next use, while it is held */
    size_t *place;  /* of each block: its place in the heap + 1, 0 = not held */
    uint32_t *heap; /* block numbers */
    size_t n;
} bound;

static void free_bound(bound *b) {
    free(b->next);
    free(b->when);
    free(b->place);
    free(b->heap);
}

static bool allocate(bound *b, const sk_evict_trace *t) {
    b->trace = t;
    b->next = calloc(t->n_path + 1, sizeof *b->next);
    b->when = calloc(t->n_blocks + 1, sizeof *b->when);
    b->place = calloc(t->n_blocks + 1, sizeof *b->place);
    b->heap = calloc(t->n_blocks + 1, sizeof *b->heap);
    return b->next && b->when && b->place && b->heap;
}

/* Fills next from the end of the trace; `when` serves as "last position seen" meanwhile. */
static void link_uses(bound *b) {
    const sk_evict_trace *t = b->trace;
    for (size_t i = 0; i < t->n_blocks; i++) b->when[i] = SIZE_MAX;
    for (size_t i = t->n_path; i-- > 0;) {
        b->next[i] = b->when[t->path[i]];
        b->when[t->path[i]] = i;
    }
}

/* ---- heap: later next use on top; positions are distinct, and inside one prompt a deeper block has the later one ----
 */

static void put_at(bound *b, size_t at, uint32_t block) {
    b->heap[at] = block;
    b->place[block] = at + 1;
}

static void sift_up(bound *b, size_t at) {
    const uint32_t block = b->heap[at];
    while (at > 0 && b->when[b->heap[(at - 1) / 2]] < b->when[block]) {
        put_at(b, at, b->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put_at(b, at, block);
}

static void sift_down(bound *b, size_t at) {
    const uint32_t block = b->heap[at];
    for (size_t child; (child = 2 * at + 1) < b->n; at = child) {
        if (child + 1 < b->n && b->when[b->heap[child + 1]] > b->when[b->heap[child]]) child++;
        if (b->when[b->heap[child]] <= b->when[block]) break;
        put_at(b, at, b->heap[child]);
    }
    put_at(b, at, block);
}

static void take_out(bound *b, uint32_t block) {
    const size_t at = b->place[block] - 1;
    b->place[block] = 0;
    const uint32_t last = b->heap[--b->n];
    if (last == block) return;
    put_at(b, at, last);
    sift_down(b, at);
    sift_up(b, b->place[last] - 1);
}

static void hold(bound *b, uint32_t block, size_t next_use) {
    b->when[block] = next_use;
    b->heap[b->n] = block;
    b->place[block] = ++b->n;
    sift_up(b, b->n - 1);
}

/* Serves one prompt: what is held is saved; then every block that will be used again is held until its next use, and
 * too many are cut down. */
static uint64_t serve(bound *b, const sk_evict_request *r, size_t capacity) {
    uint64_t saved = 0;
    for (size_t i = 0; i < r->n_blocks; i++) {
        const uint32_t block = b->trace->path[r->first + i];
        if (!b->place[block]) continue;
        saved++;
        take_out(b, block);
    }
    for (size_t i = 0; i < r->n_blocks; i++) {
        const size_t position = r->first + i;
        if (b->next[position] != SIZE_MAX) hold(b, b->trace->path[position], b->next[position]);
    }
    while (b->n > capacity) take_out(b, b->heap[0]);
    return saved;
}

int sk_evict_bound(const sk_evict_trace *t, size_t capacity, uint64_t *saved_blocks, uint64_t *hits) {
    bound b = {0};
    uint64_t saved = 0, with_hit = 0;
    int rc = allocate(&b, t) ? SKIPPY_OK : SKIPPY_E_NOMEM;
    if (rc == SKIPPY_OK) {
        link_uses(&b);
        for (size_t i = 0; i < t->n_requests; i++) {
            const uint64_t s = serve(&b, &t->requests[i], capacity);
            saved += s;
            with_hit += s > 0;
        }
        *saved_blocks = saved;
        if (hits) *hits = with_hit;
    }
    free_bound(&b);
    return rc;
}
