/* llama.cpp is C++ behind a C interface, and a few of its functions throw (a grammar that rejects the text which
 * triggered it, a trigger that is not a regular expression). C cannot catch, and an exception that nobody catches ends
 * the process. The one C++ file of this repository installs a function that can; runtime/ calls what may throw through
 * it. */
#ifndef SKIPPY_RUNTIME_NATIVE_GUARD_H
#define SKIPPY_RUNTIME_NATIVE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs fn(ud). Returns true when it returned; false when it threw: then msg holds the exception's text. */
typedef bool (*sk_native_guard)(void (*fn)(void *ud), void *ud, char *msg, size_t cap);

/* Call once at start-up, before the first sampler exists. */
void sk_native_guard_install(sk_native_guard guard);
/* Runs fn(ud) inside the installed guard, or directly when there is none. */
bool sk_native_call(void (*fn)(void *ud), void *ud, char *msg, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
