#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "runtime/huge_pages.h"

enum { BYTES = 40 << 20 };

/* A field of the mapping at p in /proc/self/smaps, KiB. */
static unsigned long field_of(const void *p, const char *name) {
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    char line[4400];
    unsigned long value = 0;
    bool inside = false;
    while (fgets(line, sizeof line, f)) {
        char *at;
        unsigned long begin = strtoul(line, &at, 16);
        if (*at == '-') inside = (uintptr_t)p >= begin && (uintptr_t)p < strtoul(at + 1, NULL, 16);
        if (inside && strncmp(line, name, strlen(name)) == 0) value = strtoul(line + strlen(name) + 1, NULL, 10);
    }
    fclose(f);
    return value;
}

static unsigned char *map(void) {
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void a_used_buffer_moves_and_keeps_its_contents(void **state) {
    (void)state;
    unsigned char *p = map();
    for (size_t i = 0; i < BYTES; i++) p[i] = (unsigned char)(i * 31 + i / 4096);
    uint64_t moved = sk_huge_pages_use();
    for (size_t i = 0; i < BYTES; i++)
        if (p[i] != (unsigned char)(i * 31 + i / 4096)) fail_msg("byte %zu changed", i);
    if (moved == 0) skip(); /* this kernel does not, or has no such pages left */
    assert_true(field_of(p, "AnonHugePages") > 0);
    munmap(p, BYTES);
}

static void an_untouched_buffer_takes_no_memory(void **state) {
    (void)state;
    unsigned char *p = map();
    p[BYTES / 2] = 1;
    unsigned long before = field_of(p, "Rss");
    sk_huge_pages_use();
    assert_int_equal(field_of(p, "Rss"), before);
    munmap(p, BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_used_buffer_moves_and_keeps_its_contents),
        cmocka_unit_test(an_untouched_buffer_takes_no_memory),
    };
    return cmocka_run_group_tests_name("huge pages", tests, NULL, NULL);
}
