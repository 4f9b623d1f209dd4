#include "cli/serve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/digest_dir.h"
#include "cli/heap.h"
#include "cli/load_bar.h"
#include "cli/serve_facts.h"
#include "cli/serve_options.h"
#include "cli/serve_split.h"
#include "cli/signals.h"
#include "cli/stage_weights.h"
#include "correctness/receipt.h"
#include "openai/api.h"
#include "server/listen.h"
#include "server/server.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* For the signal handler, which has no other way to find them. */
static _Atomic(sk_server *) running;

/* First signal: running answers may end. Second: they are told to. */
static void stop_running(void) {
    sk_server *s = atomic_load(&running);
    if (s) sk_server_stop(s);
}

/* Each client is a file descriptor; the usual soft limit of 1024 is less than the server's own limits need. */
static void raise_file_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == r.rlim_max) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

static bool on_progress(void *ud, float fraction) {
    sk_load_bar_show(ud, fraction);
    return sk_signals_none();
}

/* What runs, in the order in which it was started. */
typedef struct service {
    sk_serve_options o;
    int listen_fd;
    sk_weights weights;
    sk_serve_waiting waiting;
    sk_model *model;
    sk_engine *engine;
    sk_api *api;
    sk_server *server;
    char digests[1024], address[128], split_receipt[700];
} service;

static int load_model(service *s, sk_err *e) {
    sk_load_bar bar = {
        .out = stderr, .tty = isatty(STDERR_FILENO) != 0, .what = "skippy: loading the model", .shown = -1};
    sk_model_params *p = &s->o.run.model;
    int rc = sk_weights_prepare(p->path, &s->o.split, s->o.n_stages > 0, sk_signals_none, &s->weights, e);
    if (rc != SKIPPY_OK) return rc;
    p->path = s->weights.path;
    p->progress = on_progress;
    p->progress_ud = &bar;
    rc = sk_model_load(p, &s->model, e);
    if (bar.tty && bar.shown >= 0 && bar.shown < 100) fputc('\n', stderr);
    return rc == SKIPPY_OK ? sk_serve_check_layers(&s->o, sk_model_get_info(s->model), e) : rc;
}

/* What `skippy certify` found about this file. */
static enum sk_certified find_receipt(void *ud, const skippy_identity *id, char *why, size_t cap) {
    const service *s = ud;
    char dir[1024];
    if (s->o.receipts)
        snprintf(dir, sizeof dir, "%s", s->o.receipts);
    else if (!sk_receipt_default_dir(dir, sizeof dir))
        return SK_NOT_CERTIFIED;
    const sk_receipt_facts facts = {.weights = id->weights_digest,
                                    .abi = id->runtime_abi,
                                    .device = id->backend_device,
                                    .type_k = id->kv_type_k,
                                    .type_v = id->kv_type_v,
                                    .flash_attn = id->flash_attn,
                                    .swa_full = id->swa_full};
    sk_receipt r;
    sk_err e = {0};
    int rc = sk_receipt_find(dir, &facts, &r, &e);
    if (rc != SKIPPY_OK) {
        snprintf(why, cap, "not certified: %s", e.text);
        /* a receipt that cannot be read may have said "failed", and one that was asked for should be there */
        if (rc != SKIPPY_E_NOT_FOUND || s->o.receipts) sk_log(SK_LOG_WARN, "%s", why);
        return SK_NOT_CERTIFIED;
    }
    snprintf(why, cap, "%s on %s: %s", r.passed ? "certified" : "certification failed", r.date, r.verdict);
    return r.passed ? SK_CERTIFIED_PASS : SK_CERTIFIED_FAIL;
}

