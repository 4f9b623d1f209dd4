/* What `skippy inspect` says about a store, for people and as JSON. */
#ifndef SKIPPY_CLI_INSPECT_PRINT_H
#define SKIPPY_CLI_INSPECT_PRINT_H

#include <jansson.h>

#include "base/buf.h"
#include "cli/inspect_store.h"

/* What is known of a store beside its entries. */
typedef struct inspect_about {
    uint64_t file_bytes; /* of its folder */
    bool in_use;         /* a process owns it */
    bool verified;
    uint64_t now_ms; /* Unix time, for ages */
} inspect_about;

/* A table of entries, totals, and the bad blocks when it was verified. */
void inspect_print_store(sk_buf *out, const inspect_store *s, const inspect_about *about);
/* Every field of one entry, its token ids and its blocks. m is its leased manifest. */
void inspect_print_entry(sk_buf *out, const inspect_store *s, const inspect_entry *e, const skippy_manifest *m,
                         const inspect_about *about);

/* New references; NULL when out of memory. */
json_t *inspect_json_store(const inspect_store *s, const inspect_about *about);
json_t *inspect_json_entry(const inspect_store *s, const inspect_entry *e, const skippy_manifest *m);

/* Logical bytes per stored byte; 1 for an empty store. */
double inspect_dedupe_ratio(const inspect_store *s);

#endif
