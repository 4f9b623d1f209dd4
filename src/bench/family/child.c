#include "bench/family/child.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "bench/family/receipt.h"
#include "bench/interrupt.h"
#include "bench/process.h"
#include "correctness/report.h"

enum { POLL_MS = 10, GRACE_MS = 10000, LAST_LINES = 4, PATH_CHARS = 1400 };

/* The largest resident set must be read while the process lives. */
static bool lives(sk_process *p, uint64_t *peak_kib) {
    sk_process_memory memory;
    if (sk_process_memory_read(p, &memory) == SKIPPY_OK && memory.peak_rss > *peak_kib) {
        *peak_kib = memory.peak_rss;
    }
    return sk_process_alive(p, NULL);
}

static int wait_for(sk_process *p, const sk_child *c, uint64_t *peak_kib, sk_err *e) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    const uint64_t deadline = sk_now_ns() + (uint64_t)c->timeout_ms * 1000000u;
    int rc = SKIPPY_OK;
    while (rc == SKIPPY_OK && lives(p, peak_kib)) {
        if (sk_interrupted()) {
            rc = SKIPPY_E_CANCELLED;
        } else if (sk_now_ns() >= deadline) {
            rc = sk_err_set(e, SKIPPY_E_TIMEOUT, "'%s' did not end within %.1f s", c->argv[0],
                            (double)c->timeout_ms / 1000.0);
        } else {
            nanosleep(&pause, NULL);
        }
    }
    sk_process_stop(p, GRACE_MS);
    /* Ctrl-C ends the child as well: it may be gone before the flag was looked at. */
    return sk_interrupted() ? sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted") : rc;
}

static int stream(const sk_child *c, const char *what, json_t **out, sk_err *e) {
    char path[PATH_CHARS], name[256];
    snprintf(name, sizeof name, "%s.%s", c->role, what);
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    return sk_receipt_file(path, name, out, e);
}

static int record(const sk_child *c, const sk_process *p, uint64_t peak_kib, const char *started, sk_child_end *out,
                  sk_err *e) {
    char ended[32];
    sk_buf command = {0};
    json_t *standard_output = NULL, *standard_error = NULL;
    sk_certify_date(sk_wall_s(), ended, sizeof ended);
    for (size_t i = 0; c->argv[i]; i++) {
        sk_buf_printf(&command, "%s%s", i ? " " : "", c->argv[i]);
    }
    int rc = stream(c, "stdout", &standard_output, e);
    if (rc == SKIPPY_OK) {
        rc = stream(c, "stderr", &standard_error, e);
    }
    if (rc == SKIPPY_OK) {
        out->receipt =
            json_pack("{s:s, s:s, s:s%, s:s, s:s, s:n, s:o, s:b, s:I, s:O, s:O}", "role", c->role, "program",
                      c->argv[0], "command", command.data ? command.data : "", command.len, "started", started, "ended",
                      ended, "ready_ms", "exit", sk_receipt_exit(p->status), "forced", p->forced, "peak_rss_kib",
                      (json_int_t)peak_kib, "stdout", standard_output, "stderr", standard_error);
        rc = out->receipt ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the record of '%s'", c->argv[0]);
    }
    json_decref(standard_output);
    json_decref(standard_error);
    sk_buf_free(&command);
    return rc;
}

int sk_child_run(const sk_child *c, sk_child_end *out, sk_err *e) {
    char to[PATH_CHARS], log[PATH_CHARS], started[32];
    sk_process p = {0};
    uint64_t peak_kib = 0;
    *out = (sk_child_end){0};
    snprintf(to, sizeof to, "%s/%s.stdout", c->folder, c->role);
    snprintf(log, sizeof log, "%s/%s.stderr", c->folder, c->role);
    sk_certify_date(sk_wall_s(), started, sizeof started);
    const uint64_t start = sk_now_ns();
    int rc = sk_process_start(&p, c->argv, to, log, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    rc = wait_for(&p, c, &peak_kib, e);
    out->elapsed_ms = (double)(sk_now_ns() - start) / 1e6;
    out->status = p.status;
    sk_process_log_tail(&p, LAST_LINES, &out->last_words);
    sk_err why = {0};
    const int recorded = record(c, &p, peak_kib, started, out, &why);
    return rc != SKIPPY_OK || recorded == SKIPPY_OK ? rc : sk_err_set(e, recorded, "%s", why.text);
}

void sk_child_end_free(sk_child_end *c) {
    json_decref(c->receipt);
    sk_buf_free(&c->last_words);
    *c = (sk_child_end){0};
}
