#include "bench/family/correctness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/family/certify_words.h"
#include "bench/family/child.h"
#include "bench/family/package_parts.h"
#include "bench/family/receipt.h"
#include "bench/report.h"

enum { PATH_CHARS = 1500 };

#define STAGE_FILE "cache-correctness-stage.json"
#define ROLE "correctness"

static const char *const STREAMS[] = {"process/" ROLE ".stdout", "process/" ROLE ".stderr"};

/* ---- the file ---- */

static json_t *request_json(const sk_family_input *in, const sk_family_cell *cell) {
    const sk_found_model *found = &in->models[cell->model].found;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:{s:s, s:s}, s:b, s:b}", "case_key",
                     cell->preset->key, "model_id", cell->preset->model_id, "model_path", found->runtime_entry,
                     "model_sha256", found->n_files > 0 ? found->file[0].sha256 : "", "payload", cell->preset->payload,
                     "prefix_tokens", (json_int_t)cell->prefix_tokens, "certified_prefix_tokens",
                     (json_int_t)sk_certify_prefix(cell), "cache_hit_repeats",
                     (json_int_t)sk_certify_repeats(&in->sizes), "threads", (json_int_t)in->sizes.threads,
                     "n_gpu_layers", (int)in->sizes.n_gpu_layers, "program", "path", in->correctness.path, "sha256",
                     in->correctness.sha256, "borrow_resident_hits", in->borrow_resident_hits,
                     "cache_decoded_result_hits", in->cache_decoded_result_hits);
}

static int save(const sk_family_input *in, const sk_family_cell *cell, const sk_correctness *c, const char *folder,
                sk_err *e) {
    char path[PATH_CHARS];
    snprintf(path, sizeof path, "%s/" STAGE_FILE, folder);
    json_t *root = json_pack("{s:i, s:o, s:s, s:s, s:f, s:b, s:O?, s:O?}", "schema_version", 1, "request",
                             request_json(in, cell), "status", c->status, "why", c->why, "elapsed_ms", c->elapsed_ms,
                             "producer", c->producer, "report", c->report, "process", c->receipt);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    const int rc = text
                       ? sk_report_write_file(path, text, strlen(text), e)
                       : sk_err_set(e, SKIPPY_E_NOMEM, "cannot make '%s': memory is out, or a text is not UTF-8", path);
    free(text);
    json_decref(root);
    return rc;
}

/* ---- running ---- */

/* The program ended without a report. */
static void explain(const sk_child_end *end, sk_correctness *out) {
    const char *words = end->last_words.len > 0 ? end->last_words.data : "(nothing)";
    snprintf(out->status, sizeof out->status, "error");
    if (WIFSIGNALED(end->status)) {
        snprintf(out->why, sizeof out->why, "certify was ended by signal %d; its last words: %.380s",
                 WTERMSIG(end->status), words);
    } else {
        snprintf(out->why, sizeof out->why, "certify ended with code %d and without a report; its last words: %.380s",
                 WEXITSTATUS(end->status), words);
    }
    sk_text_clean(out->why);
}

/* rc: of the child. */
static void judge(const char *payload, int rc, const sk_child_end *end, const sk_err *why, sk_correctness *out) {
    if (rc != SKIPPY_OK) {
        snprintf(out->status, sizeof out->status, "%s",
                 rc == SKIPPY_E_TIMEOUT     ? "timeout"
                 : rc == SKIPPY_E_CANCELLED ? "cancelled"
                                            : "error");
        snprintf(out->why, sizeof out->why, "%s", why->text);
    } else if (out->report) {
        sk_correctness_read(out->report, payload, out);
    } else {
        explain(end, out);
    }
}

static int make_folder(const char *folder, const char *below, sk_err *e) {
    char path[PATH_CHARS];
    snprintf(path, sizeof path, "%s%s", folder, below);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", path, strerror(errno));
    }
    return SKIPPY_OK;
}

