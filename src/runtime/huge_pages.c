#include "runtime/huge_pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

#ifndef MADV_COLLAPSE /* Linux 6.1; glibc 2.36 does not name it everywhere */
#define MADV_COLLAPSE 25
#endif

enum { HUGE_PAGE = 2 << 20 };
/* Smaller mappings are thread stacks and heaps, which come and go. */
static const uintptr_t LEAST_BYTES = (uintptr_t)16 << 20;

typedef struct mapping {
    uintptr_t begin, end;
} mapping;

/* "7f00-7f80 rw-p 00000000 00:00 0" and a name: true for a large one that is private, writable, and of no file. One
 * that is larger than the machine's memory (`most`) is a reservation, as sanitizers make them. */
static bool read_line(const char *line, uint64_t most, mapping *m) {
    char *at;
    m->begin = strtoull(line, &at, 16);
    if (*at != '-') return false;
    m->end = strtoull(at + 1, &at, 16);
    const uint64_t bytes = m->end - m->begin;
    if (strncmp(at, " rw-p ", 6) != 0 || bytes < LEAST_BYTES || bytes > most) return false;
    at = strchr(at + 6, ' ');         /* behind the offset */
    if (at) at = strchr(at + 1, ' '); /* and the device */
    return at && strtoull(at, NULL, 10) == 0 && !strchr(line, '[');
}

/* Are all pages of a piece in memory? What was not touched yet would only grow. */
static bool is_resident(void *piece) {
    unsigned char pages[HUGE_PAGE / 4096];
    if (mincore(piece, HUGE_PAGE, pages) != 0) return false;
    for (size_t i = 0; i < HUGE_PAGE / (size_t)sysconf(_SC_PAGESIZE); i++)
        if (!(pages[i] & 1)) return false;
    return true;
}

/* Piece by piece: one that cannot be moved says nothing about the next. */
static uint64_t collapse(const mapping *m) {
    uint64_t moved = 0;
    for (uintptr_t at = (m->begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; at + HUGE_PAGE <= m->end; at += HUGE_PAGE) {
        void *piece = (void *)at; /* NOLINT(performance-no-int-to-ptr): read from the kernel's list */
        if (is_resident(piece) && madvise(piece, HUGE_PAGE, MADV_COLLAPSE) == 0) moved += HUGE_PAGE;
    }
    return moved;
}

uint64_t sk_huge_pages_use(void) {
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f) return 0;
    const uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    enum { MOST = 64 };
    mapping found[MOST], m;
    size_t n = 0;
    char line[4400];
    while (n < MOST && fgets(line, sizeof line, f))
        if (read_line(line, most, &m)) found[n++] = m;
    fclose(f); /* before the mappings change */
    uint64_t moved = 0;
    for (size_t i = 0; i < n; i++) moved += collapse(&found[i]);
    sk_log(SK_LOG_DEBUG, "huge pages: %" PRIu64 " MiB of %zu mappings", moved >> 20, n);
    return moved;
}
