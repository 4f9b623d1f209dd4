#include "bench/family/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/family/run_state.h"
#include "bench/interrupt.h"
#include "correctness/report.h"

#define NS_PER_S UINT64_C(1000000000)

/* ---- pins ---- */

static int go_on(void *ud, uint64_t bytes_done) {
    (void)ud;
    (void)bytes_done;
    return !sk_interrupted();
}

static int verify(sk_run_state *s, sk_run_pins *pins, sk_err *e) {
    const sk_sha256_watch watch = {.keep_going = go_on};
    sk_err why = {0};
    sk_run_say(s, "comparing programs, models and corpora with their pins");
    const int rc = sk_family_input_verify(s->in, &watch, &why);
    sk_certify_date(sk_wall_s(), pins->date, sizeof pins->date);
    pins->status = rc == SKIPPY_OK ? "ok" : rc == SKIPPY_E_CANCELLED ? "not-checked" : "changed";
    snprintf(pins->why, sizeof pins->why, "%.390s", why.text);
    if (rc != SKIPPY_OK && rc != SKIPPY_E_CANCELLED) {
        s->status = "refused";
    }
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "%s", why.text);
}

/* ---- preparation ---- */

/* The children inherit it; a run owns its process. */
static int apply_environment(const sk_family_input *in, sk_err *e) {
    for (size_t i = 0; i < in->n_env; i++) {
        const char *equals = strchr(in->env[i], '=');
        char *name = equals ? strndup(in->env[i], (size_t)(equals - in->env[i])) : NULL;
        const int failed = !name || setenv(name, equals + 1, 1) != 0;
        free(name);
        if (failed) {
            return sk_err_set(e, SKIPPY_E_INVALID, "cannot set '%s' for the programs", in->env[i]);
        }
    }
    return SKIPPY_OK;
}

static int load_corpora(sk_run_state *s, sk_err *e) {
    int rc = SKIPPY_OK;
    if (s->in->corpus.path[0]) {
        rc = sk_corpus_load(s->in->corpus.path, &s->corpus, e);
    }
    if (rc == SKIPPY_OK && s->in->agent_corpus.path[0]) {
        rc = sk_replay_load(s->in->agent_corpus.path, &s->replay, e);
    }
    return rc;
}

/* Every cell has a row from the start, so that the files are complete at any time. */
static int begin_rows(sk_run_state *s, sk_err *e) {
    s->rows = json_array();
    s->told = calloc(s->in->n_cells ? s->in->n_cells : 1, sizeof *s->told);
    for (size_t i = 0; s->rows && s->told && i < s->in->n_cells; i++) {
        json_t *row = sk_cell_row_without_run(s->in, &s->in->cells[i], "not-run", "the run has not come to this cell");
        if (json_array_append_new(s->rows, row) != 0) {
            break;
        }
    }
    return json_array_size(s->rows) == s->in->n_cells && s->told
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the rows, or a path is not UTF-8");
}

