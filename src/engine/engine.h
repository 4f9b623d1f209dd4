/* The engine: lanes, scheduling, restore and record. It owns the runtime context and the cache on one thread.
 *
 * Other threads submit and cancel; events come back by callback ON THE ENGINE THREAD, so a callback must be short, must
 * not call back into the engine except sk_engine_cancel, and must copy what it keeps. */
#ifndef SKIPPY_ENGINE_ENGINE_H
#define SKIPPY_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "reuse/ram_cap.h"
#include "reuse/setup.h"
#include "reuse/tier_stats.h"
#include "runtime/model.h"
#include "runtime/sampler.h"
#include "skippy/identity.h"
#include "skippy/payload.h"
#include "skippy/resident.h"
#include "stage/frame.h"
#include "stage/link.h"

typedef struct sk_engine sk_engine;

enum sk_exact_mode { SK_EXACT_STATE = 0, SK_EXACT_BIT = 1 };

/* What is known about the exactness of one model file under one layout. */
enum sk_certified { SK_NOT_CERTIFIED = 0, SK_CERTIFIED_PASS = 1, SK_CERTIFIED_FAIL = 2 };
/* Looks a receipt up; id: everything but tenant and namespace. Writes a sentence for people to why. Called once, while
 * the engine starts, on the starting thread. */
typedef enum sk_certified (*sk_certified_fn)(void *ud, const skippy_identity *id, char *why, size_t cap);

/* The stages behind the engine, when it holds only the first layers of a model. Strings and addresses are borrowed
 * during sk_engine_start only. */
typedef struct sk_split_params {
    const char *const *addresses; /* in order; the last one holds the last layers */
    uint32_t n_addresses;
    uint8_t dtype;             /* of hidden states on the links: 0 f32 (exact), 1 f16 */
    sk_link_options link;      /* wake and ud are the engine's own */
    uint32_t connect_ms;       /* one attempt; 0 = 10000 */
    uint32_t wait_ms;          /* for all stages to be there at the start; 0 = 60000 */
    uint32_t patience_ms;      /* a request fails when stages are away or silent for so long; 0 = 60000 */
    uint64_t activation_bytes; /* cap of the activation cache; 0 = none */
    bool (*progress)(void *ud, const char *text); /* at the start, about every second; false stops. May be NULL */
    void *progress_ud;
} sk_split_params;

typedef struct sk_engine_params {
    const sk_split_params *split; /* NULL = the model is whole */
    uint32_t n_ctx;               /* cells of the context, shared by all lanes; 0 = min(model's, 16384), halved until
                                   * its KV cache takes at most a quarter of the free memory */
    uint32_t n_lanes;             /* requests that run at the same time (-np); 0 = 4 */
    uint32_t n_batch;             /* largest prefill chunk in tokens; 0 = 512 */
    uint32_t n_ubatch;            /* 0 = 512 */
    int32_t n_threads, n_threads_batch; /* 0 = cores */
    int flash_attn;                     /* -1 auto, 0 off, 1 on */
    char type_k[16], type_v[16];        /* ggml names; "" = f16 */
    bool swa_full;
    float rope_freq_base, rope_freq_scale; /* 0 = model's */
    enum sk_exact_mode exact;
    bool cache_off;            /* --cache off: same server without reuse */
    uint32_t cache_seqs;       /* sequence ids for snapshots; 0 = derived from the model and cache_bytes */
    uint64_t cache_bytes;      /* cap on recurrent and window state held for snapshots; 0 = derived from the machine */
    uint64_t logits_bytes;     /* cap on stored terminal logits; 0 = 64 MiB */
    uint32_t min_tokens;       /* shorter prefixes are not recorded; 0 = 16 */
    uint32_t queue_max;        /* waiting requests; 0 = 256 */
    uint64_t ram_bytes;        /* cap of the RAM store; 0 = none, or SK_RAM_DERIVE (reuse/ram_cap.h) */
    const char *disk_dir;      /* folder of the disk store; NULL = none */
    uint64_t disk_bytes;       /* cap of that folder; 0 = no limit */
    bool idle_to_ram;          /* what nobody uses leaves the context for the RAM store (reuse/idle.c) */
    uint64_t disk_throttle;    /* tests: reads of the disk store at so many bytes a second; 0 = unhindered */
    sk_certified_fn certified; /* NULL: known families are trusted, unknown ones are not */
    void *certified_ud;
    double shadow_share;      /* share of the hits, 0 to 1, that is computed again on an idle lane and compared */
    float shadow_noise;       /* tests: added to one logit of every shadow, so that there is something to find */
    const char *digest_dir;   /* where weight digests are remembered; NULL = not */
    const sk_lora_spec *lora; /* adapters, applied to every request and part of the identity */
    size_t n_lora;
} sk_engine_params;
/* The part of them that makes a context, without digest_dir, of which engine and stage have a copy each; strings and
 * adapters are borrowed from p. Pure. */
