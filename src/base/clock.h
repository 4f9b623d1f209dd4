/* Time sources. */
#ifndef SKIPPY_BASE_CLOCK_H
#define SKIPPY_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic time in nanoseconds: for durations and deadlines; jumps of the wall clock do not move it. */
uint64_t sk_now_ns(void);

/* Milliseconds since 1970, by the wall clock: for people and records, never for intervals. Thread-safe. */
uint64_t sk_unix_ms(void);
/* The wall-clock time ms from now, as pthread_cond_timedwait wants it. Thread-safe. */
struct timespec sk_wall_after_ms(uint32_t ms);
/* Wall clock, seconds since 1970 (UTC): for people and `created` fields only. */
int64_t sk_wall_s(void);

#endif
