#include "base/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

bool sk_record_path(char *out, size_t cap, const char *dir, const uint8_t *key, const char *suffix) {
    char hex[SK_RECORD_NAME_HEX + 1];
    sk_hex(key, SK_RECORD_NAME_HEX / 2, hex);
    int n = snprintf(out, cap, "%s/%s%s", dir, hex, suffix);
    return n > 0 && (size_t)n < cap;
}

static bool read_full(int fd, void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, (char *)data + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool write_full(int fd, const void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, (const char *)data + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool is_ours(int fd, size_t len) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0 &&
           st.st_size >= 0 && (uint64_t)st.st_size == len;
}

bool sk_record_load(const char *path, void *bytes, size_t len) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool ok = is_ours(fd, len) && read_full(fd, bytes, len);
    close(fd);
    return ok;
}

/* Makes dir and its missing parents, private to this user. Failure shows when the record is written. */
static void make_directories(const char *dir) {
    char part[PATH_MAX];
    size_t len = strlen(dir);
    if (len >= sizeof part) return;
    memcpy(part, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char keep = part[i];
        part[i] = '\0';
        (void)mkdir(part, 0700);
        part[i] = keep;
    }
}

static void sync_directory(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

bool sk_record_save(const char *dir, const char *path, const void *bytes, size_t len) {
    char temporary[PATH_MAX];
    make_directories(dir);
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temporary) return false;
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) return false;
    bool ok = write_full(fd, bytes, len) && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    if (ok && rename(temporary, path) == 0) {
        sync_directory(dir);
        return true;
    }
    (void)unlink(temporary);
    return false;
}

void sk_put_u32(uint8_t *out, uint32_t v) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(v >> (8 * i));
}

void sk_put_u64(uint8_t *out, uint64_t v) {
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(v >> (8 * i));
}

uint32_t sk_get_u32(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}