sk_setup_params sk_engine_setup_params(const sk_engine_params *p);

enum sk_finish {
    SK_FINISH_STOP = 0 /* end-of-generation token */,
    SK_FINISH_WORD = 1,
    SK_FINISH_LIMIT = 2 /* n_predict */,
    SK_FINISH_CONTEXT = 3
};

/* How the cache answered; also the text of the header X-Skippy-Cache (sk_cache_explain). */
enum sk_hit_source {
    SK_SRC_NONE = 0,
    SK_SRC_HOT_LANE = 1 /* borrowed in place */,
    SK_SRC_RESIDENT = 2 /* sequence copy */,
    SK_SRC_ACTIVE_LANE = 3 /* shared with a running request */,
    SK_SRC_RAM = 4 /* imported from the RAM store */,
    SK_SRC_DISK = 5 /* imported from the disk store */
};
typedef struct sk_cache_result {
    enum sk_hit_source source;
    size_t tokens;                   /* restored; equals n_prompt on an exact repeat answered from terminal logits */
    bool terminal_logits;            /* the first token needed no decode */
    bool waited;                     /* waited for another request that was computing the prefix */
    bool gated;                      /* a store had more, but its state would take longer to restore than to compute */
    double restore_ms, recompute_ms; /* estimates of that choice, for stores; 0 = not measured yet */
    uint32_t n_stages;               /* behind the engine; 0 = whole model */
    uint8_t stage_source[SK_CHAIN_MAX];  /* enum sk_stage_source of each */
    uint32_t stage_tokens[SK_CHAIN_MAX]; /* restored by each */
    uint64_t hidden_bytes_avoided;       /* hidden states that did not have to cross links */
    char reason[64]; /* on a miss: no-common-prefix, cold, too-short, cache-off, request-opt-out, boundary-not-recorded,
                        evicted, restore-slower, restore-failed, shadow-disagreement ... */
} sk_cache_result;

typedef struct sk_gen_stats {
    size_t n_prompt; /* tokens of the prompt */
    size_t cache_n;  /* llama-server's meaning: prompt tokens that were not evaluated; at most n_prompt - 1, see
                        cached_tokens */
    size_t prompt_n; /* n_prompt - cache_n */
    size_t predicted_n;
    double queue_ms, prompt_ms, predicted_ms;
    double first_token_ms;   /* submit to first sampled token */
    double stage_compute_ms; /* of all stages together, for the tokens after the first; 0 for a whole model */
    sk_cache_result cache;
    uint32_t lane;
} sk_gen_stats;

typedef struct sk_gen_token {
    int32_t token;
    sk_token_prob chosen; /* valid when n_probs > 0 */
    const sk_token_prob *top;
    size_t n_top;
} sk_gen_token;

