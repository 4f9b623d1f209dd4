/* Test support: an HTTP server that says what a test wants. Not part of the product.
 *
 * It answers the requests in the order in which they come, one connection after the other, and writes each answer as it
 * stands. Failures of the server itself fail the test. */
#ifndef SKIPPY_BENCH_SCRIPTED_SERVER_H
#define SKIPPY_BENCH_SCRIPTED_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRIPTED_MAX_ANSWERS = 16, SCRIPTED_MAX_HELD = 8 };

/* Zero-initialise; the first fields are the test's. */
typedef struct scripted_server {
    const char *answers[SCRIPTED_MAX_ANSWERS]; /* NULL: says nothing until the client leaves */
    bool close_after[SCRIPTED_MAX_ANSWERS];    /* ends the connection after this answer */
    size_t n_answers;
    size_t n_requests;      /* to serve in all, beginning again after the last answer; 0 = n_answers */
    size_t piece;           /* bytes that are written at a time; 0 = all at once */
    size_t held;            /* answers nobody before so many connections have sent a request, each of them one; at most
                               SCRIPTED_MAX_HELD, 0 = at once */
    void (*all_held)(void); /* called when they have; may be NULL */

    uint16_t port;           /* after scripted_start */
    size_t connections;      /* after scripted_end: how many were made */
    char last_request[4096]; /* after scripted_end */

    int listener;
    pthread_t thread;
} scripted_server;

void scripted_start(scripted_server *f);
/* Waits until all requests were served. */
void scripted_end(scripted_server *f);

#endif
