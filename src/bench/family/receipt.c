#include "bench/family/receipt.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/family/sha256.h"

enum { COPY_BYTES = 65536 };

int sk_receipt_file(const char *path, const char *shown, json_t **out, sk_err *e) {
    char hex[SK_SHA256_HEX];
    uint64_t bytes = 0;
    const int rc = sk_sha256_file(path, NULL, hex, &bytes, e);
    *out = NULL;
    if (rc != SKIPPY_OK) {
        return rc;
    }
    *out = json_pack("{s:s, s:I, s:s}", "path", shown, "bytes", (json_int_t)bytes, "sha256", hex);
    return *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the receipt of '%s'", path);
}

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int left_out(const char *relative, const char *const *except) {
    for (size_t i = 0; except && except[i]; i++) {
        if (strcmp(except[i], relative) == 0) {
            return 1;
        }
    }
    return 0;
}

/* One entry of the walk. */
static int take(const FTSENT *f, size_t root_len, const char *const *except, json_t *list, sk_err *e) {
    const char *relative = f->fts_path + root_len + 1;
    json_t *one = NULL;
    if (f->fts_info == FTS_ERR || f->fts_info == FTS_DNR || f->fts_info == FTS_NS) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot read '%s': %s", f->fts_path, strerror(f->fts_errno));
    }
    if (f->fts_info != FTS_F || left_out(relative, except)) {
        return SKIPPY_OK;
    }
    const int rc = sk_receipt_file(f->fts_path, relative, &one, e);
    if (rc == SKIPPY_OK && json_array_append_new(list, one) != 0) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for receipts");
    }
    return rc;
}

int sk_receipt_folder(const char *folder, const char *const *except, json_t **out, sk_err *e) {
    char root[1400];
    char *roots[] = {root, NULL};
    *out = NULL;
    if ((size_t)snprintf(root, sizeof root, "%s", folder) >= sizeof root) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder '%.200s...' is too long", folder);
    }
    json_t *list = json_array();
    FTS *walk = list ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
    if (!walk) {
        json_decref(list);
        return sk_err_set(e, SKIPPY_E_IO, "cannot read the folder '%s': %s", folder, strerror(errno));
    }
    int rc = SKIPPY_OK;
    for (const FTSENT *f; rc == SKIPPY_OK && (f = fts_read(walk)) != NULL;) {
        rc = take(f, strlen(root), except, list, e);
    }
    fts_close(walk);
    if (rc == SKIPPY_OK) {
        *out = list;
    } else {
        json_decref(list);
    }
    return rc;
}

json_t *sk_receipt_exit(int status) {
    return WIFSIGNALED(status) ? json_pack("{s:i}", "signal", WTERMSIG(status))
                               : json_pack("{s:i}", "code", WEXITSTATUS(status));
}

static int copy(FILE *in, FILE *out) {
    char piece[COPY_BYTES];
    for (size_t n; (n = fread(piece, 1, sizeof piece, in)) > 0;) {
        if (fwrite(piece, 1, n, out) != n) {
            return -1;
        }
    }
    return ferror(in) ? -1 : 0;
}

int sk_receipt_share(const char *from, const char *to, sk_err *e) {
    unlink(to);
    if (link(from, to) == 0) {
        return SKIPPY_OK;
    }
    FILE *in = fopen(from, "re");
    FILE *out = in ? fopen(to, "we") : NULL;
    int failed = !out || copy(in, out) != 0;
    if (out && fclose(out) != 0) {
        failed = 1;
    }
    const int why = errno;
    if (in) {
        fclose(in);
    }
    return failed ? sk_err_set(e, SKIPPY_E_IO, "cannot put '%s' at '%s': %s", from, to, strerror(why)) : SKIPPY_OK;
}
