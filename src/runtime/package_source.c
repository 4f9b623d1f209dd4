#include "runtime/package.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gguf.h>

#include "runtime/package_file.h"
#include "runtime/package_manifest.h"
#include "runtime/package_part.h"
#include "runtime/part_fetch.h"

/* Where the files of a package are. */
typedef struct place {
    char base[2048];      /* folder, or URL up to the last '/', without it */
    char query[1024];     /* "?..." of the URL, which goes with every file; else "" */
    sk_part_fetch *fetch; /* NULL: a folder */
} place;

/* A part that was opened. */
typedef struct open_part {
    int fd; /* -1: not yet */
    bool fetched;
} open_part;

typedef struct package_files {
    place at;
    sk_package package;
    open_part *parts;
    uint64_t *offsets; /* of each tensor in its part's file; set when the part is opened */
    char *part_dir;    /* of a URL */
    bool keep_parts;
    sk_slice_progress progress;
    void *progress_ud;
} package_files;

/* ---- where the files are ---- */

/* "https://host/folder/model-package.json?token" -> base "https://host/folder", query "?token". */
static int split_url(const char *url, place *at, sk_err *e) {
    static const char manifest[] = "/" SK_PACKAGE_MANIFEST;
    const size_t path = strcspn(url, "?#"), name = sizeof manifest - 1;
    const char *query = url[path] == '?' ? url + path : "";
    const size_t n_query = strcspn(query, "#");
    size_t n = path;
    if (n >= name && memcmp(url + n - name, manifest, name) == 0) n -= name;
    while (n > 0 && url[n - 1] == '/') n--;
    if (n >= sizeof at->base || n_query >= sizeof at->query)
        return sk_err_set(e, SKIPPY_E_INVALID, "the URL of the package is too long");
    snprintf(at->base, sizeof at->base, "%.*s", (int)n, url);
    snprintf(at->query, sizeof at->query, "%.*s", (int)n_query, query);
    return SKIPPY_OK;
}

static int find_place(const sk_package_access *a, place *at, sk_err *e) {
    bool is_url = false;
    memset(at, 0, sizeof *at);
    int rc = sk_part_fetch_is_url(a->location, &is_url, e);
    if (rc == SKIPPY_OK && is_url) {
        rc = split_url(a->location, at, e);
        if (rc == SKIPPY_OK) rc = sk_part_fetch_open(a->ca_file, NULL, &at->fetch, e);
    } else if (rc == SKIPPY_OK) {
        if (strlen(a->location) >= sizeof at->base)
            return sk_err_set(e, SKIPPY_E_INVALID, "the path of the package is too long");
        snprintf(at->base, sizeof at->base, "%s", a->location);
    }
    return rc;
}

static void file_at(const place *at, const char *relative, char out[PATH_MAX]) {
    snprintf(out, PATH_MAX, "%s/%s%s", at->base, relative, at->query);
}

static int read_manifest(const place *at, sk_package *out, sk_err *e) {
    char where[PATH_MAX];
    sk_buf text = {0};
    file_at(at, SK_PACKAGE_MANIFEST, where);
    int rc = at->fetch ? sk_part_fetch_text(at->fetch, where, SK_PACKAGE_MANIFEST_MAX, &text, e)
                       : sk_package_read_file(where, SK_PACKAGE_MANIFEST_MAX, &text, e);
    if (rc == SKIPPY_OK) rc = sk_package_parse(text.data ? text.data : "", text.len, out, e);
    sk_buf_free(&text);
    return rc;
}

int sk_package_load(const sk_package_access *a, sk_package *out, sk_err *e) {
    place at;
    memset(out, 0, sizeof *out);
    int rc = find_place(a, &at, e);
    if (rc == SKIPPY_OK) rc = read_manifest(&at, out, e);
    sk_part_fetch_close(at.fetch);
    return rc;
}

/* ---- parts ---- */

static void local_path(const package_files *f, const sk_package_part *part, char out[PATH_MAX]) {
    if (f->at.fetch)
        snprintf(out, PATH_MAX, "%s/%s", f->part_dir, strrchr(part->path, '/') + 1);
    else
        file_at(&f->at, part->path, out);
}

/* Gives a verified file. */
static int get_file(package_files *f, const sk_package_part *part, open_part *o, sk_err *e) {
    char path[PATH_MAX], url[PATH_MAX];
    sk_byte_meter unwatched = {0};
    local_path(f, part, path);
    if (!f->at.fetch) return sk_package_open_file(path, part->bytes, &part->digest, &unwatched, &o->fd, e);
    file_at(&f->at, part->path, url);
    const sk_part_order order = {.url = url,
                                 .path = path,
                                 .bytes = part->bytes,
                                 .digest = &part->digest,
                                 .progress = f->progress,
                                 .progress_ud = f->progress_ud};
    return sk_part_fetch_file(f->at.fetch, &order, &o->fd, &o->fetched, e);
}

