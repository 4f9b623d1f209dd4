#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gguf.h>

#include "runtime/package.h"
#include "runtime/package_file.h"
#include "runtime/package_part.h"

/* A part that is not there, or not what the manifest says, is a problem of the package; running out of memory or being
 * told to stop is not. */
static bool is_problem(int rc) {
    return rc == SKIPPY_E_CORRUPT || rc == SKIPPY_E_NOT_FOUND || rc == SKIPPY_E_IO;
}

static int verify_part(const sk_package *p, size_t no, const char *dir, sk_byte_meter *m, sk_err *e) {
    const sk_package_part *part = &p->parts[no];
    char path[PATH_MAX];
    struct gguf_context *header = NULL;
    int fd;
    snprintf(path, sizeof path, "%.*s/%s", (int)sizeof path - 128, dir, part->path);
    int rc = sk_package_open_file(path, part->bytes, &part->digest, m, &fd, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_part_read_header(fd, &header, e);
    if (rc == SKIPPY_OK) rc = sk_part_check(p, no, header, NULL, e);
    if (header) gguf_free(header);
    close(fd);
    return rc;
}

int sk_package_verify(const char *dir, sk_slice_progress progress, void *ud,
                      void (*on_problem)(void *ud, const sk_package_problem *p), sk_err *e) {
    const sk_package_access access = {.location = dir};
    sk_package p;
    sk_byte_meter meter = {.report = progress, .ud = ud};
    size_t problems = 0;
    int rc = sk_package_load(&access, &p, e);
    if (rc != SKIPPY_OK) return rc;
    for (size_t i = 0; i < p.n_parts; i++) meter.total += p.parts[i].bytes;
    uint64_t before = 0;
    for (size_t i = 0; i < p.n_parts && rc == SKIPPY_OK; i++) {
        sk_err why = {0};
        const int found = verify_part(&p, i, dir, &meter, &why);
        before += p.parts[i].bytes;
        meter.done = before; /* a part that could not be read counts, too */
        if (found == SKIPPY_OK) continue;
        if (!is_problem(found)) {
            rc = sk_err_set(e, found, "%s", why.text);
            break;
        }
        sk_package_problem problem = {.part = &p.parts[i]};
        snprintf(problem.text, sizeof problem.text, "%.199s", why.text);
        if (on_problem) on_problem(ud, &problem);
        problems++;
    }
    sk_package_free(&p);
    if (rc == SKIPPY_OK && problems)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "%zu of the package's parts cannot be used", problems);
    return rc;
}
