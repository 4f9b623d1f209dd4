/* The inside of a disk store, shared by its source files.
 *
 * Threads. `writer` is held by whoever changes files: one at a time, for as long as it takes. `mu` protects the tables
 * and counters; it is never held during a system call, so that no reader waits for a device. Order: writer, then mu.
 * Members say who protects them; what is written under `writer` alone is not looked at by readers. */
#ifndef SKIPPY_CACHE_DISK_INTERNAL_H
#define SKIPPY_CACHE_DISK_INTERNAL_H

#include <pthread.h>

#include "base/err.h"
#include "cache/disk_index.h"
#include "cache/disk_io.h"
#include "cache/disk_journal.h"
#include "skippy/disk_store.h"

typedef struct sk_pending_drop {
    uint64_t id;
    enum skippy_drop_reason reason;
} sk_pending_drop;

struct skippy_disk_store {
    /* constant after the open */
    skippy_allocator alloc;
    sk_io io;
    char *dir;
    char name[65];
    uint64_t max_bytes, segment_bytes, retry_ns;
    skippy_dropped_fn on_drop;
    void *ud;
    bool readonly;
    int root_fd, folder_fd, lock_fd;
    uint64_t lock_bytes;

    pthread_mutex_t writer, mu;

    /* under mu */
    sk_disk_index ix;
    skippy_store_stats counters;
    uint64_t tick;
    uint64_t journal_bytes;
    size_t open_handles;
    sk_pending_drop *pending; /* entries that left since the journal was written last; has room for all entries */
    size_t n_pending, cap_pending;

    /* under writer */
    sk_journal journal;
    uint64_t next_journal; /* number of the next journal: also names that a failure may have left are not used again */
    bool stray_files;      /* a file that is not needed any more could not be removed */
    sk_segment *active;    /* blocks are appended to it; pinned; NULL = none yet */
    bool active_dirty;     /* has bytes that are not synced */
    sk_bytes scratch;
    uint8_t *block_buffer; /* SKIPPY_BLOCK_MAX bytes, NULL until needed */
    uint64_t retry_at_ns;  /* no put before; 0 = none failed */
    sk_disk_entry *left;   /* entries to report when the call ends */
};

/* ---- disk_store.c: errors, entries that leave ---- */

/* "cannot VERB DIR/NAME/FILE: reason", SKIPPY_E_IO. file may be NULL. */
int sk_disk_fail(const skippy_disk_store *s, sk_err *e, const char *verb, const char *file, int err);
/* The same for a change of files: puts are refused for a while. */
int sk_disk_write_failed(skippy_disk_store *s, sk_err *e, const char *verb, const char *file, int err);
/* Words for the caller of the public interface; nothing after SKIPPY_OK. detail may be NULL. */
void sk_disk_detail_set(skippy_disk_detail *detail, int status, const sk_err *e);
/* SKIPPY_E_UNSUPPORTED and why. */
int sk_disk_readonly(const skippy_disk_store *s, skippy_disk_detail *detail);
/* A call that changes files. The end reports the entries that left, after both locks are free. */
void sk_writer_begin(skippy_disk_store *s);
void sk_writer_end(skippy_disk_store *s);
/* Hides an entry, remembers it for the journal and puts it on *left. Under mu. */
void sk_disk_entry_leave(skippy_disk_store *s, sk_disk_entry *e, enum skippy_drop_reason reason, sk_disk_entry **left);
/* Every entry that uses the block leaves; returns how many. Under mu. */
size_t sk_disk_quarantine(skippy_disk_store *s, sk_disk_block *b, sk_disk_entry **left);
/* Tells on_drop of each and lets it go. No lock held. */
void sk_disk_report(skippy_disk_store *s, sk_disk_entry *left);
/* Room in `pending` for one entry more than there are. Under mu. */
bool sk_disk_reserve_pending(skippy_disk_store *s);
/* The sizes of the store's files. Under mu. */
uint64_t sk_disk_physical(const skippy_disk_store *s);
/* Memory for one block, NULL when out of memory. Under writer. */
uint8_t *sk_disk_block_buffer(skippy_disk_store *s);

