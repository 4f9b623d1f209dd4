/* Random numbers for model-based tests, and the seed and number of operations that they print. */
#ifndef SKIPPY_CACHE_TEST_RANDOM_H
#define SKIPPY_CACHE_TEST_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifdef TEST_SANITIZED
enum { TEST_OPERATIONS = 200000 }; /* sanitizers slow everything down several times */
#else
enum { TEST_OPERATIONS = 1000000 };
#endif

/* xorshift64*; never 0. */
typedef struct test_random {
    uint64_t state;
} test_random;

static inline uint64_t random_u64(test_random *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

/* 0 .. n-1 */
static inline size_t random_below(test_random *r, size_t n) {
    return (size_t)((random_u64(r) >> 11) % n);
}

/* Seeded by SKIPPY_TEST_SEED or by the clock; printed, so that a failure can be repeated. */
static inline test_random random_start(const char *name) {
    const char *given = getenv("SKIPPY_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    printf("%s: %d operations, SKIPPY_TEST_SEED=%llu\n", name, (int)TEST_OPERATIONS, (unsigned long long)seed);
    fflush(stdout);
    return (test_random){seed ? seed : 1};
}

#endif
