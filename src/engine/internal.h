/* The engine's inside, shared by its source files only. */
#ifndef SKIPPY_ENGINE_INTERNAL_H
#define SKIPPY_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine/engine.h"
#include "engine/job.h"
#include "engine/shadow.h"
#include "engine/split.h"
#include "reuse/hold.h"
#include "reuse/setup.h"
#include "runtime/context.h"
#include "runtime/rowclass.h"

/* STAGING: in the head of a chain, a job whose start is being agreed with the stages. */
enum sk_lane_state { SK_LANE_IDLE = 0, SK_LANE_PREFILL = 1, SK_LANE_DECODE = 2, SK_LANE_STAGING = 3 };

#define SK_MAX_SPLITS 48

/* One lane = one sequence id. While a job runs, tokens[0..n) of the job are in the sequence; afterwards the lane keeps
 * them (an idle lane is a hot lane for the next request that begins the same). */
typedef struct sk_lane {
    uint32_t id; /* also the sequence id */
    enum sk_lane_state state;
    sk_job *job;   /* NULL when idle */
    uint32_t n;    /* tokens in the sequence */
    int32_t *kept; /* idle, or staging and not restored yet: the n tokens, owned; NULL = nothing to reuse */
    skippy_key kept_ns;
    sk_lineage *lineage;            /* windows of this sequence that left the runtime already; NULL = none known */
    uint32_t splits[SK_MAX_SPLITS]; /* prefill stops here to record a snapshot; ascending */
    uint32_t n_splits;
    int32_t out_row; /* row of the running batch whose logits this lane wants, -1 = none */
    uint64_t last_use;
    double used_ms;      /* idle: compute clock of the last use */
    uint64_t started;    /* admission order: the youngest is put back first when cells run out */
    sk_split_lane split; /* zero in an engine that holds the whole model */
} sk_lane;

struct sk_engine {
    /* constant after start */
    const sk_model *model;
    sk_engine_params params;
    sk_split_params split_params; /* what params.split points to */
    sk_setup setup;               /* context, policy, and the identity without tenant and caller namespace */
    sk_context *ctx;              /* the setup's */
    sk_row_class rows;            /* bit mode: which batches compute equal bits */
    uint32_t n_scratch, first_scratch;
    sk_engine_facts facts;
    char ns_hex[65], schedule[96], digest_dir[1024], disk_dir[1024];
    char certified_text[400];

    /* engine thread only */
    sk_split *split; /* NULL = the model is whole */
    sk_hold hold;    /* everything that is kept; opened when the context and the identity are known */
    sk_lane *lanes;
    sk_job *queue_head, *queue_tail;
    bool stalled; /* jobs wait for state from a store or from stages, and nothing else can go on */
    bool blocked; /* requests run, but each waits for stages */
    sk_row *batch;
    uint32_t n_rows;
    uint64_t clock;
    uint32_t prefill_turn; /* odd: prompts go before generating lanes where they take turns */
    uint32_t row_turn;     /* lane whose turn it is where only one row can be computed at a time */
    sk_shadow shadow;
    unsigned erase_left;    /* parts of the erase that somebody waits for and that are not done: the runtime's, the
                               stores', the stages' */
    unsigned erase_unasked; /* answers of the stores to come that nobody waits for */
    sk_engine_stats st;

    /* shared, under lock */
    pthread_mutex_t lock;
    pthread_cond_t wake, erased;
    pthread_t thread;
    bool thread_started, stop, draining;
    sk_job *inbox_head, *inbox_tail;
    uint64_t next_job;
    uint32_t n_waiting; /* inbox + queue */
    uint64_t *cancels;
    size_t n_cancels, cap_cancels;
    bool erase_busy, erase_wanted; /* busy: somebody waits for an erase; wanted: the engine has not begun it */
    bool erase_done;
    const skippy_erase_filter *erase_filter; /* of the caller that waits */
    size_t erase_count;
    int erase_rc;
    sk_engine_stats st_public;
    sk_lane_view *lanes_public;
};

static inline bool sk_engine_bit(const sk_engine *en) {
    return en->params.exact == SK_EXACT_BIT;
}

/* Does any lane have a job? */
static inline bool sk_any_running(const sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (en->lanes[i].job) return true;
    return false;
}

/* May this request read what is stored, and record what it computes? */
static inline bool sk_may_reuse(const sk_engine *en, const sk_job *j) {
    return en->hold.reuse.enabled && !j->no_cache && !sk_shadow_distrusts(&en->shadow, &j->ns);
}