enum sk_event_type {
    SK_EV_START = 0,    /* left the queue: cache result is known (stats->cache) */
    SK_EV_PROGRESS = 1, /* prompt tokens processed so far: n_processed of stats->n_prompt */
    SK_EV_TEXT = 2,     /* new text (complete UTF-8 unless at the end) and the tokens that made it */
    SK_EV_DONE = 3,     /* last event */
    SK_EV_ERROR = 4     /* last event */
};
typedef struct sk_gen_event {
    enum sk_event_type type;
    const char *text; /* TEXT: new text, may be empty */
    size_t len;
    const sk_gen_token *tokens; /* TEXT: tokens accepted since the last TEXT event */
    size_t n_tokens;
    size_t n_processed;        /* PROGRESS */
    enum sk_finish finish;     /* DONE */
    const char *stop_word;     /* DONE with SK_FINISH_WORD */
    const sk_gen_stats *stats; /* START, PROGRESS, DONE */
    int code;                  /* ERROR: enum skippy_status; INVALID and TOO_LARGE are the client's fault */
    const char *error;         /* ERROR: for people */
} sk_gen_event;
/* ud is the request's; valid pointers only during the call. */
typedef void (*sk_event_fn)(void *ud, const sk_gen_event *ev);

#define SK_MAX_BOUNDARIES 32

typedef struct sk_gen_request {
    const int32_t *tokens;    /* copied */
    size_t n_tokens;          /* >= 1 */
    const size_t *boundaries; /* token positions a later request is likely to share (end of system prompt, of messages);
                                 ascending; copied */
    size_t n_boundaries;
    int32_t n_predict;       /* -1 = until the context is full; 0 = only put the prompt into the cache */
    sk_sampling sampling;    /* deep-copied */
    const char *const *stop; /* stop strings; copied */
    size_t n_stop;
    bool keep_special;           /* special tokens appear in the text */
    bool no_cache;               /* cache_prompt: false: neither reads nor records */
    const char *tenant;          /* from the credential; NULL = none; copied */
    const char *cache_namespace; /* prompt_cache_key; NULL = none; copied */
    bool want_progress;
    uint64_t deadline_ns; /* sk_now_ns() value, 0 = none */
    sk_event_fn on_event;
    void *ud;
} sk_gen_request;

/* Starts the engine thread and returns when it is ready. The model is borrowed and must outlive the engine.
 * Errors in words: context larger than the model's or than memory, exact mode not possible, KV type unknown ... */
int sk_engine_start(const sk_model *m, const sk_engine_params *p, sk_engine **out, sk_err *e);
/* Stops: running requests get SK_EV_ERROR (SKIPPY_E_CANCELLED, "the server is shutting down"), then the thread ends. */
void sk_engine_stop(sk_engine *en);
/* Refuses new requests from now on (SKIPPY_E_BUSY), lets running ones finish. Thread-safe. */
void sk_engine_drain(sk_engine *en);

/* Queues a request; thread-safe, never blocks on the model. *job identifies it for cancel.
 * Errors (no event follows): SKIPPY_E_INVALID, SKIPPY_E_TOO_LARGE (prompt does not fit the context: e->text says both
 * numbers), SKIPPY_E_FULL (queue), SKIPPY_E_BUSY (draining), SKIPPY_E_NOMEM. */
int sk_engine_submit(sk_engine *en, const sk_gen_request *r, uint64_t *job, sk_err *e);
/* The client is gone: the lane is free within one chunk. The last event (ERROR, SKIPPY_E_CANCELLED) still comes exactly
 * once unless the request was already done. Thread-safe; unknown jobs are ignored. */
void sk_engine_cancel(sk_engine *en, uint64_t job);

#define SK_HIST_BUCKETS 16
typedef struct sk_histogram { /* upper bounds in ms: sk_hist_bounds[]; last is +Inf */
    uint64_t count[SK_HIST_BUCKETS];
    double sum;
    uint64_t total;
} sk_histogram;
extern const double sk_hist_bounds[SK_HIST_BUCKETS];

typedef struct sk_lane_view {
    uint32_t id;
    int state; /* 0 idle, 1 restoring or prefilling, 2 generating, 3 waiting for cells */
    uint64_t job;
    size_t n_prompt, n_processed, n_decoded, n_kept; /* n_kept: tokens that the idle lane still holds */
} sk_lane_view;

