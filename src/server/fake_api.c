/* Test double of the API layer: {"n":jobs,"stream":bool,"slow":bool}; answers are plain joins of the jobs' texts.
 * Linked in place of skippy-openai. Error formatting keeps the real shape, because the server's tests look at it. */
#include "server/fake_api.h"

#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openai/api.h"
#include "runtime/sampler.h"

struct sk_api_call {
    size_t n, ended;
    bool stream;
    int failed;
    char error[128];
    sk_buf text;
    sk_gen_request request;
};

enum { WAIT_S = 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static size_t at_gate, reads, calls;

void fake_api_reset(void) {
    pthread_mutex_lock(&lock);
    gate_open = false;
    at_gate = reads = calls = 0;
    pthread_mutex_unlock(&lock);
}

void fake_api_open_gate(void) {
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool fake_api_wait_at_gate(size_t n) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&lock);
    int rc = 0;
    while (at_gate < n && rc == 0) rc = pthread_cond_timedwait(&changed, &lock, &until);
    bool ok = at_gate >= n;
    pthread_mutex_unlock(&lock);
    return ok;
}

static size_t get(const size_t *counter) {
    pthread_mutex_lock(&lock);
    size_t n = *counter;
    pthread_mutex_unlock(&lock);
    return n;
}

size_t fake_api_reads(void) {
    return get(&reads);
}

size_t fake_api_calls(void) {
    return get(&calls);
}

static void pass_gate(bool slow) {
    pthread_mutex_lock(&lock);
    reads++;
    if (slow) {
        at_gate++;
        pthread_cond_broadcast(&changed);
        while (!gate_open) pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void count_call(int by) {
    pthread_mutex_lock(&lock);
    calls += (size_t)by;
    pthread_mutex_unlock(&lock);
}

void sk_api_error_json(const sk_api_error *e, sk_buf *out) {
    sk_buf_printf(out, "{\"error\":{\"message\":\"");
    sk_buf_json_escape(out, e->message, strlen(e->message));
    sk_buf_printf(out, "\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}", e->type, e->code);
}

int sk_api_error_set(sk_api_error *e, int status, const char *type, const char *code, const char *param,
                     const char *fmt, ...) {
    memset(e, 0, sizeof *e);
    e->status = status;
    snprintf(e->type, sizeof e->type, "%s", type);
    snprintf(e->code, sizeof e->code, "%s", code);
    snprintf(e->param, sizeof e->param, "%s", param);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return status;
}

int sk_api_parse(sk_api *api, enum sk_api_kind kind, const char *body, size_t len, sk_api_call **out,
                 sk_api_error *err) {
    (void)api, (void)kind;
    static const int32_t token = 1;
    json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    pass_gate(json_is_true(json_object_get(root, "slow")));
    if (!root) return sk_api_error_set(err, 400, "invalid_request_error", "", "", "the body is not JSON");
    sk_api_call *c = calloc(1, sizeof *c);
    json_t *n = json_object_get(root, "n");
    c->n = n ? (size_t)json_integer_value(n) : 1;
    c->stream = json_is_true(json_object_get(root, "stream"));
    c->request.tokens = &token;
    c->request.n_tokens = 1;
    json_decref(root);
    count_call(1);
    *out = c;
    return 0;
}

void sk_api_call_free(sk_api_call *c) {
    sk_buf_free(&c->text);
    free(c);
    count_call(-1);
}

size_t sk_api_call_jobs(const sk_api_call *c) {
    return c->n;
}

const sk_gen_request *sk_api_call_request(const sk_api_call *c, size_t job) {
    (void)job;
    return &c->request;
}

bool sk_api_call_stream(const sk_api_call *c) {
    return c->stream;
}

static void sse(sk_buf *out, const char *key, const char *text, size_t len) {
    sk_buf_printf(out, "data: {\"%s\":\"", key);
    sk_buf_json_escape(out, text, len);
    sk_buf_str(out, "\"}\n\n");
}

int sk_api_call_event(sk_api_call *c, size_t job, const sk_gen_event *ev, sk_buf *out) {
    (void)job;
    if (ev->type == SK_EV_TEXT && c->stream) sse(out, "text", ev->text, ev->len);
    if (ev->type == SK_EV_TEXT && !c->stream) sk_buf_add(&c->text, ev->text, ev->len);
    if (ev->type == SK_EV_ERROR && c->stream) sse(out, "error", ev->error, strlen(ev->error));
    if (ev->type == SK_EV_ERROR) {
        c->failed = ev->code;
        snprintf(c->error, sizeof c->error, "%s", ev->error);
    }
    if (ev->type == SK_EV_DONE || ev->type == SK_EV_ERROR) c->ended++;
    if (c->stream && c->ended == c->n) sk_buf_str(out, "data: [DONE]\n\n");
    return SKIPPY_OK;
}

bool sk_api_call_done(const sk_api_call *c) {
    return c->ended == c->n;
}

int sk_api_call_response(sk_api_call *c, sk_buf *out) {
    if (c->failed) {
        sk_api_error err;
        int status = sk_api_error_set(&err, sk_api_status_for(c->failed), "server_error", "", "", "%s", c->error);
        sk_api_error_json(&err, out);
        return status;
    }
    sk_buf_printf(out, "{\"text\":\"%s\"}", c->text.data ? c->text.data : "");
    return 200;
}

void sk_api_call_fail(sk_api_call *c, size_t job, int code, const char *text, sk_buf *out) {
    sk_api_call_event(c, job, &(sk_gen_event){.type = SK_EV_ERROR, .code = code, .error = text}, out);
}

int sk_api_status_for(int code) {
    switch (code) {
    case SKIPPY_E_INVALID:
    case SKIPPY_E_TOO_LARGE: return 400;
    case SKIPPY_E_FULL: return 429;
    case SKIPPY_E_BUSY: return 503;
    case SKIPPY_E_TIMEOUT: return 504;
    default: return 500;
    }
}

int sk_api_parse_erase(sk_api *api, const char *body, size_t len, sk_api_erase *out, sk_api_error *err) {
    (void)api;
    *out = (sk_api_erase){0};
    if (len && body[0] != '{') return sk_api_error_set(err, 400, "invalid_request_error", "", "", "not JSON");
    if (len > 2) out->cache_namespace = strdup("named");
    return 0;
}

void sk_api_erase_free(sk_api_erase *e) {
    free(e->cache_namespace);
}

int sk_api_tokenize(sk_api *api, const char *body, size_t len, sk_buf *out) {
    (void)api;
    pass_gate(memmem(body, len, "slow", 4) != NULL);
    sk_buf_printf(out, "{\"tokens\":[%zu]}", len);
    return body[0] == '{' ? 200 : 400;
}

int sk_api_detokenize(sk_api *api, const char *body, size_t len, sk_buf *out) {
    (void)api, (void)body, (void)len;
    sk_buf_str(out, "{\"content\":\"x\"}");
    return 200;
}

int sk_api_apply_template(sk_api *api, const char *body, size_t len, sk_buf *out) {
    (void)api, (void)body, (void)len;
    sk_buf_str(out, "{\"prompt\":\"x\"}");
    return 200;
}

void sk_api_models(sk_api *api, sk_buf *out) {
    (void)api;
    sk_buf_str(out, "{\"object\":\"list\",\"data\":[{\"id\":\"fake\"}]}");
}

const char *sk_api_template_source(const sk_api *api) {
    (void)api;
    return "{{ messages }}";
}

void sk_sampling_defaults(sk_sampling *s) {
    memset(s, 0, sizeof *s);
    s->temperature = 0.8f;
    s->seed = UINT32_MAX;
}
