/* Model work at start-up, kept apart from the thread that will serve.
 *
 * GNU OpenMP keeps a team of sleeping workers for every thread that has run a parallel region, as long as that thread
 * lives. As soon as there are more such threads than processors, the workers of all teams stop spinning at barriers and
 * sleep instead: a wake-up for every operation of a graph. Measured on two cores: a decode of 14 rows took 59 ms
 * instead of 50. A decode that the main thread does once at start-up would cost that for as long as the program runs.
 */
#ifndef SKIPPY_RUNTIME_APART_H
#define SKIPPY_RUNTIME_APART_H

/* Runs work(ud) on a thread of its own, waits for its end and returns what it returned. Where no thread can be started
 * the calling thread does it. Thread-safe. */
int sk_run_apart(int (*work)(void *ud), void *ud);

#endif
