#include "bench/family/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"

enum { READ_BYTES = 1 << 20, DIGEST_BYTES = 32, MAX_FILES = 65536 };

/* ---- digests ---- */

/* OpenSSL's context; a failure inside (only memory can fail here) shows at the end. */
typedef struct hasher {
    EVP_MD_CTX *evp;
    bool failed;
} hasher;

static void hasher_begin(hasher *h) {
    h->evp = EVP_MD_CTX_new();
    h->failed = !h->evp || EVP_DigestInit_ex(h->evp, EVP_sha256(), NULL) != 1;
}

static void hasher_add(hasher *h, const void *data, size_t n) {
    h->failed = h->failed || EVP_DigestUpdate(h->evp, data, n) != 1;
}

/* Frees the context. False when out of memory; hex is "" then. */
static bool hasher_end(hasher *h, char hex[SK_SHA256_HEX]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    const bool ok = !h->failed && EVP_DigestFinal_ex(h->evp, digest, &n) == 1 && n == DIGEST_BYTES;
    EVP_MD_CTX_free(h->evp);
    h->evp = NULL;
    hex[0] = '\0';
    if (ok) {
        sk_hex(digest, DIGEST_BYTES, hex);
    }
    return ok;
}

void sk_sha256_text(const void *data, size_t n, char hex[SK_SHA256_HEX]) {
    hasher h;
    hasher_begin(&h);
    hasher_add(&h, data, n);
    hasher_end(&h, hex);
}

int sk_sha256_is_hex(const char *text) {
    const size_t n = strspn(text, "0123456789abcdef");
    return n == SK_SHA256_HEX - 1 && text[n] == '\0';
}

/* ---- files ---- */

/* What one call has read, over all of its files. */
typedef struct reading {
    const sk_sha256_watch *watch;
    uint64_t done;
    char *piece; /* READ_BYTES */
} reading;

static bool may_go_on(const reading *r) {
    return !r->watch || !r->watch->keep_going || r->watch->keep_going(r->watch->ud, r->done);
}

static int hash_descriptor(reading *r, int fd, const char *path, hasher *h, uint64_t *bytes, sk_err *e) {
    for (;;) {
        const ssize_t n = read(fd, r->piece, READ_BYTES);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return sk_err_set(e, SKIPPY_E_IO, "cannot read '%.350s': %s", path, strerror(errno));
        }
        if (n == 0) {
            return SKIPPY_OK;
        }
        hasher_add(h, r->piece, (size_t)n);
        *bytes += (uint64_t)n;
        r->done += (uint64_t)n;
        if (!may_go_on(r)) {
            return sk_err_set(e, SKIPPY_E_CANCELLED, "stopped while reading '%.350s'", path);
        }
    }
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer; it changes nothing for regular files. */
static int open_regular(const char *path, int *fd, sk_err *e) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        const int code = errno == ENOENT || errno == ENOTDIR ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO;
        return sk_err_set(e, code, "cannot open '%.350s': %s", path, strerror(errno));
    }
    int rc = SKIPPY_OK;
    if (fstat(*fd, &st) != 0) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot look at '%.350s': %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "'%.350s' is not a regular file, so it has no digest", path);
    }
    if (rc != SKIPPY_OK) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

static int hash_file(reading *r, const char *path, char hex[SK_SHA256_HEX], uint64_t *bytes, sk_err *e) {
    hasher h;
    int fd;
    *bytes = 0;
    hex[0] = '\0';
    int rc = open_regular(path, &fd, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    hasher_begin(&h);
    rc = hash_descriptor(r, fd, path, &h, bytes, e);
    close(fd);
    if (!hasher_end(&h, hex) && rc == SKIPPY_OK) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the digest of '%.350s'", path);
    }
    if (rc != SKIPPY_OK) {
        hex[0] = '\0';
    }
    return rc;
}

int sk_sha256_file(const char *path, const sk_sha256_watch *w, char hex[SK_SHA256_HEX], uint64_t *bytes, sk_err *e) {
    reading r = {.watch = w, .piece = malloc(READ_BYTES)};
    uint64_t size = 0;
    hex[0] = '\0';
    const int rc = r.piece ? hash_file(&r, path, hex, &size, e)
                           : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the digest of '%.350s'", path);
    free(r.piece);
    if (bytes) {
        *bytes = size;
    }
    return rc;
}

/* ---- folders ---- */

/* Paths of regular files relative to the folder, owned. */
typedef struct file_list {
    const char *folder;
    char **v;
    size_t n, cap;
} file_list;

static void free_list(file_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i]);
    }
    free(l->v);
}

