#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/digest_dir.h"
#include "cli/heap.h"
#include "cli/inspect_names.h"
#include "cli/load_bar.h"
#include "cli/signals.h"
#include "cli/stage_actions.h"
#include "cli/stage_certificate.h"
#include "cli/stage_options.h"
#include "cli/stage_weights.h"

enum { QUIET_NS = 700000000 }; /* loading that takes less needs no bar */

/* For the signal handler, which has no other way to find them. */
static _Atomic(sk_stage *) running;

/* The stage ends and keeps what it has. */
static void stop_running(void) {
    sk_stage *s = atomic_load(&running);
    if (s) sk_stage_stop(s);
}

static bool on_progress(void *ud, float fraction) {
    sk_load_bar_show(ud, fraction);
    return sk_signals_none();
}

/* What runs, in the order in which it was started. */
typedef struct service {
    sk_stage_options o;
    sk_weights weights;
    sk_model *model;
    sk_stage *stage;
    char digests[1024], receipt[700];
} service;

static int check_model(const sk_model_info *i, sk_err *e) {
    const sk_stage_facts *f = &i->stage;
    if (!f->is_stage || (f->first && f->last))
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%s' is a whole model. Say with --layers A..B which layers are held here", i->path);
    if (f->first)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%s' holds the first layers, which belong to the head: 'skippy serve --stages ...'",
                          i->path);
    return SKIPPY_OK;
}

static int load_model(service *s, sk_err *e) {
    sk_load_bar bar = {.out = stderr,
                       .tty = isatty(STDERR_FILENO) == 1,
                       .what = "skippy: loading the stage",
                       .shown = -1,
                       .quiet_until = sk_now_ns() + QUIET_NS};
    sk_model_params *p = &s->o.run.model;
    int rc = sk_weights_prepare(p->path, &s->o.split, true, sk_signals_none, &s->weights, e);
    if (rc != SKIPPY_OK) return rc;
    p->path = s->weights.path;
    p->progress = on_progress;
    p->progress_ud = &bar;
    rc = sk_model_load(p, &s->model, e);
    if (bar.tty && bar.shown >= 0 && bar.shown < 100) fputc('\n', stderr);
    return rc == SKIPPY_OK ? check_model(sk_model_get_info(s->model), e) : rc;
}

/* A stage that was seen to compute something else is not served. */
static int look_up_receipt(service *s, const sk_stage_facts *f, sk_err *e) {
    bool failed = false;
    sk_stage_certificate_find(s->o.receipts, f->source, (sk_layer_range){f->layer_start, f->layer_end},
                              &s->o.run.engine, s->receipt, sizeof s->receipt, &failed);
    return failed ? sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s", s->receipt) : SKIPPY_OK;
}

static int start(service *s, sk_err *e) {
    int rc = load_model(s, e);
    if (rc != SKIPPY_OK) return rc;
    const sk_model_info *i = sk_model_get_info(s->model);
    sk_stage_params p = sk_stage_options_params(&s->o, i);
    rc = look_up_receipt(s, &i->stage, e);
    if (rc != SKIPPY_OK) return rc;
    p.setup.digest_dir = sk_cli_digest_dir(s->digests, sizeof s->digests);
    return sk_stage_open(s->model, &p, &s->stage, e);
}

static void stop(service *s) {
    atomic_store(&running, NULL);
    if (s->stage) sk_stage_close(s->stage);
    if (s->model) sk_model_free(s->model);
    sk_weights_release(&s->weights);
}

static const char *security_text(const service *s) {
    const char *address = sk_stage_address(s->stage);
    if (s->o.split.security.ca) return "TLS 1.3, certificates on both sides";
    return strncmp(address, "unix:", 5) == 0 ? "unix socket" : "plaintext, on this machine only";
}

static void print_facts(const service *s) {
    const sk_model_info *i = sk_model_get_info(s->model);
    const sk_engine_params *p = &s->o.run.engine;
    char size[SIZE_CHARS], layers[64];
    printf("skippy %s stage is listening on %s\n", SKIPPY_VERSION, sk_stage_address(s->stage));
    printf("  model    %s, %s (%s)\n", i->stage.source_name, sk_weights_layers_text(&i->stage, layers, sizeof layers),
           size_of(i->size_bytes, size));
    printf("  gives    %s\n", i->stage.last      ? "logits"
                              : s->o.split.dtype ? "hidden states as f16"
                                                 : "hidden states as f32");
    printf("  receipt  %s\n", s->receipt);
    printf("  links    %s\n", security_text(s));
    printf("  cache    %s%s%s\n", p->cache_off ? "off" : "of these layers",
           p->disk_dir ? ", outlives the stage in " : "", p->disk_dir ? p->disk_dir : "");
    if (!p->cache_off && !i->stage.last)
        printf("  sends    hidden states again, up to %s of them\n", size_of(s->o.split.activation_bytes, size));
    fflush(stdout);
}

static void put(sk_buf *b, const char *key, const char *value) {
    sk_buf_printf(b, "\"%s\":\"", key);
    sk_buf_json_escape(b, value, strlen(value));
    sk_buf_str(b, "\",");
}

static void print_json(const service *s) {
    const sk_model_info *i = sk_model_get_info(s->model);
    sk_buf b = {0};
    sk_buf_str(&b, "{");
    put(&b, "version", SKIPPY_VERSION);
    put(&b, "address", sk_stage_address(s->stage));
    put(&b, "model", i->stage.source_name);
    put(&b, "source", i->stage.source);
    put(&b, "model_path", i->path);
    put(&b, "receipt", s->receipt);
    sk_buf_printf(&b, "\"layer_start\":%d,\"layer_end\":%d,\"n_layer\":%d,\"last\":%s,\"model_bytes\":%llu}\n",
                  (int)i->stage.layer_start, (int)i->stage.layer_end, (int)i->stage.n_layer,
                  i->stage.last ? "true" : "false", (unsigned long long)i->size_bytes);
    if (!b.failed) fwrite(b.data, 1, b.len, stdout);
    fflush(stdout);
    sk_buf_free(&b);
}

static int serve(service *s, sk_err *e) {
    atomic_store(&running, s->stage);
    /* A signal before the line above was only counted. */
    if (!sk_signals_none()) sk_stage_stop(s->stage);
    if (s->o.run.json)
        print_json(s);
    else
        print_facts(s);
    int rc = sk_stage_run(s->stage, e);
    if (rc == SKIPPY_OK) sk_log(SK_LOG_INFO, "stopped");
    return rc;
}

int stage_run(int argc, char **argv) {
    service s = {.weights.file.lock = -1};
    sk_err e = {0};
    if (sk_stage_options_parse(&s.o, argc, argv, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s: %s. Try '%s --help'.\n", argv[0], e.text, argv[0]);
        return STAGE_USAGE;
    }
    if (s.o.run.help) {
        sk_stage_options_help();
        return STAGE_DONE;
    }
    sk_signals_install(stop_running);
    sk_heap_keep_large_blocks();
    int rc = start(&s, &e);
    if (rc == SKIPPY_OK) rc = serve(&s, &e);
    if (rc != SKIPPY_OK && rc != SKIPPY_E_CANCELLED) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    stop(&s);
    return rc == SKIPPY_OK || rc == SKIPPY_E_CANCELLED ? STAGE_DONE : STAGE_FAILED;
}
