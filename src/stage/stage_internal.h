/* The inside of a stage, shared by its source files only.
 *
 *   stage before --frames--> service thread (context, cache, lanes) --frames--> stage behind
 *                <-----RESULT, FAULT------- relay thread <------------answers--
 *                                                 |--PROBED, RESTORED, ERASED--> service thread
 *
 * What is not marked as shared belongs to the service thread. */
#ifndef SKIPPY_STAGE_STAGE_INTERNAL_H
#define SKIPPY_STAGE_STAGE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"
#include "runtime/stage_context.h"
#include "stage/kept.h"
#include "stage/service.h"
#include "stage/waker.h"

enum {
    SK_STAGE_CREDITS = 4, /* chunks that the stage before may send ahead: one computes, one waits, two are on the way */
    SK_STAGE_STALL_MS = 30000,  /* the stage behind took nothing for so long: it is as good as gone */
    SK_STAGE_SILENCE_MS = 1000, /* a peer that sends no HELLO for so long gives way to the next one */
    SK_STAGE_ERASES_MAX = 16,   /* erases that may wait for the stage behind at once */
    SK_STAGE_LINGER_MS = 300    /* for the last words on a link that ends */
};

/* ---- sessions ---- */

/* An answer from the stage behind, as the relay handed it over. */
typedef struct sk_stage_answer {
    struct sk_stage_answer *next;
    sk_frame frame;
    uint8_t *bytes; /* that the frame points into; owned */
} sk_stage_answer;
void sk_stage_answer_free(sk_stage_answer *a); /* a may be NULL */

/* A RESTORE whose answer is not sent yet. */
typedef struct sk_stage_restore {
    bool active, own_done;
    uint32_t length, next; /* for this stage and for the one behind (the same on the last stage) */
    int status;            /* of this stage's part */
    char text[256];
    enum sk_stage_source source;
    sk_recall recall;       /* linked in the hold while state is on its way from a store */
    sk_stage_answer *below; /* RESTORED of the stage behind; owned */
} sk_stage_restore;

/* One sequence id, and the session that runs on it. Between OPEN and RESTORE the sequence still holds what an earlier
 * session left: it is the session's own (claimed) from its RESTORE or first CHUNK on. */
typedef struct sk_stage_lane {
    uint32_t id; /* also the sequence id */
    /* the sequence: state of exactly these tokens */
    int32_t *tokens; /* owned */
    uint32_t n, cap;
    sk_hasher hash;      /* of tokens[0..n) */
    skippy_key ns;       /* they belong to */
    sk_lineage *lineage; /* windows of this sequence that left the runtime already; NULL = none known */
    uint64_t last_use;
    /* the session */
    uint64_t session; /* 0 = none */
    bool claimed, faulted, no_cache;
    sk_prefix prompt; /* owned */
    sk_kept_writer writer;
    bool probed; /* offer waits for those of the stages behind */
    sk_stage_offer offer;
    sk_stage_restore restore;
} sk_stage_lane;

/* How long this stage computed for the row of logits that is asked for: added to the RESULT when it comes by. */
typedef struct sk_stage_timing {
    uint64_t session, compute_ns;
    uint32_t pos;
} sk_stage_timing;

/* An ERASE whose answer is not sent yet. */
typedef struct sk_stage_erase {
    uint32_t lane;
    uint64_t session; /* of the frame, for the answer */
    bool own_done, below_done;
    uint64_t n;
    int status;
} sk_stage_erase;

/* ---- computing ---- */

/* A span of the present chunk that was accepted. */
typedef struct sk_stage_work {
    const sk_span *span; /* of the frame */
    sk_stage_lane *lane;
    uint32_t row;  /* of its first token in the chunk's buffers */
    uint32_t done; /* rows that are decoded */
    bool failed;
} sk_stage_work;

struct sk_stage {
    /* constant after open */
    const sk_model *model;
    sk_stage_params params; /* strings are the caller's */
    sk_stage_facts facts;
    uint32_t n_vocab;   /* of the logits; last stage only, else 0 */
    sk_stage_card card; /* index: of the present chain */
    sk_setup setup;
    sk_listener *listener;
    uint32_t stall_ms, silence_ms;

    /* of the present chain */
    sk_hold hold; /* opened with the first HELLO: only then the identity is known */
    sk_kept *kept;
    uint32_t n_behind; /* stages behind this one */
    bool split_known;  /* false: the head asked for the cards only */
    sk_link *down;     /* NULL on the last stage */

    sk_stage_lane *lanes; /* n_lanes */
    uint64_t clock;
    sk_stage_erase erases[SK_STAGE_ERASES_MAX]; /* oldest first */
    uint32_t n_erases, n_stale_erases;          /* stale: of links that ended; their stores will still report */

