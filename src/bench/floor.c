#include "bench/floor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoint.h"
#include "bench/interrupt.h"
#include "bench/stats.h"

/* The threads of a parallel region go on spinning for some milliseconds after its end. */
enum { SETTLE_MS = 60, STOP_GRACE_MS = 10000, LINE_BYTES = 512, BARE_READY_MS = 600000 };

/* ---- the bare process ---- */

typedef struct bare {
    sk_process process;
    int to, from;
} bare;

static int start_bare(const sk_floor_options *o, const sk_sizes *s, bare *b, sk_err *e) {
    char log_path[1100], ctx[16], threads[16], runs[24], prefix[24], fresh[24], seed[24];
    const char *argv[] = {o->skippy,
                          "bench",
                          "bare",
                          "-m",
                          o->server.model,
                          "-c",
                          ctx,
                          "-t",
                          threads,
                          "--runs",
                          runs,
                          "--prefix-tokens",
                          prefix,
                          "--new-tokens",
                          fresh,
                          "--seed",
                          seed,
                          "--paced",
                          NULL};
    snprintf(log_path, sizeof log_path, "%s/bare-%s.log", o->out_dir, o->name);
    snprintf(ctx, sizeof ctx, "%u", o->server.n_ctx);
    snprintf(threads, sizeof threads, "%d", o->server.threads);
    snprintf(runs, sizeof runs, "%zu", s->runs);
    snprintf(prefix, sizeof prefix, "%zu", s->prefix_tokens);
    snprintf(fresh, sizeof fresh, "%zu", s->new_tokens);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    return sk_process_start_piped(&b->process, argv, log_path, &b->to, &b->from, e);
}

static void stop_bare(bare *b) {
    if (b->to >= 0) {
        close(b->to);
    }
    if (b->from >= 0) {
        close(b->from);
    }
    sk_process_stop(&b->process, STOP_GRACE_MS);
}

static int bare_ended(const bare *b, sk_err *e) {
    sk_buf tail = {0};
    sk_process_log_tail(&b->process, 4, &tail);
    sk_err_set(e, SKIPPY_E_RUNTIME, "the bare process ended; its last words: %.380s",
               tail.len ? tail.data : "(nothing)");
    sk_buf_free(&tail);
    return SKIPPY_E_RUNTIME;
}

/* Reads one line, an object, of the bare process. */
static int hear(const bare *b, int timeout_ms, json_t **out, sk_err *e) {
    char line[LINE_BYTES];
    size_t n = 0;
    line[0] = '\0';
    while (n == 0 || line[n - 1] != '\n') {
        struct pollfd p = {.fd = b->from, .events = POLLIN};
        const int ready = poll(&p, 1, timeout_ms);
        if (sk_interrupted()) {
            return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
        }
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready == 0) {
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "the bare process said nothing for %d ms", timeout_ms);
        }
        const ssize_t got = n < sizeof line ? read(b->from, line + n, sizeof line - n) : 0;
        if (got <= 0) {
            return bare_ended(b, e);
        }
        n += (size_t)got;
    }
    *out = json_loadb(line, n, 0, NULL);
    return *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_CORRUPT, "the bare process did not answer with an object");
}

static int ask_bare(const bare *b, int timeout_ms, double *ms, sk_err *e) {
    json_t *answer = NULL;
    if (write(b->to, "\n", 1) != 1) {
        return bare_ended(b, e);
    }
    const int rc = hear(b, timeout_ms, &answer, e);
    *ms = json_number_value(json_object_get(answer, "ms"));
    json_decref(answer);
    if (rc == SKIPPY_OK && !(*ms > 0.0)) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the bare process gave no time");
    }
    return rc;
}

/* ---- rounds ---- */

typedef struct duel {
    const sk_floor_options *o;
    const sk_sizes *s;
    sk_process server;
    sk_endpoint ep;
    bare bare;
    sk_prompts prompts;
    sk_buf *texts; /* the request of each round */
    size_t n_texts;
} duel;

static void settle(void) {
    const struct timespec t = {.tv_nsec = SETTLE_MS * 1000000L};
    nanosleep(&t, NULL);
}

static int ask_server(duel *d, size_t i, sk_floor_round *r, sk_err *e) {
    sk_reply reply = {0};
    settle();
    const uint64_t idle = sk_process_cpu_ns(&d->bare.process);
    const int rc = sk_endpoint_complete(&d->ep, d->texts[i].data, 1, &reply, e);
    r->bare_idle_ms = (double)(sk_process_cpu_ns(&d->bare.process) - idle) / 1e6;
    r->server_ms = reply.ms;
    r->cache_n = reply.cache_n;
    r->prompt_n = reply.prompt_n;
    sk_reply_free(&reply);
    return rc;
}

