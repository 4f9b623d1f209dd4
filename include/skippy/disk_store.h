/* Disk tier: payloads in append-only segments with a checksummed manifest journal, which survive a restart and a crash.
 * Format, byte for byte: docs/formats/disk-store.md.
 *
 * CAVEATS, read first:
 *  - Experimental: this interface may change in any version.
 *  - One process owns a store (a lock on its folder); a second open of the same store fails with SKIPPY_E_BUSY. Stores
 *    of different names share one directory and its byte limit: folders DIR/<name>/.
 *  - Thread-safe. One change at a time (put, drop, erase, compact; calls from several threads queue up) and any number
 *    of readers (lease, read, release, has, verify, stats). No reader ever waits for a write or a sync. Close alone.
 *  - A block source must not call the store that it supplies, except read and has. The allocator hooks must be
 *    thread-safe.
 *  - An entry is visible after its blocks and its journal record are on disk (fdatasync). A crash loses at most entries
 *    whose put had not returned; what was interrupted is removed at the next open.
 *  - Nothing read is trusted: every length is checked before use, every record carries a checksum, every block is
 *    verified against its digest before its bytes are handed out. A bad block quarantines the entries that refer to it.
 *  - The directory must be on a local file system (locks and syncs are relied on). Folders are made with mode 0700,
 * files with 0600.
 *  - After a write fails (ENOSPC, EIO, read-only) the store goes on serving what it has and refuses puts with
 *    SKIPPY_E_IO; it tries again after retry_ms.
 *  - Memory: the manifests of all entries (tokens, block references) and about 130 bytes for each block.
 *  - The clock is for recency and for people. One that jumps changes the order of eviction after a restart, no more. */
#ifndef SKIPPY_DISK_STORE_H
#define SKIPPY_DISK_STORE_H

#include "skippy/allocator.h"
#include "skippy/payload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the format. A store of another version is not read and not changed: SKIPPY_E_UNSUPPORTED. Older versions
 * that can still be read are listed in the format's document. */
#define SKIPPY_DISK_VERSION 1

typedef struct skippy_disk_store skippy_disk_store;

typedef struct skippy_disk_params {
    const char *dir;        /* absolute or relative; created when missing (its parent must exist) */
    const char *name;       /* folder of this store: 1-64 characters of [0-9A-Za-z._-], not beginning with '.' */
    uint64_t max_bytes;     /* over the whole directory: own entries are evicted so that the sum fits, and stores that
                             * nobody owns go first, least recently used store first; 0 = no limit. Every store in use
                             * is left half of an equal share. Exceeded for the time of one compaction, by what that
                             * copies (at most a segment, or the journal) */
    uint64_t segment_bytes; /* a segment is closed when the next block would exceed this size; 0 = 64 MiB */
    uint32_t retry_ms;      /* 0 = 10 s */
    skippy_dropped_fn on_drop;
    void *ud;
} skippy_disk_params;

/* Called for each entry that open finds, in no particular order, on the opening thread. The view is valid during the
 * call. Returns false to stop the scan (the open then fails with SKIPPY_E_CANCELLED). */
typedef bool (*skippy_disk_found)(void *ud, uint64_t id, const skippy_manifest *m);

/* Words for people about the last failure of this thread's call: "which file, what, why". detail may be NULL. */
typedef struct skippy_disk_detail {
    char text[512];
} skippy_disk_detail;

/* Opens or creates a store, repairs what a crash left, and reports every entry. Ids stay the same over a restart and
 * are not given to other entries. Entries that the open itself gives up (damaged files, a lower limit) are not reported
 * and on_drop is not called for them. Block bytes are not read: a bad block is found when it is used (or by
 * skippy_disk_verify). progress may be NULL: bytes of the journal read, of all. Errors:
 * SKIPPY_E_INVALID (name), SKIPPY_E_BUSY (another process owns it), SKIPPY_E_UNSUPPORTED (other version), SKIPPY_E_IO,
 * SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED. A damaged journal is not an error: what cannot be proven is dropped. */
SKIPPY_API int skippy_disk_open(const skippy_allocator *alloc, const skippy_disk_params *p, skippy_disk_found found,
                                skippy_progress_fn progress, void *ud, skippy_disk_store **out,
                                skippy_disk_detail *detail);
/* Opens for reading only, without a lock and without changing anything: for inspection of a store that may be in use.
 * put, drop, erase and compact then fail with SKIPPY_E_UNSUPPORTED. What is seen is the store at the time of the open:
 * blocks that its owner moved or dropped since then read as SKIPPY_E_CORRUPT, never as other bytes. Entries whose files
 * are damaged are reported too: skippy_disk_verify finds them. */
