#include "runtime/part_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/package_file.h"
#include "runtime/part_transfer.h"

enum { CONNECT_S = 15, STALL_S = 30, ATTEMPTS = 5, PAUSE_MS = 250, MOST_REDIRECTS = 5 };
/* An attempt that brought so much counts as a success: a large part over a bad line may need many. */
#define PROGRESS_BYTES ((uint64_t)1 << 20)

struct sk_part_fetch {
    CURL *curl;
    sk_fetch_limits limits;
};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static CURLcode start_code;

static void start_libcurl(void) {
    start_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

/* Options that hold for every request. */
static bool set_up(CURL *c, const sk_fetch_limits *l, const char *ca_file) {
    return curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)l->connect_s) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)l->stall_s) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_USERAGENT, "skippy") == CURLE_OK &&
           (!ca_file || curl_easy_setopt(c, CURLOPT_CAINFO, ca_file) == CURLE_OK);
}

int sk_part_fetch_open(const char *ca_file, const sk_fetch_limits *limits, sk_part_fetch **out, sk_err *e) {
    const sk_fetch_limits none = {0};
    const sk_fetch_limits *given = limits ? limits : &none;
    *out = NULL;
    pthread_once(&started, start_libcurl);
    if (start_code != CURLE_OK)
        return sk_err_set(e, SKIPPY_E_RUNTIME, "libcurl cannot start: %s", curl_easy_strerror(start_code));
    if (ca_file && access(ca_file, R_OK) != 0)
        return sk_err_set(e, SKIPPY_E_IO, "the file of authorities %.300s cannot be read: %s", ca_file,
                          strerror(errno));
    sk_part_fetch *f = calloc(1, sizeof *f);
    if (!f) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    f->limits = (sk_fetch_limits){
        .connect_s = or_default(given->connect_s, CONNECT_S),
        .stall_s = or_default(given->stall_s, STALL_S),
        .attempts = or_default(given->attempts, ATTEMPTS),
        .pause_ms = or_default(given->pause_ms, PAUSE_MS),
    };
    f->curl = curl_easy_init();
    if (!f->curl || !set_up(f->curl, &f->limits, ca_file)) {
        sk_part_fetch_close(f);
        return sk_err_set(e, SKIPPY_E_RUNTIME, "libcurl does not offer what is needed (HTTP and HTTPS)");
    }
    *out = f;
    return SKIPPY_OK;
}

void sk_part_fetch_close(sk_part_fetch *f) {
    if (!f) return;
    curl_easy_cleanup(f->curl); /* NULL is fine */
    free(f);
}

int sk_part_fetch_is_url(const char *location, bool *is_url, sk_err *e) {
    char shown[200];
    *is_url = strncasecmp(location, "http://", 7) == 0 || strncasecmp(location, "https://", 8) == 0;
    if (*is_url || (!strstr(location, "://") && strncasecmp(location, "file:", 5) != 0)) return SKIPPY_OK;
    sk_transfer_public_url(location, shown, sizeof shown);
    return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is neither a folder nor an http:// or https:// URL", shown);
}

/* ---- attempts ---- */

/* Attempts in a row that failed. */
typedef struct patience {
    const sk_fetch_limits *limits;
    uint32_t failed;
} patience;

/* After an attempt that brought `gained` bytes: true when there is to be another, which has been waited for. */
static bool another(patience *p, uint64_t gained) {
    p->failed = gained >= PROGRESS_BYTES ? 1 : p->failed + 1;
    if (p->failed >= p->limits->attempts) return false;
    const uint32_t doublings = p->failed - 1 < 6 ? p->failed - 1 : 6;
    const uint64_t ms = (uint64_t)p->limits->pause_ms << doublings;
    const struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal cuts it short: the progress function is asked next */
    return true;
}

static int too_large(const sk_transfer *t, int code, sk_err *e) {
    char url[300];
    sk_transfer_public_url(t->url, url, sizeof url);
    return sk_err_set(e, code, "%s is larger than %" PRIu64 " bytes", url, t->limit);
}

