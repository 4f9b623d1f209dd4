#include "bench/quick.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "bench/bitcost.h"
#include "bench/floor.h"
#include "bench/interrupt.h"
#include "bench/launch.h"
#include "bench/soak.h"
#include "bench/tie.h"

enum {
    READY_TIMEOUT_MS = 600000,
    STOP_GRACE_MS = 10000,
    ONE_LANE_CONTEXT = 4096, /* what people run, where one lane alone would need less */
    CONTEXT_STEP = 256,
    TEMPLATE_TOKENS = 512 /* room for what a chat template adds to some messages, generously */
};

#define TUNED "--cache-ram -1 --ctx-checkpoints 64 --checkpoint-min-step 64"

static const sk_variant builtin_variants[] = {
    {"llama-server", "", false, false},
    {"llama-server-tuned", TUNED, false, false},
    {"llama-server-unified", TUNED " --kv-unified --no-cache-idle-slots", false, true},
    {"skippy", "", true, false},
};

typedef struct session {
    const sk_quick_options *o;
    sk_report *report;
    int threads;
    uint64_t start_ns;
    bool failed;
} session;

static void progress(const session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void progress(const session *s, const char *fmt, ...) {
    char text[768];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "[%7.1f s] %s\n", (double)(sk_now_ns() - s->start_ns) / 1e9, text);
}

static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; *p;) {
        const size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, name, n) == 0) {
            return true;
        }
        p += len + (p[len] == ',');
    }
    return false;
}

static bool selected(const sk_quick_options *o, const sk_scenario *sc) {
    if (o->only) {
        return listed(o->only, sc->name);
    }
    return !sc->optional || o->chat;
}

