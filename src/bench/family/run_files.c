/* The receipt of a run and its rows. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/family/cell_files.h"
#include "bench/family/run_state.h"
#include "bench/report.h"
#include "correctness/report.h"

enum { RUN_SCHEMA = 1 };

/* ---- rows ---- */

static const char *status_of(const json_t *row, const char *side) {
    const char *text = json_string_value(json_object_get(json_object_get(row, side), "status"));
    return text ? text : "";
}

static bool one_of(const char *text, const char *const *list) {
    for (; *list; list++) {
        if (strcmp(text, *list) == 0) {
            return true;
        }
    }
    return false;
}

bool sk_run_row_failed(const json_t *row) {
    static const char *const bad[] = {"fail", "error", "timeout", "cancelled", NULL};
    return one_of(status_of(row, "skippy"), bad) || one_of(status_of(row, "llama_server"), bad);
}

bool sk_run_row_final(const json_t *row) {
    static const char *const again[] = {"timeout", "cancelled", "not-run", NULL};
    return !one_of(status_of(row, "skippy"), again) && !one_of(status_of(row, "llama_server"), again);
}

int sk_run_rows_note(sk_run_state *s, const char *note, sk_err *e) {
    size_t i;
    json_t *row;
    json_array_foreach(s->rows, i, row) {
        if (json_array_append_new(json_object_get(row, "notes"), json_string(note)) != 0) {
            return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a note in row %zu", i + 1);
        }
    }
    return SKIPPY_OK;
}

/* ---- run.json ---- */

static json_t *pins_json(const sk_run_pins *p) {
    return json_pack("{s:s, s:s, s:s}", "status", p->status, "why", p->why, "date", p->date);
}

/* Of our program, and of each server as it named itself to a row. */
static json_t *versions_json(const sk_run_state *s) {
    json_t *out = json_pack("{s:s}", "skippy bench", s->o->version), *row, *host;
    size_t i, k;
    json_array_foreach(s->rows, i, row) {
        json_array_foreach(json_object_get(row, "hosts"), k, host) {
            const char *name = json_string_value(json_object_get(host, "name"));
            const char *version = json_string_value(json_object_get(host, "version"));
            if (name && version && *version && !json_object_get(out, name)) {
                json_object_set_new(out, name, json_string(version));
            }
        }
    }
    return out;
}

static json_t *program_json(const sk_pinned_file *f) {
    return f->path[0] ? json_pack("{s:s, s:s}", "path", f->path, "sha256", f->sha256) : json_null();
}

static json_t *programs_json(const sk_family_input *in) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "correctness", program_json(&in->correctness), "stage_server",
                     program_json(&in->stage_server), "native_server", program_json(&in->native_server),
                     "artifact_tool", program_json(&in->artifact_tool), "old_server", program_json(&in->old_server),
                     "new_server", program_json(&in->new_server));
}

static json_t *cells_json(const sk_run_state *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->in->n_cells; i++) {
        const json_t *row = json_array_get(s->rows, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "output", s->in->cells[i].output_relative,
                                              "skippy", status_of(row, "skippy"), "llama_server",
                                              status_of(row, "llama_server"), "finished", sk_run_row_final(row)));
    }
    return list;
}

static json_t *run_json(const sk_run_state *s) {
    const sk_bench_facts *m = &s->machine;
    const sk_family_input *in = s->in;
    char now[32];
    sk_certify_date(sk_wall_s(), now, sizeof now);
    return json_pack("{s:i, s:s, s:s, s:{s:s, s:s}, s:{s:o, s:o}, s:{s:s, s:I, s:I}, s:o, s:o, s:{s:s, s:s, s:s}, s:b, "
                     "s:b, s:s, s:s, s:f, s:o, s:n}",
                     "schema_version", RUN_SCHEMA, "status", s->status, "kind", in->kind, "input", "path",
                     s->o->input_path, "sha256", s->input_sha256, "pins", "before", pins_json(&s->before), "after",
                     pins_json(&s->after), "machine", "cpu", m->cpu, "cores", (json_int_t)m->cores, "memory_kib",
                     (json_int_t)m->memory_kib, "versions", versions_json(s), "programs", programs_json(in), "commits",
                     "old", in->old_commit, "new", in->new_commit, "native", in->native_commit, "borrow_resident_hits",
                     in->borrow_resident_hits, "cache_decoded_result_hits", in->cache_decoded_result_hits, "started",
                     m->date, "written", now, "elapsed_seconds", (double)(sk_now_ns() - s->start_ns) / 1e9, "cells",
                     cells_json(s), "promotion");
}

/* The receipt comes last: what it says about the rows is then there. */
int sk_run_files_write(const sk_run_state *s, sk_err *e) {
    char path[SK_CELL_PATH_CHARS];
    sk_buf page = {0};
    json_t *run = run_json(s);
    snprintf(path, sizeof path, "%s/production-cache-bench.md", s->o->out_dir);
    int rc = sk_cell_file_write(s->o->out_dir, "production-cache-bench.json", s->rows, e);
    if (rc == SKIPPY_OK) {
        rc = sk_run_table(s->rows, s->status, &page, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_report_write_file(path, page.data, page.len, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_cell_file_write(s->o->out_dir, "run.json", run, e);
    }
    json_decref(run);
    sk_buf_free(&page);
    return rc;
}
