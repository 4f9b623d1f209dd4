/* What bit-exact mode costs: `skippy serve --exact state` beside `--exact bit`, both running, asked in turn.
 *
 * Both are started twice with a cache directory of their own: first to let one digest the weights and the other measure
 * its row class, then for the measurements, with both remembered. Rounds alternate who goes first; whoever does not
 * work sleeps. A model that has no bit mode on this machine is an error in the server's words. Not thread-safe. */
#ifndef SKIPPY_BENCH_BITCOST_H
#define SKIPPY_BENCH_BITCOST_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/launch.h"
#include "bench/scenario.h"

typedef struct sk_bitcost_options {
    sk_launch server;    /* without --exact */
    const char *out_dir; /* for the logs and the cache directory */
    int timeout_ms;
} sk_bitcost_options;

/* SK_COST_STATE and SK_COST_BIT are indices of every pair below. */
enum { SK_COST_STATE, SK_COST_BIT, SK_COST_SIDES };

/* One round of one side, in milliseconds. */
typedef struct sk_cost_sample {
    double prompt_ms;       /* a new prompt of sizes.cost_tokens, 1 token generated */
    double lone_ms;         /* per generated token, one lane */
    double together_ms;     /* per generated token of each lane, sizes.cost_lanes lanes at the same time */
    size_t prompt_computed; /* prompt tokens that were computed, by the server's own count */
} sk_cost_sample;

typedef struct sk_cost_startup {
    double first_ms; /* bit: with the row-class probe. state: with the digest of the weights */
    double again_ms; /* both remembered */
} sk_cost_startup;

/* Measures sizes.long_runs rounds and returns the record of sk_bitcost_json in *out (the caller decrefs). Errors: those
 * of the servers. */
int sk_bitcost_run(const sk_bitcost_options *o, const sk_sizes *s, json_t **out, sk_err *e);
/* {"startup": {"state": {"first_ms", "again_ms"}, "bit": ...}, "series": [{"name", "state_p50", "bit_p50", "ratio" (of
 * these two), "round_ratio": {"p50", "min", "max"}, "state": [...], "bit": [...]}]}; a ratio is bit's time divided by
 * state's. NULL when out of memory or n is 0. Pure. */
json_t *sk_bitcost_json(const sk_cost_startup startup[SK_COST_SIDES], const sk_cost_sample (*rounds)[SK_COST_SIDES],
                        size_t n);
/* Appends lines of a list for people. */
void sk_bitcost_lines(const json_t *record, const sk_sizes *s, sk_buf *out);

#endif
