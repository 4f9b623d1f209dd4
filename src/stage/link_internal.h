/* The inside of a link, shared by link*.c.
 *
 *   caller --sk_link_send--> queue --pump_out--> channel ==> peer
 *   caller <-sk_link_receive- queue <--pump_in-- channel <== peer
 *
 * Two locks. `io` belongs to whoever moves bytes: the link's thread, or a sender that finds it free and so saves the
 * change of threads for its small frame. `lock` guards the queues and what callers ask about, and is never held while
 * bytes move. Order: io before lock. Nothing is called back under either. */
#ifndef SKIPPY_STAGE_LINK_INTERNAL_H
#define SKIPPY_STAGE_LINK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/frame.h"
#include "stage/link.h"
#include "stage/link_address.h"
#include "stage/link_tls.h"

enum {
    SK_LINK_STASH = 64 * 1024,  /* small frames are read together */
    SK_LINK_PIECE = 256 * 1024, /* of a large frame, for one system call */
    SK_LINK_INLINE = 64 * 1024, /* that a sender writes itself before it leaves the rest to the thread */
    SK_LINK_TURN = 1024 * 1024, /* that the thread moves in one direction before it looks at the other */
    SK_LINK_UNREAD_MAX =
        64 * 1024 * 1024 /* received and not taken: beyond it nothing is read, so the peer has to wait */
};

/* Frames on their way out. */
typedef struct sk_out_item {
    struct sk_out_item *next;
    sk_buf bytes;
    uint32_t n_frames; /* 0 for PING and PONG, which no owner sent */
} sk_out_item;

/* A frame that came, without its length field. */
typedef struct sk_in_item {
    struct sk_in_item *next;
    uint8_t *bytes;
    size_t len;
} sk_in_item;

struct sk_link {
    sk_link_options o; /* with the defaults; certificates' names are not kept */
    char peer[SK_LINK_NAME_MAX];
    bool encrypted;
    pthread_t thread;
    int kick_fd;       /* eventfd that ends the thread's poll */
    atomic_uint limit; /* of a length field */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below; by the monotonic clock */
    sk_out_item *out_head, **out_tail;
    uint64_t out_bytes;
    sk_in_item *in_head, **in_tail;
    uint64_t in_bytes;
    uint32_t credits;
    bool reading_paused, down, closing;
    uint64_t close_by_ns;
    char reason[512];
    sk_link_stats stats;

    pthread_mutex_t io;
    sk_channel ch;
    sk_out_item *sending; /* its first `sent` bytes are gone */
    size_t sent;
    sk_err write_error; /* of a sender, for the thread: only the thread takes a link down */
    bool ping_due, pong_due, finished;
    uint64_t ping_value, pong_value;
    uint64_t heard_ns, frame_in_ns, sent_ns, pinged_ns;
    uint8_t *frame; /* the frame that is being read, when it did not come whole */
    size_t frame_len, frame_have;
    size_t stash_len;
    uint8_t stash[SK_LINK_STASH];
};

/* Makes a link of an open channel and starts its thread; takes *ch, also on failure. greet: send a PING at once. */
int sk_link_start(sk_channel *ch, const char *peer, const sk_link_options *o, bool greet, sk_link **out, sk_err *e);

/* ---- link_pump.c, all under io ---- */

/* Writes what waits until the socket takes no more or about `budget` bytes are gone. */
int sk_link_pump_out(sk_link *l, size_t budget, sk_err *e);
/* Whether there is anything left to write. Takes the lock. */
bool sk_link_has_output(sk_link *l);
/* Reads until nothing more is there (*more false), or the budget is used up or too much waits to be taken. *arrived
 * counts frames for the owner. Errors: SKIPPY_E_IO (the end), SKIPPY_E_INVALID (not a frame), SKIPPY_E_NOMEM. */
int sk_link_pump_in(sk_link *l, size_t budget, bool *more, uint32_t *arrived, sk_err *e);

/* ---- link_thread.c ---- */

void *sk_link_run(void *link);
/* Ends the thread's poll. Any thread. */
void sk_link_kick(sk_link *l);

#endif
