/* Test support: pairs of links over every transport, certificates, and peers that do not keep to the rules. */
#ifndef SKIPPY_STAGE_LINK_FIXTURE_H
#define SKIPPY_STAGE_LINK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/frame.h"
#include "stage/link.h"

enum transport { OVER_UNIX, OVER_TCP, OVER_TLS, TRANSPORTS };

enum { PATIENCE_MS = 20000 /* the longest that a test waits for what must happen */ };

/* A private folder, removed by link_fixture_end. Call in group set-up and tear-down. */
int link_fixture_begin(void **state);
int link_fixture_end(void **state);
/* "<folder>/<name>"; static memory for the last few calls. */
const char *fixture_path(const char *name);

/* Options for one end; certificates are made in the folder on first use: `name` of the authority in sub-folder
 * `authority`. */
sk_link_options plain_options(void);
sk_link_security tls_security(const char *authority, const char *name);

/* An accept that runs beside the test. */
typedef struct acceptor acceptor;
acceptor *accept_begin(sk_listener *l, const sk_link_options *o);
/* The link; the test fails when there is none. */
sk_link *accept_end(acceptor *a);
/* Of a cancelled listener: there is no link. */
void accept_cancelled(acceptor *a);

/* Two ends of one connection. */
typedef struct ends {
    sk_listener *listener;
    sk_link *a, *b; /* connected, accepted */
} ends;
ends ends_open(enum transport over, const sk_link_options *a, const sk_link_options *b);
void ends_close(ends *x);

/* A peer without a link: a listening loopback socket; raw_accept takes the connection and, when greet, sends what a
 * stage sends first. */
int raw_listen(char *address, size_t cap);
int raw_accept(int listening, bool greet);
int raw_connect_to(const char *address);
/* A thread's function: accepts on *(int *)listening, greets in plaintext, reads until the peer ends. */
void *raw_greeter(void *listening);
/* A link that is connected to a raw peer, whose socket is *fd. */
sk_link *link_to_raw(const sk_link_options *o, int *fd);

/* Frames. */
sk_buf frame_record(uint64_t n);                /* RECORD, 28 bytes */
sk_buf frame_large(size_t bytes, uint8_t seed); /* as many bytes as said, length field included; no decodable body */
bool large_is_intact(const uint8_t *bytes, size_t len, uint8_t seed);
void send_all(sk_link *l, sk_buf b, bool chunk);
/* Receives a RECORD and returns its number; the test fails when there is none in time. */
uint64_t receive_record(sk_link *l);
/* Waits until the link is down and returns why (static). */
const char *wait_down(sk_link *l);

#endif
