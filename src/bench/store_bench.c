/* The order in which `skippy bench store` measures. */
#include "bench/store_report.h"

static int savings(sk_store_lab *lab, sk_store_report *out, sk_err *e) {
    int (*const scenarios[SK_STORE_SCENARIOS])(sk_store_lab *, sk_store_savings *, sk_err *) = {sk_store_chat,
                                                                                                sk_store_agents};
    for (size_t i = 0; i < SK_STORE_SCENARIOS; i++) {
        int rc = scenarios[i](lab, &out->savings[i], e);
        if (rc) return rc;
        out->n_savings = i + 1;
    }
    return SKIPPY_OK;
}

static int times(sk_store_lab *lab, sk_store_report *out, sk_err *e) {
    sk_store_folder folder;
    int rc = sk_store_folder_make(lab->o->dir, &folder, e);
    if (rc) return rc;
    rc = sk_store_speed_run(lab, &folder, &out->speed, e);
    if (rc == SKIPPY_OK) rc = sk_store_restore_run(lab, &folder, &out->restore, e);
    sk_store_folder_remove(&folder);
    return rc;
}

int sk_store_bench_run(const sk_store_options *o, const char *version, sk_store_report *out, sk_err *e) {
    sk_store_lab lab = {0};
    *out = (sk_store_report){.version = version, .n_threads = o->n_threads, .sizes = o->sizes};
    sk_facts_machine(&out->facts);
    int rc = sk_store_sizes_check(&o->sizes, e);
    if (rc == SKIPPY_OK) rc = sk_facts_model(&out->facts, o->model, e);
    if (rc == SKIPPY_OK) rc = sk_store_lab_open(o, &lab, e);
    if (rc) return rc;
    out->caps = lab.rig.caps;
    out->flash_attn = sk_context_get_info(lab.rig.ctx)->flash_attn;
    rc = savings(&lab, out, e);
    if (rc == SKIPPY_OK) rc = times(&lab, out, e);
    out->complete = rc == SKIPPY_OK;
    sk_store_lab_close(&lab);
    return rc;
}

void sk_store_report_free(sk_store_report *r) {
    sk_store_speed_free(&r->speed);
    sk_store_restore_free(&r->restore);
}
