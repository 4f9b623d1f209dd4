#include "bench/store_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_FILES = 16 };

int sk_store_folder_make(const char *parent, sk_store_folder *out, sk_err *e) {
    const int n = snprintf(out->path, sizeof out->path, "%s/skippy-bench-store-XXXXXX", parent);
    if (n > 0 && (size_t)n < sizeof out->path && mkdtemp(out->path)) return SKIPPY_OK;
    const int why = n > 0 && (size_t)n < sizeof out->path ? errno : ENAMETOOLONG;
    out->path[0] = '\0';
    return sk_err_set(e, SKIPPY_E_IO, "no folder for the disk store can be made in '%.300s': %s", parent,
                      strerror(why));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

void sk_store_folder_remove(sk_store_folder *f) {
    if (f->path[0]) nftw(f->path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
    f->path[0] = '\0';
}

static bool remember(void *ud, uint64_t id, const skippy_manifest *m) {
    (void)m;
    if (ud) *(uint64_t *)ud = id;
    return true;
}

int sk_store_folder_open(const sk_store_folder *f, skippy_disk_store **out, uint64_t *id, sk_err *e) {
    const skippy_disk_params p = {.dir = f->path, .name = SK_STORE_FOLDER_NAME};
    skippy_disk_detail why = {{0}};
    int rc = skippy_disk_open(NULL, &p, remember, NULL, id, out, &why);
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "%s", why.text[0] ? why.text : skippy_strerror(rc));
}

/* ---- cold ---- */

/* Pages of all files together; nftw passes no context. */
static struct {
    size_t pages, resident;
    int error;
} seen;

static size_t count_resident(void *map, size_t bytes, size_t pages) {
    unsigned char *in_core = calloc(pages, 1);
    size_t n = pages; /* not known is not cold */
    if (in_core && mincore(map, bytes, in_core) == 0) {
        n = 0;
        for (size_t i = 0; i < pages; i++) n += in_core[i] & 1;
    }
    free(in_core);
    return n;
}

static int cool_file(int fd, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    /* dirty pages cannot be dropped */
    if (fdatasync(fd) != 0) return errno;
    const int rc = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (rc) return rc;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0); /* reads nothing */
    if (map == MAP_FAILED) return errno;
    seen.pages += pages;
    seen.resident += count_resident(map, bytes, pages);
    munmap(map, bytes);
    return 0;
}

static int cool_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)where;
    if (type != FTW_F || st->st_size <= 0) return 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    seen.error = fd < 0 ? errno : cool_file(fd, (size_t)st->st_size);
    if (fd >= 0) close(fd);
    return seen.error;
}

int sk_store_folder_cool(const sk_store_folder *f, bool *cold, sk_err *e) {
    memset(&seen, 0, sizeof seen);
    if (nftw(f->path, cool_one, OPEN_FILES, FTW_PHYS) != 0)
        return sk_err_set(e, SKIPPY_E_IO, "the files in '%.300s' could not be taken out of the page cache: %s", f->path,
                          strerror(seen.error ? seen.error : errno));
    *cold = seen.resident * 100 < seen.pages;
    return SKIPPY_OK;
}
