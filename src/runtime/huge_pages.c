#include "runtime/huge_pages.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };
/* Of smaller ones too little would be whole huge pages. */
static const size_t LEAST_BYTES = (size_t)16 << 20;

static atomic_bool asked;

void sk_huge_pages_ask(bool on) {
    atomic_store_explicit(&asked, on, memory_order_relaxed);
}

/* The pages that lie in the buffer with all of their bytes: the ones at its ends are also its neighbours'. */
static void advise(void *buffer, size_t bytes) {
    const uintptr_t at = (uintptr_t)buffer, begin = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
                    end = (at + bytes) / HUGE_PAGE * HUGE_PAGE;
    /* It is advice: a kernel without huge pages refuses it, and nothing is different. */
    if (begin < end) madvise((char *)buffer + (begin - at), end - begin, MADV_HUGEPAGE);
}

/* Instead of the C library's. The shared libraries of ggml call it too: visible names of a program come before theirs.
 */
__attribute__((visibility("default"))) int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (alignment == 0 || alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
    const int before = errno; /* which posix_memalign leaves alone */
    void *p = memalign(alignment, bytes);
    if (p && bytes >= LEAST_BYTES && atomic_load_explicit(&asked, memory_order_relaxed)) advise(p, bytes);
    errno = before;
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}
