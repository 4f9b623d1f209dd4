/* An operator's request for one's own machine: made from a few choices, so that nobody has to write JSON to begin with.
 * Pure but for the file names that it resolves. */
#ifndef SKIPPY_BENCH_FAMILY_REQUEST_H
#define SKIPPY_BENCH_FAMILY_REQUEST_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "bench/family/catalog.h"
#include "bench/family/sizes.h"

enum { SK_REQUEST_MAX_COMMIT = 65 };

/* Strings are borrowed. Paths may be relative: the request has them absolute, with links resolved. */
typedef struct sk_request_options {
    const char *models;       /* cache root */
    const char *skippy;       /* measured, and correctness tool and artifact tool */
    const char *llama_server; /* baseline; the folder it lies in is the native build */
    const char *cases;        /* keys separated by commas; NULL = all */
    const char *corpus;       /* use cases; NULL = no use-case rows */
    const char *agent_corpus; /* conversations; NULL = none */
    const sk_family_sizes *sizes;
    uint32_t execution_seconds, cell_seconds, preparation_seconds;
} sk_request_options;

/* The defaults that the sizes' comments name. */
void sk_family_sizes_default(sk_family_sizes *s);
/* The request as JSON, a new reference in *out. Errors: SKIPPY_E_INVALID (unknown key), SKIPPY_E_NOT_FOUND (a path),
 * SKIPPY_E_NOMEM; those of sk_sha256_file for the corpora. */
int sk_request_make(const sk_request_options *o, json_t **out, sk_err *e);

#endif
