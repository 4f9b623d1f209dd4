/* Test support: stages of a tiny model that serve on threads, and a head that speaks frames to them. Not part of the
 * product. Every function fails the test on an error that it does not return. */
#ifndef SKIPPY_STAGE_SERVICE_FIXTURE_H
#define SKIPPY_STAGE_SERVICE_FIXTURE_H

#include <pthread.h>

#include "runtime/stage_context.h"
#include "stage/service.h"

enum {
    SV_STAGES_MAX = 4,
    SV_CTX = 512,
    SV_LANES = 3,
    SV_BATCH = 64,
    SV_PROMPT = 84, /* one whole batch, and a rest that is no multiple of anything */
    SV_STEPS = 4,
    SV_ROWS = 1 + SV_STEPS, /* of logits: after the prompt, and after each generated token */
    SV_MS = 60000           /* for anything that has to come */
};

/* A folder for this program's files. */
int sv_setup(void **state);
int sv_teardown(void **state);
const char *sv_dir(void);

/* A model, whole and cut into stages. */
typedef struct sv_parts {
    int32_t cuts[SV_STAGES_MAX + 1]; /* 0, ..., n_layer */
    uint32_t n_stages;
    sk_model *whole, *stage[SV_STAGES_MAX];
    uint32_t n_vocab, width;
} sv_parts;
/* False when the test model is not there: skip() then. */
bool sv_cut(sv_parts *p, const char *family, uint32_t n_stages);
void sv_parts_free(sv_parts *p);

/* A stage that serves. */
typedef struct sv_service {
    sk_stage *stage;
    pthread_t thread;
    int rc; /* of sk_stage_run */
    sk_err err;
} sv_service;
/* Settings of stage i of the tests, listening on a unix socket of its own. */
sk_stage_params sv_params(uint32_t i);
void sv_open_stage(sv_service *s, const sk_model *m, const sk_stage_params *p);
void sv_run_stage(sv_service *s);
/* Both. */
void sv_start(sv_service *s, const sk_model *m, const sk_stage_params *p);
/* Stops, waits, closes; the run must have ended well. */
void sv_stop(sv_service *s);
/* 5 ms, between two looks at something. */
void sv_pause(void);
/* Statistics, when a condition on them holds; fails when it does not within SV_MS. */
void sv_wait_stats(sv_service *s, bool (*holds)(const sk_stage_stats *), sk_stage_stats *out);

/* The head: stage 0 and the link to stage 1. */
typedef struct sv_head {
    const sv_parts *parts;
    sk_context *ctx;
    sk_link *link;
    uint8_t dtype;
    uint64_t last_session;
    uint32_t record_to; /* sv_run records no longer beginnings than this; SV_CTX at first */
    uint32_t credits;   /* CREDIT frames that came */
    sk_frame_welcome welcome;
    sk_frame frame; /* the last one that came */
    uint8_t *bytes;
    float *hidden; /* n_ctx rows of the session that is fed now */
} sv_head;
void sv_head_open(sv_head *h, const sv_parts *p);
void sv_head_close(sv_head *h);
/* HELLO as the head means it; the route begins at stage 1's address. */
sk_frame_hello sv_hello(const sv_head *h);
/* Connects to stage 1 and sends a HELLO (NULL = sv_hello). The answer is in h->frame: WELCOME or REFUSE. */
void sv_connect(sv_head *h, const sk_frame_hello *hello);
/* The same, and it must be a WELCOME. */
void sv_welcome(sv_head *h);
void sv_disconnect(sv_head *h);

void sv_send(sv_head *h, const sk_frame *f);
/* The next frame but for CREDIT, which is counted. NULL: the link is down. */
const sk_frame *sv_next(sv_head *h);
/* The next frame, which must be of this kind. */
const sk_frame *sv_expect(sv_head *h, uint16_t kind);
/* A FAULT of this session, whose text says a and b. */
void sv_expect_fault(sv_head *h, uint64_t session, int status, const char *a, const char *b);
/* Waits until so many CREDIT frames have come; false when the link is down or it took longer than ms. */
bool sv_wait_credits(sv_head *h, uint32_t n, uint32_t ms);

/* A prompt, what the whole model makes of it, and where the stages' answers go. */
typedef struct sv_talk {
    int32_t tokens[SV_CTX]; /* the prompt, then what was generated */
    uint32_t n_prompt;
    float *want; /* SV_ROWS rows of the whole model */
} sv_talk;
/* A prompt that depends on the seed, computed by the whole model from an empty context. */
void sv_talk_open(sv_talk *t, const sv_parts *p, uint32_t seed);
void sv_talk_close(sv_talk *t);

typedef struct sv_open_options {
    const char *tenant, *cache_namespace;
    bool no_cache;
} sv_open_options;
/* Returns the session. */
uint64_t sv_open(sv_head *h, uint32_t lane, const sv_talk *t, const sv_open_options *o);
/* Offers of all stages behind the head. */
const sk_frame_probed *sv_probe(sv_head *h, uint32_t lane, uint64_t session);
/* The answer to RESTORE; lengths: one for each stage behind the head. */
const sk_frame_restored *sv_restore(sv_head *h, uint32_t lane, uint64_t session, const uint32_t *lengths);
/* Restores the same length on all stages; it must work. */
void sv_restore_all(sv_head *h, uint32_t lane, uint64_t session, uint32_t length, enum sk_stage_source source);
/* Computes the hidden states of tokens [0, to) as they are when the prompt goes in whole batches and the rest row by
 * row. */
void sv_feed(sv_head *h, uint32_t lane, const sv_talk *t, uint32_t to);
/* A chunk of tokens [pos, pos + n) that were fed. */
sk_span sv_span(uint32_t lane, uint64_t session, const sv_talk *t, uint32_t pos, uint32_t n, uint8_t flags);
void sv_chunk(sv_head *h, const sk_span *spans, uint32_t n, const float *hidden);
/* RECORD, TRIM. */
void sv_count(sv_head *h, uint16_t kind, uint32_t lane, uint64_t session, uint64_t n);
void sv_stop_session(sv_head *h, uint32_t lane, uint64_t session, bool keep);
/* Sends what lies behind the first `from` tokens, records after each batch and after the prompt, and compares every row
 * of logits, bit for bit, with the whole model's. That holds where the new rows get the cells that they have in an
 * empty context: elsewhere the last bits may differ (docs/exactness.md), so nothing longer than what is restored may be
 * stored then. */
void sv_run(sv_head *h, uint32_t lane, uint64_t session, const sv_talk *t, uint32_t from);
/* Computes the first batch of the prompt and nothing more, and records it when it is wanted. */
void sv_fill(sv_head *h, uint32_t lane, uint64_t session, const sv_talk *t, bool record);
/* Compares one row. */
void sv_same_row(const sv_head *h, const sv_talk *t, uint32_t row, const float *logits, uint32_t n_logits);

#endif
