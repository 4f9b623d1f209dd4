/* Receipts: size and SHA-256 of the files that a measurement leaves, and how its processes ended. Thread-safe (no
 * shared state). */
#ifndef SKIPPY_BENCH_FAMILY_RECEIPT_H
#define SKIPPY_BENCH_FAMILY_RECEIPT_H

#include <jansson.h>

#include "base/err.h"

/* {"path": shown, "bytes", "sha256"} as a new reference in *out. Errors: those of sk_sha256_file, SKIPPY_E_NOMEM. */
int sk_receipt_file(const char *path, const char *shown, json_t **out, sk_err *e);
/* One such object for each regular file below folder, with its path relative to folder, ordered by name. Links and the
 * relative paths in `except` (ends with NULL; may be NULL) are left out. Errors: SKIPPY_E_IO, those of
 * sk_receipt_file. */
int sk_receipt_folder(const char *folder, const char *const *except, json_t **out, sk_err *e);
/* {"code": n} or {"signal": n} of a status as waitpid gives it. NULL when out of memory. */
json_t *sk_receipt_exit(int status);
/* Makes `to` the same file as `from`: a link, or a copy where the file system has none. An earlier file is replaced.
 * Errors: SKIPPY_E_IO. */
int sk_receipt_share(const char *from, const char *to, sk_err *e);

#endif
