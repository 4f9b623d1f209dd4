/* The servers of one session: which ones, with what flags, and whether they fit into memory together. Not thread-safe.
 */
#ifndef SKIPPY_BENCH_FAMILY_CELL_HOSTS_H
#define SKIPPY_BENCH_FAMILY_CELL_HOSTS_H

#include <stdbool.h>

#include "bench/family/host.h"
#include "bench/family/input.h"

enum { SK_HOST_FLAGS_CHARS = 256 };

/* A server that did not start: it is measured by no part. */
typedef struct sk_lost_host {
    const char *name; /* static */
    char why[400];
} sk_lost_host;

/* Lives in one place: the hosts point into it. */
typedef struct sk_session_hosts {
    sk_family_host v[SK_FAMILY_MAX_HOSTS]; /* in the order of the records; ours is the last one */
    size_t n;
    sk_lost_host lost[SK_FAMILY_MAX_HOSTS];
    size_t n_lost;
    bool together;
    uint64_t host_bytes, available; /* what the choice was made with */
    uint32_t lane_ctx;              /* tokens */
    char flags[SK_FAMILY_MAX_HOSTS][SK_HOST_FLAGS_CHARS];
    char layers[16];     /* "-ngl N" */
    char all_layers[16]; /* the same in llama-server's words */
    char folder[1024];   /* outputs of the processes */
    char disk[1100];     /* our disk store */
    char disk_flags[1200];
    json_t *gone; /* receipts of lost hosts; owned */
} sk_session_hosts;

/* Which servers a session needs. */
typedef struct sk_host_wishes {
    bool baselines, paired, ours;
    uint32_t lane_ctx; /* tokens of one lane */
    int threads;
} sk_host_wishes;

/* Describes them; starts nothing. The model must be present. folder is copied and must not have blanks, which separate
 * words of flags. `available`: bytes of free memory, 0 =
 * unknown: one after another then. */
void sk_session_hosts_make(const sk_family_input *in, const sk_input_model *model, const sk_host_wishes *w,
                           const char *folder, uint64_t available, sk_session_hosts *out);
/* Bytes that one server of this model needs with so many tokens of context, generously. Pure. */
uint64_t sk_session_host_bytes(const sk_input_model *model, uint64_t ctx_tokens);
/* Starts all that are to run together; one that does not start is lost, with its reason. Errors: SKIPPY_E_CANCELLED,
 * SKIPPY_E_NOMEM. */
int sk_session_hosts_start(sk_session_hosts *h, sk_err *e);
/* Starts again what has ended by itself, so that one crash does not fail the cells behind it. Errors: as above. */
int sk_session_hosts_revive(sk_session_hosts *h, sk_err *e);
/* From here on ours keeps what it stores on disk, too. Before, it runs with its default flags: writing behind costs a
 * hybrid's requests time that is not theirs. Starts it again where it runs. Errors: SKIPPY_E_CANCELLED. */
int sk_session_hosts_use_disk(sk_session_hosts *h, sk_err *e);
void sk_session_hosts_stop(sk_session_hosts *h);
/* Receipts of all processes so far, a new array; NULL when out of memory. */
json_t *sk_session_hosts_receipts(const sk_session_hosts *h);
/* Rows' "hosts" from host `first` on; a new array, NULL when out of memory. */
json_t *sk_session_hosts_json(const sk_session_hosts *h, size_t first);
/* Stops them and removes our disk store. */
void sk_session_hosts_free(sk_session_hosts *h);

#endif
