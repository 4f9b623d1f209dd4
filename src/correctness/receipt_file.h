/* Files of receipts: JSON with a digest over its own content, written whole or not at all.
 * Internal to receipt.c and stage_receipt.c. */
#ifndef SKIPPY_CORRECTNESS_RECEIPT_FILE_H
#define SKIPPY_CORRECTNESS_RECEIPT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

/* dir "/" name. SKIPPY_E_TOO_SMALL. */
int sk_receipt_path(char *buf, size_t cap, const char *dir, const char *name, sk_err *e);
/* Writes (or replaces) dir/name, mode 0600; dir and its missing parents are made, mode 0700. content is borrowed.
 * Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM, SKIPPY_E_TOO_SMALL. */
int sk_receipt_save(const char *dir, const char *name, const char *format, int version, const json_t *content,
                    sk_err *e);
/* Reads a receipt of this format and version whose digest is right. *content is a new reference. Errors:
 * SKIPPY_E_NOT_FOUND (no such file; no words), SKIPPY_E_CORRUPT, SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_receipt_load(const char *path, const char *format, int version, json_t **content, sk_err *e);
/* SKIPPY_E_CORRUPT, with the file's name and why. */
int sk_receipt_invalid(const char *path, const char *why, sk_err *e);

/* A string of an object; "" when it is not there. */
const char *sk_receipt_text(const json_t *o, const char *key);
/* False when it is not there or does not fit. */
bool sk_receipt_copy(const json_t *o, const char *key, char *buf, size_t cap);

#endif
