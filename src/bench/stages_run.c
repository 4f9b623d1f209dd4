#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/interrupt.h"
#include "bench/report.h"
#include "bench/stages.h"
#include "bench/stages_rounds.h"

enum { MEMORY_PROMPTS = 8, OPEN_FILES = 16, PATH_BYTES = 1200 };

typedef struct session {
    const sk_stages_options *o;
    sk_stages_report *report;
    sk_stages_split two, three;
} session;

static void note(const session *s, const char *what) {
    if (s->o->note) s->o->note(s->o->ud, what);
}

int sk_stages_check(const sk_stages_options *o, sk_err *e) {
    const size_t need = o->prompt_tokens + o->predict + 2;
    if (need > o->lane_ctx)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "prompts of %zu and answers of %zu tokens do not fit a context of %u tokens",
                          o->prompt_tokens, o->predict + 1, o->lane_ctx);
    /* flags of servers are separated by blanks (bench/launch.h) */
    if (strchr(o->out_dir, ' '))
        return sk_err_set(e, SKIPPY_E_INVALID, "the folder '%s' has a blank in its name", o->out_dir);
    return SKIPPY_OK;
}

/* ---- folders ---- */

static uint64_t bytes_seen; /* nftw passes no context */

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)path;
    (void)where;
    if (type == FTW_F) bytes_seen += (uint64_t)st->st_blocks * 512u;
    return 0;
}

/* Bytes on disk below a folder; 0 when it is not there. */
static uint64_t folder_bytes(const char *path) {
    bytes_seen = 0;
    nftw(path, add_bytes, OPEN_FILES, FTW_PHYS);
    return bytes_seen;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

/* Stage files and caches of the run: as large as the model, several times. */
static void remove_work(const session *s) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/work", s->o->out_dir);
    nftw(path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
}

static int make_folders(const session *s, const sk_fleet_plan *p, sk_err *e) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/work", s->o->out_dir);
    int failed = mkdir(path, 0755) != 0 && errno != EEXIST;
    for (size_t i = 0; !failed && i < p->split->n; i++) {
        sk_fleet_folder(p, i, path, sizeof path);
        failed = mkdir(path, 0755) != 0 && errno != EEXIST;
    }
    return failed ? sk_err_set(e, SKIPPY_E_IO, "the folder '%s' cannot be made: %s", path, strerror(errno)) : SKIPPY_OK;
}

/* ---- parts ---- */

static int start(const session *s, const sk_fleet_plan *p, sk_fleet *f, sk_err *e) {
    const int rc = make_folders(s, p, e);
    return rc == SKIPPY_OK ? sk_fleet_start_skippy(p, f, e) : rc;
}

static int run_overhead(session *s, sk_err *e) {
    const sk_fleet_plan p = {.o = s->o, .split = &s->three, .name = "three", .lanes = 1};
    sk_fleet f = {0};
    int rc = start(s, &p, &f, e);
    if (rc == SKIPPY_OK) rc = sk_stages_overhead_run(s->o, &f, &s->report->overhead, &s->report->n_overhead, e);
    sk_fleet_stop(&f);
    return rc;
}

static int run_lanes(session *s, sk_err *e) {
    const sk_fleet_plan p = {.o = s->o, .split = &s->two, .name = "two", .lanes = 2};
    sk_fleet f = {0};
    int rc = start(s, &p, &f, e);
    if (rc == SKIPPY_OK) rc = sk_stages_lanes_run(s->o, &f, &s->report->lanes, &s->report->n_lanes, e);
    sk_fleet_stop(&f);
    return rc;
}

static int run_rivals_on(session *s, double delay_ms, sk_stages_rivals *out, sk_err *e) {
    const sk_fleet_plan p = {.o = s->o, .split = &s->two, .name = "two", .lanes = 1, .delay_ms = delay_ms};
    sk_fleet f[SK_STAGES_SERVERS] = {{.n_behind = 0}};
    out->delay_ms = delay_ms;
    int rc = start(s, &p, &f[SK_STAGES_SKIPPY], e);
    if (rc == SKIPPY_OK) rc = sk_fleet_start_rpc(&p, &f[SK_STAGES_RPC], e);
    for (size_t i = 0; i < SK_STAGES_SERVERS; i++)
        snprintf(out->command[i], sizeof out->command[i], "%s", f[i].command);
    if (rc == SKIPPY_OK) rc = sk_stages_rivals_run(s->o, f, out, e);
    for (size_t i = 0; i < SK_STAGES_SERVERS; i++) sk_fleet_stop(&f[i]);
    return rc;
}

static int run_rivals(session *s, sk_err *e) {
    const int rc = run_rivals_on(s, 0.0, &s->report->rivals[0], e);
    return rc == SKIPPY_OK && s->o->delay_ms > 0.0 ? run_rivals_on(s, s->o->delay_ms, &s->report->rivals[1], e) : rc;
}

