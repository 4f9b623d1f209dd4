#include "bench/family/cell.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "bench/family/cell_session.h"
#include "bench/interrupt.h"
#include "runtime/host_memory.h"
#include "runtime/model.h"

enum { MAX_LOG_FOLDERS = 100000, LINE_CHARS = 900 };
#define NS_PER_S UINT64_C(1000000000)
#define GIB (1024.0 * 1024.0 * 1024.0)

/* ---- for all parts of a session ---- */

void sk_session_say(const sk_session *s, const char *fmt, ...) {
    char text[LINE_CHARS];
    va_list ap;
    if (!s->o->say) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    s->o->say(s->o->say_ud, sk_text_clean(text));
}

/* A note that finds no memory is lost: the row stands without it. */
void sk_session_note(sk_cell_run *c, const char *fmt, ...) {
    char text[LINE_CHARS];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_array_append_new(c->notes, json_string(sk_text_clean(text)));
}

int sk_session_stopped(const sk_session *s, sk_err *e) {
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    if (s->o->deadline_ns && sk_now_ns() >= s->o->deadline_ns) {
        return sk_err_set(e, SKIPPY_E_TIMEOUT, "the run's time is over (execution_seconds)");
    }
    return SKIPPY_OK;
}

uint64_t sk_session_deadline(const sk_session *s, const sk_cell_run *c) {
    const uint64_t whole = s->o->in->cell_seconds * NS_PER_S;
    if (whole == 0) {
        return s->o->deadline_ns;
    }
    const uint64_t cell = sk_now_ns() + (whole > c->spent_ns ? whole - c->spent_ns : 0);
    return s->o->deadline_ns && s->o->deadline_ns < cell ? s->o->deadline_ns : cell;
}

/* ---- cells ---- */

static json_t *request_of(const sk_session *s, json_t *input, const sk_family_cell *cell) {
    json_t *cells = json_object_get(input, "cells");
    return json_pack("{s:i, s:s, s:O}", "schema_version", 1, "input_sha256", s->o->input_sha256, "cell",
                     json_array_get(cells, (size_t)(cell - s->o->in->cells)));
}

/* A row that an earlier run has finished is told as it is. */
static void take_finished(const sk_session *s, sk_cell_run *c) {
    json_t *row = sk_cell_files_finished(c->folder, c->request);
    c->finished = row != NULL;
    if (row && s->o->done) {
        s->o->done(s->o->done_ud, c->cell, row, true);
    }
    json_decref(row);
}

static int add_cell(sk_session *s, json_t *input, const sk_family_cell *cell, sk_err *e) {
    sk_cell_run *c = &s->cell[s->n_cells++];
    *c = (sk_cell_run){.cell = cell, .parts = json_object(), .notes = json_array()};
    if ((size_t)snprintf(c->folder, sizeof c->folder, "%s/%s", s->o->out_dir, cell->output_relative) >=
        sizeof c->folder) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of '%s' is too long", cell->output_relative);
    }
    c->request = request_of(s, input, cell);
    if (!c->request || !c->parts || !c->notes) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the cell '%s'", cell->output_relative);
    }
    take_finished(s, c);
    return c->finished ? SKIPPY_OK : sk_cell_files_begin(c->folder, c->request, e);
}

static int add_cells(sk_session *s, size_t model, sk_err *e) {
    const sk_family_input *in = s->o->in;
    json_t *input = sk_family_input_json(in);
    int rc = SKIPPY_OK;
    s->cell = calloc(in->n_cells ? in->n_cells : 1, sizeof *s->cell);
    s->certificate = calloc(in->n_cells ? in->n_cells : 1, sizeof *s->certificate);
    if (!input || !s->cell || !s->certificate) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the cells of %s", s->model->preset->key);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < in->n_cells; i++) {
        if (in->cells[i].model == model) {
            rc = add_cell(s, input, &in->cells[i], e);
        }
    }
    json_decref(input);
    return rc;
}

/* A file that does not load says why when its servers start. */
static uint32_t context_of(const sk_input_model *m) {
    const sk_model_params p = {.path = m->found.runtime_entry, .facts_only = true};
    sk_model *loaded = NULL;
    const int rc = m->preset->artifact == SK_ARTIFACT_PACKAGE ? SKIPPY_E_UNSUPPORTED : sk_model_load(&p, &loaded, NULL);
    const int32_t n = rc == SKIPPY_OK ? sk_model_get_info(loaded)->n_ctx_train : 0;
    sk_model_free(loaded);
    return n > 0 ? (uint32_t)n : 0;
}