static int ask_other(duel *d, sk_floor_round *r, sk_err *e) {
    settle();
    const uint64_t idle = sk_process_cpu_ns(&d->server);
    const int rc = ask_bare(&d->bare, d->o->timeout_ms, &r->bare_ms, e);
    r->server_idle_ms = (double)(sk_process_cpu_ns(&d->server) - idle) / 1e6;
    return rc;
}

/* Who goes first changes, so that neither always follows the other's heat. */
static int play_round(duel *d, size_t i, sk_floor_round *r, sk_err *e) {
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    int rc = i % 2 ? ask_other(d, r, e) : ask_server(d, i, r, e);
    if (rc == SKIPPY_OK) {
        rc = i % 2 ? ask_server(d, i, r, e) : ask_other(d, r, e);
    }
    return rc;
}

/* Sends the prefix alone, so that the server has it, and makes the texts of all rounds. */
static int make_texts(duel *d, sk_err *e) {
    sk_buf base = {0};
    sk_reply reply = {0};
    int rc = sk_prompts_text(&d->prompts, sk_sizes_seed(d->s, SK_SCENARIO_PREFIX, 0, 0), d->s->prefix_tokens, &base, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < d->n_texts; i++) {
        rc = sk_prompts_extend(&d->prompts, sk_sizes_seed(d->s, SK_SCENARIO_PREFIX, i, 1), base.data, d->s->new_tokens,
                               &d->texts[i], e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_endpoint_complete(&d->ep, base.data, 1, &reply, e);
    }
    sk_reply_free(&reply);
    sk_buf_free(&base);
    return rc;
}

/* The bare process has computed the prefix, of the same tokens. */
static int meet_bare(duel *d, sk_err *e) {
    uint8_t digest[SK_HASH_BYTES];
    char hex[2 * SK_HASH_BYTES + 1];
    json_t *hello = NULL;
    int rc = start_bare(d->o, d->s, &d->bare, e);
    if (rc == SKIPPY_OK) {
        rc = hear(&d->bare, BARE_READY_MS, &hello, e);
    }
    if (rc == SKIPPY_OK) {
        const char *theirs = json_string_value(json_object_get(hello, "prompts_digest"));
        sk_prompts_digest(&d->prompts, digest);
        sk_hex(digest, sizeof digest, hex);
        if (!theirs || strcmp(theirs, hex) != 0) {
            rc = sk_err_set(e, SKIPPY_E_INVALID, "the server makes other tokens of the prompts than the bare process");
        }
    }
    json_decref(hello);
    return rc;
}

static int play(duel *d, sk_floor_round *rounds, sk_err *e) {
    int rc = make_texts(d, e);
    if (rc == SKIPPY_OK) {
        rc = meet_bare(d, e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < d->n_texts; i++) {
        rc = play_round(d, i, &rounds[i], e);
    }
    return rc;
}

int sk_floor_run(const sk_floor_options *o, const sk_sizes *s, json_t **out, sk_err *e) {
    const size_t n = SK_WARM_UPS + s->runs;
    duel d = {.o = o, .s = s, .n_texts = n, .bare = {.to = -1, .from = -1}};
    char log_path[1100];
    sk_buf command = {0};
    uint16_t port = 0;
    *out = NULL;
    sk_floor_round *rounds = calloc(n, sizeof *rounds);
    d.texts = calloc(n, sizeof *d.texts);
    int rc = rounds && d.texts ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu rounds", n);
    snprintf(log_path, sizeof log_path, "%s/%s-floor.log", o->out_dir, o->name);
    if (rc == SKIPPY_OK) {
        rc = sk_launch_server(&o->server, log_path, &d.server, &port, &command, e);
    }
    if (rc == SKIPPY_OK) {
        sk_endpoint_init(&d.ep, port, o->timeout_ms);
        sk_prompts_init(&d.prompts, sk_endpoint_tokenize, &d.ep);
        rc = play(&d, rounds, e);
        sk_endpoint_close(&d.ep);
        stop_bare(&d.bare);
        sk_process_stop(&d.server, STOP_GRACE_MS);
    }
    if (rc == SKIPPY_OK) {
        *out = sk_floor_json(o->name, rounds + SK_WARM_UPS, s->runs);
        rc = *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the result");
    }
    for (size_t i = 0; d.texts && i < n; i++) {
        sk_buf_free(&d.texts[i]);
    }
    free(d.texts);
    free(rounds);
    sk_buf_free(&command);
    return rc;
}

/* ---- the record ---- */

static double server_ms(const sk_floor_round *r) {
    return r->server_ms;
}

static double bare_ms(const sk_floor_round *r) {
    return r->bare_ms;
}

static double round_ratio(const sk_floor_round *r) {
    return r->bare_ms > 0.0 ? r->server_ms / r->bare_ms : 0.0;
}

static double cached(const sk_floor_round *r) {
    return (double)r->cache_n;
}

static double computed(const sk_floor_round *r) {
    return (double)r->prompt_n;
}

static double server_idle(const sk_floor_round *r) {
    return r->server_idle_ms;
}

static double bare_idle(const sk_floor_round *r) {
    return r->bare_idle_ms;
}

static sk_summary column(const sk_floor_round *rounds, size_t n, double (*value)(const sk_floor_round *),
                         double *scratch) {
    sk_summary sum;
    for (size_t i = 0; i < n; i++) {
        scratch[i] = value(&rounds[i]);
    }
    if (sk_stats_summarize(scratch, n, &sum) != SKIPPY_OK) {
        sum.n = 0; /* out of memory: the caller sees that something is missing */
    }
    return sum;
}

static json_t *rounds_json(const sk_floor_round *rounds, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list,
                              json_pack("{s:f, s:f}", "server_ms", rounds[i].server_ms, "bare_ms", rounds[i].bare_ms));
    }
    return list;
}