int sk_part_fetch_text(sk_part_fetch *f, const char *url, size_t max, sk_buf *out, sk_err *e) {
    bool is_url;
    sk_buf text = {0};
    patience p = {.limits = &f->limits};
    sk_transfer t = {.url = url, .fd = -1, .text = &text, .limit = max};
    int rc = sk_part_fetch_is_url(url, &is_url, e);
    if (rc == SKIPPY_OK && !is_url) rc = sk_err_set(e, SKIPPY_E_INVALID, "only http:// and https:// can be fetched");
    if (rc != SKIPPY_OK) return rc;
    sk_err why = {0};
    enum sk_transfer_end end;
    do {
        sk_buf_clear(&text); /* a document of this size is not worth a range request */
        t.have = 0;
        end = sk_transfer_run(f->curl, &t, &why);
    } while (end == SK_TRANSFER_AGAIN && another(&p, 0));
    if (end == SK_TRANSFER_DONE) sk_buf_add(out, text.data ? text.data : "", text.len);
    if (end == SK_TRANSFER_TOO_LARGE)
        rc = too_large(&t, SKIPPY_E_TOO_LARGE, e);
    else if (end != SK_TRANSFER_DONE)
        rc = sk_err_set(e, why.code, "%s", why.text);
    else if (out->failed)
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    sk_buf_free(&text);
    return rc;
}

/* ---- a file ---- */

/* A download under way: the file "<path>.part", locked. */
typedef struct download {
    sk_part_fetch *f;
    const sk_part_order *o;
    char part[PATH_MAX];
    int fd;
    bool old_beginning; /* some of its bytes are from an earlier run or another version */
    bool began_anew;    /* they were dropped once already */
} download;

static bool wanted(const sk_part_order *o, uint64_t have) {
    return !o->progress || o->progress(o->progress_ud, have, o->bytes);
}

static int stopped(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CANCELLED, "stopped; what has come is kept and continued by the next run");
}

