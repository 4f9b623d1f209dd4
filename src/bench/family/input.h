/* What one run of the family benchmark was asked to do: made by preparation from an operator's request, read by the
 * run. Everything is pinned here: programs, models, folders, corpora. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_INPUT_H
#define SKIPPY_BENCH_FAMILY_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "bench/family/locate.h"
#include "bench/family/sizes.h"

enum { SK_INPUT_MAX_CELLS = 8192, SK_INPUT_MAX_ENV = 64, SK_INPUT_MAX_TOOLKITS = 16 };

typedef struct sk_pinned_file {
    char path[1024]; /* absolute; "" = not given */
    char sha256[SK_SHA256_HEX];
    uint64_t bytes;
} sk_pinned_file;

typedef struct sk_pinned_tree {
    char name[64];
    char path[1024];
    char sha256[SK_SHA256_HEX];
} sk_pinned_tree;

/* Which work a cell asks for. */
typedef struct sk_cell_tasks {
    bool correctness, serial_baseline, serial_skippy, concurrent, moved_boundary, agent, restart;
    bool paired_serving; /* old_server and new_server beside the others */
} sk_cell_tasks;

typedef enum sk_cell_kind { SK_CELL_FULL, SK_CELL_USE_CASE, SK_CELL_SWEEP, SK_CELL_PACKAGE } sk_cell_kind;

typedef struct sk_family_cell {
    const sk_preset *preset;
    sk_cell_kind kind;
    char use_case[64];         /* "" unless SK_CELL_USE_CASE: a key of the corpus */
    uint32_t prefix_tokens;    /* of this cell */
    char output_relative[256]; /* "full/qwen3next-p128", "tool_calling/qwen3next-p128" */
    size_t model;              /* index into models */
    sk_cell_tasks tasks;
} sk_family_cell;

typedef struct sk_input_model {
    const sk_preset *preset;
    sk_found_model found;
} sk_input_model;

typedef struct sk_family_input {
    char kind[16]; /* "full" or "use-cases" */
    char operator_sha256[SK_SHA256_HEX], catalog_sha256[SK_SHA256_HEX];
    sk_pinned_file correctness, stage_server, native_server, artifact_tool, old_server, new_server;
    sk_pinned_tree native_build; /* the folder with the libraries of stage_server and native_server */
    sk_pinned_tree toolkit[SK_INPUT_MAX_TOOLKITS];
    size_t n_toolkits;
    char *env[SK_INPUT_MAX_ENV]; /* "NAME=value" for every child; owned */
    size_t n_env;
    char old_commit[65], new_commit[65], native_commit[65]; /* "" = not given */
    sk_pinned_file corpus, agent_corpus;                    /* path "" when no cell needs it */
    uint32_t execution_seconds, cell_seconds;
    bool borrow_resident_hits, cache_decoded_result_hits;
    sk_family_sizes sizes;
    sk_input_model models[SK_PRESETS];
    size_t n_models;
    sk_family_cell *cells; /* owned */
    size_t n_cells;
} sk_family_input;

/* Reads cache-family-input.json. Refuses unknown fields, another schema version, another catalogue, cells without a
 * model and output paths that are not unique or leave the output folder. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO,
 * SKIPPY_E_TOO_LARGE (64 MiB), SKIPPY_E_INVALID with the field, SKIPPY_E_NOMEM. */
int sk_family_input_load(const char *path, sk_family_input **out, sk_err *e);
int sk_family_input_parse(json_t *root, sk_family_input **out, sk_err *e);
/* A new reference; NULL when out of memory. Reading it back gives the same input. */
json_t *sk_family_input_json(const sk_family_input *in);
void sk_family_input_free(sk_family_input *in);

/* Compares every pin with the bytes that are there now: programs, folders, models, corpora. The first difference is
 * SKIPPY_E_CORRUPT with path and both digests. Other errors: those of sk_sha256_file. */
int sk_family_input_verify(const sk_family_input *in, const sk_sha256_watch *w, sk_err *e);

#endif