    /* the present chunk: n_batch rows */
    sk_stage_work work[SK_SPANS_MAX];
    uint32_t n_work;
    sk_row *rows;
    float *in, *out; /* rows x width; out: NULL on the last stage */
    uint16_t *half;  /* the f16 form of either; NULL for f32 links */
    uint64_t compute_ns;
    sk_stage_stats st;

    /* shared */
    sk_waker waker, relay_waker;
    atomic_bool stop, relay_stop;
    pthread_mutex_t lock;  /* of what follows */
    sk_link *up, *pending; /* pending: accepted, not served yet */
    uint64_t hello_by_ns;  /* `up` has sent no HELLO: when it has to give way (sk_now_ns). 0 = it has */
    bool broken;
    char reason[384]; /* broken: why, for people */
    sk_stage_answer *inbox, **inbox_end;
    sk_stage_timing *timing; /* one for each lane: the last row of logits that was asked for */
    uint64_t results_passed;
    sk_stage_stats st_public;

    pthread_t door, relay;
    bool door_started, relay_started;
};

/* ---- service.c ---- */

/* The present links cannot go on: the first reason counts. Any thread. */
void sk_stage_break(sk_stage *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool sk_stage_is_broken(sk_stage *s);
/* The same, and why (e may be NULL). */
bool sk_stage_why_broken(sk_stage *s, sk_err *e);
/* May this session read what is stored, and record what it computes? */
static inline bool sk_stage_may_reuse(const sk_stage *s, const sk_stage_lane *l) {
    return s->hold.reuse.enabled && !l->no_cache;
}

/* ---- service_facts.c ---- */

/* Card of this stage, index 0. */
void sk_stage_fill_card(sk_stage *s);
/* Does a HELLO fit this stage? Errors name both values: SKIPPY_E_UNSUPPORTED. */
int sk_stage_check_hello(const sk_stage *s, const sk_frame_hello *h, sk_err *e);
/* Does the head ask for the cards only? */
bool sk_stage_is_inquiry(const sk_frame_hello *h);

/* ---- service_memory.c ---- */

/* Makes the buffers of chunks. SKIPPY_E_NOMEM. */
int sk_stage_make_buffers(sk_stage *s, sk_err *e);
/* Proves the codec on the context, so that a stage that cannot work fails before it listens. */
int sk_stage_try_hold(sk_stage *s, sk_err *e);
/* Opens the cache under the identity that this split gives it. One that is open under the same identity stays as it is:
 * what it holds outlives the links. */
int sk_stage_open_hold(sk_stage *s, const sk_frame_hello *h, sk_err *e);
void sk_stage_close_hold(sk_stage *s);
/* Frees cells by clearing what is cheapest to lose: the idle lane that was used longest ago, else an entry. */
bool sk_stage_evict_any(void *ud);
bool sk_stage_make_room(void *ud, uint32_t cells);

/* ---- service_door.c ---- */

/* Accepts peers: one becomes `pending`, others are told that this stage serves already. */
int sk_stage_start_door(sk_stage *s, sk_err *e);
void sk_stage_stop_door(sk_stage *s);
/* Sends the reason and ends the link. */
void sk_stage_refuse(sk_link *l, const sk_err *why);

/* ---- service_greet.c ---- */

/* HELLO of the link `up`, the onward link, WELCOME back. On an error the caller refuses `up` and closes both. *fatal:
 * no later link can mend it. */
int sk_stage_greet(sk_stage *s, bool *fatal, sk_err *e);

/* ---- service_send.c: each breaks the links when it cannot send ---- */

void sk_stage_send_up(sk_stage *s, const sk_frame *f);
/* Does nothing on the last stage. */
void sk_stage_send_down(sk_stage *s, const sk_frame *f);
/* The same frame, unchanged: bytes as they were received. */
void sk_stage_pass_down(sk_stage *s, const uint8_t *bytes, size_t len);
/* A CHUNK: `hidden` becomes its hidden states, in the links' form. Waits for a credit of the stage behind. */
void sk_stage_send_hidden(sk_stage *s, sk_frame *f, const float *hidden);
/* Tells that a session cannot go on. Nothing else. */
void sk_stage_send_fault(sk_stage *s, uint32_t lane, uint64_t session, int status, const char *text);

/* ---- service_frames.c ---- */

/* Does what a frame from the stage before asks for. */
void sk_stage_handle(sk_stage *s, const uint8_t *bytes, size_t len);
/* Takes an answer of the stage behind; owns it. */
void sk_stage_take_answer(sk_stage *s, sk_stage_answer *a);

/* ---- service_erase.c ---- */

void sk_stage_begin_erase(sk_stage *s, const sk_frame *f, const uint8_t *bytes, size_t len);
void sk_stage_erased(void *ud, size_t count, int rc); /* of sk_hold_params */
void sk_stage_erased_below(sk_stage *s, const sk_frame *f);
/* Answers those that are done, after the stores reported. */
void sk_stage_answer_erases(sk_stage *s);
/* The link ended: nobody waits for an answer. */
void sk_stage_forget_erases(sk_stage *s);

/* ---- session.c ---- */

/* The lane that this session runs on. NULL: there is no such session. */
sk_stage_lane *sk_session_find(sk_stage *s, uint32_t lane, uint64_t session);
void sk_session_open(sk_stage *s, const sk_frame *f);
/* Ends a lane's session. keep: its tokens stay for the next one. */
void sk_session_close(sk_stage *s, sk_stage_lane *l, bool keep);
/* The sequence is the session's own from now on; what an earlier one left is dropped. */
void sk_session_claim(sk_stage *s, sk_stage_lane *l);
/* The session cannot go on: empties the lane; what comes for it now is ignored. */
void sk_session_fail(sk_stage *s, sk_stage_lane *l);
/* The same, and tells it why. */
void sk_session_fault(sk_stage *s, sk_stage_lane *l, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Keeps the state of the n tokens that the lane holds. */
void sk_session_record(sk_stage *s, sk_stage_lane *l, uint64_t n);
void sk_session_trim(sk_stage *s, sk_stage_lane *l, uint64_t n);
/* The first n tokens of a lane's sequence, with the session's names; borrowed. */
sk_prefix sk_session_prefix(const sk_stage_lane *l, uint32_t n);

/* ---- session_lane.c ---- */

/* Empties the sequence and forgets its tokens; the session stays. */
void sk_lane_reset(sk_stage *s, sk_stage_lane *l);
/* Appends tokens that were decoded. SKIPPY_E_NOMEM. */
int sk_lane_append(sk_stage_lane *l, const int32_t *tokens, uint32_t n);
/* The sequence holds exactly these tokens now. SKIPPY_E_NOMEM. */
int sk_lane_adopt(sk_stage_lane *l, const int32_t *tokens, uint32_t n, const skippy_key *ns);
/* Cuts the sequence, its tokens and what is known of its windows. */
int sk_lane_trim(sk_stage *s, sk_stage_lane *l, uint32_t n, sk_err *e);
/* Tokens that a lane's sequence and this session's prompt have in common; 0 where sessions may not share. */
uint32_t sk_lane_common(const sk_stage *s, const sk_stage_lane *l, const sk_stage_lane *session);
/* Digest of the n tokens behind those of h. */
skippy_key sk_lane_hash_after(const sk_hasher *h, const int32_t *tokens, uint32_t n);
/* Frees memory; the sequence is the context's. */
void sk_lane_free(sk_stage_lane *l);

/* ---- session_probe.c ---- */

void sk_session_probe(sk_stage *s, sk_stage_lane *l);
void sk_session_probed_below(sk_stage *s, sk_stage_lane *l, const sk_frame *f);
/* Can a RESTORE of the whole prompt bring its logits? */
bool sk_session_has_row(const sk_stage *s, const sk_stage_lane *l);

/* ---- session_restore.c ---- */

void sk_session_restore(sk_stage *s, sk_stage_lane *l, const sk_frame *f);
/* Goes on with restores that wait for a store. */
void sk_session_restore_go_on(sk_stage *s);
void sk_session_restored_below(sk_stage *s, sk_stage_lane *l, sk_stage_answer *a);
/* Gives it up without an answer. */
void sk_session_restore_drop(sk_stage *s, sk_stage_lane *l);

/* ---- session_replay.c ---- */

/* Sends the kept hidden states of the prompt's positions [from, to) down. SKIPPY_E_NOT_FOUND: not held any more. */
int sk_session_replay(sk_stage *s, sk_stage_lane *l, uint32_t from, uint32_t to, sk_err *e);

/* ---- compute.c ---- */

void sk_stage_compute(sk_stage *s, const sk_frame *f);

/* ---- compute_rows.c ---- */

/* Decodes the rows of work[first..end), which go to llama.cpp together; sessions that fail are told. */
void sk_stage_decode(sk_stage *s, uint32_t first, uint32_t end);

/* ---- relay.c ---- */

int sk_relay_start(sk_stage *s, sk_err *e);
void sk_relay_stop(sk_stage *s);
/* The next answer for the service thread, NULL = none. */
sk_stage_answer *sk_relay_take(sk_stage *s);
/* Remembers how long this stage computed for the row of logits at pos. */
void sk_relay_note(sk_stage *s, const sk_stage_lane *l, uint32_t pos);

#endif
