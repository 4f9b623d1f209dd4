/* Shared by the parts of skippy-cache-bench: rows that time single calls, rates that time many bytes. */
#ifndef SKIPPY_CACHE_CACHE_BENCH_H
#define SKIPPY_CACHE_CACHE_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "skippy/allocator.h"

typedef struct bench_options {
    size_t entries, tokens, shared, repetitions, store_mib;
    bool json, store_only;
} bench_options;

typedef struct bench_row {
    const char *shape, *name;
    double median_us, p95_us;
    size_t allocations;
} bench_row;

typedef struct bench_rate {
    const char *name, *detail, *unit;
    double value;
} bench_rate;

enum { BENCH_MAX_ROWS = 32 };
typedef struct bench_report {
    bench_row rows[BENCH_MAX_ROWS];
    size_t n;
    bench_rate rates[BENCH_MAX_ROWS];
    size_t n_rates;
} bench_report;

/* malloc and free, counted. */
extern const skippy_allocator bench_allocator;

/* block, or the end of the program when it is NULL. */
void *bench_must(void *block);
/* Ends the program with a message unless status is SKIPPY_OK. */
void bench_check(int status, const char *what);

/* One measured call; i counts the calls of a row from 0. */
typedef void (*bench_fn)(void *ud, size_t i);
/* Adds a row: calls fn o->repetitions times. */
void bench_measure(bench_report *r, const bench_options *o, const char *shape, const char *name, bench_fn fn, void *ud);
void bench_rate_add(bench_report *r, const char *name, const char *detail, double value, const char *unit);

/* Payloads and the RAM store (cache_bench_store.c). */
void bench_store(bench_report *r, const bench_options *o);

#endif
