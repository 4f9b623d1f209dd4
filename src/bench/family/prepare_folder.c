#include "bench/family/prepare_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/operator_env.h"

static int resolve(const char *what, const char *path, char out[PATH_MAX], sk_err *e) {
    if (realpath(path, out)) return SKIPPY_OK;
    return sk_err_set(e, errno == ENOENT || errno == ENOTDIR ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "%s '%.300s': %s",
                      what, path, strerror(errno));
}

/* ---- the output folder ---- */

/* Where out_dir will lie: itself, or its name in the folder in which it is to be made. */
static int resolve_new(const char *out_dir, char out[PATH_MAX], sk_err *e) {
    char parent[PATH_MAX], name[NAME_MAX + 1];
    if (realpath(out_dir, out)) return SKIPPY_OK;
    size_t end = strlen(out_dir);
    while (end > 1 && out_dir[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && out_dir[start - 1] != '/') start--;
    if (end - start >= sizeof name || start >= sizeof parent)
        return sk_err_set(e, SKIPPY_E_INVALID, "the output folder's path is too long");
    snprintf(name, sizeof name, "%.*s", (int)(end - start), out_dir + start);
    snprintf(parent, sizeof parent, "%.*s", (int)start, start ? out_dir : "");
    const int rc = resolve("the folder in which the output folder is to be made", start ? parent : ".", out, e);
    const size_t n = rc == SKIPPY_OK ? strlen(out) : 0;
    if (rc == SKIPPY_OK && (size_t)snprintf(out + n, PATH_MAX - n, "%s%s", n > 1 ? "/" : "", name) >= PATH_MAX - n)
        return sk_err_set(e, SKIPPY_E_INVALID, "the output folder's path is too long");
    return rc;
}

/* Both without a link and without a slash at the end, but "/" itself. */
static bool contains(const char *folder, const char *path) {
    const size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(folder, path, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int check_disjoint(const char *out, const char *what, const char *folder, sk_err *e) {
    char real[PATH_MAX];
    const int rc = resolve(what, folder, real, e);
    if (rc != SKIPPY_OK) return rc;
    if (!contains(real, out) && !contains(out, real)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "the output folder '%.180s' and %s '%.180s' overlap; choose another output",
                      out, what, real);
}

static int check_all_disjoint(const char *out, const sk_operator *op, sk_err *e) {
    int rc = check_disjoint(out, "plan.cache_root", op->plan.cache_root, e);
    if (rc == SKIPPY_OK) rc = check_disjoint(out, "native_build", op->native_build, e);
    for (size_t i = 0; i < op->n_toolkits && rc == SKIPPY_OK; i++) {
        char what[128];
        snprintf(what, sizeof what, "toolkit_directories.%s", op->toolkit[i].name);
        rc = check_disjoint(out, what, op->toolkit[i].path, e);
    }
    return rc;
}

static int check_empty(const char *path, sk_err *e) {
    int rc = SKIPPY_OK;
    DIR *d = opendir(path);
    if (!d)
        return sk_err_set(e, errno == ENOTDIR ? SKIPPY_E_INVALID : SKIPPY_E_IO, "the output folder '%.300s': %s", path,
                          strerror(errno));
    for (const struct dirent *entry; rc == SKIPPY_OK && (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = sk_err_set(e, SKIPPY_E_INVALID, "the output folder '%.300s' is not empty; choose a new one", path);
    }
    closedir(d);
    return rc;
}

int sk_prepare_folder(const char *out_dir, const sk_operator *op, sk_err *e) {
    char out[PATH_MAX];
    if (!out_dir[0]) return sk_err_set(e, SKIPPY_E_INVALID, "the output folder has no name");
    int rc = resolve_new(out_dir, out, e);
    if (rc == SKIPPY_OK) rc = check_all_disjoint(out, op, e);
    if (rc != SKIPPY_OK) return rc;
    if (mkdir(out, 0777) == 0) return SKIPPY_OK;
    return errno == EEXIST ? check_empty(out, e)
                           : sk_err_set(e, SKIPPY_E_IO, "cannot make '%.300s': %s", out, strerror(errno));
}

/* ---- library paths ---- */

static int check_library_path(const char *path, const sk_operator *op, sk_err *e) {
    char real[PATH_MAX], folder[PATH_MAX];
    int rc = resolve("a library path of the environment,", path, real, e);
    if (rc == SKIPPY_OK) rc = resolve("native_build", op->native_build, folder, e);
    bool pinned = rc == SKIPPY_OK && contains(folder, real);
    for (size_t i = 0; i < op->n_toolkits && rc == SKIPPY_OK && !pinned; i++) {
        rc = resolve("a toolkit folder,", op->toolkit[i].path, folder, e);
        pinned = rc == SKIPPY_OK && contains(folder, real);
    }
    if (rc != SKIPPY_OK || pinned) return rc;
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "the environment's library path '%.150s' is '%.150s' behind its links: that lies neither in "
                      "native_build nor in a toolkit folder",
                      path, real);
}

int sk_prepare_library_paths(const sk_operator *op, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < op->n_env && rc == SKIPPY_OK; i++) {
        const char *p = sk_operator_env_library_path(op->env[i]);
        while (p && *p && rc == SKIPPY_OK) {
            char one[PATH_MAX];
            const size_t n = strcspn(p, ":");
            snprintf(one, sizeof one, "%.*s", (int)n, p);
            rc = check_library_path(one, op, e);
            p += n + (p[n] == ':');
        }
    }
    return rc;
}
