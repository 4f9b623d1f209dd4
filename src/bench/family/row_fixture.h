/* Test support: rows as docs/formats/family-bench.md describes them, with chosen statuses and times. Fails the running
 * cmocka test when memory ends. Not part of the product. */
#ifndef SKIPPY_BENCH_FAMILY_ROW_FIXTURE_H
#define SKIPPY_BENCH_FAMILY_ROW_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a test wants to say about a row; zero or NULL is what stands behind. */
typedef struct sk_fixture {
    const char *key;       /* "llama" */
    const char *family;    /* "Llama" */
    const char *payload;   /* "ResidentKv" */
    const char *kind;      /* "full" */
    const char *use_case;  /* none; sets kind "use-case" */
    const char *status;    /* "pass"; another one also makes why "the test says so" */
    const char *llama;     /* "ok" */
    const char *read;      /* "The catalogue's sentence." */
    int64_t prefix_tokens; /* 128 */
    bool synthetic;
    bool bare; /* no hosts: a row without a run */
} sk_fixture;

/* Hosts "llama-server", "llama-server-tuned", "skippy" in this order; no parts; in process 800 ms recompute, 30 ms hit,
 * 1 MiB measured. New reference. */
json_t *sk_fixture_row(const sk_fixture *f);
/* Adds `n` samples of ms to one host's series; 124 tokens cached, 5 computed. The part's status becomes "ok", its gate
 * comparable for both baselines. */
void sk_fixture_samples(json_t *row, const char *part, const char *series, const char *host, const double *ms,
                        size_t n);
/* The same for all three hosts with twenty equal times each; 0 leaves a host out. */
void sk_fixture_times(json_t *row, const char *part, const char *series, double base, double tuned, double ours);
void sk_fixture_status(json_t *row, const char *part, const char *status, const char *error);
void sk_fixture_incomparable(json_t *row, const char *part, const char *host);
/* One level of a host's concurrency curve: `clients` requests, each with these times in ms. */
void sk_fixture_level(json_t *row, const char *host, int clients, double ttft, double tpot, double goodput);

#endif
