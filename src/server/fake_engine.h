/* Test double of the engine: the test plays the engine thread. Linked in place of skippy-engine. */
#ifndef SKIPPY_SERVER_FAKE_ENGINE_H
#define SKIPPY_SERVER_FAKE_ENGINE_H

#include "engine/engine.h"

/* Forgets all jobs and settings. */
void fake_engine_reset(void);
/* Jobs answer themselves inside submit: START, one TEXT, DONE. */
void fake_engine_set_auto(bool on);
/* The next submits fail with this code (0 = succeed again). */
void fake_engine_refuse(int code, const char *text);
/* After this many successful submits the refusal begins (with fake_engine_refuse). */
void fake_engine_accept_first(unsigned n);
/* Waits until n jobs were submitted since the reset; false after 10 s. */
bool fake_engine_wait_jobs(size_t n);
/* Waits until the job (0 = first since the reset) is cancelled; false after 10 s. */
bool fake_engine_wait_cancel(size_t job);
size_t fake_engine_jobs(void);
bool fake_engine_is_drained(void);
/* The engine is gone, as after sk_engine_stop: whoever uses it from now on until the reset ends the test program.
 * Events can still be sent: a real engine sends the last ones while it stops. */
void fake_engine_stop(void);
/* Tenant of a job, "" when none. */
const char *fake_engine_tenant(size_t job);
/* Events, sent on the calling thread. Each job must get exactly one done or error. */
void fake_engine_start_job(size_t job);
void fake_engine_text(size_t job, const char *text);
void fake_engine_done(size_t job);
void fake_engine_error(size_t job, int code, const char *text);
/* What the last sk_engine_erase_matching was asked for: "tenant|namespace|number of tokens". */
extern char fake_engine_erased[128];
/* What sk_engine_get_stats reports. */
extern sk_engine_stats fake_engine_stats;

#endif
