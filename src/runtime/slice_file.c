/* Writes stage files, with one buffer however large the model is. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ggml.h>

#include "base/hash.h"
#include "runtime/slice_internal.h"

enum { PIECE = 1 << 20, PATH_CAP = 4200 };

/* A file that is being written. */
typedef struct writer {
    int fd;
    const char *path; /* of the temporary, for words */
    uint8_t *piece;   /* PIECE bytes */
    sk_hasher hash;
    uint64_t done, total;
    sk_slice_progress progress;
    void *ud;
} writer;

static int put(writer *w, const void *data, size_t n, sk_err *e) {
    for (size_t at = 0; at < n;) {
        ssize_t k = write(w->fd, (const char *)data + at, n - at);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be written: %s", w->path, strerror(errno));
        at += (size_t)k;
    }
    sk_hash_update(&w->hash, data, n);
    w->done += n;
    if (w->progress && !w->progress(w->ud, w->done, w->total))
        return sk_err_set(e, SKIPPY_E_CANCELLED, "writing %.300s was stopped", w->path);
    return SKIPPY_OK;
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + GGUF_DEFAULT_ALIGNMENT - 1) / GGUF_DEFAULT_ALIGNMENT * GGUF_DEFAULT_ALIGNMENT;
}

static int put_tensor(writer *w, sk_tensor_source *s, const sk_slice_tensor *t, sk_err *e) {
    int rc = SKIPPY_OK;
    if (t->source == SIZE_MAX) memset(w->piece, 0, PIECE);
    for (uint64_t at = 0; at < t->bytes && rc == SKIPPY_OK;) {
        size_t n = t->bytes - at < PIECE ? (size_t)(t->bytes - at) : PIECE;
        if (t->source != SIZE_MAX) rc = s->read(s->ud, t->source, at, w->piece, n, e);
        if (rc == SKIPPY_OK) rc = put(w, w->piece, n, e);
        at += n;
    }
    size_t pad = (size_t)(padded(t->bytes) - t->bytes);
    memset(w->piece, 0, GGUF_DEFAULT_ALIGNMENT);
    return rc ? rc : put(w, w->piece, pad, e);
}

/* The layer whose tensors a source must have at hand; -1 for the others. */
static int32_t source_layer(const sk_tensor_source *s, const sk_slice_tensor *t) {
    return t->source == SIZE_MAX ? -1 : s->tensors[t->source].layer;
}

static int put_tensors(writer *w, sk_tensor_source *s, const sk_slice_list *list, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < list->n && rc == SKIPPY_OK; i++) {
        int32_t layer = source_layer(s, &list->t[i]);
        if (s->prepare && (i == 0 || layer != source_layer(s, &list->t[i - 1]))) rc = s->prepare(s->ud, layer, e);
        if (rc == SKIPPY_OK) rc = put_tensor(w, s, &list->t[i], e);
    }
    return rc;
}

