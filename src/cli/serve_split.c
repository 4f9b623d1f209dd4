#include "cli/serve_split.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/stage_certificate.h"

int sk_serve_check_layers(const sk_serve_options *o, const sk_model_info *i, sk_err *e) {
    const sk_stage_facts *f = &i->stage;
    if (o->n_stages == 0) {
        if (f->first && f->last) return SKIPPY_OK;
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%s' holds the layers %d..%d of %d only. Serve it as a stage ('skippy stage'), or say with "
                          "--stages where the others are",
                          i->path, (int)f->layer_start, (int)f->layer_end - 1, (int)f->n_layer);
    }
    if (!f->is_stage || (f->first && f->last))
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--stages: '%s' is a whole model. Say with --layers 0..B which layers are held here",
                          i->path);
    if (!f->first)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--stages: the head of a chain holds the first layers, but '%s' has the layers %d..%d",
                          i->path, (int)f->layer_start, (int)f->layer_end - 1);
    return SKIPPY_OK;
}

/* At the start, while stages are not there yet: each new reason once. */
static bool on_waiting(void *ud, const char *text) {
    sk_serve_waiting *w = ud;
    if (strcmp(w->said, text) != 0) sk_log(SK_LOG_INFO, "%s", text);
    snprintf(w->said, sizeof w->said, "%s", text);
    return w->go_on();
}

const sk_split_params *sk_serve_split(sk_serve_options *o, sk_serve_waiting *w) {
    sk_split_params *p = &o->split_params;
    p->addresses = o->stages;
    p->n_addresses = o->n_stages;
    p->dtype = o->split.dtype;
    p->link.security = o->split.security;
    p->activation_bytes = o->split.activation_bytes;
    p->progress = on_waiting;
    p->progress_ud = w;
    return p;
}

int sk_serve_split_receipt(const sk_serve_options *o, const sk_model_info *i, const sk_engine_facts *f, char *text,
                           size_t cap, sk_err *e) {
    for (uint32_t k = 0; k <= f->n_stages; k++) {
        const sk_layer_range r = k == 0 ? (sk_layer_range){i->stage.layer_start, i->stage.layer_end}
                                        : (sk_layer_range){f->stages[k - 1].layer_start, f->stages[k - 1].layer_end};
        bool failed = false;
        const bool passed =
            sk_stage_certificate_find(o->receipts, i->stage.source, r, &o->run.engine, text, cap, &failed);
        if (failed) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s", text);
        if (!passed) return SKIPPY_OK;
    }
    return SKIPPY_OK;
}