/* Measurements that are no scenario: they run servers of their own. */
static bool special(const char *name, size_t len) {
    static const char *const names[] = {"floor", "bitcost", "soak"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

int sk_quick_check(const sk_quick_options *o, sk_err *e) {
    for (const char *p = o->only ? o->only : ""; *p;) {
        const size_t len = strcspn(p, ",");
        if (!special(p, len) && !sk_scenario_find(p, len)) {
            return sk_err_set(e, SKIPPY_E_INVALID, "there is no scenario '%.*s'", (int)len, p);
        }
        p += len + (p[len] == ',');
    }
    if (o->only && !*o->only) {
        return sk_err_set(e, SKIPPY_E_INVALID, "--only names no scenario");
    }
    if (o->only && listed(o->only, "soak") && o->soak == 0) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the scenario 'soak' needs --soak with a number of requests");
    }
    return SKIPPY_OK;
}

uint32_t sk_quick_context(uint32_t lane_ctx, size_t lanes, size_t need, size_t spare, uint32_t n_ctx_train) {
    const size_t wish = need + spare;
    const size_t usual = lane_ctx ? lane_ctx : lanes == 1 && wish < ONE_LANE_CONTEXT ? ONE_LANE_CONTEXT : wish;
    const size_t steps = (usual + CONTEXT_STEP - 1) / CONTEXT_STEP;
    size_t total = steps > UINT32_MAX / CONTEXT_STEP / lanes ? UINT32_MAX : steps * CONTEXT_STEP * lanes;
    if (n_ctx_train && total > n_ctx_train) {
        total = n_ctx_train;
    }
    return need > total / lanes ? 0 : (uint32_t)total;
}

static void choose_variants(session *s) {
    const size_t n = sizeof builtin_variants / sizeof builtin_variants[0];
    sk_report *r = s->report;
    r->n_variants = 0;
    for (size_t i = 0; i < n; i++) {
        sk_variant v = builtin_variants[i];
        if (s->o->baseline_flags && v.many_lanes_only) {
            continue; /* the caller's flags are one set, not two */
        }
        if (s->o->baseline_flags && i == 1) {
            v.flags = s->o->baseline_flags;
        }
        if (v.ours && s->o->skippy_flags) {
            v.flags = s->o->skippy_flags;
        }
        r->variants[r->n_variants++] = v;
    }
}

static int save(const session *s, sk_err *e) {
    char path[1100];
    sk_buf page = {0};
    json_t *root = sk_report_json(s->report);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    int rc = text && sk_report_markdown(s->report, &page) == SKIPPY_OK
                 ? SKIPPY_OK
                 : sk_err_set(e, SKIPPY_E_NOMEM, "cannot make the report: memory is out, or a text is not UTF-8");
    if (rc == SKIPPY_OK) {
        snprintf(path, sizeof path, "%s/quick.json", s->o->out_dir);
        rc = sk_report_write_file(path, text, strlen(text), e);
    }
    if (rc == SKIPPY_OK) {
        snprintf(path, sizeof path, "%s/quick.md", s->o->out_dir);
        rc = sk_report_write_file(path, page.data, page.len, e);
    }
    free(text);
    json_decref(root);
    sk_buf_free(&page);
    return rc;
}

static sk_launch launch_for(const session *s, const sk_variant *v, size_t lanes, uint32_t n_ctx) {
    return (sk_launch){.program = v->ours ? s->o->skippy : s->o->llama_server,
                       .subcommand = v->ours ? "serve" : NULL,
                       .model = s->o->model,
                       .n_ctx = n_ctx,
                       .threads = s->threads,
                       .lanes = lanes,
                       .flags = {s->o->both_flags, v->flags},
                       .ready_timeout_ms = READY_TIMEOUT_MS};
}

/* The scenario's requests to a server that is ready. */
static int measure(const session *s, const sk_scenario *sc, sk_process *p, uint16_t port, sk_measurement *m,
                   sk_err *e) {
    sk_endpoint ep;
    sk_endpoint_init(&ep, port, s->o->timeout_s * 1000);
    sk_run run = {.ep = &ep, .timeout_ms = s->o->timeout_s * 1000, .sizes = &s->o->sizes, .chat = sc->chat, .m = m};
    sk_prompts_init(&run.prompts, sk_endpoint_tokenize, &ep);
    /* The version is for the record: a server without /props is measured all the same. */
    if (sk_endpoint_version(&ep, m->version, sizeof m->version, NULL) != SKIPPY_OK) {
        m->version[0] = '\0';
    }
    int rc = sc->run(&run, e);
    if (rc != SKIPPY_OK && !sk_interrupted() && !sk_process_alive(p, NULL)) {
        sk_buf tail = {0};
        sk_process_log_tail(p, 4, &tail);
        sk_err_set(e, rc, "the server ended in the middle; its last words: %.400s", tail.len ? tail.data : "(nothing)");
        sk_buf_free(&tail);
    }
    sk_prompts_digest(&run.prompts, m->prompts_digest);
    m->n_prompts = run.prompts.made;
    sk_process_memory_read(p, &m->memory);
    sk_endpoint_close(&ep);
    return rc;
}

static void run_variant(session *s, sk_result *res, size_t v) {
    const sk_variant *variant = &s->report->variants[v];
    sk_measurement *m = &res->m[v];
    const sk_launch l = launch_for(s, variant, res->lanes, res->n_ctx);
    char log_path[1200];
    sk_buf command = {0};
    sk_process p = {0};
    sk_err err = {0};
    uint16_t port = 0;
    snprintf(log_path, sizeof log_path, "%s/%s-%s.log", s->o->out_dir, variant->name, res->scenario->name);
    progress(s, "%s: %s: starting", res->scenario->name, variant->name);
    res->ran[v] = true;
    int rc = sk_launch_server(&l, log_path, &p, &port, &command, &err);
    snprintf(m->command, sizeof m->command, "%s", command.data ? command.data : "");
    sk_buf_free(&command);
    if (rc == SKIPPY_OK) {
        progress(s, "%s: %s: measuring", res->scenario->name, variant->name);
        rc = measure(s, res->scenario, &p, port, m, &err);
        m->forced_end = !sk_process_stop(&p, STOP_GRACE_MS);
    }
    if (rc != SKIPPY_OK) {
        m->error = err;
        s->failed = true;
        progress(s, "%s: %s: failed: %s", res->scenario->name, variant->name, err.text);
    }
}

/* Servers that tokenize or render differently cannot be compared at all: that is an error, not a slow row. */
static void check_prompts(session *s, sk_result *res) {
    const sk_measurement *first = NULL;
    for (size_t v = 0; v < s->report->n_variants; v++) {
        sk_measurement *m = &res->m[v];
        if (!res->ran[v] || m->error.code != SKIPPY_OK) {
            continue;
        }
        if (!first) {
            first = m;
        } else if (memcmp(first->prompts_digest, m->prompts_digest, sizeof m->prompts_digest) != 0) {
            sk_err_set(&m->error, SKIPPY_E_INVALID,
                       "its tokenizer or chat template makes other prompts than that of %s (%zu and %zu prompts)",
                       s->report->variants[0].name, m->n_prompts, first->n_prompts);
            s->failed = true;
            progress(s, "%s: %s: %s", res->scenario->name, s->report->variants[v].name, m->error.text);
        }
    }
}

static bool has_open_ties(const sk_report *r, const sk_result *res) {
    for (size_t v = 0; v + 1 < r->n_variants; v++) {
        if (res->ran[v] && sk_tie_open(&res->m[v], &res->m[r->n_variants - 1])) {
            return true;
        }
    }
    return false;
}

/* Cold answers that differ: llama-server with its defaults is asked once more whether it was a near tie. Without an
 * answer they stay differences. */
static void settle_ties(session *s, sk_result *res) {
    const sk_report *r = s->report;
    const sk_launch l = launch_for(s, &r->variants[0], 1, res->n_ctx);
    char log_path[1200];
    sk_buf command = {0};
    sk_process p = {0};
    sk_err err = {0};
    uint16_t port = 0;
    if (sk_interrupted() || !has_open_ties(r, res)) {
        return;
    }
    progress(s, "%s: cold answers differ; asking llama-server how close the best two tokens are", res->scenario->name);
    snprintf(log_path, sizeof log_path, "%s/arbiter-%s.log", s->o->out_dir, res->scenario->name);
    int rc = sk_launch_server(&l, log_path, &p, &port, &command, &err);
    if (rc == SKIPPY_OK) {
        sk_endpoint arbiter;
        sk_endpoint_init(&arbiter, port, s->o->timeout_s * 1000);
        for (size_t v = 0; rc == SKIPPY_OK && v + 1 < r->n_variants; v++) {
            rc = res->ran[v] ? sk_tie_settle(&arbiter, &res->m[v], &res->m[r->n_variants - 1], &err) : SKIPPY_OK;
        }
        sk_endpoint_close(&arbiter);
        sk_process_stop(&p, STOP_GRACE_MS);
    }
    if (rc != SKIPPY_OK) {
        progress(s, "%s: no judgement: %s", res->scenario->name, err.text);
    }
    sk_buf_free(&command);
}

static int run_scenario(session *s, const sk_scenario *sc, sk_err *e) {
    sk_report *r = s->report;
    const size_t lanes = sc->lanes(&s->o->sizes);
    const size_t need = sc->lane_tokens(&s->o->sizes);
    const uint32_t n_ctx =
        sk_quick_context(s->o->lane_ctx, lanes, need, sc->chat ? TEMPLATE_TOKENS : 0, (uint32_t)r->facts.n_ctx_train);
    if (n_ctx == 0) {
        progress(s, "%s: left out: it needs %zu tokens on each of %zu lanes; %s has %u", sc->name, need, lanes,
                 s->o->lane_ctx && s->o->lane_ctx < need ? "a lane" : "the model's whole context",
                 s->o->lane_ctx && s->o->lane_ctx < need ? s->o->lane_ctx : (uint32_t)r->facts.n_ctx_train);
        s->failed = true;
        return SKIPPY_OK;
    }
    sk_result *res = &r->results[r->n_results++];
    *res = (sk_result){.scenario = sc, .lanes = lanes, .n_ctx = n_ctx};
    for (size_t v = 0; v < r->n_variants && !sk_interrupted(); v++) {
        if (!s->report->variants[v].many_lanes_only || lanes > 1) {
            run_variant(s, res, v);
        }
    }
    check_prompts(s, res);
    settle_ties(s, res);
    return save(s, e);
}

/* The lower bound of `prefix`, against llama-server with its defaults and against ours. */
static int run_floor(session *s, sk_err *e) {
    sk_report *r = s->report;
    const sk_sizes *z = &s->o->sizes;
    const size_t variants[] = {0, r->n_variants - 1};
    const uint32_t n_ctx = sk_quick_context(s->o->lane_ctx, 1, z->prefix_tokens + z->new_tokens + SK_GATE_TOKENS + 1, 0,
                                            (uint32_t)r->facts.n_ctx_train);
    r->floor = json_array();
    for (size_t i = 0; i < 2 && !sk_interrupted(); i++) {
        const sk_variant *v = &r->variants[variants[i]];
        const sk_floor_options o = {.server = launch_for(s, v, 1, n_ctx),
                                    .name = v->name,
                                    .skippy = s->o->skippy,
                                    .out_dir = s->o->out_dir,
                                    .timeout_ms = s->o->timeout_s * 1000};
        json_t *record = NULL;
        sk_err err = {0};
        progress(s, "floor: %s and a bare process in turn", v->name);
        if (n_ctx == 0) {
            sk_err_set(&err, SKIPPY_E_INVALID, "the context is too small for its prompts");
        } else if (sk_floor_run(&o, z, &record, &err) == SKIPPY_OK) {
            json_array_append_new(r->floor, record);
            continue;
        }
        s->failed = true;
        progress(s, "floor: %s: failed: %s", v->name, err.text);
    }
    return save(s, e);
}

static int run_bit_cost(session *s, sk_err *e) {
    const sk_sizes *z = &s->o->sizes;
    const sk_variant *ours = &s->report->variants[s->report->n_variants - 1];
    const uint32_t n_ctx = sk_quick_context(s->o->lane_ctx, z->cost_lanes, z->cost_tokens + 2 * z->cost_predict + 2, 0,
                                            (uint32_t)s->report->facts.n_ctx_train);
    const sk_bitcost_options o = {.server = launch_for(s, ours, z->cost_lanes, n_ctx),
                                  .out_dir = s->o->out_dir,
                                  .timeout_ms = s->o->timeout_s * 1000};
    sk_err err = {0};
    progress(s, "bitcost: state mode and bit mode in turn");
    if (n_ctx == 0) {
        sk_err_set(&err, SKIPPY_E_INVALID, "the context is too small for its prompts");
    } else {
        sk_bitcost_run(&o, z, &s->report->bit_cost, &err);
    }
    if (err.code != SKIPPY_OK) {
        s->failed = true;
        progress(s, "bitcost: failed: %s", err.text);
    }
    return save(s, e);
}

static int run_soak(session *s, sk_err *e) {
    const sk_variant *ours = &s->report->variants[s->report->n_variants - 1];
    const uint32_t n_ctx =
        sk_quick_context(s->o->lane_ctx, 1, SK_SOAK_LANE_TOKENS, 0, (uint32_t)s->report->facts.n_ctx_train);
    const sk_launch l = launch_for(s, ours, 1, n_ctx ? n_ctx : SK_SOAK_LANE_TOKENS);
    char log_path[1100];
    sk_buf command = {0};
    sk_process p = {0};
    uint16_t port = 0;
    snprintf(log_path, sizeof log_path, "%s/skippy-soak.log", s->o->out_dir);
    progress(s, "soak: skippy: %zu requests", s->o->soak);
    int rc = sk_launch_server(&l, log_path, &p, &port, &command, e);
    if (rc == SKIPPY_OK) {
        rc = sk_soak_run(&p, port, s->o->timeout_s * 1000, s->o->sizes.seed, s->o->soak, &s->report->soak,
                         &s->report->n_soak, e);
        sk_process_stop(&p, STOP_GRACE_MS);
    }
    sk_buf_free(&command);
    if (rc != SKIPPY_OK) {
        progress(s, "soak: failed: %s", e->text);
        s->failed = true;
    }
    return save(s, e);
}

static int prepare(session *s, sk_err *e) {
    size_t n = 0;
    while (sk_scenario_at(n)) {
        n++;
    }
    if (mkdir(s->o->out_dir, 0755) != 0 && errno != EEXIST) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot make the directory '%s': %s", s->o->out_dir, strerror(errno));
    }
    s->report->results = calloc(n ? n : 1, sizeof *s->report->results);
    if (!s->report->results) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the report");
    }
    progress(s, "reading %s", s->o->model);
    return sk_facts_model(&s->report->facts, s->o->model, e);
}