static int prepare(sk_run_state *s, sk_err *e) {
    int rc = sk_family_input_load(s->o->input_path, &s->in, e);
    if (rc == SKIPPY_OK) {
        rc = sk_sha256_file(s->o->input_path, NULL, s->input_sha256, NULL, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_run_folder_open(s->o->out_dir, s->input_sha256, e);
    }
    if (rc == SKIPPY_OK) {
        rc = begin_rows(s, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_run_files_write(s, e); /* the folder is ours from here on */
    }
    if (rc == SKIPPY_OK) {
        rc = apply_environment(s->in, e);
    }
    return rc;
}

/* ---- sessions ---- */

static void on_say(void *ud, const char *text) {
    sk_run_say(ud, "%s", text);
}

static void on_done(void *ud, const sk_family_cell *cell, json_t *row, bool earlier) {
    sk_run_state *s = ud;
    const size_t i = (size_t)(cell - s->in->cells);
    sk_err e = {0};
    json_array_set(s->rows, i, row);
    if (!s->told[i]) {
        s->told[i] = true;
        s->n_told++;
        s->n_measured += earlier ? 0 : 1;
        sk_run_say_cell(s, cell, row);
    }
    const int rc = earlier ? SKIPPY_OK : sk_run_files_write(s, &e);
    if (rc != SKIPPY_OK && s->rc == SKIPPY_OK) {
        s->rc = rc;
        s->err = e;
    }
}

static int run_sessions(sk_run_state *s, sk_err *e) {
    const uint64_t limit = s->in->execution_seconds * NS_PER_S;
    const sk_session_options o = {.in = s->in,
                                  .input_sha256 = s->input_sha256,
                                  .corpus = s->corpus.n ? &s->corpus : NULL,
                                  .replay = s->replay.n ? &s->replay : NULL,
                                  .out_dir = s->o->out_dir,
                                  .machine = &s->machine,
                                  .deadline_ns = limit ? s->start_ns + limit : 0,
                                  .say = on_say,
                                  .say_ud = s,
                                  .done = on_done,
                                  .done_ud = s};
    int rc = SKIPPY_OK;
    s->measured_ns = sk_now_ns();
    for (size_t i = 0; rc == SKIPPY_OK && i < s->in->n_models; i++) {
        rc = sk_session_run(&o, i, e);
        if (rc == SKIPPY_OK && s->rc != SKIPPY_OK) {
            rc = sk_err_set(e, s->rc, "%s", s->err.text);
        }
    }
    return rc;
}

/* ---- the end ---- */

/* Bytes that changed while they were measured: nobody knows what the rows are about. */
static int check_after(sk_run_state *s, sk_err *e) {
    const int rc = verify(s, &s->after, e);
    if (rc == SKIPPY_OK || rc == SKIPPY_E_CANCELLED) {
        return rc;
    }
    char note[480];
    sk_err lost = {0};
    snprintf(note, sizeof note, "a pin changed during the run: %s", s->after.why);
    return sk_run_rows_note(s, note, &lost) == SKIPPY_OK ? rc : sk_err_set(e, lost.code, "%s", lost.text);
}

static void count(const sk_run_state *s, size_t *failed, size_t *open) {
    size_t i;
    json_t *row;
    *failed = *open = 0;
    json_array_foreach(s->rows, i, row) {
        *failed += sk_run_row_failed(row);
        *open += !sk_run_row_final(row);
    }
}

/* rc: of the sessions and pins. Writes the last version of the files. */
static int conclude(sk_run_state *s, int rc, sk_err *e) {
    size_t failed, open;
    sk_err why = {0};
    count(s, &failed, &open);
    if (rc == SKIPPY_OK && open == 0) {
        s->status = "completed";
    }
    const int written = sk_run_files_write(s, &why);
    sk_run_say(s, "the run is %s: %zu of %zu cells are final, %zu failed or were stopped", s->status,
               s->in->n_cells - open, s->in->n_cells, failed);
    if (rc == SKIPPY_OK && written != SKIPPY_OK) {
        return sk_err_set(e, written, "%s", why.text);
    }
    if (rc == SKIPPY_OK && failed > 0) {
        return sk_err_set(e, SKIPPY_E_RUNTIME, "%zu of %zu cells failed; see %s/production-cache-bench.md", failed,
                          s->in->n_cells, s->o->out_dir);
    }
    return rc;
}

static int execute(sk_run_state *s, sk_err *e) {
    int rc = verify(s, &s->before, e);
    if (rc == SKIPPY_OK) {
        rc = load_corpora(s, e);
    }
    if (rc == SKIPPY_OK) {
        rc = run_sessions(s, e);
        if (rc == SKIPPY_OK || rc == SKIPPY_E_TIMEOUT) {
            sk_err why = {0};
            const int after = check_after(s, &why);
            rc = after != SKIPPY_OK ? sk_err_set(e, after, "%s", why.text) : rc;
        }
    }
    return conclude(s, rc, e);
}

static void release(sk_run_state *s) {
    sk_corpus_free(&s->corpus);
    sk_replay_free(&s->replay);
    sk_family_input_free(s->in);
    json_decref(s->rows);
    free(s->told);
    free(s);
}

int sk_family_run(const sk_family_run_options *o, sk_err *e) {
    sk_run_state *s = calloc(1, sizeof *s);
    if (!s) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a run");
    }
    s->o = o;
    s->status = "incomplete";
    s->before.status = s->after.status = "not-checked";
    s->start_ns = sk_now_ns();
    sk_facts_machine(&s->machine);
    int rc = prepare(s, e);
    if (rc == SKIPPY_OK) {
        rc = execute(s, e);
    }
    release(s);
    return rc;
}
