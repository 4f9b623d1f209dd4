#include "runtime/part_transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* State of a request while libcurl calls back. */
typedef struct run {
    CURL *curl;
    sk_transfer *t;
    uint64_t start;                    /* first byte that was asked for */
    uint64_t range_start, range_total; /* of Content-Range; total 0 = not told */
    bool has_range, body_began;
    enum sk_transfer_end verdict; /* why a callback ended the transfer; SK_TRANSFER_DONE = it did not */
    int write_errno;
} run;

void sk_transfer_public_url(const char *url, char *out, size_t cap) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *end = host + strcspn(host, "?#");
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));
    const char *rest = at ? at + 1 : host;
    snprintf(out, cap, "%.*s%.*s", (int)(host - url), url, (int)(end - rest), rest);
}

/* ---- headers ---- */

/* "bytes 100-199/200"; false when it is anything else. */
static bool parse_range(const char *value, run *r) {
    char *end;
    while (*value == ' ') value++;
    if (strncasecmp(value, "bytes ", 6) != 0) return false;
    const char *p = value + 6;
    if (*p < '0' || *p > '9') return false;
    r->range_start = strtoull(p, &end, 10);
    if (*end != '-') return false;
    (void)strtoull(end + 1, &end, 10);
    if (*end != '/') return false;
    r->range_total = end[1] >= '0' && end[1] <= '9' ? strtoull(end + 1, NULL, 10) : 0;
    return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *ud) {
    static const char name[] = "content-range:";
    run *r = ud;
    char text[128];
    const size_t len = size * n;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) r->has_range = false; /* a redirect's headers say nothing */
    if (len >= sizeof name && len < sizeof text && strncasecmp(line, name, sizeof name - 1) == 0) {
        memcpy(text, line, len);
        text[len] = '\0';
        r->has_range = parse_range(text + sizeof name - 1, r);
    }
    return len;
}

/* ---- body ---- */

/* Decides by the head of the response what its body is: the rest that was asked for, or everything. */
static bool begin_body(run *r) {
    long status = 0;
    r->body_began = true;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (r->start == 0) return true;
    if (status == 206) {
        const bool same_size = !r->t->exact || r->range_total == 0 || r->range_total == r->t->limit;
        if (r->has_range && r->range_start == r->start && same_size) return true;
        r->verdict = SK_TRANSFER_OTHER;
        return false;
    }
    r->t->have = 0;
    if (r->t->fd >= 0 && ftruncate(r->t->fd, 0) != 0) {
        r->write_errno = errno;
        return false;
    }
    if (r->t->text) sk_buf_clear(r->t->text);
    return true;
}

static bool store(run *r, const char *data, size_t n) {
    sk_transfer *t = r->t;
    if (t->fd < 0) {
        sk_buf_add(t->text, data, n);
        return !t->text->failed;
    }
    for (size_t done = 0; done < n;) {
        const ssize_t k = pwrite(t->fd, data + done, n - done, (off_t)(t->have + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            r->write_errno = errno;
            return false;
        }
        done += (size_t)k;
    }
    return true;
}

static size_t on_body(char *data, size_t size, size_t n, void *ud) {
    run *r = ud;
    const size_t len = size * n;
    if (!r->body_began && !begin_body(r)) return CURL_WRITEFUNC_ERROR;
    if (len > r->t->limit - r->t->have) {
        r->verdict = SK_TRANSFER_TOO_LARGE;
        return CURL_WRITEFUNC_ERROR;
    }
    if (!store(r, data, len)) return CURL_WRITEFUNC_ERROR;
    r->t->have += len;
    return len;
}

static int on_progress(void *ud, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up) {
    run *r = ud;
    (void)down_total, (void)down, (void)up_total, (void)up;
    if (!r->t->progress || r->t->progress(r->t->progress_ud, r->t->have, r->t->limit)) return 0;
    r->verdict = SK_TRANSFER_STOPPED;
    return 1;
}

/* ---- the request ---- */

static bool set_up(run *r) {
    sk_transfer *t = r->t;
    char range[32];
    snprintf(range, sizeof range, "%" PRIu64 "-", r->start);
    /* https stays https: a redirect must not take the protection away. */
    const char *onward = strncasecmp(t->url, "https:", 6) == 0 ? "https" : "http,https";
    return curl_easy_setopt(r->curl, CURLOPT_URL, t->url) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_REDIR_PROTOCOLS_STR, onward) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_RANGE, r->start ? range : NULL) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->limit) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_HEADERDATA, r) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(r->curl, CURLOPT_XFERINFODATA, r) == CURLE_OK;
}

/* A peer that hangs up during a TLS write would end the process by SIGPIPE: it is held back for this thread, and taken
 * off if it came. */
static CURLcode perform(CURL *curl) {
    const struct timespec at_once = {0, 0};
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    const CURLcode code = curl_easy_perform(curl);
    if (!sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static enum sk_transfer_end http_error(const run *r, const char *url, sk_err *e) {
    long status = 0;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 416 && r->start > 0) return SK_TRANSFER_OTHER;
    const bool missing = status == 404 || status == 410;
    sk_err_set(e, missing ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "%s: the server answers HTTP %ld%s", url, status,
               missing                          ? " (there is no such file)"
               : status == 401 || status == 403 ? " (access denied)"
                                                : "");
    switch (status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return SK_TRANSFER_AGAIN;
    default: return SK_TRANSFER_FAILED;
    }
}

static bool worth_another_attempt(CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR: return true;
    default: return false;
    }
}

static enum sk_transfer_end explain(const run *r, CURLcode code, sk_err *e) {
    char url[300];
    long os_errno = 0;
    sk_transfer_public_url(r->t->url, url, sizeof url);
    if (code == CURLE_FILESIZE_EXCEEDED) return SK_TRANSFER_TOO_LARGE;
    if (code == CURLE_HTTP_RETURNED_ERROR) return http_error(r, url, e);
    if (r->write_errno) {
        sk_err_set(e, SKIPPY_E_IO, "%s: what comes cannot be stored: %s", url, strerror(r->write_errno));
        return SK_TRANSFER_FAILED;
    }
    if (r->t->text && r->t->text->failed) {
        sk_err_set(e, SKIPPY_E_NOMEM, "%s: out of memory", url);
        return SK_TRANSFER_FAILED;
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        sk_err_set(e, SKIPPY_E_IO, "%s: the server's certificate is not of an authority that is trusted here", url);
        return SK_TRANSFER_FAILED;
    }
    if (code == CURLE_COULDNT_CONNECT) curl_easy_getinfo(r->curl, CURLINFO_OS_ERRNO, &os_errno); /* else an old one */
    sk_err_set(e, SKIPPY_E_IO, "%s cannot be fetched: %s%s%s", url, curl_easy_strerror(code), os_errno ? ": " : "",
               os_errno ? strerror((int)os_errno) : "");
    return worth_another_attempt(code) ? SK_TRANSFER_AGAIN : SK_TRANSFER_FAILED;
}

enum sk_transfer_end sk_transfer_run(CURL *curl, sk_transfer *t, sk_err *e) {
    run r = {.curl = curl, .t = t, .start = t->have};
    if (!set_up(&r)) {
        sk_err_set(e, SKIPPY_E_INVALID, "libcurl does not take the request: is the URL whole?");
        return SK_TRANSFER_FAILED;
    }
    const CURLcode code = perform(curl);
    if (r.verdict != SK_TRANSFER_DONE) return r.verdict;
    return code == CURLE_OK ? SK_TRANSFER_DONE : explain(&r, code, e);
}
