/* The stores that share a directory. */
#ifndef SKIPPY_CACHE_DISK_SIBLING_H
#define SKIPPY_CACHE_DISK_SIBLING_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/disk_io.h"

typedef struct sk_sibling {
    const char *name;
    uint64_t bytes;
    uint64_t used_ns; /* when one of its files was written last */
    bool owned;       /* a process has it open */
} sk_sibling;

/* Calls visit for every store in the open directory; its first non-zero result ends the walk and is returned in
 * *result. A folder is a store when it has a lock file. What vanishes meanwhile is passed over. Returns 0 or an errno
 * value. */
int sk_sibling_walk(const sk_io *io, int root, int (*visit)(void *ud, const sk_sibling *store), void *ud, int *result);

/* Removes a store's files and, when nothing else is in it, its folder. EAGAIN: somebody owns it. */
int sk_sibling_remove(const sk_io *io, int root, const char *name);

/* Opens and locks the lock file of an open folder; *fd and *bytes (its length) are set on success, *pid to what it says
 * when EAGAIN is returned (0: unknown). ESTALE: the file was replaced while it was locked; open the folder again. */
int sk_store_lock(const sk_io *io, int folder, int *fd, uint64_t *bytes, long *pid);

#endif
