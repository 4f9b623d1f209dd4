/* The operator's request: which families, which programs, which limits. JSON, schema_version 1, described by
 * evals/schemas/cache-operator.schema.json. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_OPERATOR_H
#define SKIPPY_BENCH_FAMILY_OPERATOR_H

#include <jansson.h>

#include "base/err.h"
#include "bench/family/input.h"

typedef struct sk_operator_plan {
    char cache_root[1024];
    const sk_preset *cases[SK_PRESETS]; /* in the order of the tables */
    size_t n_cases;                     /* all fourteen when the request says [] */
    char **use_cases;                   /* owned; keys, or the single word "all" */
    size_t n_use_cases;
    sk_pinned_file corpus, agent_corpus; /* path "" = not given; sha256 as the request says */
    sk_family_sizes sizes;               /* defaults where the request says nothing; prefix_tokens 0 = every preset's
                                            and use case's own */
    bool skip_llama_server;
    sk_pinned_file old_server, new_server;
    char model_sha256[SK_PRESETS][SK_SHA256_HEX]; /* by rank; "" = any; see
                                                     sk_prepare_model_digest. A package: of its manifest */
} sk_operator_plan;

typedef struct sk_operator {
    sk_operator_plan plan;
    char correctness[1024], stage_server[1024], native_server[1024], artifact_tool[1024], native_build[1024];
    char old_commit[65], new_commit[65], native_commit[65];
    char *env[SK_INPUT_MAX_ENV]; /* owned "NAME=value" */
    size_t n_env;
    sk_pinned_tree toolkit[SK_INPUT_MAX_TOOLKITS];
    size_t n_toolkits;
    uint32_t execution_seconds, cell_seconds, request_timeout_ms, preparation_seconds;
    bool borrow_resident_hits, cache_decoded_result_hits;
    char sha256[SK_SHA256_HEX]; /* of the request's bytes */
} sk_operator;

/* Errors (with the field's path in the text, as "plan.concurrency[3]: ..."): SKIPPY_E_INVALID for unknown fields, wrong
 * types, values out of bounds, relative paths, commits and digests that are not lower-case hexadecimal, environment
 * names that are not allowed, two names of one variable with different values (conflicting aliases), use cases without
 * a corpus or a corpus without use cases, only one of old_server and new_server. SKIPPY_E_NOT_FOUND, SKIPPY_E_IO,
 * SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM. */
int sk_operator_load(const char *path, sk_operator **out, sk_err *e);
int sk_operator_parse(json_t *root, sk_operator **out, sk_err *e);
void sk_operator_free(sk_operator *op);

/* Overrides from the environment, as the wrapper documents them: PREFIX_TOKENS, RUNTIME_LANE_COUNT, LLAMA_PARALLEL,
 * LLAMA_REPEATS, CACHE_HIT_REPEATS. get is getenv in the program. Errors: SKIPPY_E_INVALID (not a number in bounds). */
int sk_operator_override(sk_operator *op, char *(*get)(const char *name), sk_err *e);

#endif
