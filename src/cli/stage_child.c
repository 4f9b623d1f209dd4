#include "cli/stage_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* In the child: only what is allowed between fork and exec. */
static void become(char *const *argv, const int out[2], const int err[2], pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127); /* it died before the line above */
    int null = open("/dev/null", O_RDONLY);
    bool ok = null >= 0 && dup2(null, STDIN_FILENO) >= 0;
    if (out[1] >= 0) ok = ok && dup2(out[1], STDOUT_FILENO) >= 0 && dup2(err[1], STDERR_FILENO) >= 0;
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (ok) execv("/proc/self/exe", argv);
    _exit(127);
}

static void close_pair(const int fd[2]) {
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
}

int sk_child_start(sk_child *c, const char *name, char *const *words, bool piped, sk_err *e) {
    char *argv[512] = {"skippy"};
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    const pid_t parent = getpid();
    size_t n = 1;
    for (; words[n - 1]; n++) {
        if (n + 1 == sizeof argv / sizeof *argv)
            return sk_err_set(e, SKIPPY_E_INVALID, "too many arguments for %s", name);
        argv[n] = words[n - 1];
    }
    *c = (sk_child){.out = -1, .err = -1};
    snprintf(c->name, sizeof c->name, "%s", name);
    bool ok = !piped || (pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    fflush(stdout);
    const pid_t pid = ok ? fork() : -1;
    if (pid == 0) become(argv, out, err, parent);
    if (pid < 0) {
        sk_err_set(e, SKIPPY_E_IO, "%s cannot be started: %s", name, strerror(errno));
        close_pair(out);
        close_pair(err);
        return SKIPPY_E_IO;
    }
    c->pid = pid;
    if (!piped) return SKIPPY_OK;
    close(out[1]);
    close(err[1]);
    c->out = out[0];
    c->err = err[0];
    fcntl(c->out, F_SETFL, O_NONBLOCK);
    fcntl(c->err, F_SETFL, O_NONBLOCK);
    return SKIPPY_OK;
}

size_t sk_child_polls(const sk_child *c, struct pollfd *out) {
    size_t n = 0;
    if (c->out >= 0) out[n++] = (struct pollfd){.fd = c->out, .events = POLLIN};
    if (c->err >= 0) out[n++] = (struct pollfd){.fd = c->err, .events = POLLIN};
    return n;
}

/* One write a line, so that lines of several children do not mix. */
static void pass_line(const sk_child *c, const char *line, size_t len) {
    sk_buf b = {0};
    sk_buf_printf(&b, "%s: ", c->name);
    sk_buf_add(&b, line, len);
    sk_buf_str(&b, "\n");
    if (!b.failed) fwrite(b.data, 1, b.len, stderr);
    sk_buf_free(&b);
}

static void take_lines(sk_child *c, sk_buf *text, bool facts) {
    for (char *end; text->len > 0 && (end = memchr(text->data, '\n', text->len)) != NULL;) {
        const size_t len = (size_t)(end - text->data);
        if (facts && !c->ready && text->data[0] == '{')
            c->ready = true;
        else
            pass_line(c, text->data, len);
        sk_buf_consume(text, len + 1);
    }
}

static void read_one(sk_child *c, int *fd, sk_buf *text, bool facts) {
    char part[4096];
    ssize_t n = 0;
    while (*fd >= 0 && (n = read(*fd, part, sizeof part)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break;
        sk_buf_add(text, part, (size_t)n);
        take_lines(c, text, facts);
    }
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void sk_child_read(sk_child *c) {
    read_one(c, &c->out, &c->out_text, true);
    read_one(c, &c->err, &c->err_text, false);
}

void sk_child_finish(sk_child *c) {
    sk_child_read(c);
    if (c->out_text.len > 0) pass_line(c, c->out_text.data, c->out_text.len);
    if (c->err_text.len > 0) pass_line(c, c->err_text.data, c->err_text.len);
    sk_buf_free(&c->out_text);
    sk_buf_free(&c->err_text);
    if (c->out >= 0) close(c->out);
    if (c->err >= 0) close(c->err);
    c->out = c->err = -1;
}
