/* `skippy bench bare`: the prompts of the prefix scenario, decoded without a server. */
#ifndef SKIPPY_BENCH_BARE_H
#define SKIPPY_BENCH_BARE_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "bench/scenario.h"

typedef struct sk_bare_options {
    const char *model;
    uint32_t n_ctx;
    int32_t n_threads;
    int flash_attn; /* -1 auto, 0 off, 1 on */
} sk_bare_options;

/* Measures all runs and returns {"runs_ms": [...], "p50_ms", "p95_ms", "prefix_tokens", "new_tokens", "prompts_digest"}
 * in *out (caller decrefs). The digest equals that of the prefix scenario when both had the same prompts. Errors: those
 * of sk_model_load, sk_prompts_text and sk_bare_decode. */
int sk_bare_run(const sk_bare_options *o, const sk_sizes *s, json_t **out, sk_err *e);

/* The same one by one, for somebody who has other work in between: computes the prefix and writes one line
 * {"prompts_digest", "runs"} to out; then decodes the next run for each line that it reads from in and answers
 * {"ms": time}. Ends with the input or after the last run; while it waits it does nothing. Errors: as sk_bare_run, and
 * SKIPPY_E_IO. */
int sk_bare_paced(const sk_bare_options *o, const sk_sizes *s, FILE *in, FILE *out, sk_err *e);

#endif