/* The lock belongs to the file, not to its name: whoever had it before may have renamed the file meanwhile. */
static bool still_named(const download *d) {
    struct stat mine, named;
    return fstat(d->fd, &mine) == 0 && stat(d->part, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static int open_part(download *d, sk_err *e) {
    for (;;) {
        d->fd = open(d->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (d->fd < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be written: %s", d->part, strerror(errno));
        while (flock(d->fd, LOCK_EX) != 0) {
            if (errno != EINTR) return sk_err_set(e, SKIPPY_E_IO, "%.300s: %s", d->part, strerror(errno));
            if (!wanted(d->o, 0)) return stopped(e);
        }
        if (still_named(d)) return SKIPPY_OK;
        close(d->fd);
        d->fd = -1;
    }
}

static int begin_anew(download *d, sk_transfer *t, sk_err *e) {
    if (ftruncate(d->fd, 0) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s: %s", d->part, strerror(errno));
    t->have = 0;
    d->began_anew = true;
    d->old_beginning = false;
    return SKIPPY_OK;
}

static int not_as_ordered(const download *d, const sk_transfer *t, sk_err *e) {
    char url[300];
    sk_transfer_public_url(d->o->url, url, sizeof url);
    return sk_err_set(e, SKIPPY_E_CORRUPT, "%s has %" PRIu64 " bytes or another content than the manifest says", url,
                      t->have);
}

/* Runs requests until all bytes are there. */
static int complete(download *d, sk_transfer *t, sk_err *e) {
    patience p = {.limits = &d->f->limits};
    while (t->have < t->limit) {
        const uint64_t before = t->have;
        const enum sk_transfer_end end = sk_transfer_run(d->f->curl, t, e);
        const uint64_t gained = t->have > before ? t->have - before : 0;
        int rc = SKIPPY_OK;
        switch (end) {
        case SK_TRANSFER_DONE: /* a server may send less than asked for, but not nothing, again and again */
            if (t->have < t->limit && !another(&p, gained)) rc = not_as_ordered(d, t, e);
            break;
        case SK_TRANSFER_AGAIN:
            if (!another(&p, gained)) rc = e ? e->code : SKIPPY_E_IO;
            break;
        case SK_TRANSFER_OTHER: rc = d->began_anew ? not_as_ordered(d, t, e) : begin_anew(d, t, e); break;
        case SK_TRANSFER_TOO_LARGE: rc = too_large(t, SKIPPY_E_CORRUPT, e); break;
        case SK_TRANSFER_STOPPED: rc = stopped(e); break;
        default: rc = e ? e->code : SKIPPY_E_IO; break;
        }
        if (rc != SKIPPY_OK) return rc;
        if (!wanted(d->o, t->have)) return stopped(e);
    }
    return SKIPPY_OK;
}

/* How much of an earlier run can be continued. */
static int measure(download *d, sk_transfer *t, sk_err *e) {
    struct stat st;
    if (fstat(d->fd, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s: %s", d->part, strerror(errno));
    t->have = (uint64_t)st.st_size;
    d->old_beginning = t->have > 0;
    return t->have > t->limit ? begin_anew(d, t, e) : SKIPPY_OK;
}

static int fetch_verified(download *d, sk_err *e) {
    const sk_part_order *o = d->o;
    sk_byte_meter unwatched = {0};
    sk_transfer t = {.url = o->url,
                     .fd = d->fd,
                     .limit = o->bytes,
                     .exact = true,
                     .progress = o->progress,
                     .progress_ud = o->progress_ud};
    int rc = measure(d, &t, e);
    for (bool more = rc == SKIPPY_OK; more;) {
        more = false;
        rc = complete(d, &t, e);
        if (rc == SKIPPY_OK) rc = sk_package_check_file(d->fd, o->url, o->bytes, o->digest, &unwatched, e);
        if (rc == SKIPPY_E_CORRUPT && d->old_beginning && !d->began_anew) {
            rc = begin_anew(d, &t, e); /* the beginning of another version: not this server's fault */
            more = rc == SKIPPY_OK;
        } else if (rc == SKIPPY_E_CORRUPT) {
            not_as_ordered(d, &t, e); /* in words without the URL's secrets */
            (void)unlink(d->part);    /* nothing of it is worth continuing */
        }
    }
    return rc;
}

static int publish(download *d, sk_err *e) {
    char folder[PATH_MAX];
    const char *slash = strrchr(d->o->path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - d->o->path) : 1, slash ? d->o->path : ".");
    return sk_package_publish(d->fd, d->part, d->o->path, folder, e);
}

static int present(const sk_part_order *o, int *fd, sk_err *e) {
    sk_byte_meter unwatched = {0};
    return sk_package_open_file(o->path, o->bytes, o->digest, &unwatched, fd, e);
}

int sk_part_fetch_file(sk_part_fetch *f, const sk_part_order *o, int *fd, bool *fetched, sk_err *e) {
    download d = {.f = f, .o = o, .fd = -1};
    sk_err local = {0};
    bool is_url;
    if (!e) e = &local;
    if (fetched) *fetched = false;
    *fd = -1;
    int rc = sk_part_fetch_is_url(o->url, &is_url, e);
    if (rc == SKIPPY_OK && !is_url) rc = sk_err_set(e, SKIPPY_E_INVALID, "only http:// and https:// can be fetched");
    const int n = snprintf(d.part, sizeof d.part, "%s.part", o->path);
    if (rc == SKIPPY_OK && (n < 0 || (size_t)n >= sizeof d.part))
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the path of the part is too long");
    if (rc != SKIPPY_OK || present(o, fd, e) == SKIPPY_OK) return rc;
    rc = open_part(&d, e);
    if (rc == SKIPPY_OK && present(o, fd, e) == SKIPPY_OK) { /* another process was quicker */
        (void)unlink(d.part);
        goto out;
    }
    if (rc == SKIPPY_OK) rc = fetch_verified(&d, e);
    if (rc == SKIPPY_OK) rc = publish(&d, e);
    if (rc == SKIPPY_OK) {
        *fd = d.fd;
        if (fetched) *fetched = true;
        flock(d.fd, LOCK_UN);
        return rc;
    }
out:
    if (d.fd >= 0) close(d.fd);
    return rc;
}
