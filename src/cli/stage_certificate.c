#include "cli/stage_certificate.h"

#include <stdio.h>

#include "base/log.h"
#include "correctness/receipt.h"

bool sk_stage_certificate_dir(const char *dir, char *buf, size_t cap) {
    if (!dir) return sk_receipt_default_dir(buf, cap);
    const int n = snprintf(buf, cap, "%s", dir);
    return n > 0 && (size_t)n < cap;
}

bool sk_stage_certificate_find(const char *dir, const char *source, sk_layer_range layers, const sk_engine_params *p,
                               char *text, size_t cap, bool *failed) {
    const sk_stage_receipt_facts facts = {
        .source = source, .layers = layers, .type_k = p->type_k, .type_v = p->type_v, .flash_attn = p->flash_attn};
    char folder[1024];
    sk_stage_receipt r;
    sk_err e = {0};
    if (failed) *failed = false;
    if (!sk_stage_certificate_dir(dir, folder, sizeof folder)) {
        snprintf(text, cap, "not certified: there is no folder for receipts");
        return false;
    }
    const int rc = sk_stage_receipt_find(folder, &facts, &r, &e);
    if (rc != SKIPPY_OK) {
        snprintf(text, cap, "not certified: %s", e.text);
        if (rc != SKIPPY_E_NOT_FOUND) sk_log(SK_LOG_WARN, "%s", text);
        return false;
    }
    if (failed) *failed = !r.passed;
    snprintf(text, cap, "%s%s on %s: %s", r.passed ? "certified" : "certification failed", r.alone ? " alone" : "",
             r.date, r.verdict);
    return r.passed && !r.alone;
}

static int compare(const char *location, const sk_weights *stages, size_t n, const sk_run_options *run,
                   bool (*go_on)(void), sk_stage_certify_report *report, sk_err *e) {
    const char *paths[SK_CUT_STAGES_MAX];
    for (size_t i = 0; i < n; i++) paths[i] = stages[i].path;
    const sk_stage_certify_options o = {.whole = location,
                                        .stages = paths,
                                        .n_stages = n,
                                        .n_threads = run->engine.n_threads,
                                        .n_gpu_layers = run->model.n_gpu_layers,
                                        .flash_attn = run->engine.flash_attn,
                                        .type_k = run->engine.type_k,
                                        .type_v = run->engine.type_v,
                                        .go_on = go_on};
    return sk_stage_certify_run(&o, report, e);
}

int sk_stage_certificate_make(sk_weights_source *s, const char *location, const sk_cut_plan *plan,
                              const sk_split_options *split, const sk_run_options *run, const char *dir,
                              sk_stage_certify_report *report, sk_err *e) {
    sk_weights stages[SK_CUT_STAGES_MAX], whole = {.path = location, .file.lock = -1};
    const sk_layer_range all = {0, plan->n_layer};
    char folder[1024];
    size_t n = 0;
    int rc = SKIPPY_OK;
    if (!sk_stage_certificate_dir(dir, folder, sizeof folder))
        return sk_err_set(e, SKIPPY_E_IO, "there is no folder for receipts: set HOME, or give --receipts DIR");
    for (; rc == SKIPPY_OK && n < plan->n_stages; n++) rc = sk_weights_cut(s, plan->stage[n], split, &stages[n], e);
    if (rc == SKIPPY_OK && sk_weights_is_package(location)) rc = sk_weights_cut(s, all, split, &whole, e);
    if (rc == SKIPPY_OK) rc = compare(whole.path, stages, n, run, s->go_on, report, e);
    if (rc == SKIPPY_OK) rc = sk_stage_receipt_write(folder, report, SKIPPY_VERSION, e);
    for (size_t i = 0; i < n; i++) sk_weights_release(&stages[i]);
    sk_weights_release(&whole);
    return rc;
}
