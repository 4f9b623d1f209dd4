/* The inside of sk_tiers, shared by its source files only. */
#ifndef SKIPPY_REUSE_TIERS_INTERNAL_H
#define SKIPPY_REUSE_TIERS_INTERNAL_H

#include <pthread.h>

#include "reuse/tiers.h"
#include "skippy/disk_store.h"
#include "skippy/ram_store.h"

enum sk_command_type { SK_COMMAND_PUT = 1, SK_COMMAND_DROP = 2, SK_COMMAND_ERASE = 3 };

typedef struct sk_command {
    struct sk_command *next;
    enum sk_command_type type;
    sk_put *put;
    uint8_t tier;
    uint64_t id;
    enum skippy_drop_reason reason;
    sk_prefix named; /* owned: what filter points to */
    skippy_erase_filter filter;
} sk_command;

struct sk_tiers {
    /* constant after open */
    uint64_t staging_max, throttle;
    char *dir, *name;
    uint64_t disk_bytes;
    void (*wake)(void *ud);
    void *ud;
    pthread_t store_thread, fetch_thread;
    bool store_started, fetch_started;
    skippy_ram_store *ram;             /* NULL = none; thread-safe itself */
    _Atomic(skippy_disk_store *) disk; /* NULL until it is open; thread-safe itself */

    pthread_mutex_t lock;
    pthread_cond_t work;    /* commands, fetches, stop */
    pthread_cond_t drained; /* events were taken */
    sk_command *first, *last;
    sk_fetch *fetch_first, *fetch_last;
    sk_tier_event *event_first, *event_last;
    size_t n_found;        /* FOUND events that nobody took yet */
    uint64_t failure_told; /* store thread: when the last failed write was logged */
    bool disk_wanted, stop, stop_fetch, aborting /* the opening scan */;
    uint64_t staged, fetches, fetch_failures, fetch_bytes;
};

/* Appends an event, NULL-safe for out of memory: the event is lost with a log line. Calls wake. */
void sk_tiers_emit(sk_tiers *t, sk_tier_event e);
void sk_command_free(sk_command *c);
void *sk_tiers_store_main(void *arg);
void *sk_tiers_fetch_main(void *arg);
/* on_drop of both stores. */
void sk_tiers_ram_dropped(void *ud, uint64_t id, enum skippy_drop_reason reason);
void sk_tiers_disk_dropped(void *ud, uint64_t id, enum skippy_drop_reason reason);

#endif