/* ---- disk_log.c: what is written to the journal. Under writer, mu not held. ---- */

/* Writes the drops that are pending, then, when e is set, its put record: both or nothing. e's blocks are placed and
 * held. SKIPPY_E_CORRUPT: one of them was found damaged meanwhile; SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_log_put(skippy_disk_store *s, sk_disk_entry *e, sk_err *err);
/* Pending drops; nothing to do is no error. */
int sk_log_drops(skippy_disk_store *s, bool sync, sk_err *err);
/* Recency and hits of the entries that were used. */
int sk_log_touches(skippy_disk_store *s, sk_err *err);
typedef struct sk_move {
    sk_disk_block *block; /* held */
    sk_segment *to;       /* NULL: it did not move */
    uint64_t offset;
} sk_move;
int sk_log_moves(skippy_disk_store *s, const sk_move *moves, size_t n, sk_err *err);
/* A new journal with nothing but what is there: write, sync, rename, sync of the folder, then the old one goes. */
int sk_log_checkpoint(skippy_disk_store *s, sk_err *err);
/* What a new journal would be long. Under mu. */
uint64_t sk_log_live_bytes(const skippy_disk_store *s);

/* ---- disk_segment.c: segment files ---- */

/* Makes `active` a segment that has room for a block of `bytes`. Under writer. */
int sk_segment_ready(skippy_disk_store *s, uint32_t bytes, sk_err *err);
/* Appends a block to the active segment; *offset is where. */
int sk_segment_append(skippy_disk_store *s, const skippy_block_ref *ref, const void *data, uint64_t *offset,
                      sk_err *err);
/* Everything that was appended is on the device. */
int sk_segment_sync(skippy_disk_store *s, sk_err *err);
/* No more appends to the active segment. */
void sk_segment_close_active(skippy_disk_store *s);
/* Removes a segment without live blocks. Reads of it that are under way end well. */
int sk_segment_remove(skippy_disk_store *s, sk_segment *g, sk_err *err);
int sk_segment_remove_dead(skippy_disk_store *s, sk_err *err);
/* Where appending began, to undo it. */
typedef struct sk_append_mark {
    uint64_t active, size, next_segment; /* active = 0: there was none */
} sk_append_mark;
sk_append_mark sk_segment_mark(skippy_disk_store *s);
void sk_segment_undo(skippy_disk_store *s, const sk_append_mark *mark);
/* Reads a block that lies at `offset` of a pinned segment and verifies it. SKIPPY_E_CORRUPT: the bytes are wrong or
 * not there; SKIPPY_E_NOT_FOUND: the file is gone; SKIPPY_E_IO (*err is an errno value). */
int sk_segment_read(skippy_disk_store *s, sk_segment *g, uint64_t offset, const skippy_block_ref *ref, void *buf,
                    int *err, uint64_t *hash_ns);
/* Under mu. */
void sk_segment_pin(skippy_disk_store *s, sk_segment *g);
/* mu not held; may close a descriptor. */
void sk_segment_unpin(skippy_disk_store *s, sk_segment *g);

/* ---- disk_compact.c, disk_evict.c. Under writer. ---- */

/* Moves the live blocks out of a segment and removes it. */
int sk_compact_segment(skippy_disk_store *s, sk_segment *victim, sk_err *err);
/* Every dead byte leaves the segments, every dead record the journal. */
int sk_compact_all(skippy_disk_store *s, sk_err *err);
/* The segment with most dead bytes, NULL when none has any. Under mu. */
sk_segment *sk_compact_victim(skippy_disk_store *s);
/* Evicts, compacts and removes stores that nobody owns until `need` more bytes fit. SKIPPY_E_FULL, SKIPPY_E_IO. */
int sk_evict_for(skippy_disk_store *s, uint64_t need, sk_err *err);
/* Is the directory over its limit, as far as this store can do something about it? */
bool sk_evict_due(skippy_disk_store *s);

/* ---- disk_open.c ---- */

int sk_disk_open(const skippy_allocator *alloc, const sk_io *io, const skippy_disk_params *p, skippy_disk_found found,
                 skippy_progress_fn progress, void *ud, skippy_disk_store **out, skippy_disk_detail *detail);

#endif
