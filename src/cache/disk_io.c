#include "cache/disk_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Asks the hook about a call. */
static int ask(const sk_io *io, sk_io_call *call) {
    return io->before ? io->before(io->ud, call) : 0;
}

static int ask_name(const sk_io *io, enum sk_io_op op, const char *name) {
    sk_io_call call = {.op = op, .name = name, .fd = -1};
    return ask(io, &call);
}

static int ask_fd(const sk_io *io, enum sk_io_op op, int fd, uint64_t offset) {
    sk_io_call call = {.op = op, .fd = fd, .offset = offset};
    return ask(io, &call);
}

/* ---- directories ---- */

static int open_directory(const sk_io *io, int at, const char *name, int flags, int *fd) {
    *fd = -1;
    int err = ask_name(io, SK_IO_OPEN, name);
    if (err) return err;
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    return *fd < 0 ? errno : 0;
}

int sk_io_open_root(const sk_io *io, const char *path, int *fd) {
    return open_directory(io, AT_FDCWD, path, 0, fd);
}

int sk_io_open_dir(const sk_io *io, int at, const char *name, int *fd) {
    return open_directory(io, at, name, O_NOFOLLOW, fd);
}

int sk_io_make_root(const sk_io *io, const char *path) {
    return sk_io_make_dir(io, AT_FDCWD, path);
}

int sk_io_make_dir(const sk_io *io, int at, const char *name) {
    int err = ask_name(io, SK_IO_MKDIR, name);
    if (err) return err;
    return mkdirat(at, name, 0700) == 0 || errno == EEXIST ? 0 : errno;
}