/* Opens part `no` and compares its header with the manifest. header (may be NULL) gets the header; the caller frees. */
static int open_checked(package_files *f, size_t no, struct gguf_context **header, sk_err *e) {
    open_part *o = &f->parts[no];
    struct gguf_context *g = NULL;
    sk_err inner = {0};
    int rc = get_file(f, &f->package.parts[no], o, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_part_read_header(o->fd, &g, &inner);
    if (rc == SKIPPY_OK) rc = sk_part_check(&f->package, no, g, f->offsets, &inner);
    if (rc != SKIPPY_OK) {
        sk_err_set(e, rc, "%s: %.380s", f->package.parts[no].path, inner.text);
        close(o->fd);
        o->fd = -1;
    }
    if (rc == SKIPPY_OK && header)
        *header = g;
    else if (g)
        gguf_free(g);
    return rc;
}

static int need_part(package_files *f, size_t no, sk_err *e) {
    return f->parts[no].fd >= 0 ? SKIPPY_OK : open_checked(f, no, NULL, e);
}

static int package_read(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e) {
    package_files *f = ud;
    if (tensor >= f->package.n_tensors) return sk_err_set(e, SKIPPY_E_INVALID, "there is no tensor %zu", tensor);
    const sk_package_tensor *t = &f->package.tensors[tensor];
    if (offset > t->desc.bytes || n > t->desc.bytes - offset)
        return sk_err_set(e, SKIPPY_E_INVALID, "bytes %" PRIu64 "+%zu are not in tensor '%s'", offset, n, t->desc.name);
    const int rc = need_part(f, t->part, e);
    if (rc != SKIPPY_OK) return rc;
    for (size_t got = 0; got < n;) {
        const ssize_t k =
            pread(f->parts[t->part].fd, (char *)buf + got, n - got, (off_t)(f->offsets[tensor] + offset + got));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return sk_err_set(e, SKIPPY_E_IO, "tensor '%s' cannot be read: %s", t->desc.name, strerror(errno));
        if (k == 0) return sk_err_set(e, SKIPPY_E_CORRUPT, "a part was cut while it was in use (%s)", t->desc.name);
        got += (size_t)k;
    }
    return SKIPPY_OK;
}

/* Tensors without a layer are not fetched ahead, but for those that every stage needs: embedding and head are read by
 * two stages only, and come with their first read. */
static int package_prepare(void *ud, int32_t layer, sk_err *e) {
    package_files *f = ud;
    for (size_t i = 0; i < f->package.n_parts; i++) {
        const sk_package_part *part = &f->package.parts[i];
        const bool meant = layer >= 0 ? part->layer == layer : part->role == SK_PART_SHARED;
        if (meant) return need_part(f, i, e);
    }
    return layer < 0 ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_INVALID, "the package has no layer %" PRId32, layer);
}

static void close_part(const package_files *f, size_t no) {
    char path[PATH_MAX];
    if (f->parts[no].fd < 0) return;
    close(f->parts[no].fd);
    if (!f->parts[no].fetched || f->keep_parts) return;
    local_path(f, &f->package.parts[no], path);
    (void)unlink(path);
}

static void package_close(void *ud) {
    package_files *f = ud;
    for (size_t i = 0; f->parts && i < f->package.n_parts; i++) close_part(f, i);
    sk_part_fetch_close(f->at.fetch);
    sk_package_free(&f->package);
    free(f->parts);
    free(f->offsets);
    free(f->part_dir);
    free(f);
}

/* ---- opening ---- */

static int prepare_lists(package_files *f, sk_tensor_source *out, sk_err *e) {
    const sk_package *p = &f->package;
    f->parts = malloc(p->n_parts * sizeof *f->parts);
    f->offsets = calloc(p->n_tensors, sizeof *f->offsets);
    out->tensors = malloc(p->n_tensors * sizeof *out->tensors);
    if (!f->parts || !f->offsets || !out->tensors)
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu tensors", p->n_tensors);
    for (size_t i = 0; i < p->n_parts; i++) f->parts[i] = (open_part){.fd = -1};
    for (size_t i = 0; i < p->n_tensors; i++) out->tensors[i] = p->tensors[i].desc;
    out->n_tensors = p->n_tensors;
    return SKIPPY_OK;
}

static int read_metadata(package_files *f, sk_tensor_source *out, sk_err *e) {
    size_t no = 0;
    while (f->package.parts[no].role != SK_PART_METADATA) no++; /* the manifest was checked for having one */
    return open_checked(f, no, &out->meta, e);
}

static int prepare_part_dir(package_files *f, const sk_package_access *a, sk_err *e) {
    if (!f->at.fetch) return SKIPPY_OK;
    if (!a->part_dir || !a->part_dir[0])
        return sk_err_set(e, SKIPPY_E_INVALID, "a package from the network needs a folder for its parts");
    f->part_dir = strdup(a->part_dir);
    if (!f->part_dir) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (strlen(f->part_dir) > PATH_MAX - 128)
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder for parts is too long");
    return sk_package_make_folder(f->part_dir, 0700, e);
}

int sk_tensor_source_open_package(const sk_package_access *a, sk_tensor_source *out, sk_err *e) {
    memset(out, 0, sizeof *out);
    package_files *f = calloc(1, sizeof *f);
    if (!f) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    f->keep_parts = a->keep_parts;
    f->progress = a->progress;
    f->progress_ud = a->progress_ud;
    out->ud = f;
    out->read = package_read;
    out->prepare = package_prepare;
    out->close = package_close;
    int rc = find_place(a, &f->at, e);
    if (rc == SKIPPY_OK) rc = prepare_part_dir(f, a, e);
    if (rc == SKIPPY_OK) rc = read_manifest(&f->at, &f->package, e);
    if (rc == SKIPPY_OK) rc = prepare_lists(f, out, e);
    if (rc == SKIPPY_OK) rc = read_metadata(f, out, e);
    if (rc != SKIPPY_OK) {
        sk_tensor_source_close(out);
        return rc;
    }
    snprintf(out->arch, sizeof out->arch, "%s", f->package.arch);
    snprintf(out->name, sizeof out->name, "%s", f->package.model_id);
    out->n_layer = f->package.n_layer;
    out->digest = f->package.manifest_digest;
    return SKIPPY_OK;
}