/* ---- correctness and servers ---- */

static int certify_all(sk_session *s, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < s->n_cells; i++) {
        sk_cell_run *c = &s->cell[i];
        if (!c->finished) {
            sk_session_plan(s, c);
            rc = sk_session_certify(s, c, e);
        }
    }
    return rc;
}

/* What the session's cells ask for together. */
static sk_host_wishes wishes_of(const sk_session *s) {
    const sk_family_sizes *sizes = &s->o->in->sizes;
    sk_host_wishes w = {.lane_ctx = s->model_ctx && s->model_ctx < sizes->ctx ? s->model_ctx : sizes->ctx};
    w.threads = sizes->threads > 0 ? (int)sizes->threads : (int)s->o->machine->cores;
    for (size_t i = 0; i < s->n_cells; i++) {
        const sk_cell_run *c = &s->cell[i];
        if (sk_session_measures(c)) {
            const uint32_t need = sk_parts_context(c->part, c->n_parts, &c->task);
            w.lane_ctx = need > w.lane_ctx ? need : w.lane_ctx;
            w.baselines = w.baselines || c->cell->tasks.serial_baseline || c->cell->tasks.paired_serving;
            w.paired = w.paired || c->cell->tasks.paired_serving;
            w.ours = w.ours || c->cell->tasks.serial_skippy;
        }
    }
    return w;
}

/* Each session has a folder of its own for its servers' outputs: cells of an earlier one are linked to theirs. */
static int make_log_folder(const sk_session *s, char *folder, size_t cap, sk_err *e) {
    char all[SK_CELL_PATH_CHARS];
    snprintf(all, sizeof all, "%s/server-logs", s->o->out_dir);
    int rc = sk_cell_folder_make(all, e);
    for (int i = 1; rc == SKIPPY_OK && i < MAX_LOG_FOLDERS; i++) {
        if ((size_t)snprintf(folder, cap, "%s/%s-%d", all, s->model->preset->key, i) >= cap) {
            return sk_err_set(e, SKIPPY_E_INVALID, "the path of the output folder is too long");
        }
        if (mkdir(folder, 0755) == 0) {
            return SKIPPY_OK;
        }
        if (errno != EEXIST) {
            return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", folder, strerror(errno));
        }
    }
    return rc == SKIPPY_OK ? sk_err_set(e, SKIPPY_E_IO, "'%s' has too many folders of earlier sessions", all) : rc;
}

static void say_schedule(sk_session *s) {
    const sk_session_hosts *h = &s->hosts;
    const uint32_t asked = s->o->in->sizes.ctx;
    char text[256];
    snprintf(text, sizeof text, "%s: %zu x %.1f GiB of %.1f GiB that are free",
             h->together ? "the servers run together and take turns" : "the servers run one after another", h->n,
             (double)h->host_bytes / GIB, (double)h->available / GIB);
    sk_session_say(s, "%s: %s", s->model->preset->key, text);
    for (size_t i = 0; i < s->n_cells; i++) {
        if (!sk_session_measures(&s->cell[i])) {
            continue;
        }
        sk_session_note(&s->cell[i], "%s", text);
        if (asked > 0 && h->lane_ctx > asked) {
            sk_session_note(&s->cell[i], "a lane has %u tokens of context: the parts need more than the %u asked for",
                            h->lane_ctx, asked);
        }
    }
}

static int start_servers(sk_session *s, sk_err *e) {
    char folder[sizeof s->hosts.folder];
    const sk_host_wishes wishes = wishes_of(s);
    sk_host_memory memory;
    int rc = sk_session_stopped(s, e);
    if (rc == SKIPPY_OK) {
        rc = make_log_folder(s, folder, sizeof folder, e);
    }
    if (rc != SKIPPY_OK) {
        return rc;
    }
    sk_host_memory_read("", &memory);
    sk_session_hosts_make(s->o->in, s->model, &wishes, folder, memory.available, &s->hosts);
    say_schedule(s);
    rc = sk_session_hosts_start(&s->hosts, e);
    for (size_t i = 0; i < s->hosts.n_lost; i++) {
        sk_session_say(s, "%s: %s did not start: %s", s->model->preset->key, s->hosts.lost[i].name,
                       s->hosts.lost[i].why);
    }
    return rc;
}

/* ---- measuring ---- */

