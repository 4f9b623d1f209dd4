/* A link: one connection between neighbours of a chain. It moves whole frames; what they mean is not its business, but
 * for PING and PONG (it answers and measures) and for the credits of chunks.
 *
 * Threads: one input-output thread for each link (non-blocking socket, poll, OpenSSL). Every function may be called
 * from any thread. Sending copies or takes the frame into a queue; receiving takes whole frames out of one.
 *
 * Security: TLS 1.3 only, both sides present a certificate of the chain's own authority (sk_link_certs; `skippy stage
 * init-certs`), verified before a byte of a frame is looked at. Plaintext only on unix sockets, and on loopback
 * addresses when the caller says so; anything else is refused. With certificates a unix socket is encrypted, too, and
 * its peer may have any name of the authority. */
#ifndef SKIPPY_STAGE_LINK_H
#define SKIPPY_STAGE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct sk_link sk_link;
typedef struct sk_listener sk_listener;

typedef struct sk_link_security {
    const char *ca, *cert, *key; /* PEM files; all NULL = plaintext */
    bool allow_loopback;         /* plaintext over TCP on 127.0.0.0/8 and ::1 */
} sk_link_security;

typedef struct sk_link_options {
    sk_link_security security;
    uint32_t ping_ms;   /* a PING after so long without a frame; 0 = 2000 */
    uint32_t silent_ms; /* the link is down after so long without any byte; 0 = 10000 */
    uint64_t queue_max; /* bytes that may wait to be sent before sk_link_send waits; 0 = 64 MiB */
    /* Called from the link's thread after a frame arrived and when the link went down. Short, no calls into the link
     * but sk_link_receive with timeout 0. May be NULL. */
    void (*wake)(void *ud);
    void *ud;
} sk_link_options;

/* Address: "host:port", "[v6]:port", "unix:/path". Checked without a connection: SKIPPY_E_INVALID in words. */
int sk_link_check_address(const char *address, sk_err *e);

/* Connects, completes the handshake, and waits for the first sign of the accepting side (a PING, sent when it is
 * content with our certificate; so somebody must be in sk_listener_accept). Host names may take longer than timeout_ms
 * to resolve. Errors in words with address: SKIPPY_E_INVALID (address, plaintext not allowed there, certificate files),
 * SKIPPY_E_IO (refused, unreachable, not in time), SKIPPY_E_UNSUPPORTED (the peer's certificate is not of our
 * authority, or it does not want ours, or no TLS 1.3). */
int sk_link_connect(const char *address, const sk_link_options *o, uint32_t timeout_ms, sk_link **out, sk_err *e);

/* Listens. port 0: any; sk_listener_address says which. A unix socket file that nobody listens on is replaced. */
int sk_listener_open(const char *address, const sk_link_security *s, sk_listener **out, sk_err *e);
const char *sk_listener_address(const sk_listener *l);
/* Waits for a peer that completes the handshake. Peers that do not (wrong certificate, plaintext, silent for 5 s) are
 * logged and dropped, several at a time, without delaying others. SKIPPY_E_NOT_FOUND: nobody within timeout_ms;
 * SKIPPY_E_CANCELLED: closed. */
int sk_listener_accept(sk_listener *l, const sk_link_options *o, uint32_t timeout_ms, sk_link **out, sk_err *e);
/* Wakes up accept from another thread; then close. */
void sk_listener_cancel(sk_listener *l);
void sk_listener_close(sk_listener *l);

/* Sends frames (one or more, encoded, lengths included): takes the content of b, which is empty afterwards. Waits while
 * more than queue_max bytes wait. chunk: costs one credit and waits for it. deadline_ns (sk_now_ns, 0 = none). Errors:
 * SKIPPY_E_TIMEOUT, SKIPPY_E_IO (down; the text says why). */
int sk_link_send(sk_link *l, sk_buf *b, bool chunk, uint64_t deadline_ns, sk_err *e);
/* Like send, but never waits: SKIPPY_E_BUSY when it would have to (b stays). */
int sk_link_try_send(sk_link *l, sk_buf *b, bool chunk, sk_err *e);
/* Adds credits that the peer granted (WELCOME, CREDIT frames: the owner passes them on). */
void sk_link_add_credits(sk_link *l, uint32_t n);
uint32_t sk_link_credits(const sk_link *l);

/* Takes the next frame: bytes behind its length field, malloc'ed, owned by the caller. SKIPPY_E_NOT_FOUND: none within
 * timeout_ms (0 = do not wait); SKIPPY_E_IO: down and nothing left to take. */
int sk_link_receive(sk_link *l, uint32_t timeout_ms, uint8_t **bytes, size_t *len, sk_err *e);
/* Largest length field accepted from now on; a larger one ends the link before anything is allocated. Begins at 64 KiB.
 */
void sk_link_set_limit(sk_link *l, uint32_t max_length);

bool sk_link_is_down(const sk_link *l);
/* Why, for people; "" while it is up. Copied to buf, returned. */
const char *sk_link_reason(sk_link *l, char *buf, size_t cap);
const char *sk_link_peer(const sk_link *l); /* address, for people */
typedef struct sk_link_stats {
    uint64_t frames_out, frames_in; /* without PING and PONG */
    uint64_t bytes_out, bytes_in;   /* with them; before encryption */
    double round_trip_ms;           /* of the last PING; 0 = none yet */
    bool encrypted;
} sk_link_stats;
void sk_link_get_stats(const sk_link *l, sk_link_stats *out);
/* Sends what waits (at most linger_ms), closes, ends the thread, frees. l may be NULL. */
void sk_link_close(sk_link *l, uint32_t linger_ms);

/* ---- certificates ---- */

/* Makes an authority and one certificate for each name (host name or IP address, "head" for the head) in dir: ca.crt,
 * ca.key, NAME.crt, NAME.key; keys have mode 0600, P-256, valid for `days`. An authority that is there already is used
 * on, existing certificates are refused unless force. Names go into the certificates as subject alternative names. */
int sk_link_certs(const char *dir, const char *const *names, size_t n_names, uint32_t days, bool force, sk_err *e);

#endif
