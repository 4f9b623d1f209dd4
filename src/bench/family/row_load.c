#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/row.h"
#include "bench/family/sha256.h"

static const off_t FILE_LIMIT = (off_t)256 << 20;

enum { PATH_CHARS = 4096 };

const char *sk_row_path_tail(const char *path) {
    const char *p = path + strlen(path);
    size_t slashes = 0;
    while (p > path && slashes < 2) slashes += *--p == '/';
    return slashes == 2 ? p + 1 : path;
}

static int check_size(const char *path, sk_err *e) {
    struct stat st;
    if (stat(path, &st) != 0)
        return sk_err_set(e, errno == ENOENT || errno == ENOTDIR ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO,
                          "cannot read '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not a file", path);
    if (st.st_size > FILE_LIMIT)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "'%s' is larger than 256 MiB: give the report fewer rows at once",
                          path);
    return SKIPPY_OK;
}

static int load_json(const char *path, json_t **out, sk_err *e) {
    json_error_t where;
    const int rc = check_size(path, e);
    if (rc != SKIPPY_OK) return rc;
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (*out) return SKIPPY_OK;
    sk_err_set(e, SKIPPY_E_INVALID, "'%s' is damaged in line %d: %s", path, where.line, where.text);
    if (e) sk_text_clean(e->text);
    return SKIPPY_E_INVALID;
}

/* run.json beside the rows; *out stays NULL where there is none. */
static int load_run(const char *rows, json_t **out, sk_err *e) {
    char path[PATH_CHARS];
    const char *slash = strrchr(rows, '/');
    const int folder = slash ? (int)(slash - rows + 1) : 0;
    if ((size_t)snprintf(path, sizeof path, "%.*srun.json", folder, rows) >= sizeof path)
        return sk_err_set(e, SKIPPY_E_INVALID, "the path '%.80s...' is too long", rows);
    sk_err why = {0};
    const int rc = load_json(path, out, &why);
    if (rc == SKIPPY_E_NOT_FOUND) return SKIPPY_OK;
    if (rc != SKIPPY_OK) return sk_err_set(e, rc, "%s", why.text);
    if (!json_is_object(*out)) return sk_err_set(e, SKIPPY_E_INVALID, "'%s' must be an object", path);
    return SKIPPY_OK;
}

static int add_source(sk_row_set *s, const char *path, sk_err *e) {
    char hex[SK_SHA256_HEX];
    json_t *run = NULL;
    json_t *source = NULL;
    int rc = sk_sha256_file(path, NULL, hex, NULL, e);
    if (rc == SKIPPY_OK) rc = load_run(path, &run, e);
    if (rc == SKIPPY_OK) {
        source = json_pack("{s:s, s:s}", "path", path, "sha256", hex);
        if (!s->sources) s->sources = json_array();
        /* path and sha256 are ours: run.json adds what it has beside them */
        if (!source || (run && json_object_update_missing(source, run) != 0) ||
            json_array_append(s->sources, source) != 0)
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for '%s'", path);
    }
    json_decref(source);
    json_decref(run);
    return rc;
}

static int add_rows(sk_row_set *s, json_t *rows, const char *path, sk_err *e) {
    if (!json_is_array(rows)) return sk_err_set(e, SKIPPY_E_INVALID, "'%s' must be an array of rows", path);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        sk_err why = {0};
        const int rc = sk_row_set_add(s, json_incref(json_array_get(rows, i)), i + 1, &why);
        if (rc != SKIPPY_OK) return sk_err_set(e, rc, "'%s', %s", path, why.text);
    }
    return SKIPPY_OK;
}

int sk_row_set_load(sk_row_set *s, const char *path, sk_err *e) {
    json_t *rows = NULL;
    int rc = load_json(path, &rows, e);
    if (rc == SKIPPY_OK) rc = add_source(s, path, e);
    if (rc == SKIPPY_OK) rc = add_rows(s, rows, path, e);
    json_decref(rows);
    return rc;
}