static int start_engine(service *s, sk_err *e) {
    sk_engine_params *p = &s->o.run.engine;
    if (s->o.run.ctx_of_model) p->n_ctx = (uint32_t)sk_model_get_info(s->model)->n_ctx_train;
    p->certified = find_receipt;
    p->certified_ud = s;
    p->digest_dir = sk_cli_digest_dir(s->digests, sizeof s->digests);
    if (s->o.n_stages > 0) p->split = sk_serve_split(&s->o, &s->waiting);
    int rc = sk_engine_start(s->model, p, &s->engine, e);
    if (rc != SKIPPY_OK || s->o.n_stages == 0) return rc;
    return sk_serve_split_receipt(&s->o, sk_model_get_info(s->model), sk_engine_get_facts(s->engine), s->split_receipt,
                                  sizeof s->split_receipt, e);
}

static int start_api(service *s, sk_err *e) {
    const sk_api_params p = {.model = s->model,
                             .model_id = sk_model_get_info(s->model)->id,
                             .n_ctx = sk_engine_get_facts(s->engine)->n_ctx,
                             .chat_template = s->o.chat_template,
                             .default_n_predict = s->o.n_predict};
    return sk_api_create(&p, &s->api, e);
}

static int start_server(service *s, sk_err *e) {
    const sk_model_info *info = sk_model_get_info(s->model);
    sk_server_params *p = &s->o.server;
    p->listen_fd = s->listen_fd;
    p->engine = s->engine;
    p->api = s->api;
    p->auth = s->o.auth;
    p->model_id = info->id;
    p->model_path = info->path;
    p->build_info = SKIPPY_VERSION;
    s->listen_fd = -1; /* the server's now, also when it fails */
    return sk_server_create(p, &s->server, e);
}

static int start(service *s, sk_err *e) {
    bool public_ok = s->o.allow_anonymous || sk_auth_count(s->o.auth) > 0;
    int rc = sk_listen_open(s->o.host, s->o.port, public_ok, &s->listen_fd, e);
    if (rc != SKIPPY_OK) return rc;
    sk_listen_name(s->listen_fd, s->address, sizeof s->address);
    rc = load_model(s, e);
    if (rc == SKIPPY_OK) rc = start_engine(s, e);
    if (rc == SKIPPY_OK) rc = start_api(s, e);
    if (rc == SKIPPY_OK) rc = start_server(s, e);
    return rc;
}

/* The engine stops before the server is destroyed: see server.h. */
static void stop(service *s) {
    atomic_store(&running, NULL);
    if (s->engine) sk_engine_stop(s->engine);
    sk_server_destroy(s->server);
    if (s->api) sk_api_destroy(s->api);
    if (s->model) sk_model_free(s->model);
    sk_weights_release(&s->weights);
    if (s->listen_fd >= 0) close(s->listen_fd);
    sk_serve_options_free(&s->o);
}

static void serve(service *s) {
    atomic_store(&running, s->server);
    /* A signal before the line above was only counted. */
    if (!sk_signals_none()) sk_server_stop(s->server);
    const sk_serve_facts facts = {&s->o, sk_model_get_info(s->model), s->engine, s->address, s->split_receipt};
    sk_serve_print_facts(&facts);
    sk_server_run(s->server);
}

int sk_cli_serve(int argc, char **argv) {
    service s = {.listen_fd = -1, .weights.file.lock = -1, .waiting.go_on = sk_signals_none};
    sk_err e = {0};
    int code = EXIT_DONE;
    if (sk_serve_options_parse(&s.o, argc, argv, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s: %s. Try 'skippy serve --help'.\n", argv[0], e.text);
        code = EXIT_USAGE;
    } else if (s.o.run.help) {
        sk_serve_options_help();
    } else {
        sk_signals_install(stop_running);
        raise_file_limit();
        sk_heap_keep_large_blocks();
        int rc = start(&s, &e);
        if (rc == SKIPPY_OK) {
            serve(&s);
        } else if (rc != SKIPPY_E_CANCELLED) {
            fprintf(stderr, "%s: %s\n", argv[0], e.text);
            code = EXIT_FAILED;
        }
    }
    bool served = s.server != NULL;
    stop(&s);
    if (served) sk_log(SK_LOG_INFO, "stopped");
    return code;
}
