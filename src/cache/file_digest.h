/* Content digests of files, and the records that save reading a large file twice.
 *
 * Record of one file: <cache_dir>/<first 32 hex digits of BLAKE3(canonical path)>.digest, little endian:
 *
 *   offset  size  field
 *        0     8  magic "skippyD1"
 *        8     8  file size in bytes
 *       16     8  modification time, ns since 1970 (two's complement)
 *       24     8  status-change time, ns since 1970 (two's complement)
 *       32     8  inode number
 *       40    32  BLAKE3-256 of the canonical path
 *       72    32  BLAKE3-256 of the content
 *      104    32  BLAKE3-256 of bytes 0..103
 *
 * The status-change time is there because a program can set the modification time back after an edit, and cannot set
 * this one. */
#ifndef SKIPPY_CACHE_FILE_DIGEST_H
#define SKIPPY_CACHE_FILE_DIGEST_H

#include <stdint.h>

#include "skippy/identity.h"

enum { SK_DIGEST_RECORD_BYTES = 136 };

/* A file that changed less than this before its reading began gets no record: another change within the granularity
 * of the file system's clock (2 s on FAT) would leave the same times. The price is one more reading at the next start.
 */
#define SK_DIGEST_SETTLE_NS UINT64_C(2000000000)

/* skippy_file_digest with the settling time as an argument. */
int sk_file_digest(const char *path, const char *cache_dir, uint64_t settle_ns, skippy_progress_fn progress, void *ud,
                   skippy_key *out, bool *from_cache);

#endif