static double share(double part, double whole) {
    return whole > 0.0 ? part / whole : 0.0;
}

json_t *sk_floor_json(const char *server, const sk_floor_round *rounds, size_t n) {
    double *scratch = n ? calloc(n, sizeof *scratch) : NULL;
    if (!scratch) {
        return NULL;
    }
    const sk_summary ours = column(rounds, n, server_ms, scratch);
    const sk_summary bound = column(rounds, n, bare_ms, scratch);
    const sk_summary ratio = column(rounds, n, round_ratio, scratch);
    const sk_summary cache_n = column(rounds, n, cached, scratch);
    const sk_summary prompt_n = column(rounds, n, computed, scratch);
    const sk_summary idle = column(rounds, n, server_idle, scratch);
    const sk_summary other_idle = column(rounds, n, bare_idle, scratch);
    free(scratch);
    if (!ours.n || !bound.n || !ratio.n || !cache_n.n || !prompt_n.n || !idle.n || !other_idle.n) {
        return NULL;
    }
    json_t *spread = json_pack("{s:f, s:f, s:f, s:f, s:f}", "p50", ratio.p50, "p25", ratio.p25, "p75", ratio.p75, "min",
                               ratio.min, "max", ratio.max);
    return json_pack("{s:s, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:o}", "server", server, "server_p50_ms", ours.p50,
                     "bare_p50_ms", bound.p50, "ratio", share(ours.p50, bound.p50), "round_ratio", spread, "cache_n",
                     cache_n.p50, "prompt_n", prompt_n.p50, "server_idle_cpu", share(idle.mean, bound.mean),
                     "bare_idle_cpu", share(other_idle.mean, ours.mean), "rounds", rounds_json(rounds, n));
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

void sk_floor_line(const json_t *record, const sk_sizes *s, sk_buf *out) {
    const json_t *ratio = json_object_get(record, "round_ratio");
    sk_buf_printf(
        out,
        "- %s, %zu + %zu tokens: p50 %.2f ms, bare `llama_decode` %.2f ms: **%.3f times as long**; round by round "
        "%.3f (middle half %.3f to %.3f, all %.3f to %.3f, %zu rounds); %.0f+%.0f tokens cached+computed; "
        "processor time of the one that waits: %.1f %% and %.1f %% of a core.\n",
        json_string_value(json_object_get(record, "server")), s->prefix_tokens, s->new_tokens,
        number(record, "server_p50_ms"), number(record, "bare_p50_ms"), number(record, "ratio"), number(ratio, "p50"),
        number(ratio, "p25"), number(ratio, "p75"), number(ratio, "min"), number(ratio, "max"),
        json_array_size(json_object_get(record, "rounds")), number(record, "cache_n"), number(record, "prompt_n"),
        100.0 * number(record, "server_idle_cpu"), 100.0 * number(record, "bare_idle_cpu"));
}
