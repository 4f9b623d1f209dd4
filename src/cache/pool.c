#include "cache/pool.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define REGION_BYTES ((size_t)32 << 20)
#define SLOT_PAGES_MAX ((size_t)(2 << 20) / SK_POOL_PAGE)

enum { RUN_HEADER = 64, NO_SLOT = 0xffff, NEW_PAGES = 2 /* that a piece can start: a run, and a header's */ };

struct sk_pool_region {
    sk_pool_region *next, *prev; /* list of open regions of its class */
    size_t mapped;               /* bytes of the mapping */
    size_t slot_bytes;           /* 0: one piece with a mapping of its own, behind the header's page */
    uint32_t class;
    uint32_t first, fresh, end; /* slots [first, fresh) have been used at least once, [fresh, end) never */
    uint32_t used;
    uint16_t free_slot; /* head of the list of freed slots */
    bool listed;
    uint16_t slot[]; /* used: its pages; free: the next free slot */
};

/* A page of small pieces of one class. */
struct sk_pool_run {
    sk_pool_run *next, *prev; /* list of runs with free pieces */
    void *free_piece;         /* linked through their first bytes */
    uint32_t class, used, fresh, end;
};

_Static_assert(sizeof(sk_pool_run) <= RUN_HEADER, "header of a run");
_Static_assert(REGION_BYTES / SK_POOL_PAGE < NO_SLOT, "slot numbers fit");
_Static_assert(SLOT_PAGES_MAX <= 512, "classes of slots");

/* Adds an element at the head of a doubly linked list, and takes one out. */
#define LIST_ADD(head, e)                                                                                              \
    do {                                                                                                               \
        (e)->prev = NULL;                                                                                              \
        (e)->next = (head);                                                                                            \
        if (head) (head)->prev = (e);                                                                                  \
        (head) = (e);                                                                                                  \
    } while (0)
#define LIST_REMOVE(head, e)                                                                                           \
    do {                                                                                                               \
        if ((e)->prev)                                                                                                 \
            (e)->prev->next = (e)->next;                                                                               \
        else                                                                                                           \
            (head) = (e)->next;                                                                                        \
        if ((e)->next) (e)->next->prev = (e)->prev;                                                                    \
    } while (0)

static size_t pages_of(size_t bytes) {
    return (bytes + SK_POOL_PAGE - 1) / SK_POOL_PAGE;
}

/* ---- size classes of slots: 1..8 pages exactly, then eight steps for each doubling ---- */

typedef struct slot_class {
    uint32_t index;
    size_t pages;
} slot_class;

static slot_class class_of(size_t pages) {
    if (pages <= 8) return (slot_class){(uint32_t)pages, pages};
    uint32_t shift = 0;
    while (((pages - 1) >> shift) >= 16) shift++;
    size_t steps = ((pages - 1) >> shift) + 1; /* 9..16 */
    return (slot_class){(uint32_t)(8 * shift + steps), steps << shift};
}

/* ---- mappings ---- */

static sk_pool_region *region_of(void *piece) {
    return (sk_pool_region *)(void *)((char *)piece - ((uintptr_t)piece & (REGION_BYTES - 1)));
}

/* Maps `bytes` (whole pages) of address space that begin at a multiple of REGION_BYTES. Huge pages are refused: one
 * touched byte would make 2 MiB resident. */
static void *map_aligned(size_t bytes) {
    if (bytes > SIZE_MAX - REGION_BYTES) return NULL;
    size_t wide = bytes + REGION_BYTES;
    char *raw = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t lead = (REGION_BYTES - ((uintptr_t)raw & (REGION_BYTES - 1))) & (REGION_BYTES - 1);
    char *base = raw + lead;
    if (lead) munmap(raw, lead);
    if (wide - lead > bytes) munmap(base + bytes, wide - lead - bytes);
#ifdef MADV_NOHUGEPAGE
    (void)madvise(base, bytes, MADV_NOHUGEPAGE); /* kernels without huge pages refuse, and need not be told */
#endif
    return base;
}

static size_t header_pages(const sk_pool_region *r) {
    return pages_of(sizeof *r + r->fresh * sizeof r->slot[0]);
}

