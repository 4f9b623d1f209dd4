#include "bench/family/host.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/family/json_text.h"
#include "bench/family/receipt.h"
#include "bench/interrupt.h"
#include "correctness/report.h"

enum {
    /* A server with a disk store writes what is not there yet before it ends: longer than that takes for some
     * gigabytes. */
    STOP_GRACE_MS = 120000,
    INTERRUPTED_GRACE_MS = 10000, /* somebody waits */
    LAST_LINES = 4,
    LAST_WORDS = 400, /* bytes */
    DYING_MS = 1000,  /* a connection breaks a moment before its process has ended */
    PATH_BYTES = 1024
};

static void utc_now(char out[32]) {
    sk_certify_date(sk_wall_s(), out, 32);
}

/* ---- one process's record ---- */

/* Name of an output of the latest process; with the folder: its path. False when that is too long. */
static bool output_name(const sk_family_host *h, const char *stream, char *out, size_t cap) {
    return (size_t)snprintf(out, cap, "%s-%zu.%s", h->name, h->starts, stream) < cap;
}

static bool output_path(const sk_family_host *h, const char *stream, char *out, size_t cap) {
    char name[256];
    return output_name(h, stream, name, sizeof name) && (size_t)snprintf(out, cap, "%s/%s", h->folder, name) < cap;
}

/* What cannot be read says so in "error". */
static json_t *output_record(const sk_family_host *h, const char *stream) {
    char name[256] = "";
    char path[PATH_BYTES] = "";
    json_t *record = NULL;
    sk_err e = {0};
    output_name(h, stream, name, sizeof name);
    output_path(h, stream, path, sizeof path);
    return sk_receipt_file(path, name, &record, &e) == SKIPPY_OK
               ? record
               : json_pack("{s:s, s:n, s:n, s:o}", "path", name, "bytes", "sha256", "error", sk_json_text(e.text));
}

/* Appends the receipt of a process that has ended, and forgets the process. Without memory for it the record is
 * incomplete, which its reader sees: the number of a start is missing. */
static void close_record(sk_family_host *h, uint64_t peak_rss_kib) {
    char ended[32];
    utc_now(ended);
    json_t *ready = h->ready_ms > 0.0 ? json_real(h->ready_ms) : json_null();
    json_t *receipt = json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:b, s:I, s:o, s:o}", "role", h->name, "program",
        sk_json_text(h->launch.program), "command", sk_json_text(h->command), "started", h->started, "ended", ended,
        "ready_ms", ready, "exit", sk_receipt_exit(h->process.status), "forced", h->process.forced, "peak_rss_kib",
        (json_int_t)peak_rss_kib, "stdout", output_record(h, "stdout"), "stderr", output_record(h, "stderr"));
    if (!h->receipts) {
        h->receipts = json_array();
    }
    json_array_append_new(h->receipts, receipt);
    h->process = (sk_process){0};
}

static void keep_largest(sk_process_memory *most, const sk_process_memory *m) {
    uint64_t *const to[] = {&most->peak_rss, &most->rss, &most->anon, &most->file, &most->shmem};
    const uint64_t from[] = {m->peak_rss, m->rss, m->anon, m->file, m->shmem};
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        *to[i] = from[i] > *to[i] ? from[i] : *to[i];
    }
}

/* ---- start and stop ---- */

/* Launches; the outputs and command of the new process are in h whether or not it becomes ready. */
static int launch(sk_family_host *h, sk_err *e) {
    char out_path[PATH_BYTES];
    char err_path[PATH_BYTES];
    sk_launch l = h->launch;
    sk_buf command = {0};
    if (!output_path(h, "stdout", out_path, sizeof out_path) || !output_path(h, "stderr", err_path, sizeof err_path)) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the folder '%.200s...' for the server's output has too long a path",
                          h->folder);
    }
    l.out_path = out_path;
    h->ready_ms = 0.0;
    utc_now(h->started);
    const uint64_t begin = sk_now_ns();
    const int rc = sk_launch_server(&l, err_path, &h->process, &h->port, &command, e);
    if (rc == SKIPPY_OK) {
        h->ready_ms = (double)(sk_now_ns() - begin) / 1e6;
    }
    snprintf(h->command, sizeof h->command, "%s", command.data ? command.data : "");
    sk_buf_free(&command);
    return rc;
}

int sk_host_start(sk_family_host *h, sk_err *e) {
    if (sk_process_alive(&h->process, NULL)) {
        return sk_err_set(e, SKIPPY_E_EXISTS, "the server '%s' runs already", h->name);
    }
    sk_host_stop(h);
    h->starts++;
    const int rc = launch(h, e);
    if (rc != SKIPPY_OK) {
        h->port = 0;
        if (h->process.ended) {
            close_record(h, 0);
        }
        return rc;
    }
    sk_endpoint_init(&h->ep, h->port, h->timeout_ms);
    /* The version is for the record: a server without /props is measured all the same. */
    if (sk_endpoint_version(&h->ep, h->version, sizeof h->version, NULL) != SKIPPY_OK) {
        h->version[0] = '\0';
    }
    return SKIPPY_OK;
}

void sk_host_stop(sk_family_host *h) {
    sk_process_memory memory = {0};
    if (h->port) {
        sk_endpoint_close(&h->ep);
        h->port = 0;
    }
    if (sk_process_memory_read(&h->process, &memory) == SKIPPY_OK) {
        keep_largest(&h->memory, &memory);
    }
    sk_process_stop(&h->process, sk_interrupted() ? INTERRUPTED_GRACE_MS : STOP_GRACE_MS);
    if (h->process.ended) {
        close_record(h, memory.peak_rss);
    }
}

int sk_host_restart(sk_family_host *h, sk_err *e) {
    sk_host_stop(h);
    return sk_host_start(h, e);
}

void sk_host_free(sk_family_host *h) {
    sk_host_stop(h);
    json_decref(h->receipts);
    h->receipts = NULL;
}

int sk_host_explain(sk_family_host *h, int rc, sk_err *e) {
    if (rc == SKIPPY_E_IO) {
        sk_process_wait(&h->process, DYING_MS, NULL, NULL);
    }
    if (sk_interrupted() || sk_process_alive(&h->process, NULL)) {
        return rc;
    }
    sk_buf tail = {0};
    if (h->process.ended) {
        sk_process_log_tail(&h->process, LAST_LINES, &tail);
        if (tail.len > LAST_WORDS) { /* the reason stands at the end */
            sk_buf_consume(&tail, tail.len - LAST_WORDS);
        }
        sk_err_set(e, rc, "the server ended in the middle; its last words: %s", tail.len ? tail.data : "(nothing)");
    } else {
        sk_err_set(e, rc, "the server does not run");
    }
    sk_buf_free(&tail);
    return rc;
}