/* The first n tokens of a request; borrowed from it. */
static inline sk_prefix sk_job_prefix(const sk_job *j, size_t n) {
    return (sk_prefix){
        .ns = j->ns, .tokens = j->tokens, .n_tokens = n, .tenant = j->tenant, .cache_namespace = j->cache_namespace};
}

/* engine.c: one part of the running erase is done, and it dropped n things. After the last whoever waits may go on.
 */
void sk_erase_report(sk_engine *en, size_t n, int rc);

/* build.c */
int sk_engine_build(const sk_model *m, const sk_engine_params *p, sk_engine **out, sk_err *e);
/* The thread must have ended. */
void sk_engine_destroy(sk_engine *en);

/* queue.c */
void sk_queue_push(sk_engine *en, sk_job *j, bool front);
void sk_queue_remove(sk_engine *en, sk_job *j, sk_job *previous);

/* admit.c: moves waiting jobs to lanes (restore transaction inside). */
void sk_admit_jobs(sk_engine *en);
/* The lane is done with its job: records what is worth keeping and makes the lane idle. keep: its tokens may be reused.
 */
void sk_lane_finish(sk_engine *en, sk_lane *l, bool keep);
/* Records the tokens that a running lane holds now. */
void sk_lane_record(sk_engine *en, sk_lane *l);
/* Empties a lane's sequence and forgets its tokens; a session on stages goes on. */
void sk_lane_empty(sk_engine *en, sk_lane *l);
/* The same, and the session ends. */
void sk_lane_clear(sk_engine *en, sk_lane *l);

/* batch.c: one step of computing. Returns false when there was nothing to do. */
bool sk_batch_step(sk_engine *en);

/* batch.c: the row of logits behind the lane's last token has come. */
void sk_lane_take_row(sk_engine *en, sk_lane *l, const float *row);
/* The lane's sequence is gone or wrong: starts its request over, or gives up when that happened too often. */
void sk_lane_restart(sk_engine *en, sk_lane *l, const sk_err *err);

/* sample.c: the job got logits for its next token. */
void sk_lane_sample(sk_engine *en, sk_lane *l, const float *logits);
/* The same from the largest logits only; complete: there are no others (sk_sampler_sample_best). */
void sk_lane_sample_best(sk_engine *en, sk_lane *l, const int32_t *tokens, const float *logits, size_t n,
                         bool complete);
/* Ends a lane's job with an error event. */
void sk_lane_fail(sk_engine *en, sk_lane *l, int code, const char *text);
/* Ends a lane's job well: the rest of its text, the last event, the record. */
void sk_lane_done(sk_engine *en, sk_lane *l, enum sk_finish finish);

/* room.c: makes room for n rows by clearing idle lanes and evicting entries. True when there is room now. */
bool sk_make_room(sk_engine *en, uint32_t n);
/* Frees the cells of idle lanes and entries that nobody used for a while and the RAM store has, before a request
 * starts that computes `rows` of its prompt. keep: sequence that it starts from, UINT32_MAX = none. */
void sk_drop_idle(sk_engine *en, uint32_t keep, size_t rows);
/* Evicts one thing, whichever is cheapest to lose: an idle lane's content, else an entry. False when there is nothing.
 */
bool sk_evict_any(sk_engine *en);
/* Puts the youngest running job back into the queue; keep is spared. False when there is no other. */
bool sk_preempt_youngest(sk_engine *en, const sk_lane *keep);
void sk_preempt(sk_engine *en, sk_lane *l);

/* keep.c: opens en->hold on the context: the engine as the owner of what is kept. The facts say what came of it. */
int sk_keep_open(sk_engine *en, sk_err *e);

/* shadow_run.c: computes a share of the hits again. */
/* The row of logits after the prompt of a request that was a hit: maybe keeps a copy for a comparison. */
void sk_shadow_consider(sk_engine *en, const sk_job *j, const float *row);
/* Puts a waiting comparison into the queue when nothing else waits and a lane is idle. */
void sk_shadow_start(sk_engine *en);
/* A client waits: a comparison that runs gives its lane up. */
void sk_shadow_yield(sk_engine *en);
/* The shadow's own row is there: compares, and distrusts the namespace when they disagree. */
void sk_shadow_finish(sk_engine *en, const sk_job *shadow, const float *row);

/* stats.c */
void sk_hist_add(sk_histogram *h, double ms);
void sk_stats_publish(sk_engine *en);

#endif
