/* libskippy-cache: an exact prefix cache to embed in an inference engine. This header includes the whole library.
 *
 * Reading order: error.h (codes), identity.h (what may be shared), policy.h (which lengths to look up and record),
 * index.h (what covers the longest beginning of a prompt), resident.h (what to keep and what to evict).
 * examples/embed.c shows them together.
 *
 * CAVEATS, read first:
 *  - The library stores numbers and decides; the caller's engine holds and moves the state. Every header says in which
 *    order the two must act.
 *  - Objects are not thread-safe unless their header says so (the stores): one owner thread for each, or the caller's
 *    lock. There is no global state, so different objects may be used from different threads.
 *  - Passing NULL for an object is an error (SKIPPY_E_INVALID) where a function can report one; destroy functions
 * accept NULL; statistics, comparison and list functions require valid pointers.
 *  - Before version 1.0 the stable part may still change between minor versions. The experimental part (activation.h,
 *    benefit.h, payload.h, ram_store.h, disk_store.h) may change in any version: define SKIPPY_EXPERIMENTAL before the
 *    include to use it. */
#ifndef SKIPPY_SKIPPY_H
#define SKIPPY_SKIPPY_H

#include "skippy/allocator.h"
#include "skippy/error.h"
#include "skippy/identity.h"
#include "skippy/index.h"
#include "skippy/policy.h"
#include "skippy/resident.h"

#ifdef SKIPPY_EXPERIMENTAL
#include "skippy/activation.h"
#include "skippy/benefit.h"
#include "skippy/disk_store.h"
#include "skippy/payload.h"
#include "skippy/ram_store.h"
#endif

/* Version of these headers. */
#define SKIPPY_VERSION_MAJOR 0
#define SKIPPY_VERSION_MINOR 1
#define SKIPPY_VERSION_PATCH 0
#define SKIPPY_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library that is linked: compare with SKIPPY_VERSION_STRING to find a mixed installation.
 * The string is static. Thread-safe. */
SKIPPY_API const char *skippy_version(void);

#ifdef __cplusplus
}
#endif
#endif
