#include "server/fake_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"

enum { MAX_JOBS = 4096, WAIT_S = 10 };

typedef struct fake_job {
    sk_event_fn on_event;
    void *ud;
    char tenant[40];
    bool cancelled;
} fake_job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static fake_job jobs[MAX_JOBS];
static size_t n_jobs;
static bool automatic, drained, stopped;
static int refuse_code;
static unsigned accept_first;
static char refuse_text[128];
sk_engine_stats fake_engine_stats;
const double sk_hist_bounds[SK_HIST_BUCKETS] = {0.1, 0.25, 0.5, 1,   2.5,  5,    10,    25,
                                                50,  100,  250, 500, 1000, 5000, 30000, 1e300};

void fake_engine_reset(void) {
    pthread_mutex_lock(&lock);
    n_jobs = 0;
    automatic = drained = stopped = false;
    refuse_code = 0;
    accept_first = 0;
    memset(&fake_engine_stats, 0, sizeof fake_engine_stats);
    pthread_mutex_unlock(&lock);
}

void fake_engine_set_auto(bool on) {
    pthread_mutex_lock(&lock);
    automatic = on;
    pthread_mutex_unlock(&lock);
}

void fake_engine_refuse(int code, const char *text) {
    pthread_mutex_lock(&lock);
    refuse_code = code;
    snprintf(refuse_text, sizeof refuse_text, "%s", text);
    pthread_mutex_unlock(&lock);
}

void fake_engine_accept_first(unsigned n) {
    pthread_mutex_lock(&lock);
    accept_first = n;
    pthread_mutex_unlock(&lock);
}

static bool wait_for(bool (*holds)(size_t), size_t arg) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&lock);
    int rc = 0;
    while (!holds(arg) && rc == 0) rc = pthread_cond_timedwait(&changed, &lock, &until);
    bool ok = holds(arg);
    pthread_mutex_unlock(&lock);
    return ok;
}

static bool has_jobs(size_t n) {
    return n_jobs >= n;
}

static bool is_cancelled(size_t job) {
    return job < n_jobs && jobs[job].cancelled;
}

bool fake_engine_wait_jobs(size_t n) {
    return wait_for(has_jobs, n);
}

bool fake_engine_wait_cancel(size_t job) {
    return wait_for(is_cancelled, job);
}

size_t fake_engine_jobs(void) {
    pthread_mutex_lock(&lock);
    size_t n = n_jobs;
    pthread_mutex_unlock(&lock);
    return n;
}

bool fake_engine_is_drained(void) {
    pthread_mutex_lock(&lock);
    bool is = drained;
    pthread_mutex_unlock(&lock);
    return is;
}

