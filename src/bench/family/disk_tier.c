#include "bench/family/disk_tier.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/interrupt.h"

/* A server copies out an entry at a time when it has nothing else to do: so many looks without a change mean that it
 * has no more. */
enum { POLL_MS = 100, QUIET_LOOKS = 8 };

static uint64_t metric(const char *text, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ') {
            return strtoull(line + n + 1, NULL, 10);
        }
    }
    return 0;
}

void sk_disk_tier_parse(const char *metrics, sk_disk_tier *out) {
    *out = (sk_disk_tier){.ready = metric(metrics, "skippy_disk_ready") == 1,
                          .staged = metric(metrics, "skippy_staging_bytes"),
                          .puts = metric(metrics, "skippy_store_puts_total{tier=\"disk\"}")};
}

int sk_disk_tier_read(sk_endpoint *ep, sk_disk_tier *out, sk_err *e) {
    *out = (sk_disk_tier){0};
    const int rc = sk_http_client_request(&ep->http, "GET", "/metrics", NULL, 0, &ep->response, e);
    if (rc == SKIPPY_OK && ep->response.status == 200 && ep->response.body.data) {
        sk_disk_tier_parse(ep->response.body.data, out);
    }
    return rc;
}

/* False when the time is up, or a signal came. */
static bool pause_until(uint64_t deadline) {
    const struct timespec t = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&t, NULL);
    return !sk_interrupted() && sk_now_ns() < deadline;
}

static uint64_t deadline_in(int timeout_ms) {
    return sk_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

bool sk_disk_tier_wait_written(sk_endpoint *ep, int timeout_ms) {
    const uint64_t deadline = deadline_in(timeout_ms);
    uint64_t puts = 0;
    int quiet = 0;
    do {
        sk_disk_tier now;
        if (sk_disk_tier_read(ep, &now, NULL) != SKIPPY_OK) {
            return false;
        }
        if (!now.ready) {
            return true;
        }
        quiet = now.staged == 0 && now.puts == puts ? quiet + 1 : 0;
        puts = now.puts;
    } while (quiet < QUIET_LOOKS && pause_until(deadline));
    return quiet >= QUIET_LOOKS;
}

bool sk_disk_tier_wait_ready(sk_endpoint *ep, int timeout_ms) {
    const uint64_t deadline = deadline_in(timeout_ms);
    sk_disk_tier now = {0};
    do {
        if (sk_disk_tier_read(ep, &now, NULL) != SKIPPY_OK) {
            return false;
        }
    } while (!now.ready && pause_until(deadline));
    return now.ready;
}