static int list_add(file_list *l, const char *relative, sk_err *e) {
    if (l->n == MAX_FILES) {
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "'%.300s' has more than %d files; name a smaller folder", l->folder,
                          MAX_FILES);
    }
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        char **v = realloc(l->v, cap * sizeof *v);
        if (!v) {
            return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the files of '%.300s'", l->folder);
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n] = strdup(relative);
    if (!l->v[l->n]) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the files of '%.300s'", l->folder);
    }
    l->n++;
    return SKIPPY_OK;
}

static int join(const char *a, const char *b, char *out, size_t cap, sk_err *e) {
    const int n = *a ? snprintf(out, cap, "%s/%s", a, b) : snprintf(out, cap, "%s", b);
    return n >= 0 && (size_t)n < cap ? SKIPPY_OK
                                     : sk_err_set(e, SKIPPY_E_INVALID, "a path below '%.300s' is too long", a);
}

/* One entry of a folder: a file is listed, a folder is remembered for later (it counts as an entry of `folders`).
 * Sockets, pipes, devices and links that lead nowhere have no bytes that a program could have been built from. */
static int take_entry(file_list *files, file_list *folders, const char *relative, sk_err *e) {
    char path[PATH_MAX];
    struct stat own, target;
    int rc = join(files->folder, relative, path, sizeof path, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (lstat(path, &own) != 0) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot look at '%.350s': %s", path, strerror(errno));
    }
    if (S_ISDIR(own.st_mode)) {
        return list_add(folders, relative, e);
    }
    return stat(path, &target) == 0 && S_ISREG(target.st_mode) ? list_add(files, relative, e) : SKIPPY_OK;
}

static int read_folder(file_list *files, file_list *folders, const char *relative, sk_err *e) {
    char path[PATH_MAX];
    char child[PATH_MAX];
    int rc =
        *relative ? join(files->folder, relative, path, sizeof path, e) : join("", files->folder, path, sizeof path, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    DIR *d = opendir(path);
    if (!d) {
        const int code = errno == ENOENT ? SKIPPY_E_NOT_FOUND : errno == ENOTDIR ? SKIPPY_E_INVALID : SKIPPY_E_IO;
        return sk_err_set(e, code, "cannot read the folder '%.350s': %s", path, strerror(errno));
    }
    errno = 0;
    for (const struct dirent *entry; rc == SKIPPY_OK && (entry = readdir(d)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        rc = join(relative, entry->d_name, child, sizeof child, e);
        if (rc == SKIPPY_OK) {
            rc = take_entry(files, folders, child, e);
        }
    }
    if (rc == SKIPPY_OK && errno != 0) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot read the folder '%.350s': %s", path, strerror(errno));
    }
    closedir(d);
    return rc;
}

/* Walks without recursion: folders wait in a list of their own. */
static int list_files(file_list *files, sk_err *e) {
    file_list folders = {.folder = files->folder};
    int rc = read_folder(files, &folders, "", e);
    for (size_t i = 0; rc == SKIPPY_OK && i < folders.n; i++) {
        rc = read_folder(files, &folders, folders.v[i], e);
    }
    free_list(&folders);
    return rc;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int hash_listed(reading *r, const file_list *l, hasher *tree, sk_err *e) {
    char path[PATH_MAX];
    char hex[SK_SHA256_HEX];
    char head[SK_SHA256_HEX + 32];
    uint64_t bytes;
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < l->n; i++) {
        rc = join(l->folder, l->v[i], path, sizeof path, e);
        if (rc == SKIPPY_OK) {
            rc = hash_file(r, path, hex, &bytes, e);
        }
        if (rc == SKIPPY_OK) {
            const int n = snprintf(head, sizeof head, "%s  %" PRIu64 "  ", hex, bytes);
            hasher_add(tree, head, (size_t)n);
            hasher_add(tree, l->v[i], strlen(l->v[i]));
            hasher_add(tree, "\n", 1);
        }
    }
    return rc;
}

int sk_sha256_tree(const char *folder, const sk_sha256_watch *w, char hex[SK_SHA256_HEX], size_t *files, sk_err *e) {
    file_list l = {.folder = folder};
    reading r = {.watch = w, .piece = malloc(READ_BYTES)};
    hasher tree;
    hasher_begin(&tree);
    int rc =
        r.piece ? list_files(&l, e) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the digest of '%.350s'", folder);
    if (rc == SKIPPY_OK && l.n > 0) {
        qsort(l.v, l.n, sizeof *l.v, by_bytes);
        rc = hash_listed(&r, &l, &tree, e);
    }
    if (!hasher_end(&tree, hex) && rc == SKIPPY_OK) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the digest of '%.350s'", folder);
    }
    if (rc != SKIPPY_OK) {
        hex[0] = '\0';
    }
    if (files) {
        *files = rc == SKIPPY_OK ? l.n : 0;
    }
    free_list(&l);
    free(r.piece);
    return rc;
}
