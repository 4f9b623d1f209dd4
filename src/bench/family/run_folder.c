/* Whose is the output folder? */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/family/cell_files.h"
#include "bench/family/run_state.h"

static int is_empty(const char *folder, bool *empty, sk_err *e) {
    DIR *d = opendir(folder);
    if (!d) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot read the folder '%s': %s", folder, strerror(errno));
    }
    *empty = true;
    for (const struct dirent *one; *empty && (one = readdir(d)) != NULL;) {
        *empty = strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0;
    }
    closedir(d);
    return SKIPPY_OK;
}

/* path: of an earlier run's run.json. */
static int check_owner(const char *path, const char *folder, const char *input_sha256, sk_err *e) {
    json_t *run = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *theirs = json_string_value(json_object_get(json_object_get(run, "input"), "sha256"));
    int rc = SKIPPY_OK;
    if (!theirs) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "'%s' is no receipt of a run: choose another output folder", path);
    } else if (strcmp(theirs, input_sha256) != 0) {
        rc = sk_err_set(e, SKIPPY_E_EXISTS,
                        "'%s' holds a run of another input (SHA-256 %.12s..., this one has %.12s...): choose another "
                        "output folder, or remove that one",
                        folder, theirs, input_sha256);
    }
    json_decref(run);
    return rc;
}

int sk_run_folder_open(const char *folder, const char *input_sha256, sk_err *e) {
    char path[SK_CELL_PATH_CHARS];
    bool empty = false;
    if (strpbrk(folder, " \t\n")) {
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "the output folder '%s' has a blank in its name: servers get it in flags "
                          "that are separated by blanks",
                          folder);
    }
    if ((size_t)snprintf(path, sizeof path, "%s/run.json", folder) >= sizeof path) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the output folder '%.200s...' is too long", folder);
    }
    int rc = sk_cell_folder_make(folder, e);
    if (rc == SKIPPY_OK && access(path, F_OK) == 0) {
        return check_owner(path, folder, input_sha256, e);
    }
    if (rc == SKIPPY_OK) {
        rc = is_empty(folder, &empty, e);
    }
    if (rc == SKIPPY_OK && !empty) {
        rc =
            sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not empty and holds no run: choose another output folder", folder);
    }
    return rc;
}