int sk_correctness_run(const sk_family_input *in, const sk_family_cell *cell, const char *folder, int timeout_ms,
                       sk_correctness *out, sk_err *e) {
    char process[PATH_CHARS], report[PATH_CHARS + 32];
    const char *entry = in->models[cell->model].found.runtime_entry;
    sk_certify_words words;
    sk_child_end end = {0};
    sk_err why = {0};
    *out = (sk_correctness){.payload = ""};
    int rc = make_folder(folder, "", e);
    if (rc == SKIPPY_OK) {
        rc = make_folder(folder, "/process", e);
    }
    if (rc != SKIPPY_OK) {
        return rc;
    }
    snprintf(process, sizeof process, "%s/process", folder);
    snprintf(report, sizeof report, "%s/certify-report.json", process);
    unlink(report); /* of an earlier try */
    out->producer =
        cell->preset->artifact == SK_ARTIFACT_PACKAGE && sk_package_parts_before(entry, cell->preset->layer_start);
    sk_certify_words_make(in, cell, report, out->producer, &words);
    const sk_child child = {.role = ROLE, .argv = words.v, .folder = process, .timeout_ms = timeout_ms};
    rc = sk_child_run(&child, &end, &why);
    out->elapsed_ms = end.elapsed_ms;
    out->receipt = end.receipt;
    end.receipt = NULL;
    out->report = json_load_file(report, 0, NULL);
    judge(cell->preset->payload, rc, &end, &why, out);
    sk_child_end_free(&end);
    unlink(report); /* its content goes into the stage's file */
    return save(in, cell, out, folder, e);
}

void sk_correctness_free(sk_correctness *c) {
    json_decref(c->report);
    json_decref(c->receipt);
    *c = (sk_correctness){.payload = ""};
}

/* ---- sharing ---- */

int sk_correctness_share(const sk_family_input *in, const sk_family_cell *cell, const sk_correctness *c,
                         const char *from, const char *folder, sk_err *e) {
    char source[PATH_CHARS], target[PATH_CHARS];
    int rc = make_folder(folder, "", e);
    if (rc == SKIPPY_OK) {
        rc = make_folder(folder, "/process", e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && c->receipt && i < sizeof STREAMS / sizeof *STREAMS; i++) {
        snprintf(source, sizeof source, "%s/%s", from, STREAMS[i]);
        snprintf(target, sizeof target, "%s/%s", folder, STREAMS[i]);
        rc = sk_receipt_share(source, target, e);
    }
    return rc == SKIPPY_OK ? save(in, cell, c, folder, e) : rc;
}

/* A certificate whose process has lost its outputs cannot be shared. */
static bool has_outputs(const char *folder) {
    char path[PATH_CHARS];
    bool all = true;
    for (size_t i = 0; all && i < sizeof STREAMS / sizeof *STREAMS; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, STREAMS[i]);
        all = access(path, R_OK) == 0;
    }
    return all;
}

bool sk_correctness_recall(const sk_family_input *in, const sk_family_cell *cell, const char *folder,
                           sk_correctness *out) {
    char path[PATH_CHARS];
    json_t *request = request_json(in, cell);
    *out = (sk_correctness){.payload = ""};
    snprintf(path, sizeof path, "%s/" STAGE_FILE, folder);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *report = json_object_get(root, "report");
    if (request && json_equal(json_object_get(root, "request"), request) && json_is_array(report) &&
        has_outputs(folder)) {
        out->report = json_incref(report);
        out->receipt = json_incref(json_object_get(root, "process"));
        out->elapsed_ms = json_number_value(json_object_get(root, "elapsed_ms"));
        out->producer = json_is_true(json_object_get(root, "producer"));
        sk_correctness_read(out->report, cell->preset->payload, out);
    }
    json_decref(root);
    json_decref(request);
    return strcmp(out->status, "pass") == 0 || strcmp(out->status, "fail") == 0;
}
