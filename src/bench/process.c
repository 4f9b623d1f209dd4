#include "bench/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/interrupt.h"

enum { POLL_MS = 5, TAIL_BYTES = 16384 };

static void sleep_ms(long ms) {
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* In the child: only async-signal-safe calls. Reports errno through the pipe when the program cannot be run. */
static _Noreturn void become(const char *const *argv, int in_fd, int out_fd, int err_fd, int report_fd, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL); /* which the benchmark ignores */
    if (getppid() == parent && dup2(in_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0 &&
        dup2(err_fd, STDERR_FILENO) >= 0) {
        /* execvp does not write to the strings; its prototype predates const. */
        execvp(argv[0], (char *const *)(const void *)argv);
    }
    const int why = errno;
    const ssize_t n = write(report_fd, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? 127 : 126);
}

static int open_file(const char *path, int flags, sk_err *e) {
    const int fd = open(path, O_CLOEXEC | flags, 0644);
    if (fd < 0) {
        sk_err_set(e, SKIPPY_E_IO, "cannot %s '%s': %s", flags & O_CREAT ? "write" : "read", path, strerror(errno));
    }
    return fd;
}

/* Parent's side: the pipe ends without data when exec succeeded. */
static int await_exec(sk_process *p, int report_fd, const char *program, sk_err *e) {
    int why = 0;
    ssize_t n;
    do {
        n = read(report_fd, &why, sizeof why);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        return SKIPPY_OK;
    }
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
    return sk_err_set(e, why == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "cannot run '%s': %s", program,
                      strerror(why));
}

static void close_fd(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

/* Starts argv[0] on these descriptors, which stay the caller's. */
static int spawn(sk_process *p, const char *const *argv, int in_fd, int out_fd, int err_fd, sk_err *e) {
    int report[2] = {-1, -1};
    if (pipe2(report, O_CLOEXEC) != 0) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot open a pipe: %s", strerror(errno));
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        become(argv, in_fd, out_fd, err_fd, report[1], parent);
    }
    close(report[1]);
    int rc;
    if (pid < 0) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot start a process: %s", strerror(errno));
    } else {
        p->pid = pid;
        setpgid(pid, pid); /* both sides set it, so that it holds whichever runs first */
        sk_interrupt_watch(pid);
        rc = await_exec(p, report[0], argv[0], e);
        if (rc != SKIPPY_OK) {
            sk_interrupt_unwatch(pid);
        }
    }
    close(report[0]);
    return rc;
}

/* Resets *p and opens its log, empty. */
static int begin(sk_process *p, const char *log_path, int *err_fd, sk_err *e) {
    *p = (sk_process){0};
    *err_fd = -1;
    if ((size_t)snprintf(p->log_path, sizeof p->log_path, "%s", log_path) >= sizeof p->log_path) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the log file is too long");
    }
    *err_fd = open_file(log_path, O_WRONLY | O_CREAT | O_TRUNC, e);
    return *err_fd < 0 ? SKIPPY_E_IO : SKIPPY_OK;
}

