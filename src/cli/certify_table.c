#include "cli/certify_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/certify_show.h"

static const char BEGIN[] = "<!-- certify:begin -->\n", END[] = "<!-- certify:end -->";

/* ---- rows ---- */

static void fold_checks(const sk_mode_result *m, sk_drift *worst) {
    if (m->outcome != SK_OUTCOME_PASS) return;
    for (int t = 0; t < SK_TARGETS; t++) {
        const sk_check *c = &m->target[t].check;
        sk_drift_fold(worst, &c->next);
        sk_drift_fold(worst, &c->suffix_drift);
        sk_drift_fold(worst, &c->last);
        sk_drift_fold(worst, &c->worst_hit);
    }
}

static void take_payload(const sk_length_result *l, enum sk_mode production, sk_certify_row *out) {
    const sk_parcel_cost *c = &l->mode[production].cost;
    if (!l->mode[production].has_cost || l->n_tokens < out->n_tokens) return;
    out->n_tokens = l->n_tokens;
    out->bytes_per_token = (double)c->kv_bytes / l->n_tokens;
    out->state_kib = (double)c->state_bytes / 1024.0;
    out->grown_saved = c->grown_bytes ? 1.0 - (double)c->grown_new_bytes / (double)c->grown_bytes : 0.0;
}

void sk_certify_row_make(const sk_certify_report *r, sk_certify_row *out) {
    *out = (sk_certify_row){.passed = r->passed, .bits = true};
    snprintf(out->family, sizeof out->family, "%s", r->identity.family);
    snprintf(out->arch, sizeof out->arch, "%s", r->identity.arch);
    snprintf(out->memory, sizeof out->memory, "%s", sk_certify_memory_name(&r->identity));
    snprintf(out->verdict, sizeof out->verdict, "%s", r->verdict);
    for (int m = 0; m < SK_MODES; m++) out->outcome[m] = sk_certify_outcome(r, (enum sk_mode)m);
    for (size_t i = 0; i < r->n_lengths; i++) {
        const sk_length_result *l = &r->length[i];
        const sk_mode_result *kv_only = &l->mode[SK_MODE_KV_ONLY];
        out->bits = out->bits && l->criterion.bit;
        sk_drift_fold(&out->cold, &l->cold);
        for (int m = 0; m < SK_MODES; m++) fold_checks(&l->mode[m], &out->worst);
        out->was_forced = out->was_forced || kv_only->was_forced;
        out->forced = fmax(out->forced, kv_only->forced.rel_l2);
        take_payload(l, r->production, out);
    }
}

/* ---- tables ---- */

static const char *word(enum sk_outcome o) {
    static const char *const words[] = {"-", "pass", "refused", "**fail**"};
    return words[o];
}

static void write_drift(sk_buf *b, const sk_drift *d) {
    if (d->differs)
        sk_buf_printf(b, " %.1e / %.1e |", d->max_abs, d->kl);
    else
        sk_buf_str(b, " 0 |");
}

void sk_certify_table_write(sk_buf *b, const sk_certify_row *rows, size_t n) {
    sk_buf_str(b, "| family | architecture | memory | status | resident | ResidentKv | KvRecurrent | FullState | "
                  "RecurrentOnly | shorter prefix | KV only |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const sk_certify_row *r = &rows[i];
        sk_buf_printf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r->family, r->arch, r->memory,
                      r->passed ? "pass" : "**fail**", word(r->outcome[SK_MODE_RESIDENT]),
                      word(r->outcome[SK_MODE_RESIDENT_KV]), word(r->outcome[SK_MODE_KV_RECURRENT]),
                      word(r->outcome[SK_MODE_FULL_STATE]), word(r->outcome[SK_MODE_RECURRENT_ONLY]),
                      word(r->outcome[SK_MODE_TRUNCATED]), word(r->outcome[SK_MODE_KV_ONLY]));
    }
    sk_buf_str(b, "\n| family | memory | compared | restored: max / KL | two cold runs: max / KL | KV only, forced | "
                  "KV bytes per token | state at the boundary | stored already 16 tokens later |\n"
                  "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const sk_certify_row *r = &rows[i];
        sk_buf_printf(b, "| %s | %s | %s |", r->family, r->memory, r->bits ? "bits" : "values");
        write_drift(b, &r->worst);
        write_drift(b, &r->cold);
        if (r->was_forced)
            sk_buf_printf(b, " off by %.2g |", r->forced);
        else
            sk_buf_str(b, " - |");
        sk_buf_printf(b, " %.0f | %.1f KiB | %.0f %% |\n", r->bytes_per_token, r->state_kib, 100.0 * r->grown_saved);
    }
}

/* ---- the file ---- */

static int read_file(const char *path, sk_buf *out, sk_err *e) {
    char part[8192];
    size_t n;
    FILE *f = fopen(path, "re");
    if (!f)
        return sk_err_set(e, errno == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "'%s' cannot be read: %s", path,
                          strerror(errno));
    while ((n = fread(part, 1, sizeof part, f)) > 0) sk_buf_add(out, part, n);
    bool ok = !ferror(f);
    fclose(f);
    if (!ok) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be read", path);
    return out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory") : SKIPPY_OK;
}

/* The file is replaced as a whole: an interrupted run leaves the old one. */
static int replace_file(const char *path, const sk_buf *text, sk_err *e) {
    char partial[4096];
    int n = snprintf(partial, sizeof partial, "%s.partial", path);
    if (n <= 0 || (size_t)n >= sizeof partial) return sk_err_set(e, SKIPPY_E_IO, "the path '%s' is too long", path);
    FILE *f = fopen(partial, "we");
    bool ok = f && fwrite(text->data, 1, text->len, f) == text->len;
    if (f && fclose(f) != 0) ok = false;
    if (ok && rename(partial, path) == 0) return SKIPPY_OK;
    int why = errno;
    if (f) unlink(partial);
    return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(why));
}

int sk_certify_table_insert(const char *path, const sk_buf *table, sk_err *e) {
    sk_buf old = {0}, text = {0};
    int rc = read_file(path, &old, e);
    if (rc) goto out;
    const char *begin = old.data ? strstr(old.data, BEGIN) : NULL;
    const char *end = begin ? strstr(begin, END) : NULL;
    if (!end) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "'%s' has no lines '<!-- certify:begin -->' and '%s'", path, END);
        goto out;
    }
    sk_buf_add(&text, old.data, (size_t)(begin - old.data) + sizeof BEGIN - 1);
    sk_buf_add(&text, table->data, table->len);
    sk_buf_str(&text, end);
    rc = text.failed || table->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory") : replace_file(path, &text, e);
out:
    sk_buf_free(&old);
    sk_buf_free(&text);
    return rc;
}