/* Memory is read while the stages run, their disk use after they have ended and written everything. */
static int run_memory(session *s, sk_err *e) {
    const sk_fleet_plan p = {.o = s->o, .split = &s->three, .name = "memory", .lanes = 1, .disk = true};
    sk_stages_report *r = s->report;
    sk_fleet f = {0};
    char folder[PATH_BYTES];
    int rc = start(s, &p, &f, e);
    if (rc == SKIPPY_OK) rc = sk_stages_fill(s->o, &f, MEMORY_PROMPTS, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < p.split->n; i++) {
        sk_stages_process *out = &r->processes[i];
        *out = (sk_stages_process){.from = p.split->first[i],
                                   .to = p.split->first[i + 1],
                                   .weights = p.split->weights[i],
                                   .model_weights = p.split->model_weights};
        if (sk_process_memory_read(i ? &f.behind[i - 1] : &f.front, &out->memory) != SKIPPY_OK)
            rc = sk_err_set(e, SKIPPY_E_RUNTIME, "stage %zu ended before its memory was read", i);
    }
    sk_fleet_stop(&f);
    for (size_t i = 0; rc == SKIPPY_OK && i < p.split->n; i++) {
        sk_fleet_folder(&p, i, folder, sizeof folder);
        r->processes[i].disk = folder_bytes(folder);
    }
    r->n_processes = rc == SKIPPY_OK ? p.split->n : 0;
    return rc;
}

/* ---- all ---- */

static int save(const session *s, sk_err *e) {
    char path[PATH_BYTES];
    sk_buf page = {0};
    json_t *root = sk_stages_json(s->report);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    int rc = text && sk_stages_markdown(s->report, &page) == SKIPPY_OK
                 ? SKIPPY_OK
                 : sk_err_set(e, SKIPPY_E_NOMEM, "cannot make the report: memory is out, or a text is not UTF-8");
    snprintf(path, sizeof path, "%s/stages.json", s->o->out_dir);
    if (rc == SKIPPY_OK) rc = sk_report_write_file(path, text, strlen(text), e);
    snprintf(path, sizeof path, "%s/stages.md", s->o->out_dir);
    if (rc == SKIPPY_OK) rc = sk_report_write_file(path, page.data, page.len, e);
    free(text);
    json_decref(root);
    sk_buf_free(&page);
    return rc;
}

static int (*const run_part[SK_STAGES_PARTS])(session *, sk_err *) = {
    [SK_STAGES_OVERHEAD] = run_overhead,
    [SK_STAGES_LANES] = run_lanes,
    [SK_STAGES_RIVALS] = run_rivals,
    [SK_STAGES_MEMORY] = run_memory,
};

/* A part's error is its own; what cannot be written ends the run. */
static int run_all(session *s, sk_err *e) {
    int rc = SKIPPY_OK;
    bool failed = false;
    for (int i = 0; rc == SKIPPY_OK && i < SK_STAGES_PARTS; i++) {
        sk_err why = {0};
        if (!(s->o->parts & 1u << i)) continue;
        note(s, sk_stages_part_names[i]);
        const int part = run_part[i](s, &why);
        if (part != SKIPPY_OK) {
            failed = true;
            snprintf(s->report->error[i], sizeof s->report->error[i], "%s", why.text);
            note(s, why.text);
        }
        rc = save(s, e);
        if (rc == SKIPPY_OK && sk_interrupted()) rc = sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    if (rc == SKIPPY_OK && failed)
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "a part of the measurement failed, see the report");
    return rc;
}

int sk_stages_run(const sk_stages_options *o, sk_stages_report *report, sk_err *e) {
    session s = {.o = o, .report = report};
    *report = (sk_stages_report){.version = o->version,
                                 .threads = o->threads,
                                 .tls = o->tls,
                                 .prompt_tokens = o->prompt_tokens,
                                 .predict = o->predict};
    sk_facts_machine(&report->facts);
    int rc = sk_stages_check(o, e);
    if (rc == SKIPPY_OK && mkdir(o->out_dir, 0755) != 0 && errno != EEXIST)
        rc = sk_err_set(e, SKIPPY_E_IO, "the folder '%s' cannot be made: %s", o->out_dir, strerror(errno));
    if (rc == SKIPPY_OK) rc = sk_facts_model(&report->facts, o->model, e);
    if (rc == SKIPPY_OK) rc = sk_stages_split_open(o->model, o->cut, o->cuts, &s.two, &s.three, e);
    if (rc == SKIPPY_OK) rc = sk_fleet_certificates(o, e);
    report->n_layers = s.two.first[2];
    if (rc != SKIPPY_OK) return rc;
    rc = run_all(&s, e);
    remove_work(&s);
    return rc;
}