int sk_process_start(sk_process *p, const char *const *argv, const char *out_path, const char *log_path, sk_err *e) {
    int err_fd;
    int rc = begin(p, log_path, &err_fd, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const int in_fd = open_file("/dev/null", O_RDONLY, e);
    const int out_fd = out_path ? open_file(out_path, O_WRONLY | O_CREAT | O_TRUNC, e) : err_fd;
    rc = in_fd < 0 || out_fd < 0 ? SKIPPY_E_IO : spawn(p, argv, in_fd, out_fd, err_fd, e);
    close_fd(in_fd);
    close_fd(out_path ? out_fd : -1);
    close_fd(err_fd);
    return rc;
}

int sk_process_start_piped(sk_process *p, const char *const *argv, const char *log_path, int *to_child, int *from_child,
                           sk_err *e) {
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err_fd;
    *to_child = *from_child = -1;
    int rc = begin(p, log_path, &err_fd, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot open a pipe: %s", strerror(errno));
    } else {
        rc = spawn(p, argv, in[0], out[1], err_fd, e);
    }
    if (rc == SKIPPY_OK) {
        *to_child = in[1];
        *from_child = out[0];
        in[1] = out[0] = -1;
    }
    for (int i = 0; i < 2; i++) {
        close_fd(in[i]);
        close_fd(out[i]);
    }
    close_fd(err_fd);
    return rc;
}

static void note_end(sk_process *p, int status) {
    sk_interrupt_unwatch(p->pid);
    p->pid = 0;
    p->ended = true;
    p->status = status;
}

bool sk_process_alive(sk_process *p, int *status) {
    int st = 0;
    if (p->pid <= 0) {
        return false;
    }
    const pid_t r = waitpid(p->pid, &st, WNOHANG);
    if (r == 0 || (r < 0 && errno == EINTR)) {
        return true;
    }
    note_end(p, st);
    if (status) {
        *status = st;
    }
    return false;
}

int sk_process_wait(sk_process *p, int timeout_ms, int *status, sk_err *e) {
    const uint64_t deadline = sk_now_ns() + (uint64_t)timeout_ms * 1000000u;
    while (sk_process_alive(p, status)) {
        if (sk_interrupted()) {
            return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
        }
        if (sk_now_ns() >= deadline) {
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "the process did not end within %d ms", timeout_ms);
        }
        sleep_ms(POLL_MS);
    }
    return SKIPPY_OK;
}

bool sk_process_stop(sk_process *p, int grace_ms) {
    if (p->pid <= 0) {
        return true;
    }
    const uint64_t deadline = sk_now_ns() + (uint64_t)grace_ms * 1000000u;
    kill(-p->pid, SIGTERM);
    while (sk_process_alive(p, NULL)) {
        if (sk_now_ns() >= deadline) {
            int status = 0;
            kill(-p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            note_end(p, status);
            p->forced = true;
            return false;
        }
        sleep_ms(POLL_MS);
    }
    return true;
}

static void parse_kib(const char *text, const char *key, uint64_t *out) {
    const size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            *out = strtoull(line + n + 1, NULL, 10);
            return;
        }
    }
}

void sk_process_memory_parse(const char *text, sk_process_memory *out) {
    *out = (sk_process_memory){0};
    parse_kib(text, "VmHWM", &out->peak_rss);
    parse_kib(text, "VmRSS", &out->rss);
    parse_kib(text, "RssAnon", &out->anon);
    parse_kib(text, "RssFile", &out->file);
    parse_kib(text, "RssShmem", &out->shmem);
}

int sk_process_memory_read(const sk_process *p, sk_process_memory *out) {
    char path[64];
    char text[8192];
    *out = (sk_process_memory){0};
    snprintf(path, sizeof path, "/proc/%d/status", (int)p->pid);
    FILE *f = p->pid > 0 ? fopen(path, "re") : NULL;
    if (!f) {
        return SKIPPY_E_NOT_FOUND;
    }
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    sk_process_memory_parse(text, out);
    return SKIPPY_OK;
}

uint64_t sk_process_cpu_ns(const sk_process *p) {
    clockid_t clock;
    struct timespec t;
    if (p->pid <= 0 || clock_getcpuclockid(p->pid, &clock) != 0 || clock_gettime(clock, &t) != 0) {
        return 0;
    }
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sk_process_log_tail(const sk_process *p, size_t lines, sk_buf *out) {
    char text[TAIL_BYTES];
    FILE *f = fopen(p->log_path, "re");
    if (!f) {
        return;
    }
    long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
    size_t n = 0;
    if (fseek(f, size > TAIL_BYTES ? size - TAIL_BYTES : 0, SEEK_SET) == 0) {
        n = fread(text, 1, sizeof text, f);
    }
    fclose(f);
    size_t from = n;
    for (size_t seen = 0; from > 0; from--) {
        seen += text[from - 1] == '\n' && from != n;
        if (seen == lines) {
            break;
        }
    }
    sk_buf_add(out, text + from, n - from);
}

int sk_process_free_port(uint16_t *port, sk_err *e) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        const int why = errno;
        if (fd >= 0) {
            close(fd);
        }
        return sk_err_set(e, SKIPPY_E_IO, "cannot find a free port: %s", strerror(why));
    }
    close(fd);
    *port = ntohs(a.sin_port);
    return SKIPPY_OK;
}
