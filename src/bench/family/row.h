/* A row of production-cache-bench.json as the report needs it. docs/formats/family-bench.md describes the JSON.
 * Read-only after loading: thread-safe then. */
#ifndef SKIPPY_BENCH_FAMILY_ROW_H
#define SKIPPY_BENCH_FAMILY_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/stats.h"

/* Series: 32 conversations of an agent corpus, their sum, and nine of the other parts fit. */
enum { SK_ROW_MAX_HOSTS = 6, SK_ROW_MAX_SERIES = 64, SK_ROW_SCHEMA = 1 };

/* One series of one part: the raw times of each host. */
typedef struct sk_row_series {
    const char *part, *name;      /* "exact", "exact"; "agent", "coding" ... (borrowed from the JSON) */
    double *ms[SK_ROW_MAX_HOSTS]; /* in the order of the row's hosts; NULL = not measured; owned */
    size_t n[SK_ROW_MAX_HOSTS];
    size_t cache_n[SK_ROW_MAX_HOSTS], prompt_n[SK_ROW_MAX_HOSTS]; /* medians of the servers' own counts */
    sk_summary summary[SK_ROW_MAX_HOSTS];
} sk_row_series;

typedef struct sk_family_row {
    json_t *json;                                         /* the row itself; strings below are borrowed from it */
    const char *key, *family, *model_id, *payload, *kind; /* kind: "full", "use-case", "sweep", "package" */
    const char *use_case, *use_case_label;                /* NULL unless a use case */
    bool synthetic;
    int64_t layers, layers_real, width;
    int64_t prefix_tokens, prompt_tokens;
    const char *skippy_status;                     /* "pass", "fail", "missing-model" ... */
    const char *llama_status;                      /* "ok", "skipped", "missing-model" ... */
    const char *why;                               /* of a status that is not good; "" */
    const char *read;                              /* the catalogue's sentence */
    double recompute_total_ms, cache_hit_total_ms; /* in-process numbers of the correctness tool */
    uint64_t storage_bytes;
    const char *storage_method;         /* "measured", "metadata-derived", "n/a" */
    const char *host[SK_ROW_MAX_HOSTS]; /* names; ours is "skippy" */
    size_t n_hosts, ours;               /* ours: index; n_hosts when skippy was not measured */
    sk_row_series *series;              /* owned */
    size_t n_series;
} sk_family_row;

typedef struct sk_row_set {
    sk_family_row *v;
    size_t n;
    json_t *sources; /* the loaded files' run facts: array of {"path","sha256","machine","versions",...} from run.json
                        beside each, as far as it is there */
    json_t *notes;   /* what happened while loading, in words for people: array of strings */
} sk_row_set;

/* Appends the rows of a production-cache-bench.json (and the facts in run.json beside it). A row for a cell that is
 * there already (same weights, kind, key, use case and prefix) takes its place, and a note says so. On errors the set
 * has what was loaded before; free it in every case. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_TOO_LARGE (256
 * MiB), SKIPPY_E_INVALID with the row's number and field, SKIPPY_E_NOMEM. */
int sk_row_set_load(sk_row_set *s, const char *path, sk_err *e);
/* Appends one row, or puts it in the place of the same cell (its reference is taken over, also on errors). number is
 * for the error's text; the first row of a file is 1. */
int sk_row_set_add(sk_row_set *s, json_t *row, size_t number, sk_err *e);
/* The last two names of a path: enough to find a file, without a machine's folders. Points into path. */
const char *sk_row_path_tail(const char *path);
/* Orders: families as in the tables (unknown ones last, by name), real weights before synthetic ones, full rows before
 * sweeps, packages and use cases, these in their order, then by prefix. */
void sk_row_set_sort(sk_row_set *s);
void sk_row_set_free(sk_row_set *s);

const sk_row_series *sk_family_row_series(const sk_family_row *r, const char *part, const char *name);
/* True for llama-server with any set of flags; false for skippy and other servers that run beside it. */
bool sk_family_row_baseline(const sk_family_row *r, size_t host);
/* "comparable" of the gate of `part` between this host and ours; false where there is none. */
bool sk_family_row_comparable(const sk_family_row *r, const char *part, size_t host);
/* Every host did every round of this part. */
bool sk_family_row_complete(const sk_family_row *r, const char *part);
/* Fastest baseline by p50 of this series; n_hosts when none was measured. */
size_t sk_family_row_best(const sk_family_row *r, const sk_row_series *s);
/* p50 of the best baseline divided by our p50; 0 when one of them is not there or the part is not complete: half a
 * series is no comparison. */
double sk_family_row_speedup(const sk_family_row *r, const char *part, const char *name);
/* True when the payload has recurrent state: these families have goals of their own. */
bool sk_family_row_recurrent(const sk_family_row *r);
/* Evidence on its own weights: correctness passed, baseline ok, exact measured on both and faster than 1.0x, gate
 * comparable; a package row has no baseline and must be faster than its own recompute. why (may be NULL) receives the
 * first reason against it. */
bool sk_family_row_evidence(const sk_family_row *r, const char **why);
/* Promoted evidence: all of that, with a baseline, and weights that are not synthetic. */
bool sk_family_row_promoted(const sk_family_row *r, const char **why);

/* Fills *out from the row's JSON, which it keeps a borrowed pointer to. On errors *out is empty. For
 * sk_row_set_add. */
int sk_family_row_parse(json_t *row, size_t number, sk_family_row *out, sk_err *e);
/* Frees what the row owns; drops its reference to the JSON. */
void sk_family_row_free(sk_family_row *r);

#endif
