/* Turns journal records into tables. */
#ifndef SKIPPY_CACHE_DISK_REPLAY_H
#define SKIPPY_CACHE_DISK_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/disk_index.h"

typedef struct sk_replay {
    sk_disk_index *ix;
    bool erased; /* an erase was begun; its rewriting of the files is not known to have ended */
} sk_replay;

/* Applies one record. SKIPPY_E_CORRUPT: it contradicts the records before it or itself, nothing was changed by it
 * (a damaged journal or a bug: the scan ends there); SKIPPY_E_NOMEM. Segments that it names are added to the tables
 * with size 0: the caller looks at the files. */
int sk_replay_record(sk_replay *r, uint32_t type, const uint8_t *payload, size_t bytes);

#endif
