#include "cache/file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/record.h"

enum { CHUNK_BYTES = 2 << 20, CHECKED_BYTES = SK_DIGEST_RECORD_BYTES - SK_HASH_BYTES };
static const char magic[8] = {'s', 'k', 'i', 'p', 'p', 'y', 'D', '1'};

/* What tells one state of a file from another without reading it. */
typedef struct stamp {
    uint64_t size, mtime_ns, ctime_ns, inode;
    skippy_key path; /* digest of the canonical path */
} stamp;

static uint64_t nanoseconds(struct timespec t) {
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void stamp_fill(stamp *s, const struct stat *st) {
    s->size = (uint64_t)st->st_size;
    s->mtime_ns = nanoseconds(st->st_mtim);
    s->ctime_ns = nanoseconds(st->st_ctim);
    s->inode = (uint64_t)st->st_ino;
}

static bool stamp_equal(const stamp *a, const stamp *b) {
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns && a->inode == b->inode &&
           skippy_key_equal(&a->path, &b->path);
}

/* ---- records ---- */

static void record_encode(uint8_t out[SK_DIGEST_RECORD_BYTES], const stamp *s, const skippy_key *digest) {
    memcpy(out, magic, sizeof magic);
    sk_put_u64(out + 8, s->size);
    sk_put_u64(out + 16, s->mtime_ns);
    sk_put_u64(out + 24, s->ctime_ns);
    sk_put_u64(out + 32, s->inode);
    memcpy(out + 40, s->path.bytes, sizeof s->path.bytes);
    memcpy(out + 72, digest->bytes, sizeof digest->bytes);
    sk_hash(out, CHECKED_BYTES, out + CHECKED_BYTES);
}

/* A record is valid exactly when encoding its own digest for this stamp gives the same bytes: one comparison covers
 * magic, stamp and checksum. */
static bool record_decode(const uint8_t in[SK_DIGEST_RECORD_BYTES], const stamp *s, skippy_key *digest) {
    uint8_t expected[SK_DIGEST_RECORD_BYTES];
    skippy_key found;
    memcpy(found.bytes, in + 72, sizeof found.bytes);
    record_encode(expected, s, &found);
    if (memcmp(in, expected, sizeof expected) != 0) return false;
    *digest = found;
    return true;
}

static bool record_load(const char *path, const stamp *s, skippy_key *digest) {
    uint8_t bytes[SK_DIGEST_RECORD_BYTES];
    return sk_record_load(path, bytes, sizeof bytes) && record_decode(bytes, s, digest);
}

/* Failure is silent by contract: the digest is right without a record. */
static void record_save(const char *dir, const char *path, const stamp *s, const skippy_key *digest) {
    uint8_t bytes[SK_DIGEST_RECORD_BYTES];
    record_encode(bytes, s, digest);
    (void)sk_record_save(dir, path, bytes, sizeof bytes);
}

/* ---- content ---- */

/* Reads until `len` bytes or the end of the file; -1 on an error. */
static ssize_t read_full(int fd, void *data, size_t len) {
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(fd, (char *)data + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int hash_content(int fd, uint64_t total, skippy_progress_fn progress, void *ud, skippy_key *out) {
    uint8_t *chunk = malloc(CHUNK_BYTES);
    if (!chunk) return SKIPPY_E_NOMEM;
    int status = SKIPPY_OK;
    uint64_t done = 0;
    sk_hasher h;
    sk_hash_init(&h);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (;;) {
        if (progress && !progress(ud, done, total)) {
            status = SKIPPY_E_CANCELLED;
            break;
        }
        ssize_t n = read_full(fd, chunk, CHUNK_BYTES);
        if (n < 0) status = SKIPPY_E_IO;
        if (n <= 0) break;
        sk_hash_update(&h, chunk, (size_t)n);
        done += (uint64_t)n;
    }
    free(chunk);
    if (status == SKIPPY_OK) sk_hash_final(&h, out->bytes);
    return status;
}

static bool settled(const stamp *s, uint64_t settle_ns) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
    uint64_t t = nanoseconds(now);
    uint64_t changed = s->ctime_ns > s->mtime_ns ? s->ctime_ns : s->mtime_ns;
    return t >= changed && t - changed >= settle_ns;
}

static int open_regular(const char *path, struct stat *st, int *fd) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return errno == ENOENT || errno == ENOTDIR ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO;
    if (fstat(*fd, st) == 0 && S_ISREG(st->st_mode)) return SKIPPY_OK;
    close(*fd);
    *fd = -1;
    return SKIPPY_E_IO;
}

/* Digests an open file; a file that changes meanwhile has no digest. */
static int digest_stable(int fd, const stamp *before, skippy_progress_fn progress, void *ud, skippy_key *out) {
    struct stat st;
    stamp after = *before;
    int status = hash_content(fd, before->size, progress, ud, out);
    if (status != SKIPPY_OK) return status;
    if (fstat(fd, &st) != 0) return SKIPPY_E_IO;
    stamp_fill(&after, &st);
    return stamp_equal(before, &after) ? SKIPPY_OK : SKIPPY_E_IO;
}

int sk_file_digest(const char *path, const char *cache_dir, uint64_t settle_ns, skippy_progress_fn progress, void *ud,
                   skippy_key *out, bool *from_cache) {
    if (from_cache) *from_cache = false;
    if (!path || !out) return SKIPPY_E_INVALID;
    struct stat st;
    int fd;
    int status = open_regular(path, &st, &fd);
    if (status != SKIPPY_OK) return status;

    char record[PATH_MAX];
    stamp s = {0};
    char *canonical = cache_dir && *cache_dir ? realpath(path, NULL) : NULL;
    if (canonical) sk_hash(canonical, strlen(canonical), s.path.bytes);
    stamp_fill(&s, &st);
    bool use_record = canonical && sk_record_path(record, sizeof record, cache_dir, s.path.bytes, ".digest");
    if (use_record && record_load(record, &s, out)) {
        if (from_cache) *from_cache = true;
        goto out;
    }
    use_record = use_record && settled(&s, settle_ns);
    status = digest_stable(fd, &s, progress, ud, out);
    if (status == SKIPPY_OK && use_record) record_save(cache_dir, record, &s, out);
out:
    free(canonical);
    close(fd);
    return status;
}

int skippy_file_digest(const char *path, const char *cache_dir, skippy_progress_fn progress, void *ud, skippy_key *out,
                       bool *from_cache) {
    return sk_file_digest(path, cache_dir, SK_DIGEST_SETTLE_NS, progress, ud, out, from_cache);
}
