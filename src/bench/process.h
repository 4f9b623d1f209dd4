/* Child processes of the benchmark: their output in a file or a pipe, their memory read from /proc.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_PROCESS_H
#define SKIPPY_BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct sk_process {
    pid_t pid;   /* 0 = none; also the id of its process group */
    bool ended;  /* it ran and has ended: */
    int status;  /* how, as waitpid gives it */
    bool forced; /* SIGTERM was not enough */
    char log_path[1024];
} sk_process;

/* Sizes in KiB as the kernel reports them; 0 where it does not. */
typedef struct sk_process_memory {
    uint64_t peak_rss; /* VmHWM */
    uint64_t rss, anon, file, shmem;
} sk_process_memory;

/* Starts argv[0] (a path, or a name that is looked up in PATH) in its own process group; standard output goes to
 * out_path (NULL = the log as well), standard error to log_path. The child dies with this process.
 * Errors: SKIPPY_E_IO, SKIPPY_E_NOT_FOUND (no such program), SKIPPY_E_INVALID (path too long). */
int sk_process_start(sk_process *p, const char *const *argv, const char *out_path, const char *log_path, sk_err *e);
/* The same with standard input and output as pipes: what is written to *to_child is its input, its output is read from
 * *from_child. The caller closes both. Same errors; both are -1 then. */
int sk_process_start_piped(sk_process *p, const char *const *argv, const char *log_path, int *to_child, int *from_child,
                           sk_err *e);
/* False once the child has ended; *status (may be NULL) is then as waitpid gives it, and p->pid is 0. */
bool sk_process_alive(sk_process *p, int *status);
/* Waits for the end of the child, at most timeout_ms. Errors: SKIPPY_E_TIMEOUT, SKIPPY_E_CANCELLED. */
int sk_process_wait(sk_process *p, int timeout_ms, int *status, sk_err *e);
/* SIGTERM, then SIGKILL to the group after grace_ms. Returns true when it ended by itself in time. Does nothing without
 * a child. */
bool sk_process_stop(sk_process *p, int grace_ms);
/* Errors: SKIPPY_E_NOT_FOUND (ended). */
int sk_process_memory_read(const sk_process *p, sk_process_memory *out);
/* Processor time of all its threads, user and system, in nanoseconds; 0 when it has ended. */
uint64_t sk_process_cpu_ns(const sk_process *p);
/* Reads the text of a /proc/PID/status file. */
void sk_process_memory_parse(const char *text, sk_process_memory *out);
/* Appends the last `lines` lines of the log to out. */
void sk_process_log_tail(const sk_process *p, size_t lines, sk_buf *out);
/* A TCP port of the loopback interface that is free now. Errors: SKIPPY_E_IO. */
int sk_process_free_port(uint16_t *port, sk_err *e);

#endif
