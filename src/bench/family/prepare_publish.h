/* The preparation's last file, which makes it valid: it is there whole and in time, or not at all. */
#ifndef SKIPPY_BENCH_FAMILY_PREPARE_PUBLISH_H
#define SKIPPY_BENCH_FAMILY_PREPARE_PUBLISH_H

#include <jansson.h>

#include "bench/family/prepare_watch.h"

/* Errors: SKIPPY_E_NOMEM, SKIPPY_E_IO, SKIPPY_E_TOO_LARGE (more than the reader takes: 64 MiB). */
int sk_prepare_write_json(const char *path, const json_t *json, sk_err *e);
/* Writes the file and asks the watch afterwards: when a signal or the deadline came meanwhile, the file is removed
 * again. Errors: those of sk_prepare_write_json and sk_prepare_may_go_on. */
int sk_prepare_publish(const char *path, const json_t *json, const sk_prepare_watch *w, sk_err *e);

#endif