int sk_io_remove_dir(const sk_io *io, int at, const char *name) {
    int err = ask_name(io, SK_IO_RMDIR, name);
    if (err) return err;
    return unlinkat(at, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

int sk_io_list(const sk_io *io, int dir, int (*visit)(void *ud, const char *name), void *ud, int *result) {
    *result = 0;
    int err = ask_fd(io, SK_IO_LIST, dir, 0);
    if (err) return err;
    /* A descriptor of its own: reading moves a position that copies made by dup would share. */
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    DIR *d = fdopendir(fd);
    if (!d) {
        err = errno;
        close(fd);
        return err;
    }
    for (;;) {
        errno = 0;
        const struct dirent *item = readdir(d);
        if (!item) {
            err = errno;
            break;
        }
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        *result = visit(ud, item->d_name);
        if (*result) break;
    }
    closedir(d);
    return err;
}

/* ---- files ---- */

static void info_fill(sk_io_info *out, const struct stat *st) {
    out->is_file = S_ISREG(st->st_mode);
    out->is_dir = S_ISDIR(st->st_mode);
    out->bytes = (uint64_t)st->st_size;
    out->mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
    out->device = (uint64_t)st->st_dev;
    out->inode = (uint64_t)st->st_ino;
}

static int refuse_special(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return errno;
    return S_ISREG(st.st_mode) ? 0 : EINVAL;
}

int sk_io_open(const sk_io *io, int at, const char *name, enum sk_io_mode mode, int *fd) {
    static const int flags[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT | O_EXCL, O_RDWR | O_CREAT};
    *fd = -1;
    int err = ask_name(io, SK_IO_OPEN, name);
    if (err) return err;
    /* O_NONBLOCK: a FIFO of that name must not wait for its other end. */
    int opened = openat(at, name, flags[mode] | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (opened < 0) return errno;
    err = refuse_special(opened);
    if (err) {
        close(opened);
        return err;
    }
    *fd = opened;
    return 0;
}

void sk_io_close(int fd) {
    if (fd >= 0) close(fd);
}

/* The parts of head and data that begin `done` bytes after the start, at most `limit` bytes. Returns how many. */
static int slices(struct iovec out[2], const void *head, size_t head_len, const void *data, size_t len, size_t done,
                  size_t limit) {
    int n = 0;
    const char *start[2] = {head, data};
    size_t size[2] = {head_len, len};
    for (int i = 0; i < 2; i++) {
        size_t skip = done < size[i] ? done : size[i];
        size_t take = size[i] - skip < limit ? size[i] - skip : limit;
        done -= skip;
        limit -= take;
        if (take) out[n++] = (struct iovec){(char *)start[i] + skip, take};
    }
    return n;
}

int sk_io_read(const sk_io *io, int fd, void *head, size_t head_len, void *data, size_t len, uint64_t offset,
               size_t *got) {
    size_t want = head_len + len;
    *got = 0;
    int err = ask_fd(io, SK_IO_READ, fd, offset);
    if (err) return err;
    while (*got < want) {
        struct iovec part[2];
        int parts = slices(part, head, head_len, data, len, *got, want - *got);
        ssize_t n = preadv(fd, part, parts, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) break;
        *got += (size_t)n;
    }
    return 0;
}

int sk_io_write(const sk_io *io, int fd, const void *head, size_t head_len, const void *data, size_t len,
                uint64_t offset) {
    size_t want = head_len + len, done = 0;
    while (done < want) {
        struct iovec part[2];
        sk_io_call call = {.op = SK_IO_WRITE, .fd = fd, .offset = offset + done, .bytes = want - done};
        int err = ask(io, &call);
        if (err) return err;
        int parts = slices(part, head, head_len, data, len, done, call.bytes);
        ssize_t n = pwritev(fd, part, parts, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return EIO;
        done += (size_t)n;
    }
    return 0;
}

int sk_io_sync(const sk_io *io, int fd) {
    int err = ask_fd(io, SK_IO_SYNC, fd, 0);
    if (err) return err;
#ifdef __APPLE__
    return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : errno; /* fsync leaves the bytes in the drive's cache there */
#else
    return fdatasync(fd) == 0 ? 0 : errno;
#endif
}

int sk_io_sync_dir(const sk_io *io, int fd) {
    int err = ask_fd(io, SK_IO_SYNC, fd, 0);
    if (err) return err;
    return fsync(fd) == 0 ? 0 : errno;
}

int sk_io_truncate(const sk_io *io, int fd, uint64_t bytes) {
    int err = ask_fd(io, SK_IO_TRUNCATE, fd, bytes);
    if (err) return err;
    return ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
}

int sk_io_stat(const sk_io *io, int at, const char *name, sk_io_info *out) {
    struct stat st;
    int err = ask_name(io, SK_IO_STAT, name);
    if (err) return err;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    info_fill(out, &st);
    return 0;
}

int sk_io_stat_fd(const sk_io *io, int fd, sk_io_info *out) {
    struct stat st;
    int err = ask_fd(io, SK_IO_STAT, fd, 0);
    if (err) return err;
    if (fstat(fd, &st) != 0) return errno;
    info_fill(out, &st);
    return 0;
}

int sk_io_rename(const sk_io *io, int at, const char *from, const char *to) {
    int err = ask_name(io, SK_IO_RENAME, to);
    if (err) return err;
    return renameat(at, from, at, to) == 0 ? 0 : errno;
}

int sk_io_unlink(const sk_io *io, int at, const char *name) {
    int err = ask_name(io, SK_IO_UNLINK, name);
    if (err) return err;
    return unlinkat(at, name, 0) == 0 ? 0 : errno;
}

/* ---- locks: of the open file description, so that two opens in one process exclude each other too ---- */

int sk_io_lock(const sk_io *io, int fd) {
    int err = ask_fd(io, SK_IO_LOCK, fd, 0);
    if (err) return err;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

int sk_io_is_locked(const sk_io *io, int fd, bool *held) {
    *held = false;
    int err = ask_fd(io, SK_IO_LOCK, fd, 0);
    if (err) return err;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_GETLK, &whole) != 0) return errno;
    *held = whole.l_type != F_UNLCK;
    return 0;
}

/* ---- clocks, process ---- */

uint64_t sk_io_wall_ms(const sk_io *io) {
    struct timespec now;
    if (io->wall_ms) return io->wall_ms(io->ud);
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || now.tv_sec < 0) return 0;
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t sk_io_mono_ns(const sk_io *io) {
    return io->mono_ns ? io->mono_ns(io->ud) : sk_now_ns();
}

long sk_io_pid(void) {
    return (long)getpid();
}
