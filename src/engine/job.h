/* One request inside the engine: its own copy of everything, its progress, and its events. Engine thread only. */
#ifndef SKIPPY_ENGINE_JOB_H
#define SKIPPY_ENGINE_JOB_H

#include "engine/engine.h"
#include "engine/text.h"
#include "reuse/hold.h"
#include "skippy/identity.h"

typedef struct sk_job {
    uint64_t id;
    struct sk_job *next; /* queue link */

    /* the request */
    int32_t *tokens; /* prompt, then generated tokens */
    size_t n_prompt, n_tokens, cap;
    size_t bounds[SK_MAX_BOUNDARIES];
    size_t n_bounds;
    int32_t n_predict;
    sk_sampler *sampler;
    int32_t n_probs;
    sk_token_prob *top; /* n_probs slots */
    int32_t *preserved; /* special tokens whose text the client gets */
    size_t n_preserved;
    bool keep_special, no_cache, want_progress;
    char *tenant, *cache_namespace; /* "" when absent is kept as NULL */
    uint64_t deadline_ns;
    sk_event_fn on_event;
    void *ud;

    /* progress */
    skippy_key ns; /* namespace key of this request */
    sk_text text;
    sk_gen_stats stats;
    size_t n_generated;
    uint64_t t_submit, t_admit, t_first, t_last;
    bool started; /* SK_EV_START was sent */
    bool cancelled;
    bool from_scratch;  /* bit mode: a restored start could not be continued in order, so compute everything */
    uint32_t faults;    /* times it had to start over after a runtime error */
    bool needs_room;    /* head of a chain: a stage had no cells for it beside others, so it runs alone */
    uint32_t breaks;    /* head of a chain: times that the chain broke under it since its last token */
    uint64_t broken_ns; /* when the first of these was */
    size_t broken_at;   /* its tokens then */
    bool whole_rows;    /* head of a chain: the largest logits were not enough once */
    bool waited;        /* waited for a running request with the same beginning */
    bool is_shadow;     /* computes a hit again for comparison: no client, no events, no sampling */
    sk_recall recall;   /* stored state on its way; has a fetch only while the job is in the queue */
} sk_job;

/* Copies the request and creates the sampler. Errors: SKIPPY_E_INVALID, SKIPPY_E_NOMEM. */
int sk_job_create(const sk_model *m, const sk_gen_request *r, uint64_t id, sk_job **out, sk_err *e);
/* Its recall must have been dropped or taken: only the hold can. j may be NULL. */
void sk_job_free(sk_job *j);
/* Appends a generated token. False when out of memory. */
bool sk_job_append(sk_job *j, int32_t token);

/* Is the text of this special token kept? */
bool sk_job_preserves(const sk_job *j, int32_t token);

void sk_job_send_start(sk_job *j);
void sk_job_send_progress(sk_job *j, size_t n_processed);
void sk_job_send_text(sk_job *j, size_t n_bytes, const sk_gen_token *token);
void sk_job_send_done(sk_job *j, enum sk_finish finish);
void sk_job_send_error(sk_job *j, int code, const char *text);

#endif
