#include "bench/family/prepare.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/facts.h"
#include "bench/family/input_parts.h"
#include "bench/family/prepare_folder.h"
#include "bench/family/prepare_observe.h"
#include "bench/family/prepare_publish.h"
#include "bench/family/strict.h"
#include "bench/report.h"

enum { MAX_REQUEST_BYTES = 1 << 20 };

static const uint64_t NS_PER_S = 1000000000u;

/* One preparation while it runs. */
typedef struct preparation {
    const sk_prepare_options *o;
    sk_prepare_watch watch;
    sk_operator *op;
    sk_family_input *in;
    sk_corpus corpus;
} preparation;

static int path_in(const preparation *p, const char *name, char out[PATH_MAX], sk_err *e) {
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", p->o->out_dir, name) < PATH_MAX) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "the output folder's path is too long");
}

/* ---- beginning ---- */

/* The request as it was when it was read: its digest stands in the input. */
static int copy_request(const preparation *p, sk_err *e) {
    char path[PATH_MAX], hex[SK_SHA256_HEX];
    sk_buf text = {0};
    int rc = path_in(p, "request.json", path, e);
    if (rc == SKIPPY_OK) rc = sk_strict_read(p->o->operator_path, MAX_REQUEST_BYTES, &text, e);
    if (rc == SKIPPY_OK) {
        sk_sha256_text(text.data, text.len, hex);
        rc = strcmp(hex, p->op->sha256) == 0
                 ? sk_report_write_file(path, text.data, text.len, e)
                 : sk_err_set(e, SKIPPY_E_CORRUPT, "the request '%s' was changed while it was read",
                              p->o->operator_path);
    }
    sk_buf_free(&text);
    return rc;
}

static int begin(preparation *p, sk_err *e) {
    const uint64_t now = sk_now_ns();
    p->in = calloc(1, sizeof *p->in);
    if (!p->in) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a preparation");
    int rc = sk_operator_load(p->o->operator_path, &p->op, e);
    if (rc == SKIPPY_OK) rc = sk_operator_override(p->op, getenv, e);
    if (rc != SKIPPY_OK) return rc;
    p->watch = (sk_prepare_watch){.deadline_ns = now + p->op->preparation_seconds * NS_PER_S,
                                  .limit_s = p->op->preparation_seconds,
                                  .progress = p->o->progress};
    return sk_prepare_folder(p->o->out_dir, p->op, e);
}

/* ---- observations ---- */

static json_t *machine_json(void) {
    sk_bench_facts f = {0};
    sk_facts_machine(&f);
    return json_pack("{s:s, s:I, s:I, s:s}", "cpu", f.cpu, "cores", (json_int_t)f.cores, "memory_kib",
                     (json_int_t)f.memory_kib, "date", f.date);
}

/* Everything that the input has but its cells, and how the preparation ended. */
static int write_observations(const preparation *p, int result, const sk_err *why, sk_err *e) {
    char path[PATH_MAX];
    json_t *all = sk_family_input_json(p->in);
    json_object_del(all, "cells");
    const int failed = json_object_set_new(all, "status", json_string(result == SKIPPY_OK ? "prepared" : "refused")) |
                       json_object_set_new(all, "error", result == SKIPPY_OK ? json_null() : json_string(why->text)) |
                       json_object_set_new(all, "machine", machine_json());
    int rc = failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the observations, or a path is not UTF-8")
                    : path_in(p, "observations.json", path, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_write_json(path, all, e);
    json_decref(all);
    return rc;
}

/* ---- cells and publication ---- */

static int make_cells(preparation *p, sk_err *e) {
    sk_family_input *in = p->in;
    if (!p->o->use_cases)
        return sk_prepare_cells(p->op, NULL, 0, in->models, in->n_models, &in->cells, &in->n_cells, e);
    size_t n = 0;
    const sk_use_case **chosen = calloc(p->corpus.n + 1, sizeof(const sk_use_case *));
    if (!chosen) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the use cases");
    int rc = sk_prepare_choose(&p->op->plan, &p->corpus, chosen, &n, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_cells(p->op, chosen, n, in->models, in->n_models, &in->cells, &in->n_cells, e);
    free(chosen);
    return rc;
}

static int publish(const preparation *p, sk_err *e) {
    char path[PATH_MAX];
    json_t *json = NULL;
    int rc = path_in(p, "cache-family-input.json", path, e);
    if (rc == SKIPPY_OK) {
        json = sk_family_input_json(p->in);
        rc = json ? sk_prepare_publish(path, json, &p->watch, e)
                  : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the input, or a path is not UTF-8");
    }
    json_decref(json);
    if (rc == SKIPPY_OK) sk_prepare_say(&p->watch, "%zu cells: %s", p->in->n_cells, path);
    return rc;
}

/* Everything that happens in the output folder. */
static int work(preparation *p, sk_err *e) {
    int rc = copy_request(p, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_library_paths(p->op, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_observe(p->o, p->op, &p->watch, p->in, &p->corpus, e);
    if (rc == SKIPPY_OK) rc = make_cells(p, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_may_go_on(&p->watch, e);
    if (rc == SKIPPY_OK) rc = write_observations(p, SKIPPY_OK, NULL, e);
    return rc == SKIPPY_OK ? publish(p, e) : rc;
}

int sk_prepare_run(const sk_prepare_options *o, sk_err *e) {
    preparation p = {.o = o};
    sk_err why = {0};
    int rc = begin(&p, &why);
    if (rc == SKIPPY_OK) {
        rc = work(&p, &why);
        /* what was seen helps to mend the request; that it cannot be written is the smaller trouble */
        if (rc != SKIPPY_OK) write_observations(&p, rc, &why, NULL);
    }
    sk_corpus_free(&p.corpus);
    sk_family_input_free(p.in);
    sk_operator_free(p.op);
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "%s", why.text);
}
