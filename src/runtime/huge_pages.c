#include "runtime/huge_pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

#ifndef MADV_COLLAPSE /* Linux 6.1; glibc 2.36 does not name it everywhere */
#define MADV_COLLAPSE 25
#endif

static const uintptr_t HUGE_PAGE = (uintptr_t)2 << 20;
/* Smaller mappings are thread stacks and heaps, which come and go. */
static const uintptr_t LEAST_BYTES = (uintptr_t)16 << 20;

typedef struct mapping {
    uintptr_t begin, end;
    bool plain; /* private, writable, of no file */
} mapping;

/* "7f00-7f80 rw-p 00000000 00:00 0" and what follows; false for the lines that describe a mapping. */
static bool read_header(const char *line, mapping *m) {
    char mode[5];
    unsigned long inode;
    int n = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*s %lu", &m->begin, &m->end, mode, &inode);
    if (n != 4) return false;
    m->plain = strcmp(mode, "rw-p") == 0 && inode == 0 && !strchr(line, '[');
    return true;
}

/* What is hardly touched would only grow. */
static bool is_worth_it(const mapping *m, uintptr_t resident) {
    return m->plain && m->end - m->begin >= LEAST_BYTES && resident >= (m->end - m->begin) / 10 * 9;
}

/* Piece by piece: one that cannot be moved says nothing about the next. */
static uint64_t collapse(const mapping *m) {
    uintptr_t begin = (m->begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = m->end / HUGE_PAGE * HUGE_PAGE;
    uint64_t moved = 0;
    if (end <= begin) return 0;
    void *at = (void *)begin; /* NOLINT(performance-no-int-to-ptr): read from the kernel's list */
    if (madvise(at, end - begin, MADV_HUGEPAGE) != 0) return 0;
    for (; begin < end; begin += HUGE_PAGE, at = (char *)at + HUGE_PAGE)
        if (madvise(at, HUGE_PAGE, MADV_COLLAPSE) == 0) moved += HUGE_PAGE;
    return moved;
}

uint64_t sk_huge_pages_use(void) {
    FILE *f = fopen("/proc/self/smaps", "re");
    if (!f) return 0;
    enum { MOST = 64 };
    mapping found[MOST], m = {0};
    size_t n = 0;
    char line[4400];
    uintptr_t kib;
    while (n < MOST && fgets(line, sizeof line, f))
        if (!read_header(line, &m) && sscanf(line, "Rss: %" SCNuPTR " kB", &kib) == 1 && is_worth_it(&m, kib << 10))
            found[n++] = m;
    fclose(f); /* before the mappings change */
    uint64_t moved = 0;
    for (size_t i = 0; i < n; i++) moved += collapse(&found[i]);
    if (n) sk_log(SK_LOG_DEBUG, "huge pages: %" PRIu64 " MiB of %zu buffers", moved >> 20, n);
    return moved;
}
