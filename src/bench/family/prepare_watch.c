#include "bench/family/prepare_watch.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/clock.h"
#include "bench/interrupt.h"

/* Smaller things are hashed before anybody could read a percentage. */
static const uint64_t BIG_BYTES = (uint64_t)512 << 20;

enum { STEP_PERCENT = 10 };

void sk_prepare_say(const sk_prepare_watch *w, const char *fmt, ...) {
    va_list args;
    if (!w->progress) return;
    va_start(args, fmt);
    vfprintf(w->progress, fmt, args);
    va_end(args);
    fputc('\n', w->progress);
    fflush(w->progress);
}

static void say_percent(sk_prepare_watch *w, uint64_t done) {
    if (w->total < BIG_BYTES) return;
    const unsigned now = (unsigned)((done < w->total ? done : w->total) / (w->total / 100));
    if (now < w->percent + STEP_PERCENT || now >= 100) return;
    w->percent = now;
    sk_prepare_say(w, "  %s: %u %% of %.1f GiB", w->what, now, (double)w->total / (double)((uint64_t)1 << 30));
}

static int keep_going(void *ud, uint64_t done) {
    sk_prepare_watch *w = ud;
    say_percent(w, done);
    return sk_prepare_may_go_on(w, NULL) == SKIPPY_OK;
}

sk_sha256_watch sk_prepare_hashing(sk_prepare_watch *w, const char *what, uint64_t total) {
    snprintf(w->what, sizeof w->what, "%s", what);
    w->total = total;
    w->percent = 0;
    return (sk_sha256_watch){.keep_going = keep_going, .ud = w};
}

int sk_prepare_may_go_on(const sk_prepare_watch *w, sk_err *e) {
    if (sk_interrupted()) return sk_err_set(e, SKIPPY_E_CANCELLED, "the preparation was stopped by a signal");
    if (sk_now_ns() >= w->deadline_ns)
        return sk_err_set(e, SKIPPY_E_TIMEOUT,
                          "the preparation took longer than preparation_seconds (%" PRIu32 "); give it more time",
                          w->limit_s);
    return SKIPPY_OK;
}

int sk_prepare_reason(const sk_prepare_watch *w, int rc, sk_err *e) {
    if (rc != SKIPPY_E_CANCELLED) return rc;
    const int reason = sk_prepare_may_go_on(w, e);
    return reason == SKIPPY_OK ? rc : reason;
}
