#include "cli/certify_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "correctness/report.h"

const char *sk_certify_memory_name(const sk_certify_identity *i) {
    if (i->hybrid) return "hybrid";
    if (i->recurrent) return "recurrent";
    if (i->n_swa <= 0) return "dense";
    return i->swa_full ? "full window" : "sliding window";
}

static void show_stage(const sk_certify_identity *i, FILE *out) {
    char inputs[64];
    if (!i->alone) return;
    fprintf(out, "stage      layers %d to %d of %d, source %.16s\n", (int)i->stage.layer_start,
            (int)i->stage.layer_end - 1, (int)i->stage.n_layer, i->stage.source);
    fprintf(out, "fed        %s; gives %s\n", sk_certify_inputs(i, inputs, sizeof inputs),
            i->stage.last ? "logits" : "hidden states");
}

static void show_length(const sk_length_result *l, FILE *out) {
    fprintf(out, "\n%u tokens", l->n_tokens);
    if (!l->criterion.bit) fprintf(out, ", a value may differ by %.2g", l->criterion.tolerance);
    fprintf(out, "; two cold runs: %.2g (KL %.2g)\n", l->cold.max_abs, l->cold.kl);
    for (int m = 0; m < SK_MODES; m++) {
        const sk_mode_result *r = &l->mode[m];
        fprintf(out, "  %-17s %-15s %s\n", sk_mode_name(r->mode), sk_outcome_name(r->outcome), r->reason);
        if (!r->has_cost || r->outcome == SK_OUTCOME_FAIL) continue;
        const sk_target_result *t = &r->target[SK_TARGET_LANE];
        fprintf(out, "  %-17s %-15s %.1f KiB, restored in %.2f ms (computed in %.2f ms)\n", "", "",
                (double)r->cost.total_bytes / 1024.0, r->cost.read_ms + t->import_ms[0], l->times.prefill_ms);
    }
}

void sk_certify_show(const sk_certify_report *r, FILE *out) {
    const sk_certify_identity *i = &r->identity;
    fprintf(out, "model      %s (%s, family %s, %s)\n", i->model_path, i->arch, i->family, sk_certify_memory_name(i));
    show_stage(i, out);
    fprintf(out, "layout     K %s, V %s, flash attention %s, device %s\n", i->type_k, i->type_v,
            i->flash_attn ? "on" : "off", i->device);
    fprintf(out, "compared   %s\n", r->row_class);
    fprintf(out, "state      %s\n", r->layout);
    for (size_t k = 0; k < r->n_lengths; k++) show_length(&r->length[k], out);
    fprintf(out, "\n%s: %s\n", r->passed ? "PASS" : "FAIL", r->verdict);
}

int sk_certify_collect(json_t *list, const sk_certify_report *r, sk_err *e) {
    if (json_array_append_new(list, sk_certify_report_json(r, SKIPPY_VERSION)) == 0) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the report");
}

int sk_certify_write_json(const json_t *list, const char *path, sk_err *e) {
    const size_t flags = JSON_INDENT(2) | JSON_PRESERVE_ORDER;
    FILE *f = path ? fopen(path, "we") : stdout;
    if (!f) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(errno));
    bool ok = json_dumpf(list, f, flags) == 0 && fputc('\n', f) != EOF && fflush(f) == 0;
    if (path && fclose(f) != 0) ok = false;
    return ok ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written", path ? path : "standard output");
}