static int run_all(session *s, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && sk_scenario_at(i) && !sk_interrupted(); i++) {
        if (selected(s->o, sk_scenario_at(i))) {
            rc = run_scenario(s, sk_scenario_at(i), e);
        }
    }
    if (rc == SKIPPY_OK && (!s->o->only || listed(s->o->only, "floor")) && !sk_interrupted()) {
        rc = run_floor(s, e);
    }
    if (rc == SKIPPY_OK && s->o->only && listed(s->o->only, "bitcost") && !sk_interrupted()) {
        rc = run_bit_cost(s, e);
    }
    if (rc == SKIPPY_OK && s->o->soak && !sk_interrupted()) {
        rc = run_soak(s, e);
    }
    if (rc == SKIPPY_OK) {
        s->report->interrupted = sk_interrupted();
        rc = save(s, e);
    }
    return rc;
}

int sk_quick_run(const sk_quick_options *o, sk_report *report, sk_err *e) {
    session s = {.o = o, .report = report, .start_ns = sk_now_ns()};
    *report = (sk_report){.sizes = &o->sizes, .skippy_version = o->version};
    sk_facts_machine(&report->facts);
    s.threads = o->threads > 0 ? o->threads : (int)report->facts.cores;
    report->threads = s.threads;
    choose_variants(&s);
    int rc = prepare(&s, e);
    if (rc == SKIPPY_OK) {
        rc = run_all(&s, e);
    }
    if (rc == SKIPPY_OK && sk_interrupted()) {
        rc = sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted; what was measured is in %s", o->out_dir);
    } else if (rc == SKIPPY_OK && s.failed) {
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "some measurements failed; see %s/quick.md", o->out_dir);
    }
    return rc;
}
