/* The journal file: reading it whole at the open, appending to it afterwards. */
#ifndef SKIPPY_CACHE_DISK_JOURNAL_H
#define SKIPPY_CACHE_DISK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/disk_io.h"
#include "cache/disk_record.h"
#include "skippy/identity.h"

typedef struct sk_journal {
    int fd; /* -1 = none */
    uint64_t number;
    uint64_t end;   /* of the last valid record, in the file */
    uint64_t size;  /* of the file: more than end only after a failure that could not be undone */
    sk_chain chain; /* of the next record */
    bool suspect;   /* a write or a sync failed: nothing may be appended, a new journal must be written */
} sk_journal;

/* SKIPPY_E_CORRUPT ends the scan before this record; any other error ends it and is returned. */
typedef int (*sk_journal_visit)(void *ud, uint32_t type, const uint8_t *payload, size_t bytes);

/* Visits the records of the open file j->fd of j->size bytes whose header was read, up to the first one that does not
 * verify. Sets end and chain. *err is an errno value when SKIPPY_E_IO is returned. Other errors: SKIPPY_E_NOMEM,
 * SKIPPY_E_CANCELLED (progress returned false). */
int sk_journal_scan(const sk_io *io, const skippy_allocator *alloc, sk_journal *j,
                    const uint8_t header[SK_FILE_HEADER_BYTES], sk_journal_visit visit, void *visit_ud,
                    skippy_progress_fn progress, void *progress_ud, int *err);

/* Appends encoded records after which the chain is `next`; durable on return when `sync`. Returns 0 or an errno value:
 * then the journal is as it was, and suspect. */
int sk_journal_append(const sk_io *io, sk_journal *j, const void *data, size_t len, const sk_chain *next, bool sync);

#endif
