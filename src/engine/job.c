#include "engine/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static int copy_text(char **dst, const char *src) {
    *dst = NULL;
    if (!src || !*src) return SKIPPY_OK;
    *dst = strdup(src);
    return *dst ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

/* Keeps ascending boundaries strictly inside the prompt. */
static void copy_bounds(sk_job *j, const sk_gen_request *r) {
    size_t last = 0;
    for (size_t i = 0; i < r->n_boundaries && j->n_bounds < SK_MAX_BOUNDARIES; i++) {
        size_t b = r->boundaries[i];
        if (b <= last || b >= r->n_tokens) continue;
        j->bounds[j->n_bounds++] = last = b;
    }
}

static int copy_tokens(const sk_model *m, sk_job *j, const sk_gen_request *r, sk_err *e) {
    for (size_t i = 0; i < r->n_tokens; i++)
        if (!sk_model_valid_token(m, r->tokens[i]))
            return sk_err_set(e, SKIPPY_E_INVALID, "token %d at position %zu is not in the vocabulary", r->tokens[i],
                              i);
    j->cap = r->n_tokens + 64;
    j->tokens = malloc(j->cap * sizeof *j->tokens);
    if (!j->tokens) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    memcpy(j->tokens, r->tokens, r->n_tokens * sizeof *j->tokens);
    j->n_prompt = j->n_tokens = r->n_tokens;
    return SKIPPY_OK;
}

static int copy_preserved(sk_job *j, const sk_sampling *s) {
    if (s->n_preserved == 0) return SKIPPY_OK;
    j->preserved = malloc(s->n_preserved * sizeof *j->preserved);
    if (!j->preserved) return SKIPPY_E_NOMEM;
    memcpy(j->preserved, s->preserved_tokens, s->n_preserved * sizeof *j->preserved);
    j->n_preserved = s->n_preserved;
    return SKIPPY_OK;
}

bool sk_job_preserves(const sk_job *j, int32_t token) {
    for (size_t i = 0; i < j->n_preserved; i++)
        if (j->preserved[i] == token) return true;
    return false;
}

int sk_job_create(const sk_model *m, const sk_gen_request *r, uint64_t id, sk_job **out, sk_err *e) {
    if (!r->tokens || r->n_tokens == 0) return sk_err_set(e, SKIPPY_E_INVALID, "the prompt is empty");
    sk_job *j = calloc(1, sizeof *j);
    if (!j) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    j->id = id;
    j->n_predict = r->n_predict;
    j->n_probs = r->sampling.n_probs;
    j->keep_special = r->keep_special;
    j->no_cache = r->no_cache;
    j->want_progress = r->want_progress;
    j->deadline_ns = r->deadline_ns;
    j->on_event = r->on_event;
    j->ud = r->ud;
    copy_bounds(j, r);
    int rc = copy_tokens(m, j, r, e);
    if (rc) goto fail;
    if (copy_text(&j->tenant, r->tenant) || copy_text(&j->cache_namespace, r->cache_namespace) ||
        sk_text_init(&j->text, r->stop, r->n_stop) || copy_preserved(j, &r->sampling) ||
        (j->n_probs > 0 && !(j->top = calloc((size_t)j->n_probs, sizeof *j->top)))) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto fail;
    }
    rc = sk_sampler_create(m, &r->sampling, &j->sampler, e);
    if (rc) goto fail;
    sk_sampler_prime(j->sampler, j->tokens, j->n_tokens);
    j->stats.n_prompt = j->n_prompt;
    j->t_submit = sk_now_ns();
    *out = j;
    return SKIPPY_OK;
fail:
    sk_job_free(j);
    return rc;
}

void sk_job_free(sk_job *j) {
    if (!j) return;
    sk_sampler_free(j->sampler);
    sk_text_free(&j->text);
    free(j->top);
    free(j->preserved);
    free(j->tenant);
    free(j->cache_namespace);
    free(j->tokens);
    free(j);
}

bool sk_job_append(sk_job *j, int32_t token) {
    if (j->n_tokens == j->cap) {
        size_t cap = j->cap * 2;
        int32_t *grown = realloc(j->tokens, cap * sizeof *grown);
        if (!grown) return false;
        j->tokens = grown;
        j->cap = cap;
    }
    j->tokens[j->n_tokens++] = token;
    j->n_generated++;
    return true;
}

static void send(sk_job *j, const sk_gen_event *ev) {
    if (j->on_event) j->on_event(j->ud, ev);
}

void sk_job_send_start(sk_job *j) {
    if (j->started) return; /* a request that was put back and resumed has told its client already */
    j->started = true;
    send(j, &(sk_gen_event){.type = SK_EV_START, .stats = &j->stats});
}

void sk_job_send_progress(sk_job *j, size_t n_processed) {
    if (j->want_progress)
        send(j, &(sk_gen_event){.type = SK_EV_PROGRESS, .n_processed = n_processed, .stats = &j->stats});
}

void sk_job_send_text(sk_job *j, size_t n_bytes, const sk_gen_token *token) {
    send(j, &(sk_gen_event){.type = SK_EV_TEXT,
                            .text = j->text.pending.data ? j->text.pending.data : "",
                            .len = n_bytes,
                            .tokens = token,
                            .n_tokens = token ? 1 : 0,
                            .stats = &j->stats});
    sk_text_release(&j->text, n_bytes);
}

void sk_job_send_done(sk_job *j, enum sk_finish finish) {
    send(j, &(sk_gen_event){.type = SK_EV_DONE, .finish = finish, .stop_word = j->text.hit, .stats = &j->stats});
}

void sk_job_send_error(sk_job *j, int code, const char *text) {
    send(j, &(sk_gen_event){.type = SK_EV_ERROR, .code = code, .error = text, .stats = &j->stats});
}