static sk_pool_region *region_new(sk_pool *p, slot_class c) {
    sk_pool_region *r = map_aligned(REGION_BYTES);
    if (!r) return NULL;
    r->mapped = REGION_BYTES;
    r->slot_bytes = c.pages * SK_POOL_PAGE;
    r->class = c.index;
    r->end = (uint32_t)(REGION_BYTES / r->slot_bytes);
    r->first = (uint32_t)((sizeof *r + r->end * sizeof r->slot[0] + r->slot_bytes - 1) / r->slot_bytes);
    r->fresh = r->first;
    r->free_slot = NO_SLOT;
    r->listed = true;
    LIST_ADD(p->open[c.index], r);
    p->resident += header_pages(r) * SK_POOL_PAGE;
    return r;
}

static void region_free(sk_pool *p, sk_pool_region *r) {
    if (r->listed) LIST_REMOVE(p->open[r->class], r);
    p->resident -= header_pages(r) * SK_POOL_PAGE;
    munmap(r, r->mapped);
}

/* ---- slots ---- */

static uint16_t take_slot(sk_pool *p, sk_pool_region *r) {
    if (r->free_slot != NO_SLOT) {
        uint16_t at = r->free_slot;
        r->free_slot = r->slot[at];
        return at;
    }
    size_t before = header_pages(r);
    r->fresh++;
    p->resident += (header_pages(r) - before) * SK_POOL_PAGE;
    return (uint16_t)(r->fresh - 1);
}

static size_t slot_number(const sk_pool_region *r, const void *piece) {
    return (size_t)((const char *)piece - (const char *)r) / r->slot_bytes;
}

static size_t resident_bytes(const sk_pool_region *r, const void *piece) {
    return (size_t)r->slot[slot_number(r, piece)] * SK_POOL_PAGE;
}

/* A warm slot of exactly this size, the one that was freed last. */
static void *take_warm(sk_pool *p, slot_class c, size_t pages) {
    for (size_t i = p->n_warm; i-- > 0;) {
        void *piece = p->warm_slot[i];
        if (region_of(piece)->class != c.index || resident_bytes(region_of(piece), piece) != pages * SK_POOL_PAGE)
            continue;
        memmove(&p->warm_slot[i], &p->warm_slot[i + 1], (--p->n_warm - i) * sizeof p->warm_slot[0]);
        p->warm -= pages * SK_POOL_PAGE;
        return piece;
    }
    return NULL;
}

static void *slot_alloc(sk_pool *p, slot_class c, size_t pages) {
    sk_pool_region *r = p->open[c.index];
    if (!r) r = region_new(p, c);
    if (!r) return NULL;
    uint16_t at = take_slot(p, r);
    r->slot[at] = (uint16_t)pages;
    r->used++;
    p->resident += pages * SK_POOL_PAGE;
    if (r->free_slot == NO_SLOT && r->fresh == r->end) {
        LIST_REMOVE(p->open[c.index], r);
        r->listed = false;
    }
    return (char *)r + at * r->slot_bytes;
}

static void slot_release(sk_pool *p, sk_pool_region *r, void *piece) {
    size_t at = slot_number(r, piece), bytes = resident_bytes(r, piece);
    p->resident -= bytes;
    if (--r->used == 0) {
        region_free(p, r);
        return;
    }
    (void)madvise(piece, bytes, MADV_DONTNEED);
    r->slot[at] = r->free_slot;
    r->free_slot = (uint16_t)at;
    if (!r->listed) {
        LIST_ADD(p->open[r->class], r);
        r->listed = true;
    }
}

static bool keep_warm(sk_pool *p, const sk_pool_region *r, void *piece) {
    size_t bytes = resident_bytes(r, piece);
    if (p->n_warm == SK_POOL_WARM_MAX || bytes > p->warm_limit - p->warm || p->resident > p->limit) return false;
    p->warm_slot[p->n_warm++] = piece;
    p->warm += bytes;
    return true;
}

void sk_pool_cool(sk_pool *p, uint64_t bytes) {
    while (p->n_warm && (bytes > p->limit || p->resident > p->limit - bytes)) {
        void *piece = p->warm_slot[--p->n_warm];
        p->warm -= resident_bytes(region_of(piece), piece);
        slot_release(p, region_of(piece), piece);
    }
}

/* ---- pieces with a mapping of their own ---- */

static void *big_alloc(sk_pool *p, size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size_t mapped = (pages_of(size) + 1) * SK_POOL_PAGE;
    sk_pool_region *r = map_aligned(mapped);
    if (!r) return NULL;
    r->mapped = mapped;
    p->resident += mapped;
    return (char *)r + SK_POOL_PAGE;
}

static void big_release(sk_pool *p, sk_pool_region *r) {
    p->resident -= r->mapped;
    munmap(r, r->mapped);
}