/* Tells gguf about the tensors. It wants ggml's structures, which need no data for that. */
static bool add_tensors(struct gguf_context *g, const sk_slice_list *list) {
    struct ggml_init_params ip = {.mem_size = (list->n + 1) * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(ip);
    if (!ctx) return false;
    for (size_t i = 0; i < list->n; i++) {
        const sk_slice_tensor *t = &list->t[i];
        struct ggml_tensor *gt = ggml_new_tensor(ctx, (enum ggml_type)t->type, GGML_MAX_DIMS, t->ne);
        ggml_set_name(gt, t->name);
        gguf_add_tensor(g, gt);
    }
    ggml_free(ctx);
    return true;
}

/* What a stage file will be. */
typedef struct plan {
    sk_slice_list list;
    uint8_t *header;
    size_t header_len;
    uint64_t total;
} plan;

static int make_plan(const sk_tensor_source *s, sk_layer_range r, plan *p, sk_err *e) {
    sk_slice_facts f;
    *p = (plan){0};
    int rc = sk_slice_facts_read(s, &f, e);
    if (rc == SKIPPY_OK) rc = sk_slice_check_facts(&f, r, e);
    if (rc == SKIPPY_OK) rc = sk_slice_tensors(&f, r, &p->list, e);
    if (rc) return rc;
    struct gguf_context *g = sk_slice_meta(&f, r);
    if (g && add_tensors(g, &p->list)) {
        p->header_len = gguf_get_meta_size(g);
        p->header = malloc(p->header_len);
        if (p->header) gguf_get_meta_data(g, p->header);
    }
    gguf_free(g);
    if (!p->header) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the header of a stage file");
    p->total = p->header_len;
    for (size_t i = 0; i < p->list.n; i++) p->total += padded(p->list.t[i].bytes);
    return SKIPPY_OK;
}

static void free_plan(plan *p) {
    free(p->list.t);
    free(p->header);
}

int sk_slice_file_size(const sk_tensor_source *s, sk_layer_range r, uint64_t *size, sk_err *e) {
    plan p;
    int rc = make_plan(s, r, &p, e);
    *size = p.total;
    free_plan(&p);
    return rc;
}

/* Opens the temporary. A lock on it keeps two writers of one path apart; a left-over of a killed one is taken over. */
static int open_temporary(writer *w, sk_err *e) {
    int fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be created: %s", w->path, strerror(errno));
    /* between open and lock, the writer before us may have renamed it */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !sk_slice_is_named(fd, w->path)) {
        close(fd);
        return sk_err_set(e, SKIPPY_E_BUSY, "%.300s is being written by somebody else", w->path);
    }
    w->fd = fd;
    /* Full size at once: others then see what a cache folder will hold. Every byte is written below. */
    if (ftruncate(fd, (off_t)w->total) != 0)
        return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be made %" PRIu64 " bytes long: %s", w->path, w->total,
                          strerror(errno));
    return SKIPPY_OK;
}

/* Makes the new name last over a power cut, as far as the file system can. */
static void sync_folder(const char *path) {
    char folder[PATH_CAP];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static int write_content(writer *w, sk_tensor_source *s, const plan *p, const char *path, sk_err *e) {
    int rc = put(w, p->header, p->header_len, e);
    if (rc == SKIPPY_OK) rc = put_tensors(w, s, &p->list, e);
    if (rc) return rc;
    if (fsync(w->fd) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be synced: %s", w->path, strerror(errno));
    if (rename(w->path, path) != 0)
        return sk_err_set(e, SKIPPY_E_IO, "%.250s cannot be renamed to %.200s: %s", w->path, path, strerror(errno));
    sync_folder(path);
    return SKIPPY_OK;
}

int sk_slice_write_file(sk_tensor_source *s, sk_layer_range r, const char *path, sk_slice_progress progress, void *ud,
                        skippy_key *digest, uint64_t *size, sk_err *e) {
    char temp[PATH_CAP];
    plan p;
    writer w = {.fd = -1, .path = temp, .progress = progress, .ud = ud};
    int rc = make_plan(s, r, &p, e);
    if (rc) goto out;
    if (snprintf(temp, sizeof temp, "%s%s", path, SK_SLICE_SUFFIX_TEMP) >= (int)sizeof temp) {
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the path of the stage file is too long");
        goto out;
    }
    w.total = p.total;
    w.piece = malloc(PIECE);
    if (!w.piece) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto out;
    }
    sk_hash_init(&w.hash);
    rc = open_temporary(&w, e);
    if (rc == SKIPPY_OK) rc = write_content(&w, s, &p, path, e);
    if (rc && w.fd >= 0) unlink(temp);
    if (rc == SKIPPY_OK) {
        sk_hash_final(&w.hash, digest->bytes);
        *size = p.total;
    }
out:
    if (w.fd >= 0) close(w.fd);
    free(w.piece);
    free_plan(&p);
    return rc;
}

int sk_slice_write(sk_tensor_source *s, sk_layer_range r, const char *path, sk_slice_progress progress, void *ud,
                   sk_err *e) {
    skippy_key digest;
    uint64_t size;
    return sk_slice_write_file(s, r, path, progress, ud, &digest, &size, e);
}
