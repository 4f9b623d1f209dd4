/* A folder of its own for a disk store, and how to make it cold. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_FOLDER_H
#define SKIPPY_BENCH_STORE_FOLDER_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "skippy/disk_store.h"

#define SK_STORE_FOLDER_NAME "bench"

typedef struct sk_store_folder {
    char path[PATH_MAX]; /* "" = none */
} sk_store_folder;

/* Makes a new folder below parent. Errors: SKIPPY_E_IO in words. */
int sk_store_folder_make(const char *parent, sk_store_folder *out, sk_err *e);
/* Removes it with everything in it. */
void sk_store_folder_remove(sk_store_folder *f);
/* Opens the disk store in it, without a limit. id (may be NULL) receives the id of an entry that was found. Errors:
 * those of skippy_disk_open, in words. */
int sk_store_folder_open(const sk_store_folder *f, skippy_disk_store **out, uint64_t *id, sk_err *e);
/* Takes the files below it out of the page cache (only these: dropping all caches would slow everything else on the
 * machine) and looks whether they have left: *cold is false where at least 1 % stayed, as in tmpfs. A disk with a cache
 * of its own, or that of a virtual machine's host, may still have them. Errors: SKIPPY_E_IO. */
int sk_store_folder_cool(const sk_store_folder *f, bool *cold, sk_err *e);

#endif
