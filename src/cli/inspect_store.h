/* A snapshot of one disk store: its entries, who shares which block, and which blocks are bad. Not thread-safe. */
#ifndef SKIPPY_CLI_INSPECT_STORE_H
#define SKIPPY_CLI_INSPECT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "skippy/disk_store.h"

/* One distinct block. */
typedef struct inspect_block {
    skippy_block_ref ref;
    size_t owners; /* entries that refer to it */
    bool checked;  /* its bytes were read */
    int status;    /* of that reading: SKIPPY_OK, SKIPPY_E_CORRUPT, SKIPPY_E_IO */
} inspect_block;

typedef struct inspect_entry {
    uint64_t id;
    skippy_manifest m; /* without tokens and parts; its names are the two below */
    char *tenant, *cache_namespace;
    uint64_t logical_bytes; /* all its blocks, each as often as it is referred to */
    uint64_t own_bytes;     /* blocks that no other entry has */
    size_t n_blocks;        /* references */
    size_t first;           /* of its references in `ref`, in the order of the manifest */
    size_t bad_blocks;      /* references to blocks that were found bad */
} inspect_entry;

typedef struct inspect_store {
    const char *dir, *name; /* borrowed */
    skippy_disk_store *disk;
    skippy_store_stats stats;
    inspect_entry *entries; /* longest unused first */
    size_t n_entries, cap_entries;
    skippy_block_ref *ref; /* of all entries, one behind the other */
    size_t n_ref, cap_ref;
    inspect_block *blocks; /* ascending by digest */
    size_t n_blocks;
    uint64_t tokens;      /* sum over the entries */
    uint64_t block_bytes; /* distinct blocks */
    size_t bad_blocks, bad_entries;
} inspect_store;

/* Opens for reading. dir and name must outlive s. After an error *s is closed. Errors: those of
 * skippy_disk_open_readonly. */
int inspect_store_open(inspect_store *s, const char *dir, const char *name, sk_err *e);
void inspect_store_close(inspect_store *s);

/* NULL when there is none. */
inspect_entry *inspect_store_find(const inspect_store *s, uint64_t id);
inspect_block *inspect_store_block(const inspect_store *s, const skippy_block_ref *ref);

/* Reads and checks the blocks of one entry, or of all (NULL), and fills checked, status and the bad counts. Blocks that
 * the owner of the store moved or dropped meanwhile are not bad: what looks bad is looked at again in a fresh view of
 * the store. progress (may be NULL) gets bytes; false stops. Errors: SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED; bad blocks are
 * not an error. */
int inspect_store_verify(inspect_store *s, const inspect_entry *only, skippy_progress_fn progress, void *ud);

#endif
