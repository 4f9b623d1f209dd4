/* max_bytes against the measured resident set of the process: filled to the limit, churned ten times over with blocks
 * of many sizes, emptied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "skippy/ram_store.h"

enum { MIB = 1 << 20, LIMIT = 64 * MIB, SLACK = 3 * MIB, PART_BLOCKS = 16 };

/* Bytes of the process in memory. */
static uint64_t resident(void) {
    char line[128] = "", *second; /* all pages, then those in memory */
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    bool there = fgets(line, sizeof line, f) && (second = strchr(line, ' '));
    fclose(f);
    return there ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* One entry of blocks that nobody else has, all taken from one buffer. */
typedef struct payload {
    unsigned char *bytes;
    size_t offset[PART_BLOCKS];
    skippy_block_ref ref[PART_BLOCKS];
    size_t n;
} payload;

static int give(void *ud, const skippy_block_ref *block, const void **data) {
    const payload *p = ud;
    for (size_t i = 0; i < p->n; i++) {
        if (!skippy_key_equal(&p->ref[i].digest, &block->digest)) continue;
        *data = p->bytes + p->offset[i];
        return SKIPPY_OK;
    }
    return SKIPPY_E_NOT_FOUND;
}

/* Blocks of up to `largest` bytes; returns their sum in whole pages. */
static uint64_t fill(payload *p, test_random *rnd, size_t largest) {
    uint64_t sum = 0;
    p->n = 1 + random_below(rnd, PART_BLOCKS);
    for (size_t i = 0; i < p->n; i++) {
        uint64_t stamp = random_u64(rnd);
        size_t bytes = sizeof stamp + random_below(rnd, largest - sizeof stamp);
        p->offset[i] = i * MIB;
        memcpy(p->bytes + p->offset[i], &stamp, sizeof stamp);
        assert_int_equal(skippy_block_digest(p->bytes + p->offset[i], bytes, &p->ref[i]), SKIPPY_OK);
        sum += (bytes + 4095) / 4096 * 4096;
    }
    return sum;
}

static void put(skippy_ram_store *s, payload *p, uint64_t number) {
    static int32_t tokens[600];
    const skippy_part part = {SKIPPY_PART_KV, 0, 256, p->ref, p->n};
    skippy_manifest m = {.payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV,
                         .reach = SKIPPY_REACH_RANGE,
                         .reason = SKIPPY_REASON_DEMOTED,
                         .tokens = tokens,
                         .n_tokens = 256 + number % 300,
                         .cost_ms = (double)(number % 7),
                         .parts = &part,
                         .n_parts = 1};
    uint64_t id;
    memcpy(m.prefix_key.bytes, &number, sizeof number);
    assert_int_equal(skippy_ram_put(s, &m, give, p, &id), SKIPPY_OK);
}

static void the_resident_set_obeys_the_limit(void **state) {
    (void)state;
    if (!resident()) skip(); /* no /proc */
    test_random rnd = random_start("ram_store resident set");
    const skippy_ram_params params = {.max_bytes = LIMIT, .soft_bytes = LIMIT - 4 * MIB};
    payload p = {.bytes = malloc((size_t)PART_BLOCKS * MIB)};
    assert_non_null(p.bytes);
    memset(p.bytes, 7, (size_t)PART_BLOCKS * MIB);
    skippy_ram_store *s;
    assert_int_equal(skippy_ram_create(NULL, &params, &s), SKIPPY_OK);
    uint64_t before = resident(), number = 0, peak = 0;
    static const size_t largest[] = {2000, MIB, 20000, 150000, MIB};
    for (size_t phase = 0; phase < 5; phase++) {
        for (uint64_t written = 0; written < 2 * (uint64_t)LIMIT;) {
            written += fill(&p, &rnd, largest[phase]);
            put(s, &p, ++number);
            if (number % 16) continue;
            uint64_t now = resident();
            skippy_store_stats st;
            skippy_ram_get_stats(s, &st);
            peak = now > peak ? now : peak;
            assert_true(st.physical_bytes <= LIMIT);
            assert_true(now <= before + st.physical_bytes + SLACK);
        }
        assert_int_equal(skippy_ram_check(s, true), SKIPPY_OK);
    }
    skippy_store_stats st;
    skippy_ram_get_stats(s, &st);
    print_message("limit %d MiB: grew by at most %.1f MiB, physical now %.1f, blocks %.1f MiB\n", LIMIT / MIB,
                  (double)(peak - before) / MIB, (double)st.physical_bytes / MIB, (double)st.block_bytes / MIB);
    assert_true(peak - before > LIMIT / 2); /* the limit was felt at all */
    skippy_ram_erase(s, &(skippy_erase_filter){0});
    skippy_ram_get_stats(s, &st);
    assert_true(st.physical_bytes <= LIMIT / 7); /* tables, and what is kept warm */
    assert_true(resident() <= before + st.physical_bytes + SLACK);
    skippy_ram_destroy(s);
    free(p.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_resident_set_obeys_the_limit),
    };
    return cmocka_run_group_tests_name("ram_store_rss", tests, NULL, NULL);
}
