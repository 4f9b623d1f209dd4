/* Test support: a small HTTP server on 127.0.0.1 that offers the files below a folder and misbehaves on request. Not
 * part of the product. One thread answers one connection after another; every answer closes its connection. */
#ifndef SKIPPY_RUNTIME_FILE_SERVER_H
#define SKIPPY_RUNTIME_FILE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How it misbehaves. All zero: not at all. */
typedef struct file_server_rules {
    unsigned cuts;     /* so many answers end early ... */
    size_t cut_after;  /* ... after so many bytes of the body */
    unsigned refusals; /* so many answers are `status` instead */
    int status;
    bool ignore_ranges;   /* answers 200 and everything */
    bool refuse_ranges;   /* answers 416 */
    size_t range_shift;   /* Content-Range and body begin so many bytes too early */
    size_t claimed_total; /* the total in Content-Range; 0 = the truth */
    bool endless;         /* a body without length and end */
    bool stalls;          /* head and a few bytes, then nothing until the client leaves */
    const char *redirect; /* Location of every answer; "self": the path that was asked for */
} file_server_rules;

typedef struct file_server file_server;

/* A failure fails the running test. */
file_server *file_server_start(const char *root);
/* The same over TLS, with a certificate for 127.0.0.1 that is made for the occasion and written to root/ca.pem. */
file_server *file_server_start_tls(const char *root);
void file_server_stop(file_server *s);
void file_server_set(file_server *s, file_server_rules rules);

/* "http://127.0.0.1:PORT/path" (https with TLS), in a buffer that the next call overwrites. */
const char *file_server_url(file_server *s, const char *path);
/* So many requests came whose line or range header contains this text ("" = all). */
size_t file_server_count(file_server *s, const char *text);
void file_server_forget(file_server *s);

#endif
