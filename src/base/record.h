/* Small records of fixed size in a private directory: what was measured once and need not be measured again.
 *
 * A record holds its own magic, key and checksum; this module only moves the bytes. Losing one costs time, never
 * correctness, so nothing here reports why it failed. Thread-safety: all functions may be called at any time; a reader
 * sees the old record or the new one, never a part. */
#ifndef SKIPPY_BASE_RECORD_H
#define SKIPPY_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SK_RECORD_NAME_HEX 32

/* Writes "<dir>/<first 32 hex digits of key><suffix>"; key has at least 16 bytes. False when it does not fit. */
bool sk_record_path(char *out, size_t cap, const char *dir, const uint8_t *key, const char *suffix);
/* Reads exactly len bytes. False for anything but a regular file of that length which belongs to this user and which
 * nobody else can write: a forged record would be believed. Links are not followed. */
bool sk_record_load(const char *path, void *bytes, size_t len);
/* Writes the record at path, which lies in dir; dir and its missing parents are created with mode 0700, the record with
 * 0600. False when it could not be written; no temporary file is left then. */
bool sk_record_save(const char *dir, const char *path, const void *bytes, size_t len);

/* Little endian numbers, the form in which records keep them. */
void sk_put_u32(uint8_t *out, uint32_t v);
void sk_put_u64(uint8_t *out, uint64_t v);
uint32_t sk_get_u32(const uint8_t *in);

#endif
