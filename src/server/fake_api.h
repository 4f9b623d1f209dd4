/* Control over the test double of the API layer (fake_api.c). A body with "slow":true is read only after the test has
 * opened the gate. */
#ifndef SKIPPY_SERVER_FAKE_API_H
#define SKIPPY_SERVER_FAKE_API_H

#include <stdbool.h>
#include <stddef.h>

/* Closes the gate and forgets what was counted. */
void fake_api_reset(void);
/* Lets every slow body pass, those that come later too. */
void fake_api_open_gate(void);
/* Waits until n slow bodies have reached the gate since the reset; false after 10 s. */
bool fake_api_wait_at_gate(size_t n);
/* Bodies, slow or not, that were read since the reset. */
size_t fake_api_reads(void);
/* Calls that exist now: parsed and not freed. */
size_t fake_api_calls(void);

#endif
