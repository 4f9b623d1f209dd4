#include "bench/family/cell_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/family/receipt.h"
#include "bench/family/sha256.h"
#include "bench/report.h"

#define ROW "row.json"
#define PARTIAL_ROW "row.partial.json"
#define CELL "cell.json"
#define REQUEST "request.json"

static int make_one(const char *folder, sk_err *e) {
    if (mkdir(folder, 0755) == 0 || errno == EEXIST) {
        return SKIPPY_OK;
    }
    return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", folder, strerror(errno));
}

int sk_cell_folder_make(const char *folder, sk_err *e) {
    char path[SK_CELL_PATH_CHARS];
    if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder '%.200s...' is too long", folder);
    }
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        const int rc = make_one(path, e);
        *p = '/';
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    return make_one(path, e);
}

static int in_folder(const char *folder, const char *name, char path[SK_CELL_PATH_CHARS], sk_err *e) {
    if ((size_t)snprintf(path, SK_CELL_PATH_CHARS, "%s/%s", folder, name) < SK_CELL_PATH_CHARS) {
        return SKIPPY_OK;
    }
    return sk_err_set(e, SKIPPY_E_INVALID, "the path '%.200s.../%s' is too long", folder, name);
}

/* The text of a file, malloc'ed. */
static char *text_of(json_t *root, const char *name, sk_err *e) {
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) {
        sk_err_set(e, SKIPPY_E_NOMEM, "cannot make %s: memory is out, or a text is not UTF-8", name);
    }
    return text;
}

static int write_text(const char *folder, const char *name, const char *text, sk_err *e) {
    char path[SK_CELL_PATH_CHARS];
    const int rc = in_folder(folder, name, path, e);
    return rc == SKIPPY_OK ? sk_report_write_file(path, text, strlen(text), e) : rc;
}

int sk_cell_file_write(const char *folder, const char *name, json_t *root, sk_err *e) {
    char *text = text_of(root, name, e);
    const int rc = text ? write_text(folder, name, text, e) : SKIPPY_E_NOMEM;
    free(text);
    return rc;
}

static json_t *load(const char *folder, const char *name) {
    char path[SK_CELL_PATH_CHARS];
    return in_folder(folder, name, path, NULL) == SKIPPY_OK ? json_load_file(path, 0, NULL) : NULL;
}

/* Is the row in the folder the one that its receipt names? */
static bool row_is_whole(const char *folder) {
    char path[SK_CELL_PATH_CHARS], hex[SK_SHA256_HEX];
    json_t *cell = load(folder, CELL);
    const char *named = json_string_value(json_object_get(cell, "row_sha256"));
    const bool whole = named && in_folder(folder, ROW, path, NULL) == SKIPPY_OK &&
                       sk_sha256_file(path, NULL, hex, NULL, NULL) == SKIPPY_OK && strcmp(hex, named) == 0;
    json_decref(cell);
    return whole;
}

json_t *sk_cell_files_finished(const char *folder, json_t *request) {
    json_t *earlier = load(folder, REQUEST);
    const bool same = earlier && json_equal(earlier, request) && row_is_whole(folder);
    json_decref(earlier);
    return same ? load(folder, ROW) : NULL;
}

static int forget(const char *folder, const char *name, sk_err *e) {
    char path[SK_CELL_PATH_CHARS];
    const int rc = in_folder(folder, name, path, e);
    if (rc == SKIPPY_OK && unlink(path) != 0 && errno != ENOENT) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot remove '%s': %s", path, strerror(errno));
    }
    return rc;
}

int sk_cell_files_begin(const char *folder, json_t *request, sk_err *e) {
    static const char *const old[] = {ROW, CELL};
    int rc = sk_cell_folder_make(folder, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < sizeof old / sizeof *old; i++) {
        rc = forget(folder, old[i], e);
    }
    return rc == SKIPPY_OK ? sk_cell_file_write(folder, REQUEST, request, e) : rc;
}

int sk_cell_files_partial(const char *folder, json_t *row, sk_err *e) {
    return sk_cell_file_write(folder, PARTIAL_ROW, row, e);
}

/* Everything but the row, which is text already. */
static int write_record(const char *folder, json_t *record, const char *row, sk_err *e) {
    static const char *const rows[] = {ROW, PARTIAL_ROW, CELL, NULL};
    char hex[SK_SHA256_HEX];
    json_t *files = NULL;
    int rc = sk_receipt_folder(folder, rows, &files, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    sk_sha256_text(row, strlen(row), hex);
    if (json_object_set_new(record, "files", files) != 0 ||
        json_object_set_new(record, "row_sha256", json_string(hex)) != 0) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the receipts of '%s'", folder);
    }
    return sk_cell_file_write(folder, CELL, record, e);
}

int sk_cell_files_end(const char *folder, json_t *record, json_t *row, bool final, sk_err *e) {
    char *text = text_of(row, ROW, e);
    int rc = text ? write_record(folder, record, text, e) : SKIPPY_E_NOMEM;
    if (rc == SKIPPY_OK) {
        rc = write_text(folder, final ? ROW : PARTIAL_ROW, text, e);
    }
    free(text);
    return rc == SKIPPY_OK && final ? forget(folder, PARTIAL_ROW, e) : rc;
}
