/* The requests of `skippy bench stages` to fleets that run. Not thread-safe. */
#ifndef SKIPPY_BENCH_STAGES_ROUNDS_H
#define SKIPPY_BENCH_STAGES_ROUNDS_H

#include "bench/stages_fleet.h"

enum { SK_STAGES_WARM_UPS = 1 }; /* rounds before the counted ones */

/* Each fills o->runs rounds (*out is malloc'ed, the caller's, also after an error: *n rounds are whole). Errors: those
 * of the requests, SKIPPY_E_CORRUPT (times that cannot be), SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED. */

/* A fleet of skippy's stages that says what they computed (SKIPPY_E_UNSUPPORTED when it does not). */
int sk_stages_overhead_run(const sk_stages_options *o, sk_fleet *f, sk_stages_visit **out, size_t *n, sk_err *e);
/* A fleet with two lanes. */
int sk_stages_lanes_run(const sk_stages_options *o, sk_fleet *f, sk_stages_lanes_round **out, size_t *n, sk_err *e);
/* Two fleets in turn, in changing order; the same prompts. Fills visits, n and same_text. SKIPPY_E_INVALID: they make
 * other tokens of a prompt. */
int sk_stages_rivals_run(const sk_stages_options *o, sk_fleet f[SK_STAGES_SERVERS], sk_stages_rivals *out, sk_err *e);
/* Some prompts, so that caches hold something. */
int sk_stages_fill(const sk_stages_options *o, sk_fleet *f, size_t prompts, sk_err *e);

#endif
