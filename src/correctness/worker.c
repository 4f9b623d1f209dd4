#include "correctness/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "correctness/worker_codec.h"

enum { MAX_ARGS = 16, POLL_MS = 5 };

/* ---- unlinked files ---- */

/* A file without a name in the temporary directory; -1 with words on failure. */
static int open_unlinked(sk_err *e) {
    const char *dir = getenv("TMPDIR");
    char path[1024];
    if (!dir || !*dir) dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    /* file systems without O_TMPFILE: the name exists for a moment */
    int n = snprintf(path, sizeof path, "%s/skippy-certify-XXXXXX", dir);
    if (n > 0 && (size_t)n < sizeof path) fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    if (fd < 0) sk_err_set(e, SKIPPY_E_IO, "no temporary file can be made in '%s': %s", dir, strerror(errno));
    return fd;
}

static int write_all(int fd, const char *data, size_t len, sk_err *e) {
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return sk_err_set(e, SKIPPY_E_IO, "state could not be handed over: %s", strerror(errno));
        data += n;
        len -= (size_t)n;
    }
    return SKIPPY_OK;
}

static int read_whole(int fd, sk_buf *out, sk_err *e) {
    struct stat st;
    if (fstat(fd, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "fstat: %s", strerror(errno));
    if (!sk_buf_reserve(out, (size_t)st.st_size + 1))
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %lld bytes", (long long)st.st_size);
    while (out->len < (size_t)st.st_size) {
        ssize_t n = pread(fd, out->data + out->len, (size_t)st.st_size - out->len, (off_t)out->len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return sk_err_set(e, SKIPPY_E_IO, "the handed-over file cannot be read: %s", strerror(errno));
        out->len += (size_t)n;
    }
    return SKIPPY_OK;
}

/* ---- the starting side ---- */

/* Between fork and exec only calls that are safe in a process with threads. */
static void become_worker(const char *const *argv, const int fds[2], pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); /* the parent died before prctl */
    for (int i = 0; i < 2; i++)
        if (fcntl(fds[i], F_SETFD, 0) != 0) _exit(127);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

static int start(const char *const *argv, const int fds[2], pid_t *pid, sk_err *e) {
    const char *args[MAX_ARGS + 2];
    char pair[32];
    size_t n = 0;
    while (n < MAX_ARGS && argv[n]) args[n] = argv[n], n++;
    if (n == 0 || n == MAX_ARGS)
        return sk_err_set(e, SKIPPY_E_INVALID, "the fresh process needs 1 to %d arguments", MAX_ARGS - 1);
    snprintf(pair, sizeof pair, "%d:%d", fds[0], fds[1]);
    args[n] = pair;
    args[n + 1] = NULL;
    pid_t parent = getpid();
    *pid = fork();
    if (*pid < 0) return sk_err_set(e, SKIPPY_E_IO, "no process can be started: %s", strerror(errno));
    if (*pid == 0) become_worker(args, fds, parent);
    return SKIPPY_OK;
}

/* Waits for the child and ends it when the time is over. */
static int wait_for(pid_t pid, int timeout_ms, sk_err *e) {
    uint64_t deadline = sk_now_ns() + (uint64_t)timeout_ms * 1000000u;
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    int status = 0;
    for (;;) {
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid) break;
        if (done < 0 && errno != EINTR) return sk_err_set(e, SKIPPY_E_IO, "waitpid: %s", strerror(errno));
        if (sk_now_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "the fresh process did not answer within %d s", timeout_ms / 1000);
        }
        nanosleep(&pause, NULL);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return SKIPPY_OK;
    if (WIFSIGNALED(status))
        return sk_err_set(e, SKIPPY_E_RUNTIME, "the fresh process was ended by signal %d", WTERMSIG(status));
    return sk_err_set(e, SKIPPY_E_RUNTIME, "the fresh process ended with code %d and no answer", WEXITSTATUS(status));
}

int sk_worker_run(const char *const *argv, const sk_worker_request *request, int timeout_ms, sk_trial *out, sk_err *e) {
    sk_buf ask = {0}, answer = {0};
    int fds[2] = {-1, -1}, rc = SKIPPY_OK;
    pid_t pid = 0;
    sk_worker_write_request(&ask, request);
    if (ask.failed) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the request to the fresh process");
        goto out;
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = open_unlinked(e);
        if (fds[i] >= 0) continue;
        rc = SKIPPY_E_IO;
        goto out;
    }
    rc = write_all(fds[0], ask.data, ask.len, e);
    sk_buf_free(&ask); /* the file has it; a large model's state need not be in memory twice */
    if (rc == SKIPPY_OK) rc = start(argv, fds, &pid, e);
    if (rc == SKIPPY_OK) rc = wait_for(pid, timeout_ms, e);
    if (rc == SKIPPY_OK) rc = read_whole(fds[1], &answer, e);
    if (rc == SKIPPY_OK) rc = sk_worker_read_answer(answer.data, answer.len, out, e);
out:
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    sk_buf_free(&ask);
    sk_buf_free(&answer);
    return rc;
}

/* ---- the started side ---- */

static int restore_parcel(void *ud, sk_rig *r, uint32_t seq, sk_err *e) {
    const sk_worker_request *q = ud;
    return sk_parcel_import(q->parcel, r, seq, q->n_prefix, e);
}

static int do_job(sk_worker_job *job, sk_trial *t, sk_err *e) {
    const sk_worker_request *q = &job->request;
    const sk_model_params mp = {.path = q->model_path, .n_gpu_layers = q->n_gpu_layers};
    sk_model *m = NULL;
    sk_rig r = {0};
    int rc = sk_model_load(&mp, &m, e);
    if (rc) return rc;
    rc = sk_rig_open(m, &q->rig, &q->rows, &r, e);
    if (rc == SKIPPY_OK && !skippy_key_equal(&r.caps.layout, &q->layout))
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the fresh process learned another state layout");
    if (rc == SKIPPY_OK) rc = sk_trial_init(t, r.n_vocab, q->repeats, e);
    if (rc == SKIPPY_OK) rc = sk_trial_run(t, &r, restore_parcel, &job->request, q->tokens, q->n_prefix, e);
    sk_rig_close(&r);
    sk_model_free(m);
    return rc;
}

static bool parse_descriptors(const char *text, int *in, int *out) {
    char *end = NULL;
    long a = strtol(text, &end, 10);
    if (end == text || *end != ':') return false;
    const char *second = end + 1;
    long b = strtol(second, &end, 10);
    if (end == second || *end != '\0' || a < 0 || a > INT_MAX || b < 0 || b > INT_MAX) return false;
    *in = (int)a;
    *out = (int)b;
    return true;
}

int sk_worker_main(const char *fds) {
    sk_buf ask = {0}, answer = {0};
    sk_worker_job job = {0};
    sk_trial trial = {0};
    sk_err e = {0};
    int in = -1, out = -1;
    if (!parse_descriptors(fds, &in, &out)) return 2;
    int rc = read_whole(in, &ask, &e);
    if (rc == SKIPPY_OK) rc = sk_worker_read_request(ask.data, ask.len, &job, &e);
    if (rc == SKIPPY_OK) rc = do_job(&job, &trial, &e);
    e.code = rc;
    sk_worker_write_answer(&answer, &e, &trial);
    bool written = !answer.failed && write_all(out, answer.data, answer.len, &e) == SKIPPY_OK;
    sk_trial_free(&trial);
    sk_worker_job_free(&job);
    sk_buf_free(&answer);
    sk_buf_free(&ask);
    return written ? 0 : 1;
}