static int measure_cells(sk_session *s, bool last, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < s->n_cells; i++) {
        sk_cell_run *c = &s->cell[i];
        if (c->finished || (last && !sk_session_has_last(c))) {
            continue;
        }
        rc = sk_session_run_parts(s, c, last, e);
        if (rc == SKIPPY_OK && (last || !sk_session_has_last(c))) {
            c->reported = true;
            rc = sk_session_report(s, c, e);
        }
    }
    return rc;
}

/* Parts that end servers come after all others: with a disk store, where ours is to know something afterwards. */
static int measure_last(sk_session *s, sk_err *e) {
    bool any = false;
    for (size_t i = 0; i < s->n_cells; i++) {
        sk_cell_run *c = &s->cell[i];
        if (c->measured && !c->finished && sk_session_has_last(c)) {
            any = true;
            sk_session_note(c, "restart: skippy ran with a disk store (--cache-disk); in all other parts it did not");
        }
    }
    const int rc = any ? sk_session_hosts_use_disk(&s->hosts, e) : SKIPPY_OK;
    return rc == SKIPPY_OK ? measure_cells(s, true, e) : rc;
}

static bool measures_anything(const sk_session *s) {
    for (size_t i = 0; i < s->n_cells; i++) {
        if (sk_session_measures(&s->cell[i])) {
            return true;
        }
    }
    return false;
}

static int work(sk_session *s, sk_err *e) {
    s->model_ctx = context_of(s->model);
    int rc = certify_all(s, e);
    if (rc != SKIPPY_OK || !measures_anything(s)) {
        return rc;
    }
    rc = start_servers(s, e);
    if (rc == SKIPPY_OK) {
        rc = measure_cells(s, false, e);
    }
    return rc == SKIPPY_OK ? measure_last(s, e) : rc;
}

/* Cells that a model without a file, or an early end of the session, leaves without a status. */
static void settle(sk_cell_run *c, const sk_session *s, int rc) {
    const sk_found_model *found = &s->model->found;
    if (found->status != SK_FOUND_PRESENT) {
        const bool missing = found->status == SK_FOUND_MISSING;
        sk_cell_status_worsen(&c->skippy, "", missing ? "missing-model" : "refused", found->why);
        sk_cell_status_worsen(&c->llama, "", missing ? "missing-model" : "skipped", found->why);
    } else if (rc != SKIPPY_OK && !c->reported) {
        /* Neither is final: the cell is run again. */
        const char *status = rc == SKIPPY_E_TIMEOUT ? "timeout" : "cancelled";
        const bool open = sk_session_measures(c);
        sk_cell_status_worsen(&c->skippy, open ? "pass" : "", status, "the run ended before this cell was measured");
        sk_cell_status_worsen(&c->llama, open ? "ok" : "", status, "the run ended before this cell was measured");
    }
}

/* Every cell gets its files, whatever happened before. The first failure of writing is returned. */
static int end_cells(sk_session *s, int rc, sk_err *e) {
    for (size_t i = 0; i < s->n_cells; i++) {
        sk_cell_run *c = &s->cell[i];
        sk_err why = {0};
        if (c->finished) {
            continue;
        }
        settle(c, s, rc);
        const int written = sk_session_end(s, c, &why);
        if (rc == SKIPPY_OK && written != SKIPPY_OK) {
            rc = sk_err_set(e, written, "%s", why.text);
        }
    }
    return rc;
}

static void release(sk_session *s) {
    for (size_t i = 0; i < s->n_cells; i++) {
        json_decref(s->cell[i].request);
        json_decref(s->cell[i].parts);
        json_decref(s->cell[i].notes);
    }
    for (size_t i = 0; i < s->n_certificates; i++) {
        sk_correctness_free(&s->certificate[i].c);
    }
    sk_session_hosts_free(&s->hosts);
    free(s->cell);
    free(s->certificate);
    free(s);
}

int sk_session_run(const sk_session_options *o, size_t model, sk_err *e) {
    sk_session *s = calloc(1, sizeof *s);
    if (!s) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a session");
    }
    s->o = o;
    s->model = &o->in->models[model];
    int rc = add_cells(s, model, e);
    if (rc == SKIPPY_OK && s->model->found.status == SK_FOUND_PRESENT) {
        rc = work(s, e);
        sk_session_hosts_stop(&s->hosts);
    }
    rc = end_cells(s, rc, e);
    release(s);
    return rc;
}
