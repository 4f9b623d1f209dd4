#include "bench/launch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/endpoint.h"
#include "bench/interrupt.h"

enum {
    MAX_WORDS = 160,
    HEALTH_TIMEOUT_MS = 5000,
    PAUSE_MS = 20,
    LOG_LINES = 8,
    LAST_WORDS = 380,
    STOP_GRACE_MS = 10000
};

/* Words of a command line, one after the other with a NUL behind each. */
typedef struct word_list {
    sk_buf text;
    size_t at[MAX_WORDS]; /* where each word begins in text, whose memory moves while it grows */
    size_t n;
    bool failed; /* too many, or memory is out */
} word_list;

static void add_word(word_list *w, const char *text, size_t len) {
    if (w->n == MAX_WORDS) {
        w->failed = true;
        return;
    }
    w->at[w->n++] = w->text.len;
    sk_buf_add(&w->text, text, len);
    sk_buf_add(&w->text, "", 1);
    w->failed = w->failed || w->text.failed;
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

/* The words as an array that ends with NULL; it borrows from w. */
static void point_at_words(const word_list *w, const char *argv[MAX_WORDS + 1]) {
    for (size_t i = 0; i < w->n; i++) {
        argv[i] = w->text.data + w->at[i];
    }
    argv[w->n] = NULL;
}

/* As words of env(1), so that the command line of the record is the whole truth. */
static void add_environment(const sk_launch *l, word_list *w) {
    if (l->cache_home || l->n_env) {
        add_word(w, "env", strlen("env"));
    }
    for (size_t i = 0; i < l->n_env; i++) {
        add_word(w, l->env[i], strlen(l->env[i]));
    }
    if (l->cache_home) {
        char assignment[1200];
        const int n = snprintf(assignment, sizeof assignment, "XDG_CACHE_HOME=%s", l->cache_home);
        add_word(w, assignment, (size_t)n < sizeof assignment ? (size_t)n : sizeof assignment - 1);
    }
}

static void make_words(const sk_launch *l, uint16_t port, word_list *w) {
    add_environment(l, w);
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
    if (tail.len > LAST_WORDS) { /* the reason stands at the end */
        sk_buf_consume(&tail, tail.len - LAST_WORDS);
    }
    sk_err_set(e, SKIPPY_E_RUNTIME, "'%s' ended before it was ready; its last words: %s", l->program,
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
    const char *argv[MAX_WORDS + 1];
    word_list w = {0};
    int rc = sk_process_free_port(port, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    make_words(l, *port, &w);
    if (w.failed) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "more than %d words in the command line of '%s', or memory is out",
                        MAX_WORDS, l->program);
    } else {
        point_at_words(&w, argv);
        for (size_t i = 0; i < w.n; i++) {
            sk_buf_printf(command, "%s%s", i ? " " : "", argv[i]);
        }
        rc = sk_process_start(p, argv, l->out_path, log_path, e);
    }
    if (rc == SKIPPY_OK) {
        rc = wait_ready(l, p, *port, e);
        if (rc != SKIPPY_OK) {
            sk_process_stop(p, STOP_GRACE_MS);
        }
    }
    sk_buf_free(&w.text);
    return rc;
}
