#include "bench/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/endpoint.h"
#include "bench/interrupt.h"

enum { MAX_WORDS = 96, HEALTH_TIMEOUT_MS = 5000, PAUSE_MS = 20, LOG_LINES = 8, STOP_GRACE_MS = 10000 };

/* Words of a command line; each is owned. */
typedef struct word_list {
    char *v[MAX_WORDS + 1];
    size_t n;
    bool failed;
} word_list;

static void add_word(word_list *w, const char *text, size_t len) {
    char *copy = w->n < MAX_WORDS ? strndup(text, len) : NULL;
    if (!copy) {
        w->failed = true;
        return;
    }
    w->v[w->n++] = copy;
    w->v[w->n] = NULL;
}

static void add_pair(word_list *w, const char *flag, const char *value) {
    add_word(w, flag, strlen(flag));
    add_word(w, value, strlen(value));
}

static void add_number(word_list *w, const char *flag, unsigned long long value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", value);
    add_pair(w, flag, text);
}

static void add_split(word_list *w, const char *flags) {
    for (const char *p = flags ? flags : ""; *p;) {
        const size_t len = strcspn(p, " ");
        if (len) {
            add_word(w, p, len);
        }
        p += len + (p[len] == ' ');
    }
}

static void free_words(word_list *w) {
    for (size_t i = 0; i < w->n; i++) {
        free(w->v[i]);
    }
}

static void make_words(const sk_launch *l, uint16_t port, word_list *w) {
    if (l->cache_home) {
        char assignment[1200];
        const int n = snprintf(assignment, sizeof assignment, "XDG_CACHE_HOME=%s", l->cache_home);
        add_word(w, "env", strlen("env"));
        add_word(w, assignment, (size_t)n < sizeof assignment ? (size_t)n : sizeof assignment - 1);
    }
    add_word(w, l->program, strlen(l->program));
    if (l->subcommand) {
        add_word(w, l->subcommand, strlen(l->subcommand));
    }
    add_pair(w, "-m", l->model);
    add_number(w, "-c", l->n_ctx);
    add_number(w, "-t", (unsigned)l->threads);
    add_number(w, "-np", l->lanes);
    add_pair(w, "--host", "127.0.0.1");
    add_number(w, "--port", port);
    add_split(w, l->flags[0]);
    add_split(w, l->flags[1]);
    add_split(w, l->flags[2]);
}

static int died(const sk_launch *l, const sk_process *p, sk_err *e) {
    sk_buf tail = {0};
    sk_process_log_tail(p, LOG_LINES, &tail);
    sk_err_set(e, SKIPPY_E_RUNTIME, "'%s' ended before it was ready; its last words: %.380s", l->program,
               tail.len ? tail.data : "(nothing)");
    sk_buf_free(&tail);
    return SKIPPY_E_RUNTIME;
}

static int wait_ready(const sk_launch *l, sk_process *p, uint16_t port, sk_err *e) {
    const uint64_t deadline = sk_now_ns() + (uint64_t)l->ready_timeout_ms * 1000000u;
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    sk_endpoint ep;
    int rc = SKIPPY_E_BUSY;
    sk_endpoint_init(&ep, port, HEALTH_TIMEOUT_MS);
    while (rc == SKIPPY_E_BUSY) {
        if (sk_interrupted()) {
            rc = sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
        } else if (!sk_process_alive(p, NULL)) {
            rc = died(l, p, e);
        } else if (sk_endpoint_health(&ep, NULL, NULL) == SKIPPY_OK) {
            rc = SKIPPY_OK;
        } else if (sk_now_ns() >= deadline) {
            rc = sk_err_set(e, SKIPPY_E_TIMEOUT, "'%s' was not ready after %d s", l->program,
                            l->ready_timeout_ms / 1000);
        } else {
            nanosleep(&pause, NULL);
        }
    }
    sk_endpoint_close(&ep);
    return rc;
}

int sk_launch_server(const sk_launch *l, const char *log_path, sk_process *p, uint16_t *port, sk_buf *command,
                     sk_err *e) {
    word_list w = {0};
    int rc = sk_process_free_port(port, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    make_words(l, *port, &w);
    for (size_t i = 0; i < w.n; i++) {
        sk_buf_printf(command, "%s%s", i ? " " : "", w.v[i]);
    }
    if (w.failed) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "more than %d words in the command line of '%s', or memory is out",
                        MAX_WORDS, l->program);
    } else {
        rc = sk_process_start(p, (const char *const *)w.v, NULL, log_path, e);
    }
    if (rc == SKIPPY_OK) {
        rc = wait_ready(l, p, *port, e);
        if (rc != SKIPPY_OK) {
            sk_process_stop(p, STOP_GRACE_MS);
        }
    }
    free_words(&w);
    return rc;
}
