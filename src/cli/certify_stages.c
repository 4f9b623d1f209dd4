#include "cli/certify_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stage_certificate.h"

static int parse_cuts(const char *text, int32_t *cuts, size_t *n, sk_err *e) {
    const char *at = text;
    for (*n = 0; *n < SK_CUT_STAGES_MAX - 1; at++) {
        char *end = NULL;
        const long v = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (v < 1 || v >= SK_MAX_LAYERS) break;
        cuts[(*n)++] = (int32_t)v;
        at = end;
        if (*at == '\0') return SKIPPY_OK;
        if (*at != ',') break;
    }
    return sk_err_set(e, SKIPPY_E_INVALID, "--cuts needs at most %d layer numbers separated by commas, not '%.80s'",
                      SK_CUT_STAGES_MAX - 1, text);
}

static int make_plan(const sk_certify_cli *o, const sk_tensor_source *s, sk_cut_plan *plan, sk_err *e) {
    int32_t cuts[SK_CUT_STAGES_MAX - 1];
    size_t n = 0;
    if (!o->cuts) return sk_cut_plan_make(s, o->stages, NULL, plan, e);
    int rc = parse_cuts(o->cuts, cuts, &n, e);
    return rc == SKIPPY_OK ? sk_cut_plan_fixed(s, cuts, n + 1, plan, e) : rc;
}

static void show(const sk_certify_cli *o, const sk_cut_plan *plan, const sk_stage_certify_report *r) {
    char text[400];
    if (o->json) {
        printf("{\"source\":\"%s\",\"status\":\"%s\",\"rows\":%u,\"rows_different\":%u,\"stages\":[", r->source,
               r->passed ? "pass" : "fail", r->rows, r->different);
        for (size_t i = 0; i < r->n_stages; i++)
            printf("%s{\"layer_start\":%d,\"layer_end\":%d}", i == 0 ? "" : ",", (int)r->layers[i].start,
                   (int)r->layers[i].end);
        puts("]}");
        return;
    }
    printf("model      %s\nstages     %s\nlayout     K %s, V %s, device %s\n\n%s: %s\n", o->run.model_path,
           sk_cut_plan_text(plan, text, sizeof text), r->type_k, r->type_v, r->device, r->passed ? "PASS" : "FAIL",
           r->verdict);
}

/* How the models are loaded, in the words of a server. */
static sk_run_options run_options(const sk_certify_options *o) {
    sk_run_options run;
    sk_run_defaults(&run);
    run.engine.n_threads = o->n_threads;
    run.engine.flash_attn = o->flash_attn;
    run.model.n_gpu_layers = o->n_gpu_layers;
    snprintf(run.engine.type_k, sizeof run.engine.type_k, "%s", o->type_k ? o->type_k : "");
    snprintf(run.engine.type_v, sizeof run.engine.type_v, "%s", o->type_v ? o->type_v : "");
    return run;
}

int sk_certify_stages(const sk_certify_cli *o, bool (*go_on)(void), bool *passed, sk_err *e) {
    const char *model = o->run.model_path;
    const sk_run_options run = run_options(&o->run);
    sk_split_options split;
    sk_weights_source s;
    sk_cut_plan plan;
    sk_stage_certify_report *r = calloc(1, sizeof *r);
    sk_split_options_defaults(&split);
    if (!r) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    int rc = sk_weights_source_open(model, &split, go_on, &s, e);
    if (rc == SKIPPY_OK) rc = make_plan(o, &s.tensors, &plan, e);
    if (rc == SKIPPY_OK) rc = sk_stage_certificate_make(&s, model, &plan, &split, &run, o->receipts, r, e);
    if (rc == SKIPPY_OK) {
        show(o, &plan, r);
        *passed = r->passed;
    }
    sk_weights_source_close(&s);
    free(r);
    return rc;
}
