#include "bench/family/locate.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/artifact.h"

/* One search: the first path that exists decides, good or bad, so that nobody measures a second-best file unnoticed. */
typedef struct search {
    const char *root;
    char real_root[PATH_MAX];
    const sk_preset *preset;
    sk_found_model *out;
    bool decided;
    sk_err *e;
} search;

const char *sk_found_status_name(sk_found_status s) {
    switch (s) {
    case SK_FOUND_PRESENT: return "present-unqualified";
    case SK_FOUND_MISSING: return "missing-model";
    case SK_FOUND_REFUSED: return "refused";
    }
    return "";
}

static int open_root(search *s) {
    struct stat st;
    if (s->root[0] != '/') {
        return sk_err_set(s->e, SKIPPY_E_INVALID, "the cache root '%.200s' is not an absolute path", s->root);
    }
    if (!realpath(s->root, s->real_root)) {
        const int code = errno == ENOENT || errno == ENOTDIR ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO;
        return sk_err_set(s->e, code, "the cache root '%.200s' cannot be used: %s", s->root, strerror(errno));
    }
    if (stat(s->real_root, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return sk_err_set(s->e, SKIPPY_E_NOT_FOUND, "the cache root '%.200s' is not a folder", s->root);
    }
    return SKIPPY_OK;
}

/* Looks at ROOT/relative unless the search has ended. */
static int try_path(search *s, const char *relative) {
    char path[PATH_MAX];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", s->root, relative);
    if (s->decided) {
        return SKIPPY_OK;
    }
    if (n < 0 || (size_t)n >= sizeof path) {
        return sk_err_set(s->e, SKIPPY_E_INVALID, "the cache root '%.200s' is too long a path", s->root);
    }
    if (!s->out->requested[0]) {
        snprintf(s->out->requested, sizeof s->out->requested, "%.*s", (int)sizeof s->out->requested - 1, path);
    }
    if (lstat(path, &st) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? SKIPPY_OK
                   : sk_err_set(s->e, SKIPPY_E_IO, "'%.300s' cannot be looked at: %s", path, strerror(errno));
    }
    s->decided = true;
    return sk_artifact_read(s->real_root, path, s->preset, s->out, s->e);
}

/* folder/FILE, or the folder itself for a package. */
static int try_file(search *s, const char *folder) {
    char relative[PATH_MAX];
    const char *file = s->preset->file;
    snprintf(relative, sizeof relative, "%.3000s%s%s", folder, *folder && *file ? "/" : "", file);
    return try_path(s, relative);
}

/* Hugging Face's name for a repository's folder: "org/name" is "models--org--name". */
static void cache_folder(const char *repo, char *out, size_t cap) {
    const char *slash = strchr(repo, '/');
    const int org = slash ? (int)(slash - repo) : 0;
    snprintf(out, cap, "models--%.*s%s%s", org, repo, slash ? "--" : "", slash ? slash + 1 : repo);
}

static int is_snapshot(const struct dirent *d) {
    return d->d_name[0] != '.';
}

/* Every snapshot of the repository below ROOT/prefix: those of the preset's revision first, then by name. */
static int try_snapshots(search *s, const char *prefix) {
    char repo[300];
    char base[512];
    char path[PATH_MAX];
    struct dirent **names = NULL;
    int rc = SKIPPY_OK;
    if (s->decided) {
        return SKIPPY_OK;
    }
    cache_folder(s->preset->repo, repo, sizeof repo);
    snprintf(base, sizeof base, "%s%s/snapshots", prefix, repo);
    snprintf(path, sizeof path, "%.3500s/%s", s->root, base);
    const int n = scandir(path, &names, is_snapshot, alphasort);
    if (n < 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? SKIPPY_OK
                   : sk_err_set(s->e, SKIPPY_E_IO, "'%.300s' cannot be read: %s", path, strerror(errno));
    }
    const size_t len = strlen(s->preset->revision);
    for (int preferred = 1; preferred >= 0; preferred--) {
        for (int i = 0; rc == SKIPPY_OK && i < n; i++) {
            if ((strncmp(names[i]->d_name, s->preset->revision, len) == 0) == (preferred == 1)) {
                snprintf(path, sizeof path, "%s/%s", base, names[i]->d_name);
                rc = try_file(s, path);
            }
        }
    }
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    return rc;
}

static int search_all(search *s) {
    const sk_preset *p = s->preset;
    const bool package = p->artifact == SK_ARTIFACT_PACKAGE;
    char own[128];
    snprintf(own, sizeof own, "%s%s", p->key, package ? "" : ".gguf");
    int rc = try_path(s, own);
    if (rc == SKIPPY_OK && !package) {
        rc = try_file(s, "");
    }
    if (rc == SKIPPY_OK) {
        rc = try_file(s, p->repo);
    }
    if (rc == SKIPPY_OK) {
        rc = try_snapshots(s, "");
    }
    if (rc == SKIPPY_OK) {
        rc = try_snapshots(s, "hub/");
    }
    if (rc == SKIPPY_OK && !s->decided) {
        snprintf(s->out->why, sizeof s->out->why,
                 "there is no %.60s in the cache root, and no folder or snapshot of %.80s with it", own, p->repo);
    }
    return rc;
}

int sk_locate_model(const char *root, const sk_preset *p, sk_found_model *out, sk_err *e) {
    search s = {.root = root, .preset = p, .out = out, .e = e};
    *out = (sk_found_model){.status = SK_FOUND_MISSING};
    out->kind = p->artifact == SK_ARTIFACT_PACKAGE  ? "layer-package-tree"
                : p->artifact == SK_ARTIFACT_SHARDS ? "split-gguf-first-shard"
                                                    : "single-gguf";
    const int rc = open_root(&s);
    return rc == SKIPPY_OK ? search_all(&s) : rc;
}

/* Bytes of the files before this one, so that a watcher sees one growing number. */
typedef struct shifted_watch {
    const sk_sha256_watch *watch;
    uint64_t before;
} shifted_watch;

static int shifted(void *ud, uint64_t done) {
    const shifted_watch *s = ud;
    return s->watch->keep_going(s->watch->ud, s->before + done);
}

int sk_found_digest(sk_found_model *m, const sk_sha256_watch *w, sk_err *e) {
    shifted_watch s = {.watch = w};
    const sk_sha256_watch inner = {.keep_going = shifted, .ud = &s};
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < m->n_files; i++) {
        sk_found_file *f = &m->file[i];
        rc = sk_sha256_file(f->path, w && w->keep_going ? &inner : NULL, f->sha256, &f->bytes, e);
        s.before += f->bytes;
    }
    return rc;
}
