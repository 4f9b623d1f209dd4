/* The service is restarted, then a prompt comes that it knew before. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/conversation.h"
#include "bench/family/disk_tier.h"
#include "bench/family/part.h"

/* What is not written after WRITE_MS is written while the server ends. OPEN_MS: for reading a large store. */
enum { WRITE_MS = 30000, OPEN_MS = 60000 };

typedef struct restart_state {
    sk_conversation prompt;
    char *answer; /* to it, before any restart */
    size_t same;  /* restarts after which the answer was the same */
    bool disk;    /* the server has a disk store */
} restart_state;

static size_t rounds(const sk_part_host *h) {
    return h->task->sizes->restart_repeats;
}

static size_t lane_tokens(const sk_part_task *t) {
    return (size_t)t->sizes->restart_tokens + SK_PART_SPARE_TOKENS;
}

/* Metrics do not tell a server without a disk store from one that still opens it. */
static bool wants_disk(const sk_launch *l) {
    for (size_t i = 0; i < sizeof l->flags / sizeof l->flags[0]; i++) {
        if (l->flags[i] && strstr(l->flags[i], "--cache-disk")) {
            return true;
        }
    }
    return false;
}

static int prepare(sk_part_host *h, sk_err *e) {
    restart_state *s = calloc(1, sizeof *s);
    h->state = s;
    if (!s) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a prompt");
    }
    int rc = sk_prompts_text(&h->prompts, sk_part_seed(h, "restart", 0, 0), h->task->sizes->restart_tokens,
                             &s->prompt.text, e);
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &s->prompt, 1, NULL, true, &s->answer, e);
    }
    s->disk = rc == SKIPPY_OK && wants_disk(&h->host->launch) && sk_disk_tier_wait_ready(&h->host->ep, OPEN_MS);
    return rc;
}

/* Stops and starts the server. The time until it is ready includes the opening of its disk store: the first prompt is
 * no fair question before. */
static int restart(sk_part_host *h, sk_err *e) {
    const restart_state *s = h->state;
    double ms = 0.0;
    int rc = sk_host_restart(h->host, e);
    if (rc == SKIPPY_OK && s->disk) {
        const uint64_t begin = sk_now_ns();
        if (!sk_disk_tier_wait_ready(&h->host->ep, OPEN_MS)) {
            return sk_err_set(e, SKIPPY_E_RUNTIME, "the disk store was not open %d s after the restart; see its log",
                              OPEN_MS / 1000);
        }
        ms = (double)(sk_now_ns() - begin) / 1e6;
    }
    return rc == SKIPPY_OK ? sk_measurement_add(h->m, "ready", h->host->ready_ms + ms, 0, 0, e) : rc;
}

static int note_facts(const sk_part_host *h, size_t restarts, sk_err *e) {
    const restart_state *s = h->state;
    json_t *facts = json_pack("{s:I, s:I, s:b}", "restarts", (json_int_t)restarts, "same_answer", (json_int_t)s->same,
                              "disk_store", s->disk);
    const bool kept = facts && json_object_update(h->extra, facts) == 0;
    json_decref(facts);
    return kept ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the facts about a restart");
}

/* The answer after the restart counts as a cold one: a server without a disk store knows nothing then, and what ours
 * restores must lead to the same answer. */
static int measure(sk_part_host *h, size_t i, sk_err *e) {
    restart_state *s = h->state;
    char *answer = NULL;
    int rc = sk_part_send(h, &s->prompt, 1, NULL, false, NULL, e);
    if (rc == SKIPPY_OK && s->disk) {
        sk_disk_tier_wait_written(&h->host->ep, WRITE_MS);
    }
    if (rc == SKIPPY_OK) {
        rc = restart(h, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &s->prompt, 1, "restart", true, &answer, e);
    }
    if (rc == SKIPPY_OK) {
        s->same += strcmp(answer, s->answer) == 0;
        rc = note_facts(h, i + 1, e);
    }
    free(answer);
    return rc;
}

static void finish(sk_part_host *h) {
    restart_state *s = h->state;
    if (s) {
        sk_conversation_free(&s->prompt);
        free(s->answer);
    }
    free(s);
    h->state = NULL;
}

const sk_part sk_part_restart = {.name = "restart",
                                 .title = "known prompt after a restart",
                                 .last = true,
                                 .rounds = rounds,
                                 .lane_tokens = lane_tokens,
                                 .prepare = prepare,
                                 .round = measure,
                                 .finish = finish};
