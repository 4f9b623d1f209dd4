#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ggml-backend.h>

#include "runtime/huge_pages.h"

enum { LARGE = 40 << 20, SMALL = 8 << 20 };

/* KiB in huge pages of the mapping at p, from /proc/self/smaps. */
static unsigned long huge_at(const void *p) {
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    char line[4400];
    unsigned long value = 0;
    bool inside = false;
    while (fgets(line, sizeof line, f)) {
        char *at;
        unsigned long begin = strtoul(line, &at, 16);
        if (*at == '-') inside = (uintptr_t)p >= begin && (uintptr_t)p < strtoul(at + 1, NULL, 16);
        if (inside && strncmp(line, "AnonHugePages:", 14) == 0) value = strtoul(line + 14, NULL, 10);
    }
    fclose(f);
    return value;
}

static bool kernel_gives_them(void) {
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char text[100] = "";
    if (f) {
        if (!fgets(text, sizeof text, f)) text[0] = '\0';
        fclose(f);
    }
    return strstr(text, "[madvise]");
}

/* Of a buffer of ggml, all of whose bytes are written. */
static unsigned long huge_of_a_buffer(size_t bytes) {
    ggml_backend_buffer_t b = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), bytes);
    assert_non_null(b);
    unsigned char *p = ggml_backend_buffer_get_base(b);
    memset(p, 7, bytes);
    unsigned long kib = huge_at(p + bytes / 2);
    ggml_backend_buffer_free(b);
    return kib;
}

static void a_large_buffer_of_ggml_lies_in_huge_pages(void **state) {
    (void)state;
    if (!kernel_gives_them()) skip();
    sk_huge_pages_ask(true);
    assert_true(huge_of_a_buffer(LARGE) > 0);
}

static void nothing_is_asked_for_small_buffers_or_when_it_is_off(void **state) {
    (void)state;
    if (!kernel_gives_them()) skip();
    sk_huge_pages_ask(true);
    assert_int_equal(huge_of_a_buffer(SMALL), 0);
    sk_huge_pages_ask(false);
    assert_int_equal(huge_of_a_buffer(LARGE), 0);
}

static void memory_is_aligned_and_wrong_alignments_are_refused(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(void *) + 1, 3 * sizeof(void *)};
    void *p = state;
    sk_huge_pages_ask(true);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(posix_memalign(&p, wrong[i], 100), EINVAL);
        assert_ptr_equal(p, state);
    }
    for (size_t a = sizeof(void *); a <= (size_t)4 << 20; a *= 2) {
        assert_int_equal(posix_memalign(&p, a, LARGE), 0);
        assert_int_equal((uintptr_t)p % a, 0);
        free(p);
    }
}

static void too_much_is_refused_and_errno_left_alone(void **state) {
    (void)state;
    void *p = state;
    errno = 17;
    assert_int_equal(posix_memalign(&p, 64, (size_t)1 << 62), ENOMEM);
    assert_ptr_equal(p, state);
    assert_int_equal(errno, 17);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_buffer_of_ggml_lies_in_huge_pages),
        cmocka_unit_test(nothing_is_asked_for_small_buffers_or_when_it_is_off),
        cmocka_unit_test(memory_is_aligned_and_wrong_alignments_are_refused),
        cmocka_unit_test(too_much_is_refused_and_errno_left_alone),
    };
    return cmocka_run_group_tests_name("huge pages", tests, NULL, NULL);
}
