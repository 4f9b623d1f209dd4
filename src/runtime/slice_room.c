/* Keeps a cache folder of stage files below its limit.
 *
 * A stage has up to five files: X.gguf, X.gguf.partial while it is written, X.record, and two locks. X.lock is held
 * shared by everybody who uses or writes the stage and exclusively while it is removed; its modification time is the
 * time of the last use. X.write is held by the one who writes. The folder's own lock is held while room is made, so
 * that two writers do not count the same free bytes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/slice_internal.h"

static const char temporary[] = ".gguf" SK_SLICE_SUFFIX_TEMP;

enum { PATH_CAP = 4200, NAME_CAP = 128, POLL_MS = 20 };

bool sk_slice_is_named(int fd, const char *path) {
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

int sk_slice_lock(const char *path, int how, bool (*go_on)(void *ud), void *ud) {
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return -1;
        if (flock(fd, how | LOCK_NB) == 0) {
            if (sk_slice_is_named(fd, path)) return fd;
            close(fd); /* removed between open and lock: the next one is the right one */
            continue;
        }
        close(fd);
        errno = EWOULDBLOCK;
        if (how & LOCK_NB) return -1;
        if (go_on && !go_on(ud)) return -1;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* A stage in the folder. */
typedef struct stage {
    char name[NAME_CAP]; /* without suffix */
    uint64_t bytes;
    struct timespec used;
} stage;

typedef struct stages {
    stage *s;
    size_t n;
    uint64_t bytes;
} stages;

/* Behind a literal and a number; NULL when they are not there. */
static const char *after_number(const char *text, const char *literal) {
    size_t n = strlen(literal), digits;
    if (!text || strncmp(text, literal, n) != 0) return NULL;
    digits = strspn(text + n, "0123456789");
    return digits ? text + n + digits : NULL;
}

/* Is this one of our names, "{16 hex}-{start}-{end}-v{version}.gguf", or the temporary of one? Fills in the name. */
static bool our_name(const char *file, char *name, size_t cap) {
    if (strspn(file, "0123456789abcdef") != 16) return false;
    const char *suffix = after_number(after_number(after_number(file + 16, "-"), "-"), "-v");
    if (!suffix || (strcmp(suffix, ".gguf") != 0 && strcmp(suffix, temporary) != 0)) return false;
    int n = snprintf(name, cap, "%.*s", (int)(suffix - file), file);
    return n > 0 && (size_t)n < cap;
}

static void stage_path(const char *dir, const char *name, const char *suffix, char *out, size_t cap) {
    snprintf(out, cap, "%s/%s%s", dir, name, suffix);
}

static bool add_file(stages *all, const char *dir, const char *name, uint64_t bytes) {
    char lock[PATH_CAP];
    struct stat st;
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->s[i].name, name) != 0) continue;
        all->s[i].bytes += bytes;
        return true;
    }
    stage *s = realloc(all->s, (all->n + 1) * sizeof *s);
    if (!s) return false;
    all->s = s;
    s = &all->s[all->n++];
    *s = (stage){.bytes = bytes};
    snprintf(s->name, sizeof s->name, "%s", name);
    stage_path(dir, name, ".lock", lock, sizeof lock);
    if (stat(lock, &st) == 0) s->used = st.st_mtim;
    return true;
}

static int by_use(const void *a, const void *b) {
    const stage *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int list_stages(const char *dir, stages *all, sk_err *e) {
    DIR *d = opendir(dir);
    if (!d) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be listed: %s", dir, strerror(errno));
    bool ok = true;
    for (struct dirent *f; ok && (f = readdir(d));) {
        char name[NAME_CAP];
        struct stat st;
        if (!our_name(f->d_name, name, sizeof name) || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        ok = add_file(all, dir, name, (uint64_t)st.st_size);
        all->bytes += (uint64_t)st.st_size;
    }
    closedir(d);
    if (!ok) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (all->n) qsort(all->s, all->n, sizeof *all->s, by_use);
    return SKIPPY_OK;
}

/* False when somebody uses it. */
static bool remove_stage(const char *dir, const char *name) {
    static const char *const suffix[] = {".gguf", temporary, ".record", ".write", ".lock"};
    char path[PATH_CAP];
    stage_path(dir, name, ".lock", path, sizeof path);
    int lock = sk_slice_lock(path, LOCK_EX | LOCK_NB, NULL, NULL);
    if (lock < 0) return false;
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        stage_path(dir, name, suffix[i], path, sizeof path);
        unlink(path);
    }
    close(lock);
    return true;
}

static int reserve(const char *path, uint64_t bytes, sk_err *e) {
    char temp[PATH_CAP];
    snprintf(temp, sizeof temp, "%s%s", path, SK_SLICE_SUFFIX_TEMP);
    int fd = open(temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;
    int rc = ok ? SKIPPY_OK
                : sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be created with %" PRIu64 " bytes: %s", temp, bytes,
                             strerror(errno));
    if (fd >= 0) close(fd);
    return rc;
}

static int evict(const char *dir, uint64_t max_bytes, uint64_t bytes, sk_err *e) {
    stages all = {0};
    int rc = list_stages(dir, &all, e);
    for (size_t i = 0; i < all.n && rc == SKIPPY_OK && all.bytes > max_bytes - bytes; i++)
        if (remove_stage(dir, all.s[i].name)) all.bytes -= all.s[i].bytes;
    if (rc == SKIPPY_OK && all.bytes > max_bytes - bytes)
        rc = sk_err_set(e, SKIPPY_E_FULL,
                        "the stage needs %" PRIu64 " MiB of the %" PRIu64 " MiB that %.200s may hold, but %" PRIu64
                        " MiB there are in use; allow more, or stop a stage",
                        bytes >> 20, max_bytes >> 20, dir, all.bytes >> 20);
    free(all.s);
    return rc;
}

int sk_slice_make_room(const char *dir, uint64_t max_bytes, const char *path, uint64_t bytes, sk_err *e) {
    char lock_path[PATH_CAP];
    if (max_bytes == 0) return SKIPPY_OK;
    if (bytes > max_bytes)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE,
                          "the stage alone needs %" PRIu64 " MiB, more than the %" PRIu64 " MiB that %.250s may hold",
                          (bytes + (1 << 20) - 1) >> 20, max_bytes >> 20, dir);
    snprintf(lock_path, sizeof lock_path, "%s/stages.lock", dir);
    int lock = sk_slice_lock(lock_path, LOCK_EX, NULL, NULL);
    if (lock < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be locked: %s", lock_path, strerror(errno));
    int rc = evict(dir, max_bytes, bytes, e);
    if (rc == SKIPPY_OK) rc = reserve(path, bytes, e);
    close(lock);
    return rc;
}
