/* The system calls of the disk store, and the only file that makes them.
 *
 * A hook sees every call before it is made and can refuse it with an errno value, shorten a write, or end the process:
 * that is how the tests reach every failure, also those that a test machine cannot produce. All names are relative to
 * an open directory, so that a folder that is replaced meanwhile cannot redirect a call. */
#ifndef SKIPPY_CACHE_DISK_IO_H
#define SKIPPY_CACHE_DISK_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sk_io_op {
    SK_IO_OPEN,
    SK_IO_READ,
    SK_IO_WRITE,
    SK_IO_SYNC,
    SK_IO_TRUNCATE,
    SK_IO_RENAME,
    SK_IO_UNLINK,
    SK_IO_MKDIR,
    SK_IO_RMDIR,
    SK_IO_STAT,
    SK_IO_LIST,
    SK_IO_LOCK,
    SK_IO_OPS
};

/* One call that is about to be made. `name` is NULL and fd is -1 where they do not apply. */
typedef struct sk_io_call {
    enum sk_io_op op;
    const char *name;
    int fd;
    uint64_t offset;
    size_t bytes; /* of a write: the hook may lower it (not to 0), the rest is then asked for in another call */
} sk_io_call;

/* All members may be NULL: nothing is intercepted, the system's clocks are used. Must be thread-safe. */
typedef struct sk_io {
    int (*before)(void *ud, sk_io_call *call); /* 0 = go on; otherwise the errno value that the call fails with */
    uint64_t (*wall_ms)(void *ud);             /* Unix time in milliseconds */
    uint64_t (*mono_ns)(void *ud);
    void *ud;
} sk_io;

enum sk_io_mode {
    SK_IO_MODE_READ,   /* an existing file, for reading */
    SK_IO_MODE_UPDATE, /* an existing file, for reading and writing */
    SK_IO_MODE_CREATE, /* a file that must not exist */
    SK_IO_MODE_ENSURE  /* made when it does not exist */
};

typedef struct sk_io_info {
    bool is_file, is_dir;
    uint64_t bytes, mtime_ns, device, inode;
} sk_io_info;

/* All functions return 0 or an errno value. Interrupted calls are repeated. Files are made with mode 0600, directories
 * with 0700; nothing follows a symbolic link in the last component of a name, except sk_io_open_root. */

/* Opens a directory by path (links are followed), or `name` in the directory `at` (a link is refused with ENOTDIR). */
int sk_io_open_root(const sk_io *io, const char *path, int *fd);
int sk_io_open_dir(const sk_io *io, int at, const char *name, int *fd);
/* Makes a directory; one that exists is no error. at may be AT_FDCWD's value through sk_io_make_root. */
int sk_io_make_root(const sk_io *io, const char *path);
int sk_io_make_dir(const sk_io *io, int at, const char *name);
int sk_io_remove_dir(const sk_io *io, int at, const char *name);

/* Opens a regular file; anything else gives EINVAL. */
int sk_io_open(const sk_io *io, int at, const char *name, enum sk_io_mode mode, int *fd);
/* fd may be -1. */
void sk_io_close(int fd);

/* Reads head_len bytes to head, then len bytes to data. *got says how many there were: fewer at the end of the file. */
int sk_io_read(const sk_io *io, int fd, void *head, size_t head_len, void *data, size_t len, uint64_t offset,
               size_t *got);
/* Writes head, then data. After an error any part may have been written. */
int sk_io_write(const sk_io *io, int fd, const void *head, size_t head_len, const void *data, size_t len,
                uint64_t offset);
/* Waits until the file's bytes and length, or a directory's entries, are on the device. */
int sk_io_sync(const sk_io *io, int fd);
int sk_io_sync_dir(const sk_io *io, int fd);
int sk_io_truncate(const sk_io *io, int fd, uint64_t bytes);

int sk_io_stat(const sk_io *io, int at, const char *name, sk_io_info *out);
int sk_io_stat_fd(const sk_io *io, int fd, sk_io_info *out);
int sk_io_rename(const sk_io *io, int at, const char *from, const char *to);
int sk_io_unlink(const sk_io *io, int at, const char *name);
/* Calls visit for every name but "." and "..". Its first non-zero result ends the list and is returned in *result. */
int sk_io_list(const sk_io *io, int dir, int (*visit)(void *ud, const char *name), void *ud, int *result);

/* Locks an open file against every other open of it, also by this process. EAGAIN: somebody holds it. The lock ends
 * when the descriptor is closed. */
int sk_io_lock(const sk_io *io, int fd);
/* Asks without taking. */
int sk_io_is_locked(const sk_io *io, int fd, bool *held);

uint64_t sk_io_wall_ms(const sk_io *io);
uint64_t sk_io_mono_ns(const sk_io *io);
/* This process, for people who read the lock file. */
long sk_io_pid(void);

#endif
