#include "cache/disk_sibling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/disk_format.h"

/* ---- the lock file ---- */

enum { LOCK_TEXT_BYTES = 24 };

static long read_pid(const sk_io *io, int fd) {
    char text[LOCK_TEXT_BYTES + 1] = {0};
    size_t got;
    if (sk_io_read(io, fd, text, LOCK_TEXT_BYTES, NULL, 0, 0, &got) != 0) return 0;
    return strncmp(text, "pid ", 4) == 0 ? strtol(text + 4, NULL, 10) : 0;
}

/* Always the same length, so that the file is never seen half replaced by a shorter text. */
static int write_pid(const sk_io *io, int fd) {
    char text[LOCK_TEXT_BYTES + 1];
    snprintf(text, sizeof text, "pid %-19ld\n", sk_io_pid());
    return sk_io_write(io, fd, text, LOCK_TEXT_BYTES, NULL, 0, 0);
}

/* Whoever removes a store removes its lock file while holding the lock: then this one locked a file without a name. */
static int same_file(const sk_io *io, int folder, int fd) {
    sk_io_info by_name, by_fd;
    int err = sk_io_stat_fd(io, fd, &by_fd);
    if (err) return err;
    err = sk_io_stat(io, folder, "lock", &by_name);
    if (err == ENOENT) return ESTALE;
    if (err) return err;
    return by_name.inode == by_fd.inode && by_name.device == by_fd.device ? 0 : ESTALE;
}

int sk_store_lock(const sk_io *io, int folder, int *fd, uint64_t *bytes, long *pid) {
    sk_io_info info = {0};
    *pid = 0;
    int err = sk_io_open(io, folder, "lock", SK_IO_MODE_ENSURE, fd);
    if (err == ENOENT) return ESTALE; /* the folder itself is gone */
    if (err) return err;
    err = sk_io_lock(io, *fd);
    if (err == EAGAIN) *pid = read_pid(io, *fd);
    if (!err) err = same_file(io, folder, *fd);
    if (!err) err = write_pid(io, *fd);
    if (!err) err = sk_io_stat_fd(io, *fd, &info);
    if (!err) {
        *bytes = info.bytes;
        return 0;
    }
    sk_io_close(*fd);
    *fd = -1;
    return err;
}

/* ---- walking ---- */

/* Sums up a store's folder. */
typedef struct tally {
    const sk_io *io;
    int folder;
    uint64_t bytes, used_ns;
    bool is_store;
} tally;

static int tally_file(void *ud, const char *name) {
    tally *t = ud;
    sk_io_info info;
    uint64_t number;
    enum sk_file_kind kind = sk_file_parse(name, &number);
    if (kind == SK_FILE_FOREIGN || sk_io_stat(t->io, t->folder, name, &info) != 0 || !info.is_file) return 0;
    if (kind == SK_FILE_LOCK) t->is_store = true;
    if (info.mtime_ns > t->used_ns) t->used_ns = info.mtime_ns;
    t->bytes += info.bytes;
    return 0;
}

static bool is_owned(const sk_io *io, int folder) {
    int fd;
    bool held = true; /* when in doubt: owned, nobody removes it */
    if (sk_io_open(io, folder, "lock", SK_IO_MODE_UPDATE, &fd) != 0) return true;
    if (sk_io_is_locked(io, fd, &held) != 0) held = true;
    sk_io_close(fd);
    return held;
}

typedef struct walk {
    const sk_io *io;
    int root;
    int (*visit)(void *ud, const sk_sibling *store);
    void *ud;
} walk;

static int walk_name(void *ud, const char *name) {
    const walk *w = ud;
    tally t = {.io = w->io};
    int result;
    if (!sk_store_name_valid(name) || sk_io_open_dir(w->io, w->root, name, &t.folder) != 0) return 0;
    bool owned = is_owned(w->io, t.folder);
    int err = sk_io_list(w->io, t.folder, tally_file, &t, &result);
    sk_io_close(t.folder);
    if (err || !t.is_store) return 0;
    sk_sibling store = {name, t.bytes, t.used_ns, owned};
    return w->visit(w->ud, &store);
}

int sk_sibling_walk(const sk_io *io, int root, int (*visit)(void *ud, const sk_sibling *store), void *ud, int *result) {
    walk w = {io, root, visit, ud};
    return sk_io_list(io, root, walk_name, &w, result);
}

/* ---- removing ---- */

typedef struct removal {
    const sk_io *io;
    int folder;
} removal;

static int remove_file(void *ud, const char *name) {
    const removal *r = ud;
    uint64_t number;
    enum sk_file_kind kind = sk_file_parse(name, &number);
    if (kind == SK_FILE_FOREIGN || kind == SK_FILE_LOCK) return 0;
    int err = sk_io_unlink(r->io, r->folder, name);
    return err == ENOENT ? 0 : err;
}

/* Under the store's lock, the lock file last: an owner that comes meanwhile is refused, one that comes later begins
 * with an empty folder. */
int sk_sibling_remove(const sk_io *io, int root, const char *name) {
    removal r = {.io = io};
    int lock = -1, result = 0;
    uint64_t bytes;
    long pid;
    int err = sk_io_open_dir(io, root, name, &r.folder);
    if (err) return err;
    err = sk_store_lock(io, r.folder, &lock, &bytes, &pid);
    if (!err) err = sk_io_list(io, r.folder, remove_file, &r, &result);
    if (!err) err = result;
    if (!err) err = sk_io_unlink(io, r.folder, "lock");
    if (!err) (void)sk_io_remove_dir(io, root, name); /* foreign files keep it */
    sk_io_close(lock);
    sk_io_close(r.folder);
    return err;
}