void fake_engine_stop(void) {
    pthread_mutex_lock(&lock);
    stopped = true;
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void must_run(const char *who) {
    if (!stopped) return;
    fprintf(stderr, "%s: the engine is stopped already\n", who);
    abort();
}

static fake_job get(size_t job) {
    pthread_mutex_lock(&lock);
    fake_job j = jobs[job];
    pthread_mutex_unlock(&lock);
    return j;
}

const char *fake_engine_tenant(size_t job) {
    return jobs[job].tenant;
}

/* The pointers of an event are valid during the call only: the buffers are overwritten after it. */
static void send(size_t job, sk_gen_event ev) {
    fake_job j = get(job);
    sk_gen_stats stats = {.n_prompt = 8, .cache_n = 7, .prompt_n = 1, .predicted_n = 1};
    stats.cache = (sk_cache_result){.source = SK_SRC_RESIDENT, .tokens = 8, .terminal_logits = true};
    if (ev.type == SK_EV_START || ev.type == SK_EV_DONE) ev.stats = &stats;
    j.on_event(j.ud, &ev);
    memset(&stats, 0xee, sizeof stats);
}

void fake_engine_start_job(size_t job) {
    send(job, (sk_gen_event){.type = SK_EV_START});
}

void fake_engine_text(size_t job, const char *text) {
    char copy[4096];
    sk_token_prob top[2] = {{1, -0.5f}, {2, -1.5f}};
    sk_gen_token token = {.token = 1, .chosen = top[0], .top = top, .n_top = 2};
    size_t len = strlen(text) < sizeof copy ? strlen(text) : sizeof copy - 1;
    memcpy(copy, text, len);
    send(job, (sk_gen_event){.type = SK_EV_TEXT, .text = copy, .len = len, .tokens = &token, .n_tokens = 1});
    memset(copy, 'x', sizeof copy);
}

void fake_engine_done(size_t job) {
    send(job, (sk_gen_event){.type = SK_EV_DONE, .finish = SK_FINISH_LIMIT});
}

void fake_engine_error(size_t job, int code, const char *text) {
    send(job, (sk_gen_event){.type = SK_EV_ERROR, .code = code, .error = text});
}

/* ---- the engine's interface ---- */

int sk_engine_submit(sk_engine *en, const sk_gen_request *r, uint64_t *job, sk_err *e) {
    (void)en;
    pthread_mutex_lock(&lock);
    must_run("sk_engine_submit");
    int code = drained ? SKIPPY_E_BUSY : refuse_code;
    if (code == SKIPPY_OK || (!drained && accept_first > 0)) {
        if (accept_first > 0) accept_first--;
        code = SKIPPY_OK;
        fake_job *j = &jobs[n_jobs % MAX_JOBS];
        *j = (fake_job){.on_event = r->on_event, .ud = r->ud};
        snprintf(j->tenant, sizeof j->tenant, "%s", r->tenant ? r->tenant : "");
        *job = ++n_jobs;
        pthread_cond_broadcast(&changed);
    }
    bool now = automatic;
    pthread_mutex_unlock(&lock);
    if (code != SKIPPY_OK) return sk_err_set(e, code, "%s", drained ? "draining" : refuse_text);
    if (now) {
        size_t index = (size_t)*job - 1;
        fake_engine_start_job(index);
        fake_engine_text(index, "hello");
        fake_engine_done(index);
    }
    return SKIPPY_OK;
}

void sk_engine_cancel(sk_engine *en, uint64_t job) {
    (void)en;
    pthread_mutex_lock(&lock);
    must_run("sk_engine_cancel");
    if (job > 0 && job <= n_jobs) jobs[job - 1].cancelled = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void sk_engine_drain(sk_engine *en) {
    (void)en;
    pthread_mutex_lock(&lock);
    must_run("sk_engine_drain");
    drained = true;
    pthread_mutex_unlock(&lock);
}

void sk_engine_get_stats(sk_engine *en, sk_engine_stats *out) {
    (void)en;
    *out = fake_engine_stats;
}

/* "all" when nothing was named, so that a test sees what arrived. */
char fake_engine_erased[128];

int sk_engine_erase_matching(sk_engine *en, const skippy_erase_filter *f, size_t *n) {
    (void)en;
    snprintf(fake_engine_erased, sizeof fake_engine_erased, "%s|%s|%zu", f->tenant ? f->tenant : "all",
             f->cache_namespace ? f->cache_namespace : "any", f->n_tokens);
    *n = 3;
    return SKIPPY_OK;
}

size_t sk_engine_get_lanes(sk_engine *en, sk_lane_view *out, size_t cap) {
    (void)en;
    for (uint32_t i = 0; i < cap && i < 2; i++)
        out[i] = (sk_lane_view){.id = i, .state = (int)i * 2, .job = 7, .n_prompt = 5};
    return 2;
}

const sk_engine_facts *sk_engine_get_facts(const sk_engine *en) {
    (void)en;
    static const sk_engine_facts facts = {.n_ctx = 4096,
                                          .n_lanes = 2,
                                          .n_batch = 512,
                                          .n_ubatch = 512,
                                          .cache_seqs = 16,
                                          .n_threads = 2,
                                          .cache_mode = "ResidentKv",
                                          .cache_reason = "attention only",
                                          .family = "lla\"ma",
                                          .exact = "state",
                                          .schedule = "",
                                          .namespace_hex = "00",
                                          .type_k = "f16",
                                          .type_v = "f16"};
    return &facts;
}

const char *sk_cache_explain(const sk_cache_result *r, char *buf, size_t cap) {
    snprintf(buf, cap, "hit=resident; tokens=%zu", r->tokens);
    return buf;
}