/* ---- small pieces ---- */

static uint32_t small_class(size_t size) {
    return (uint32_t)((size - 1) / SK_POOL_SMALL_STEP);
}

static uint32_t per_run(uint32_t class) {
    return (uint32_t)((SK_POOL_PAGE - RUN_HEADER) / ((class + 1) * (size_t)SK_POOL_SMALL_STEP));
}

static sk_pool_run *run_of(void *piece) {
    return (sk_pool_run *)(void *)((char *)piece - ((uintptr_t)piece & (SK_POOL_PAGE - 1)));
}

static sk_pool_run *run_new(sk_pool *p, uint32_t class) {
    sk_pool_run *run = slot_alloc(p, (slot_class){0, 1}, 1);
    if (!run) return NULL;
    *run = (sk_pool_run){.class = class, .end = per_run(class)};
    LIST_ADD(p->partial[class], run);
    return run;
}

static void *small_alloc(sk_pool *p, size_t size) {
    uint32_t class = small_class(size);
    sk_pool_run *run = p->partial[class];
    if (!run) run = run_new(p, class);
    if (!run) return NULL;
    void *piece = run->free_piece;
    if (piece)
        memcpy(&run->free_piece, piece, sizeof run->free_piece);
    else
        piece = (char *)run + RUN_HEADER + (size_t)run->fresh++ * (class + 1) * SK_POOL_SMALL_STEP;
    if (++run->used == run->end) LIST_REMOVE(p->partial[class], run);
    return piece;
}

static void small_release(sk_pool *p, void *piece) {
    sk_pool_run *run = run_of(piece);
    if (run->used == run->end) LIST_ADD(p->partial[run->class], run);
    if (--run->used == 0) {
        LIST_REMOVE(p->partial[run->class], run);
        slot_release(p, region_of(run), run);
        return;
    }
    memcpy(piece, &run->free_piece, sizeof run->free_piece);
    run->free_piece = piece;
}

/* ---- interface ---- */

void sk_pool_init(sk_pool *p, uint64_t limit, uint64_t warm_limit) {
    *p = (sk_pool){.limit = limit, .warm_limit = warm_limit};
}

void *sk_pool_alloc(sk_pool *p, size_t size) {
    if (size == 0) return NULL;
    size_t pages = pages_of(size);
    bool small = size <= SK_POOL_SMALL_MAX, big = size > SLOT_PAGES_MAX * SK_POOL_PAGE;
    void *piece = small || big ? NULL : take_warm(p, class_of(pages), pages);
    if (piece) return piece;
    sk_pool_cool(p, sk_pool_charge(size) + NEW_PAGES * SK_POOL_PAGE);
    if (small) return small_alloc(p, size);
    return big ? big_alloc(p, size) : slot_alloc(p, class_of(pages), pages);
}

void sk_pool_release(sk_pool *p, void *piece) {
    if (!piece) return;
    sk_pool_region *r = region_of(piece);
    if (r->slot_bytes == 0)
        big_release(p, r);
    else if (r->class == 0)
        small_release(p, piece);
    else if (!keep_warm(p, r, piece))
        slot_release(p, r, piece);
}

void sk_pool_prefault(void *piece, size_t size) {
#ifdef MADV_POPULATE_WRITE
    if (size > SK_POOL_PAGE && size <= SLOT_PAGES_MAX * SK_POOL_PAGE)
        (void)madvise(piece, pages_of(size) * SK_POOL_PAGE, MADV_POPULATE_WRITE);
#else
    (void)piece, (void)size;
#endif
}

uint64_t sk_pool_charge(size_t size) {
    if (size == 0) return 0;
    if (size <= SK_POOL_SMALL_MAX) {
        uint32_t n = per_run(small_class(size));
        return (SK_POOL_PAGE + n - 1) / n + sizeof(uint16_t);
    }
    if (size > SIZE_MAX / 2) return UINT64_MAX / 2;
    uint64_t header = size > SLOT_PAGES_MAX * SK_POOL_PAGE ? SK_POOL_PAGE : sizeof(uint16_t);
    return (uint64_t)pages_of(size) * SK_POOL_PAGE + header;
}

static void *hook_alloc(void *ud, size_t size) {
    return sk_pool_alloc(ud, size);
}

static void hook_release(void *ud, void *piece) {
    sk_pool_release(ud, piece);
}

skippy_allocator sk_pool_hooks(sk_pool *p) {
    return (skippy_allocator){hook_alloc, hook_release, p};
}
