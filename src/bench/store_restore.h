/* Restoring a prefix against computing it again. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_RESTORE_H
#define SKIPPY_BENCH_STORE_RESTORE_H

#include "bench/store_folder.h"
#include "bench/store_lab.h"
#include "bench/store_series.h"

enum sk_store_path {
    SK_PATH_RECOMPUTE, /* until the logits after the last token are there */
    SK_PATH_RAM,       /* lease, read, verify, import */
    SK_PATH_DISK,      /* open the store, lease, read, verify, import; the page cache has the files */
    SK_PATH_DISK_COLD, /* the same after the files left the page cache */
    SK_PATHS
};

typedef struct sk_store_restore {
    uint64_t payload_bytes;
    sk_store_series path[SK_PATHS];
    bool cold; /* as in bench/store_speed.h */
} sk_store_restore;

/* sizes.runs rounds after one that is not counted; each takes all paths, beginning with another one. In the round that
 * is not counted every restored state is exported again and must have the bytes that were stored. The folder's store
 * has no entries before. Errors: those of the lab and the stores; SKIPPY_E_CORRUPT (a restored state differs). *out is
 * to be freed in any case. */
int sk_store_restore_run(sk_store_lab *lab, const sk_store_folder *folder, sk_store_restore *out, sk_err *e);
void sk_store_restore_free(sk_store_restore *r);
const char *sk_store_path_title(enum sk_store_path path);
const char *sk_store_path_key(enum sk_store_path path);

#endif
