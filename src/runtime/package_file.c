#include "runtime/package_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define PIECE ((size_t)1 << 20)

bool sk_byte_meter_add(sk_byte_meter *m, uint64_t n) {
    m->done += n;
    return !m->report || m->report(m->ud, m->done, m->total);
}

int sk_package_make_folder(const char *dir, unsigned mode, sk_err *e) {
    char path[PATH_MAX];
    struct stat st;
    const size_t len = strlen(dir);
    if (len >= sizeof path) return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder is too long");
    memcpy(path, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        const char keep = path[i];
        path[i] = '\0';
        (void)mkdir(path, mode); /* what matters is whether the whole path is a folder at the end */
        path[i] = keep;
    }
    if (stat(dir, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be made: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return sk_err_set(e, SKIPPY_E_IO, "%.300s is not a folder", dir);
    return SKIPPY_OK;
}

static ssize_t read_at(int fd, void *buf, size_t n, uint64_t at) {
    ssize_t k;
    do k = pread(fd, buf, n, (off_t)at);
    while (k < 0 && errno == EINTR);
    return k;
}

/* Digests `bytes` bytes, which the file was seen to have. */
static int digest_file(int fd, const char *name, uint64_t bytes, sk_byte_meter *m, skippy_key *out, sk_err *e) {
    sk_hasher h;
    char *piece = malloc(PIECE);
    int rc = piece ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    sk_hash_init(&h);
    for (uint64_t at = 0; at < bytes && rc == SKIPPY_OK;) {
        const size_t want = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        const ssize_t n = read_at(fd, piece, want, at);
        if (n <= 0) {
            rc = sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be read: %s", name, n < 0 ? strerror(errno) : "it was cut");
            break;
        }
        sk_hash_update(&h, piece, (size_t)n);
        at += (uint64_t)n;
        if (!sk_byte_meter_add(m, (uint64_t)n)) rc = sk_err_set(e, SKIPPY_E_CANCELLED, "stopped");
    }
    sk_hash_final(&h, out->bytes);
    free(piece);
    return rc;
}

int sk_package_check_file(int fd, const char *name, uint64_t bytes, const skippy_key *digest, sk_byte_meter *m,
                          sk_err *e) {
    struct stat st;
    skippy_key found = {{0}};
    if (fstat(fd, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode)) return sk_err_set(e, SKIPPY_E_CORRUPT, "%.300s is not a regular file", name);
    if ((uint64_t)st.st_size != bytes)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "%.300s has %" PRIu64 " bytes instead of %" PRIu64, name,
                          (uint64_t)st.st_size, bytes);
    const int rc = digest_file(fd, name, bytes, m, &found, e);
    if (rc != SKIPPY_OK) return rc;
    if (!skippy_key_equal(&found, digest))
        return sk_err_set(e, SKIPPY_E_CORRUPT, "%.300s is damaged: its BLAKE3 is another than the manifest says", name);
    return SKIPPY_OK;
}

static int open_for_reading(const char *path, int *fd, sk_err *e) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait for its writer */
    if (*fd >= 0) return SKIPPY_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return sk_err_set(e, SKIPPY_E_NOT_FOUND, "%.300s: there is no such file", path);
    return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be opened: %s", path, strerror(errno));
}

int sk_package_open_file(const char *path, uint64_t bytes, const skippy_key *digest, sk_byte_meter *m, int *fd,
                         sk_err *e) {
    int rc = open_for_reading(path, fd, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_package_check_file(*fd, path, bytes, digest, m, e);
    if (rc != SKIPPY_OK) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

int sk_package_read_file(const char *path, size_t max, sk_buf *out, sk_err *e) {
    int fd;
    struct stat st;
    int rc = open_for_reading(path, &fd, e);
    if (rc != SKIPPY_OK) return rc;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = sk_err_set(e, SKIPPY_E_IO, "%.300s is not a regular file", path);
        goto out;
    }
    if ((uint64_t)st.st_size > max) {
        rc = sk_err_set(e, SKIPPY_E_TOO_LARGE, "%.300s has more than %zu bytes", path, max);
        goto out;
    }
    if (!sk_buf_reserve(out, (size_t)st.st_size + 1)) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %.300s", path);
        goto out;
    }
    for (uint64_t at = 0; at < (uint64_t)st.st_size && rc == SKIPPY_OK;) {
        char piece[16384];
        const ssize_t n = read_at(fd, piece, sizeof piece, at);
        if (n <= 0) rc = sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be read", path);
        if (n > 0) sk_buf_add(out, piece, (size_t)n);
        at += n > 0 ? (uint64_t)n : 0;
        if (at > max) rc = sk_err_set(e, SKIPPY_E_TOO_LARGE, "%.300s grew while it was read", path);
    }
out:
    close(fd);
    return rc;
}

bool sk_package_write_all(int fd, const void *data, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(fd, (const char *)data + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        done += (size_t)k;
    }
    return true;
}

/* Makes the new name itself durable. */
static bool sync_folder(const char *folder) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool ok = fsync(fd) == 0;
    close(fd);
    return ok;
}

int sk_package_publish(int fd, const char *from, const char *to, const char *folder, sk_err *e) {
    if (fsync(fd) != 0 || rename(from, to) != 0 || !sync_folder(folder))
        return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be put in place: %s", to, strerror(errno));
    return SKIPPY_OK;
}
