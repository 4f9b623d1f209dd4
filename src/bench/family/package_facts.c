#include "bench/family/package_facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/root_path.h"
#include "runtime/package.h"

static int join(const char *folder, const char *name, char out[PATH_MAX], sk_err *e) {
    const int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return n >= 0 && n < PATH_MAX ? SKIPPY_OK
                                  : sk_err_set(e, SKIPPY_E_INVALID, "the path '%.150s...' is too long", folder);
}

static int check_folder(const char *real_root, const char *folder, sk_err *e) {
    char real[PATH_MAX];
    struct stat st;
    const int rc = sk_root_resolve(real_root, folder, real, e);
    if (rc == SKIPPY_OK && (stat(real, &st) != 0 || !S_ISDIR(st.st_mode))) {
        return sk_err_set(e, SKIPPY_E_INVALID, "'%.150s' is not a folder; a layer package is one, with %s in it",
                          folder, SK_PACKAGE_MANIFEST);
    }
    return rc;
}

static int check_part(const char *real_root, const char *folder, const sk_package_part *part, sk_err *e) {
    char path[PATH_MAX];
    char real[PATH_MAX];
    struct stat st;
    int rc = join(folder, part->path, path, e);
    if (rc == SKIPPY_OK) {
        rc = sk_root_resolve(real_root, path, real, e);
    }
    if (rc == SKIPPY_OK && (stat(real, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != part->bytes)) {
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "'%.150s' is not a file of the manifest's size; fetch the package again",
                        path);
    }
    return rc;
}

static int check_parts(const char *real_root, const char *folder, const sk_package *p, sk_layer_range range,
                       sk_err *e) {
    int rc = SKIPPY_OK;
    if (p->n_stage_layer < range.end) {
        return sk_err_set(e, SKIPPY_E_INVALID, "'%.120s' has %d layers, but layer %d is to be measured", folder,
                          p->n_stage_layer, range.end - 1);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < p->n_parts; i++) {
        if (sk_package_stage_needs(p, range, &p->parts[i])) {
            rc = check_part(real_root, folder, &p->parts[i], e);
        }
    }
    return rc;
}

int sk_package_facts_read(const char *real_root, const char *folder, int32_t start, int32_t end, sk_package_facts *out,
                          sk_err *e) {
    const sk_package_access access = {.location = folder};
    char real[PATH_MAX];
    sk_package package = {0};
    *out = (sk_package_facts){0};
    int rc = check_folder(real_root, folder, e);
    if (rc == SKIPPY_OK) {
        rc = join(folder, SK_PACKAGE_MANIFEST, out->manifest, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_root_resolve(real_root, out->manifest, real, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_package_load(&access, &package, e);
    }
    if (rc == SKIPPY_OK) {
        snprintf(out->arch, sizeof out->arch, "%s", package.arch);
        out->layers = package.n_stage_layer;
        out->width = package.width;
        out->synthetic = strcasestr(package.model_id, "synthetic") != NULL;
        rc = check_parts(real_root, folder, &package, (sk_layer_range){start, end}, e);
    }
    sk_package_free(&package);
    return rc;
}
