/* Fetching the files of a package over HTTP or HTTPS.
 *
 * CAVEATS, read first:
 *  - Nothing that came over the network is used before its size and its BLAKE3 were compared with the manifest.
 *  - Other schemes are refused, also as the target of a redirect; https never leads to http.
 *  - Name and password in a URL, and its query (which may be a signed token), never appear in an error's text.
 *  - A proxy is taken from the environment, as other programs do (http_proxy, https_proxy, no_proxy).
 *
 * Thread-safety: a fetcher belongs to one thread; several fetchers may be used at the same time, also for the same
 * file. */
#ifndef SKIPPY_RUNTIME_PART_FETCH_H
#define SKIPPY_RUNTIME_PART_FETCH_H

#include "base/buf.h"
#include "runtime/slice.h"

/* Zero means the default. */
typedef struct sk_fetch_limits {
    uint32_t connect_s; /* until a connection stands; default 15 */
    uint32_t stall_s;   /* without a byte; default 30 */
    uint32_t attempts;  /* in a row that brought (nearly) nothing; default 5 */
    uint32_t pause_ms;  /* before the second attempt, doubled before each further one; default 250 */
} sk_fetch_limits;

typedef struct sk_part_fetch sk_part_fetch;

/* ca_file: PEM of authorities to trust instead of the system's; NULL = the system's. limits: NULL = defaults.
 * Errors: SKIPPY_E_NOMEM, SKIPPY_E_IO (ca_file cannot be read), SKIPPY_E_RUNTIME (libcurl cannot start). */
int sk_part_fetch_open(const char *ca_file, const sk_fetch_limits *limits, sk_part_fetch **out, sk_err *e);
void sk_part_fetch_close(sk_part_fetch *f); /* NULL is fine */

/* Appends a small document to *out. Errors: SKIPPY_E_INVALID (not an http or https URL), SKIPPY_E_NOT_FOUND (404, 410),
 * SKIPPY_E_TOO_LARGE (more than max bytes), SKIPPY_E_IO with the HTTP status or the reason, SKIPPY_E_NOMEM. */
int sk_part_fetch_text(sk_part_fetch *f, const char *url, size_t max, sk_buf *out, sk_err *e);

typedef struct sk_part_order {
    const char *url, *path; /* path: where the finished file goes; "<path>.part" holds what has come so far */
    uint64_t bytes;
    const skippy_key *digest;
    sk_slice_progress progress; /* bytes of this file; may be NULL; false stops and keeps what has come */
    void *progress_ud;
} sk_part_order;

/* Brings a file, verified, and opens it for reading. What is there already is not fetched again: neither a finished
 * file nor the beginning that an earlier run left, which is continued by a range request. A beginning that turns out to
 * be of another file is dropped once, and everything fetched anew. Two processes that fetch the same file take turns:
 * the second finds the first one's. *fetched (may be NULL): false when the finished file was there.
 * Errors: SKIPPY_E_INVALID, SKIPPY_E_NOT_FOUND, SKIPPY_E_CORRUPT (other size or digest than ordered), SKIPPY_E_IO,
 * SKIPPY_E_CANCELLED. */
int sk_part_fetch_file(sk_part_fetch *f, const sk_part_order *o, int *fd, bool *fetched, sk_err *e);

/* Is this an http or https URL? Of the schemes that look like one, SKIPPY_E_INVALID in words; a path is SKIPPY_OK with
 * *is_url false. */
int sk_part_fetch_is_url(const char *location, bool *is_url, sk_err *e);

#endif
