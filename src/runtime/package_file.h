/* Files of a package: opened only when their content is what the manifest says, and published whole or not at all.
 * Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_PACKAGE_FILE_H
#define SKIPPY_RUNTIME_PACKAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/slice.h"

/* Bytes done over several steps. A zeroed one counts and asks nobody. */
typedef struct sk_byte_meter {
    sk_slice_progress report; /* may be NULL */
    void *ud;
    uint64_t done, total;
} sk_byte_meter;

/* False when whoever watches wants to stop. */
bool sk_byte_meter_add(sk_byte_meter *m, uint64_t n);

/* Makes dir and its missing parents with this mode. Errors: SKIPPY_E_IO (dir is not a folder afterwards). */
int sk_package_make_folder(const char *dir, unsigned mode, sk_err *e);

/* Compares size and BLAKE3 of an open file; reads it from its beginning, without moving its position. name: for words.
 * Errors: SKIPPY_E_CORRUPT, SKIPPY_E_IO, SKIPPY_E_CANCELLED. */
int sk_package_check_file(int fd, const char *name, uint64_t bytes, const skippy_key *digest, sk_byte_meter *m,
                          sk_err *e);

/* Opens a file for reading whose content is right. What is read from *fd later is what was checked, as long as nobody
 * writes into the file. Errors: SKIPPY_E_NOT_FOUND, those of sk_package_check_file. */
int sk_package_open_file(const char *path, uint64_t bytes, const skippy_key *digest, sk_byte_meter *m, int *fd,
                         sk_err *e);

/* Reads a whole file of at most max bytes. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_TOO_LARGE, SKIPPY_E_IO, SKIPPY_E_NOMEM.
 */
int sk_package_read_file(const char *path, size_t max, sk_buf *out, sk_err *e);

/* Writes everything; false with errno. */
bool sk_package_write_all(int fd, const void *data, size_t n);
/* Puts a finished file into its place: synced, renamed, the folder synced. fd is of the file `from`. SKIPPY_E_IO. */
int sk_package_publish(int fd, const char *from, const char *to, const char *folder, sk_err *e);

#endif
