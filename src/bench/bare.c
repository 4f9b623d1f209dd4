#include "bench/bare.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stats.h"
#include "runtime/bare.h"
#include "runtime/model.h"

enum { BATCH = 512 }; /* the server's default */

static int tokenize(void *model, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e) {
    const int rc = sk_model_tokenize(model, text, len, true, true, ids, n);
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "cannot tokenize a prompt: %s", skippy_strerror(rc));
}

/* Tokens of the prefix and of every continuation, in the order in which the scenario makes them. */
typedef struct bare_prompts {
    int32_t *prefix;
    int32_t *suffixes; /* runs rows of sizes.new_tokens */
    uint8_t digest[SK_HASH_BYTES];
} bare_prompts;

static int make_suffix(sk_prompts *p, const sk_sizes *s, size_t run, const char *base, int32_t *row, sk_err *e) {
    sk_buf text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int rc = sk_prompts_extend(p, sk_sizes_seed(s, SK_SCENARIO_PREFIX, run, 1), base, s->new_tokens, &text, e);
    if (rc == SKIPPY_OK) {
        rc = tokenize(p->ud, text.data, text.len, &ids, &n, e);
    }
    if (rc == SKIPPY_OK) {
        memcpy(row, ids + (n - s->new_tokens), s->new_tokens * sizeof *row);
    }
    free(ids);
    sk_buf_free(&text);
    return rc;
}

static int make_prompts(sk_model *m, const sk_sizes *s, size_t runs, bare_prompts *out, sk_err *e) {
    sk_prompts p;
    sk_buf base = {0};
    size_t n = 0;
    sk_prompts_init(&p, tokenize, m);
    out->suffixes = calloc(runs * s->new_tokens, sizeof *out->suffixes);
    int rc = out->suffixes ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for prompts");
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_text(&p, sk_sizes_seed(s, SK_SCENARIO_PREFIX, 0, 0), s->prefix_tokens, &base, e);
    }
    if (rc == SKIPPY_OK) {
        rc = tokenize(m, base.data, base.len, &out->prefix, &n, e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < runs; i++) {
        rc = make_suffix(&p, s, i, base.data, out->suffixes + i * s->new_tokens, e);
    }
    sk_prompts_digest(&p, out->digest);
    sk_buf_free(&base);
    return rc;
}

static json_t *to_json(const sk_sizes *s, const bare_prompts *p, const double *ms, const sk_summary *sum) {
    char hex[2 * SK_HASH_BYTES + 1];
    json_t *runs = json_array();
    sk_hex(p->digest, SK_HASH_BYTES, hex);
    for (size_t i = 0; i < sum->n; i++) {
        json_array_append_new(runs, json_real(ms[i]));
    }
    return json_pack("{s:o, s:f, s:f, s:I, s:I, s:s}", "runs_ms", runs, "p50_ms", sum->p50, "p95_ms", sum->p95,
                     "prefix_tokens", (json_int_t)s->prefix_tokens, "new_tokens", (json_int_t)s->new_tokens,
                     "prompts_digest", hex);
}

/* Model, prompts and a context that holds the prefix. */
typedef struct session {
    sk_model *model;
    bare_prompts prompts;
    sk_bare *bare;
    size_t runs, n_new;
} session;

static void close_session(session *x) {
    sk_bare_close(x->bare);
    free(x->prompts.prefix);
    free(x->prompts.suffixes);
    sk_model_free(x->model);
}

static int open_session(session *x, const sk_bare_options *o, const sk_sizes *s, sk_err *e) {
    const sk_model_params mp = {.path = o->model, .n_gpu_layers = -1, .huge_pages = true};
    const sk_bare_params bp = {
        .n_ctx = o->n_ctx, .n_batch = BATCH, .n_threads = o->n_threads, .flash_attn = o->flash_attn};
    *x = (session){.runs = SK_WARM_UPS + s->runs, .n_new = s->new_tokens};
    int rc = sk_model_load(&mp, &x->model, e);
    if (rc == SKIPPY_OK) {
        rc = make_prompts(x->model, s, x->runs, &x->prompts, e);
    }
    return rc == SKIPPY_OK
               ? sk_bare_open(x->model, &bp, x->prompts.prefix, s->prefix_tokens, s->new_tokens, &x->bare, e)
               : rc;
}

static int decode_run(session *x, size_t i, double *ms, sk_err *e) {
    return sk_bare_next(x->bare, x->prompts.suffixes + i * x->n_new, ms, e);
}

int sk_bare_run(const sk_bare_options *o, const sk_sizes *s, json_t **out, sk_err *e) {
    session x;
    sk_summary sum;
    *out = NULL;
    int rc = open_session(&x, o, s, e);
    double *ms = rc == SKIPPY_OK ? calloc(x.runs, sizeof *ms) : NULL;
    if (rc == SKIPPY_OK && !ms) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu runs", x.runs);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < x.runs; i++) {
        rc = decode_run(&x, i, &ms[i], e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_stats_summarize(ms + SK_WARM_UPS, s->runs, &sum);
    }
    if (rc == SKIPPY_OK) {
        *out = to_json(s, &x.prompts, ms + SK_WARM_UPS, &sum);
        rc = *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the result");
    }
    free(ms);
    close_session(&x);
    return rc;
}

/* One object on one line, at once. */
static int say(FILE *out, json_t *object, sk_err *e) {
    const bool ok = object && json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                    fputc('\n', out) != EOF && fflush(out) == 0;
    json_decref(object);
    return ok ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "cannot write an answer: %s", strerror(errno));
}

/* Waits for a line; false at the end of the input. */
static bool asked(FILE *in) {
    int c;
    do {
        c = fgetc(in);
    } while (c != '\n' && c != EOF);
    return c == '\n';
}

int sk_bare_paced(const sk_bare_options *o, const sk_sizes *s, FILE *in, FILE *out, sk_err *e) {
    session x;
    char hex[2 * SK_HASH_BYTES + 1];
    int rc = open_session(&x, o, s, e);
    if (rc == SKIPPY_OK) {
        sk_hex(x.prompts.digest, SK_HASH_BYTES, hex);
        rc = say(out, json_pack("{s:s, s:I}", "prompts_digest", hex, "runs", (json_int_t)x.runs), e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < x.runs && asked(in); i++) {
        double ms = 0.0;
        rc = decode_run(&x, i, &ms, e);
        if (rc == SKIPPY_OK) {
            rc = say(out, json_pack("{s:f}", "ms", ms), e);
        }
    }
    close_session(&x);
    return rc;
}