typedef struct sk_engine_stats {
    uint64_t requests, completed, cancelled, failed;
    uint64_t lookups, hits, misses; /* lookups = hits + misses */
    uint64_t hits_hot_lane, hits_resident, hits_active_lane, terminal_hits, coalesced;
    uint64_t tokens_restored, tokens_computed, tokens_generated; /* prompt tokens restored / computed */
    uint64_t decodes, rows, pad_rows, cell_retries, batch_splits, preemptions, relocations;
    uint64_t entries, entry_tokens, cells_used, cells_span, cells_total, kv_bytes, recurrent_bytes, logits_bytes,
        logits_rows, seqs_used, seqs_total;
    uint64_t evictions[SKIPPY_EVICT_REASONS]; /* by enum skippy_evict_reason */
    uint64_t restore_faults;
    uint64_t hits_ram, hits_disk;
    uint64_t shadows, shadow_disagreements, shadow_skipped; /* skipped: no lane was idle for it */
    double shadow_max_drift;                                /* largest relative distance of two rows of logits */
    uint64_t gated;                                         /* lookups where computing was faster than a store */
    uint64_t exports, export_bytes,
        exports_skipped;   /* state copied out; skipped: no room to wait for the store thread */
    uint64_t exports_lost; /* could not be stored, and were gone from the context when that was known */
    uint64_t imports, import_bytes;
    uint64_t hidden_bytes_avoided, hidden_bytes_sent, stage_breaks; /* of a split model: between stages */
    uint32_t stages, stages_up;                                     /* behind the engine */
    sk_tier_stats tiers;
    uint32_t queued, running, n_lanes;
    sk_histogram queue_ms, prompt_ms, first_token_ms, token_ms;
} sk_engine_stats;
/* Consistent copy. Thread-safe, cheap. */
void sk_engine_get_stats(sk_engine *en, sk_engine_stats *out);
size_t sk_engine_get_lanes(sk_engine *en, sk_lane_view *out, size_t cap);

/* Facts for /props and the start-up message; constant after start. Strings are owned by the engine. */
typedef struct sk_engine_facts {
    uint32_t n_ctx, n_lanes, n_batch, n_ubatch, cache_seqs;
    int32_t n_threads;
    const char *cache_mode;   /* "ResidentKv", "KvRecurrent", "disabled" */
    const char *cache_reason; /* one sentence */
    const char *family;
    const char *exact;         /* "state" or "bit" */
    const char *schedule;      /* bit mode: row class in words; else "" */
    const char *namespace_hex; /* namespace key without tenant and caller namespace */
    const char *type_k, *type_v;
    int flash_attn;
    bool ram_store, disk_store; /* asked for and possible */
    uint64_t ram_bytes;
    bool state_windows; /* exports are cut by layer and window; false: opaque */
    enum sk_certified certified;
    const char *certified_text;  /* what the receipt says, or that there is none; "" when nobody asked */
    const char *topology;        /* "0-6,6-12,12-16;f32" of a split model; "" for a whole one */
    uint32_t n_stages;           /* behind the engine */
    const sk_stage_card *stages; /* at the start of the server */
    const char *state_reason;    /* why not, or why nothing is stored outside of the runtime; "" */
} sk_engine_facts;
const sk_engine_facts *sk_engine_get_facts(const sk_engine *en);

/* Drops every entry of a tenant (NULL = all), in the runtime and in the stores. Blocks until it is done and returns the
 * number dropped. What running requests hold stays theirs. */
size_t sk_engine_erase(sk_engine *en, const char *tenant);
/* The same for what a filter means (its ns must be NULL: the engine knows its own). *n says how many. SKIPPY_E_IO: the
 * disk store could not be written, so some bytes may remain there; the log says why. */
int sk_engine_erase_matching(sk_engine *en, const skippy_erase_filter *f, size_t *n);

/* Header text: "hit=resident; tokens=1184; source=hot-lane" or "miss; reason=no-common-prefix". Returns buf. */
const char *sk_cache_explain(const sk_cache_result *r, char *buf, size_t cap);

#endif