SKIPPY_API int skippy_disk_open_readonly(const skippy_allocator *alloc, const char *dir, const char *name,
                                         skippy_disk_found found, void *ud, skippy_disk_store **out,
                                         skippy_disk_detail *detail);
/* Writes recency, syncs, unlocks. No lease may be open. s may be NULL. */
SKIPPY_API void skippy_disk_close(skippy_disk_store *s);

/* Stores an entry durably, evicting and compacting as needed. Same contract as skippy_ram_put; also SKIPPY_E_IO (the
 * detail says which file and why), SKIPPY_E_CORRUPT also when a block that the entry shares was found damaged
 * meanwhile, and SKIPPY_E_FULL also when other stores in use hold the space. */
SKIPPY_API int skippy_disk_put(skippy_disk_store *s, const skippy_manifest *m, skippy_block_source source, void *ud,
                               uint64_t *id, skippy_disk_detail *detail);
/* As skippy_ram_lease and skippy_ram_release. A lease keeps an entry from being evicted and dropped; an erase and a
 * damaged block take its bytes all the same, and reads then give SKIPPY_E_NOT_FOUND. The manifest is lent until the
 * release, with hits and used_ms as they were when the entry was stored or the store opened. */
SKIPPY_API int skippy_disk_lease(skippy_disk_store *s, uint64_t id, const skippy_manifest **m);
SKIPPY_API int skippy_disk_release(skippy_disk_store *s, uint64_t id);
/* Reads a block into buf and verifies it. SKIPPY_E_CORRUPT: as skippy_ram_read, also when its file is gone (the journal
 * drops the entries at the next change). Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO (a read error: nothing is dropped). */
SKIPPY_API int skippy_disk_read(skippy_disk_store *s, const skippy_block_ref *block, void *buf);
SKIPPY_API bool skippy_disk_has(skippy_disk_store *s, const skippy_block_ref *block);
/* Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY (leased), SKIPPY_E_INVALID. on_drop is not called. Not synced: after a
 * power cut the entry may be there once more. */
SKIPPY_API int skippy_disk_drop(skippy_disk_store *s, uint64_t id, enum skippy_drop_reason reason);
/* Drops what the filter means, leased or not, and calls on_drop for each. Then everything dead is rewritten away,
 * segments and journal, so that the bytes and tokens are gone from the files when the call returns, also those of
 * entries that left earlier (a block that another entry still uses stays). *n_erased says how many entries.
 * SKIPPY_E_IO: the entries are gone, the files may not be clean: call again (with the same filter; it continues). A
 * crash in the middle: the next open completes it. Blocks of the device that files gave up are the file system's
 * business. */
SKIPPY_API int skippy_disk_erase(skippy_disk_store *s, const skippy_erase_filter *f, size_t *n_erased,
                                 skippy_disk_detail *detail);
/* Housekeeping when there is nothing else to do, one piece per call: compacts the segment with most dead bytes (when a
 * quarter of it is dead), rewrites a journal that is mostly dead, makes room for a store that came later, writes
 * recency. *more tells whether another call would find work. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM, SKIPPY_E_FULL (the
 * limit is exceeded, and everything is leased). */
SKIPPY_API int skippy_disk_compact(skippy_disk_store *s, bool *more, skippy_disk_detail *detail);
/* Reads and verifies every block. Entries with bad blocks: counted, and quarantined unless read-only. A block that
 * cannot be read (SKIPPY_E_IO) counts as bad, its entries stay. progress: bytes. Errors: SKIPPY_E_NOMEM,
 * SKIPPY_E_CANCELLED. */
SKIPPY_API int skippy_disk_verify(skippy_disk_store *s, skippy_progress_fn progress, void *ud, uint64_t *bad_blocks,
                                  uint64_t *bad_entries);
SKIPPY_API void skippy_disk_get_stats(skippy_disk_store *s, skippy_store_stats *out);

/* Names of the stores in a directory, the sizes of their files, and whether a process owns them. Calls visit for each,
 * returns its first non-zero result. Errors: SKIPPY_E_IO, SKIPPY_E_INVALID. */
typedef int (*skippy_disk_visit)(void *ud, const char *name, uint64_t bytes, bool owned);
SKIPPY_API int skippy_disk_list(const char *dir, skippy_disk_visit visit, void *ud);

#ifdef __cplusplus
}
#endif
#endif
