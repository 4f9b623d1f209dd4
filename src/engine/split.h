/* The engine as the head of a chain of stages: it computes the first layers, the stages behind it the others, and the
 * last one sends back rows of logits. Everything here is NULL or zero in an engine that holds the whole model.
 *
 * A request on a lane goes through phases:
 *
 *   PROBING     OPEN and PROBE are sent; the lane still holds what it held before. Left out while guesses come true:
 * that all stages hold what the head holds RECALLING   the lengths are agreed or guessed; the own state is on its way
 * from a store RESTORING   the own state is restored, RESTORE is sent REPLAYING   stages behind restored less than the
 * head: kept hidden states are sent RUNNING     rows are computed and sent; `awaits`: the last stage owes a row
 *
 * Engine thread only. */
#ifndef SKIPPY_ENGINE_SPLIT_H
#define SKIPPY_ENGINE_SPLIT_H

#include "base/hash.h"
#include "engine/engine.h"
#include "stage/agree.h"
#include "stage/chain.h"
#include "stage/kept.h"

enum sk_split_phase {
    SK_SPLIT_NONE = 0,
    SK_SPLIT_PROBING,
    SK_SPLIT_RECALLING,
    SK_SPLIT_RESTORING,
    SK_SPLIT_REPLAYING,
    SK_SPLIT_RUNNING
};

/* A lane's part. */
typedef struct sk_split_lane {
    uint64_t session; /* 0 = none */
    enum sk_split_phase phase;
    bool awaits;
    bool guessed;      /* RESTORE went out without a PROBE */
    bool asked;        /* a RESTORE went out, so stages may hold something */
    uint64_t asked_ns; /* when the answer that is waited for was asked for */
    sk_agreement agreed;
    uint32_t replay_at;        /* next row to send again */
    enum sk_hit_source source; /* of the own state */
    size_t common;             /* longest beginning that is known here */
    sk_kept_writer writer;
    sk_hasher hash; /* of the first `hashed` tokens */
    uint32_t hashed;
} sk_split_lane;

typedef struct sk_split {
    sk_chain *chain;
    uint32_t epoch; /* of the sessions that run; 0 = the chain is down */
    sk_stage_card cards[SK_CHAIN_MAX], cards_at_start[SK_CHAIN_MAX];
    uint32_t n_cards; /* stages behind the head */
    sk_kept *kept;    /* NULL = no activation cache */
    float *hidden;    /* n_batch rows */
    uint16_t *half;   /* the same as f16; NULL when hidden states travel as f32 */
    uint32_t width;
    uint64_t last_session;
    uint64_t down_since_ns;
    uint64_t heard_ns;     /* when the stages last showed a sign of life */
    uint64_t no_credit_ns; /* since when no chunk may be sent; 0 = one may */
    char down_text[512];   /* "" while the chain is up */
    char last_break[512];  /* what the last break was about */
    char topology[512];
    bool guesses;     /* what the head holds was on all stages, too, when it was last compared */
    uint64_t erasing; /* session number of the ERASE whose ERASED is to come; 0 = none */
    uint64_t erase_since_ns;
    bool event; /* shared, under the engine's lock: the chain has something to tell */
} sk_split;

struct sk_lane;
struct sk_job;

/* Connects the chain (waits for it), learns the cuts and names the stage in the identity. Before the namespace is
 * formed. */
int sk_split_open(sk_engine *en, sk_err *e);
/* The part that needs the cache to be open. */
int sk_split_open_kept(sk_engine *en, sk_err *e);
void sk_split_close(sk_engine *en);

/* Takes what the stages sent. */
void sk_split_take_events(sk_engine *en);
/* Why a job cannot go on because of the stages: SKIPPY_OK, or a code and a sentence. l: its lane, NULL when it waits
 * for one. */
int sk_split_must_end(const sk_engine *en, const struct sk_lane *l, const struct sk_job *j, uint64_t now,
                      const char **text);

/* Erases behind the head as well; reports (sk_erase_report) when the stages did, or that they could not. */
void sk_split_erase(sk_engine *en, const skippy_erase_filter *f);

/* What became of a job that wants a lane. NO_CELLS: later ones must not overtake it. */
enum sk_verdict { SK_ADMITTED, SK_WAITS, SK_NO_CELLS };
/* split_admit.c: gives the job a lane and asks the stages. */
enum sk_verdict sk_split_admit(sk_engine *en, struct sk_job *j);
/* Goes on with lanes whose own state arrived from a store, and with replays; true when something was done. */
bool sk_split_advance(sk_engine *en);
/* The stages' answers. */
void sk_split_probed(sk_engine *en, struct sk_lane *l, const sk_frame_probed *p);
void sk_split_restored(sk_engine *en, struct sk_lane *l, const sk_frame_restored *r);
/* True when the lane does not hold its job's tokens yet but what it held before: then the job is detached, the content
 * stays, and the caller has nothing to record. */
bool sk_split_detach(sk_engine *en, struct sk_lane *l);

/* split_step.c */
/* May a chunk be sent now? Notes since when not. */
bool sk_split_may_send(sk_engine *en);
/* May rows of this lane be computed now? */
bool sk_split_ready(const sk_engine *en, const struct sk_lane *l);
/* How many generating lanes share a chunk: few, so that the stages work at the same time. */
uint32_t sk_split_lanes_per_chunk(const sk_engine *en);
/* Most rows of a chunk: a prompt is cut so that all stages can work on it at the same time. */
uint32_t sk_split_rows_per_chunk(const sk_engine *en);
/* Computes the batch's rows with the own layers and sends them on. As sk_context_decode. */
int sk_split_decode(sk_engine *en, uint32_t *bad_seq, sk_err *e);
/* The lane's last row is on its way to the last stage. */
void sk_split_expect(sk_engine *en, struct sk_lane *l);
/* Tells the stages to keep the state of the lane's tokens. */
void sk_split_record(sk_engine *en, struct sk_lane *l);
/* The session of a lane is over. keep: the lane stays hot. */
void sk_split_end(sk_engine *en, struct sk_lane *l, bool keep);
/* Sends rows [pos, pos+n) of the lane's tokens, which lie in split->hidden, as a chunk of their own. */
void sk_split_send_rows(sk_engine *en, struct sk_lane *l, uint32_t pos, uint32_t n, uint16_t flags);
/* Sends a frame about a lane's session. False: the chain is down (its event follows). */
bool sk_split_send(sk_engine *en, const struct sk_lane *l, sk_frame *f);

#endif
