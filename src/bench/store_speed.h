/* How fast state moves: out of the runtime, into the stores, back. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_SPEED_H
#define SKIPPY_BENCH_STORE_SPEED_H

#include "bench/store_folder.h"
#include "bench/store_lab.h"
#include "bench/store_series.h"

/* Steps in the order in which a run does them; all on one thread. */
enum sk_store_step {
    SK_STEP_EXPORT,    /* KV windows and tail, canonical */
    SK_STEP_CUT,       /* cut and hash */
    SK_STEP_RAM_FILL,  /* into an empty RAM store; the copy is hashed once more */
    SK_STEP_RAM_READ,  /* and verify, into one buffer */
    SK_STEP_RAM_EVICT, /* into a full RAM store: an older entry must leave */
    SK_STEP_DISK_PUT,  /* with fdatasync */
    SK_STEP_DISK_READ, /* and verify; the page cache has it */
    SK_STEP_DISK_COLD, /* the same after the files left the page cache */
    SK_STEP_IMPORT,
    SK_STEPS
};

typedef struct sk_store_speed {
    uint64_t payload_bytes;
    sk_store_series step[SK_STEPS];
    bool cold; /* the page cache could be emptied: else DISK_COLD has no runs */
} sk_store_speed;

/* sizes.runs runs after one that is not counted, each with all steps. The folder is empty before and after. Errors:
 * those of the lab and the stores. *out is to be freed in any case. */
int sk_store_speed_run(sk_store_lab *lab, const sk_store_folder *folder, sk_store_speed *out, sk_err *e);
void sk_store_speed_free(sk_store_speed *s);
/* For people. */
const char *sk_store_step_title(enum sk_store_step step);
/* For JSON. */
const char *sk_store_step_key(enum sk_store_step step);

#endif
