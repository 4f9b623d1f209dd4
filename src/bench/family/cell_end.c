/* What a cell leaves: its row for the caller and the files in its folder. */
#include <stdio.h>
#include <string.h>

#include "bench/family/cell_session.h"
#include "bench/family/receipt.h"

enum { CELL_SCHEMA = 1 };

static json_t *row_of(const sk_session *s, const sk_cell_run *c, sk_err *e) {
    json_t *hosts = c->measured ? sk_session_hosts_json(&s->hosts, sk_session_first_host(s, c)) : json_array();
    const sk_cell_outcome o = {.correctness = c->certificate ? &c->certificate->c : NULL,
                               .skippy = &c->skippy,
                               .llama = &c->llama,
                               .hosts = hosts,
                               .parts = c->parts,
                               .notes = c->notes};
    json_t *row = hosts ? sk_cell_row(s->o->in, s->o->corpus, c->cell, &o) : NULL;
    json_decref(hosts);
    if (!row) {
        sk_err_set(e, SKIPPY_E_NOMEM, "cannot make the row of '%s': memory is out, or a text is not UTF-8",
                   c->cell->output_relative);
    }
    return row;
}

static void tell(const sk_session *s, const sk_cell_run *c, json_t *row) {
    if (s->o->done) {
        s->o->done(s->o->done_ud, c->cell, row, false);
    }
}

int sk_session_report(sk_session *s, sk_cell_run *c, sk_err *e) {
    json_t *row = row_of(s, c, e);
    const int rc = row ? sk_cell_files_partial(c->folder, row, e) : SKIPPY_E_NOMEM;
    if (rc == SKIPPY_OK) {
        tell(s, c, row);
    }
    json_decref(row);
    return rc;
}

/* ---- the end ---- */

/* A cell's folder is complete in itself: it gets the outputs of the servers that it was measured on. */
static int take_outputs(const sk_session *s, const sk_cell_run *c, json_t *receipts, sk_err *e) {
    static const char *const streams[] = {"stdout", "stderr"};
    char from[SK_CELL_PATH_CHARS], to[SK_CELL_PATH_CHARS];
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < 2 * json_array_size(receipts); i++) {
        const json_t *stream = json_object_get(json_array_get(receipts, i / 2), streams[i % 2]);
        const char *name = json_string_value(json_object_get(stream, "path"));
        if (!name || json_is_null(json_object_get(stream, "sha256"))) {
            continue; /* could not be read: its receipt says so */
        }
        if ((size_t)snprintf(from, sizeof from, "%s/%s", s->hosts.folder, name) >= sizeof from ||
            (size_t)snprintf(to, sizeof to, "%s/process/%s", c->folder, name) >= sizeof to) {
            return sk_err_set(e, SKIPPY_E_INVALID, "the path of '%.100s' in '%.200s' is too long", name, c->folder);
        }
        rc = sk_receipt_share(from, to, e);
    }
    return rc;
}

static json_t *part_states(json_t *parts) {
    json_t *list = json_object(), *part;
    const char *name;
    json_object_foreach(parts, name, part) {
        json_object_set(list, name, json_object_get(part, "status"));
    }
    return list;
}

static json_t *record_of(const sk_session *s, const sk_cell_run *c, json_t *processes, bool final) {
    return json_pack("{s:i, s:s, s:s, s:b, s:{s:s, s:s}, s:{s:s, s:s}, s:s?, s:o, s:f, s:O}", "schema_version",
                     CELL_SCHEMA, "output", c->cell->output_relative, "input_sha256", s->o->input_sha256, "finished",
                     final, "skippy", "status", c->skippy.status, "why", c->skippy.why, "llama_server", "status",
                     c->llama.status, "why", c->llama.why, "schedule",
                     !c->measured        ? NULL
                     : s->hosts.together ? "in turns"
                                         : "one after another",
                     "parts", part_states(c->parts), "spent_seconds", (double)c->spent_ns / 1e9, "processes",
                     processes);
}

static bool again(const sk_cell_status *s) {
    return strcmp(s->status, "timeout") == 0 || strcmp(s->status, "cancelled") == 0;
}

/* Receipts of the certificate's process and of all servers. */
static json_t *processes_of(const sk_cell_run *c, json_t *servers) {
    json_t *list = json_array();
    int failed = !list;
    if (!failed && c->certificate && c->certificate->c.receipt) {
        failed = json_array_append(list, c->certificate->c.receipt);
    }
    if (!failed && c->measured) {
        failed = json_array_extend(list, servers);
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

int sk_session_end(sk_session *s, sk_cell_run *c, sk_err *e) {
    const bool final = !again(&c->skippy) && !again(&c->llama);
    json_t *servers = sk_session_hosts_receipts(&s->hosts);
    json_t *processes = servers ? processes_of(c, servers) : NULL;
    json_t *record = processes ? record_of(s, c, processes, final) : NULL;
    json_t *row = row_of(s, c, e);
    int rc = record && row ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the record of a cell");
    if (rc == SKIPPY_OK && c->measured) {
        rc = take_outputs(s, c, servers, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_cell_files_end(c->folder, record, row, final, e);
    }
    if (rc == SKIPPY_OK) {
        tell(s, c, row);
    }
    json_decref(servers);
    json_decref(processes);
    json_decref(record);
    json_decref(row);
    return rc;
}
