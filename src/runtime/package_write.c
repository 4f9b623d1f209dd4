#include "runtime/package.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>
#include <jansson.h>

#include "base/hash.h"
#include "runtime/package_file.h"
#include "runtime/package_manifest.h"
#include "runtime/package_part.h"
#include "topology/infer.h"

#define PIECE ((size_t)1 << 20)

typedef struct job {
    sk_tensor_source *source;
    const char *dir;
    char parts_dir[PATH_MAX];
    sk_package package;
    sk_byte_meter meter; /* tensor bytes; each is read twice, for the name and for the file */
    char *piece;
} job;

static int no_memory(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory while writing the package");
}

/* ---- which parts there are ---- */

/* Text for people: what a manifest may not hold becomes a question mark. */
static void plain_text(const char *from, char *to, size_t cap) {
    snprintf(to, cap, "%s", from);
    json_t *valid = json_string(to); /* NULL when it is not UTF-8, also when the cut went through a character */
    for (char *p = to; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && !valid)) *p = '?';
    }
    json_decref(valid);
}

static int describe(job *j, sk_err *e) {
    sk_tensor_source *s = j->source;
    sk_package *p = &j->package;
    int64_t width = 0;
    p->format = SK_PACKAGE_FORMAT;
    plain_text(s->name[0] ? s->name : s->arch, p->model_id, sizeof p->model_id);
    plain_text(s->arch, p->arch, sizeof p->arch);
    p->n_layer = s->n_layer;
    p->n_stage_layer = sk_slice_layers(s);
    p->source_digest = s->digest;
    if (gguf_find_key(s->meta, "skippy.stage.version") >= 0)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "this file is a stage of a model; make the package of the whole model");
    if (s->n_layer < 1 || s->n_layer > SK_MAX_LAYERS)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the model has %" PRId32 " layers; a package has 1 to %d",
                          s->n_layer, SK_MAX_LAYERS);
    if (!sk_tensor_source_int(s, "embedding_length", &width) || width < 1 || width > INT32_MAX)
        return sk_err_set(e, SKIPPY_E_MODEL, "the model does not say its width (%s.embedding_length)", s->arch);
    p->width = (int32_t)width;
    const sk_infer_query query = {.arch = s->arch, .name = s->name, .layers = p->n_stage_layer, .width = p->width};
    sk_infer_match match;
    sk_infer(sk_registry_get(), &query, &match);
    if (match.family) snprintf(p->family, sizeof p->family, "%s", match.family->record.family);
    return SKIPPY_OK;
}

/* The part of a tensor's kind, appended when it is the first. */
static uint32_t part_for(sk_package *p, enum sk_part_role role, int32_t layer) {
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].role == role && p->parts[i].layer == layer) return (uint32_t)i;
    p->parts[p->n_parts] = (sk_package_part){.role = role, .layer = layer};
    return (uint32_t)p->n_parts++;
}

/* Metadata first, then the parts without a layer in the order of their first tensors, then the layers: all of them,
 * also one without tensors. */
static int plan_parts(job *j, sk_err *e) {
    const sk_tensor_source *s = j->source;
    sk_package *p = &j->package;
    p->parts = calloc((size_t)s->n_layer + SK_PART_ROLES, sizeof *p->parts);
    p->tensors = calloc(s->n_tensors ? s->n_tensors : 1, sizeof *p->tensors);
    if (!p->parts || !p->tensors) return no_memory(e);
    part_for(p, SK_PART_METADATA, -1);
    for (size_t i = 0; i < s->n_tensors; i++)
        if (s->tensors[i].layer < 0) part_for(p, sk_part_role_of(&s->tensors[i]), -1);
    for (int32_t i = 0; i < s->n_layer; i++) part_for(p, SK_PART_LAYER, i);
    for (size_t i = 0; i < s->n_tensors; i++) {
        const sk_tensor_desc *t = &s->tensors[i];
        if (t->layer >= s->n_layer)
            return sk_err_set(e, SKIPPY_E_MODEL, "tensor '%s' is of a layer that the model does not have (%" PRId32 ")",
                              t->name, s->n_layer);
        const uint32_t no = part_for(p, sk_part_role_of(t), t->layer);
        p->tensors[i] = (sk_package_tensor){.desc = *t, .part = no};
        p->parts[no].n_tensors++;
        p->parts[no].tensor_bytes += t->bytes; /* of a file that was checked: the sum is below its size */
        j->meter.total += 2 * t->bytes;
    }
    p->n_tensors = s->n_tensors;
    return SKIPPY_OK;
}

/* ---- the bytes of a part ---- */

/* "split.*" says which shard of several a file is. A part is none, and a stage file is whole. */
static void drop_split_keys(struct gguf_context *g) {
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) (void)gguf_remove_key(g, keys[i]);
}

static bool add_tensors(const sk_package *p, size_t no, struct gguf_context *g) {
    const struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (p->parts[no].n_tensors + 1),
                                            .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx) return false;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const sk_tensor_desc *t = &p->tensors[i].desc;
        if (p->tensors[i].part != no) continue;
        struct ggml_tensor *d = ggml_new_tensor(ctx, (enum ggml_type)t->type, (int)t->n_dims, t->ne);
        ggml_set_name(d, t->name);
        gguf_add_tensor(g, d);
    }
    ggml_free(ctx);
    return true;
}

/* The bytes before the tensor data. */
static int build_header(const job *j, size_t no, sk_buf *out, sk_err *e) {
    struct gguf_context *g = gguf_init_empty();
    if (!g) return no_memory(e);
    if (j->package.parts[no].role == SK_PART_METADATA) {
        gguf_set_kv(g, j->source->meta);
        drop_split_keys(g);
    }
    bool ok = add_tensors(&j->package, no, g);
    const size_t size = gguf_get_meta_size(g);
    ok = ok && sk_buf_reserve(out, size);
    if (ok) {
        gguf_get_meta_data(g, out->data);
        out->len = size;
    }
    gguf_free(g);
    return ok ? SKIPPY_OK : no_memory(e);
}

/* Where a part's bytes go: into its digest, and into a file when there is one. */
typedef struct sink {
    sk_hasher hash;
    uint64_t bytes;
    int fd; /* -1: digest only */
    const char *path;
} sink;

static int put(sink *k, const void *data, size_t n, sk_err *e) {
    sk_hash_update(&k->hash, data, n);
    k->bytes += n;
    if (k->fd < 0 || sk_package_write_all(k->fd, data, n)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be written: %s", k->path, strerror(errno));
}

static int put_tensor(job *j, size_t tensor, sink *k, sk_err *e) {
    static const char zeros[GGUF_DEFAULT_ALIGNMENT];
    const uint64_t bytes = j->source->tensors[tensor].bytes;
    for (uint64_t at = 0; at < bytes;) {
        const size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        int rc = j->source->read(j->source->ud, tensor, at, j->piece, n, e);
        if (rc == SKIPPY_OK) rc = put(k, j->piece, n, e);
        if (rc != SKIPPY_OK) return rc;
        if (!sk_byte_meter_add(&j->meter, n))
            return sk_err_set(e, SKIPPY_E_CANCELLED, "stopped; the same command continues where it ended");
        at += n;
    }
    const size_t over = (size_t)(bytes % GGUF_DEFAULT_ALIGNMENT);
    return over ? put(k, zeros, GGUF_DEFAULT_ALIGNMENT - over, e) : SKIPPY_OK;
}

static int put_part(job *j, size_t no, const sk_buf *header, sink *k, sk_err *e) {
    sk_hash_init(&k->hash);
    int rc = put(k, header->data, header->len, e);
    for (size_t i = 0; i < j->package.n_tensors && rc == SKIPPY_OK; i++)
        if (j->package.tensors[i].part == no) rc = put_tensor(j, i, k, e);
    return rc;
}

/* ---- files ---- */

/* A name that is the same in every run, so that what an interrupted run left is overwritten and not piled up. */
static int open_new(const char *path, int *fd, sk_err *e) {
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*fd < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be written: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        return sk_err_set(e, SKIPPY_E_BUSY, "%.300s is being written by another process", path);
    if (ftruncate(*fd, 0) != 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s: %s", path, strerror(errno));
    return SKIPPY_OK;
}

static int write_file(job *j, size_t no, const sk_buf *header, const char *path, sk_err *e) {
    char temporary[PATH_MAX];
    skippy_key written;
    sink k = {.fd = -1, .path = path};
    snprintf(temporary, sizeof temporary, "%.*s.new", (int)sizeof temporary - 8, path);
    int rc = open_new(temporary, &k.fd, e);
    if (rc == SKIPPY_E_BUSY) {
        close(k.fd); /* the file is the other process's: it stays */
        return rc;
    }
    if (rc == SKIPPY_OK) rc = put_part(j, no, header, &k, e);
    if (rc == SKIPPY_OK) {
        sk_hash_final(&k.hash, written.bytes);
        if (!skippy_key_equal(&written, &j->package.parts[no].digest))
            rc = sk_err_set(e, SKIPPY_E_IO, "the model changed while the package was written; run it again");
    }
    if (rc == SKIPPY_OK) rc = sk_package_publish(k.fd, temporary, path, j->parts_dir, e);
    if (rc != SKIPPY_OK && k.fd >= 0) (void)unlink(temporary);
    if (k.fd >= 0) close(k.fd);
    return rc;
}

/* Digest first: it is the name, and a file of that name with the right content need not be written. */
static int write_part(job *j, size_t no, sk_err *e) {
    sk_package_part *part = &j->package.parts[no];
    char path[PATH_MAX];
    sk_buf header = {0};
    sk_byte_meter unwatched = {0};
    sink digest_only = {.fd = -1, .path = ""};
    int fd;
    int rc = build_header(j, no, &header, e);
    if (rc == SKIPPY_OK) rc = put_part(j, no, &header, &digest_only, e);
    if (rc != SKIPPY_OK) goto out;
    sk_hash_final(&digest_only.hash, part->digest.bytes);
    part->bytes = digest_only.bytes;
    sk_package_part_path(&part->digest, part->path);
    snprintf(path, sizeof path, "%.*s/%s", (int)sizeof path - 128, j->dir, part->path);
    if (sk_package_open_file(path, part->bytes, &part->digest, &unwatched, &fd, NULL) == SKIPPY_OK) {
        close(fd);
        (void)sk_byte_meter_add(&j->meter, part->tensor_bytes);
    } else {
        rc = write_file(j, no, &header, path, e);
    }
out:
    sk_buf_free(&header);
    return rc;
}

/* The manifest is read back before it is published: what the parser does not take must not be left behind. */
static int write_manifest(const job *j, sk_err *e) {
    char path[PATH_MAX], temporary[PATH_MAX];
    sk_buf text = {0};
    sk_package parsed = {0};
    int fd = -1;
    snprintf(path, sizeof path, "%.*s/" SK_PACKAGE_MANIFEST, (int)sizeof path - 128, j->dir);
    snprintf(temporary, sizeof temporary, "%.*s/" SK_PACKAGE_MANIFEST ".new", (int)sizeof temporary - 128, j->dir);
    sk_package_dump(&j->package, &text);
    int rc = text.failed ? no_memory(e) : sk_package_parse(text.data, text.len, &parsed, e);
    if (rc == SKIPPY_OK) rc = open_new(temporary, &fd, e);
    if (rc == SKIPPY_OK && !sk_package_write_all(fd, text.data, text.len))
        rc = sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be written: %s", temporary, strerror(errno));
    if (rc == SKIPPY_OK) rc = sk_package_publish(fd, temporary, path, j->dir, e);
    if (rc != SKIPPY_OK && rc != SKIPPY_E_BUSY && fd >= 0) (void)unlink(temporary);
    if (fd >= 0) close(fd);
    sk_package_free(&parsed);
    sk_buf_free(&text);
    return rc;
}

int sk_package_write(sk_tensor_source *s, const char *dir, sk_slice_progress progress, void *ud, sk_err *e) {
    job j = {.source = s, .dir = dir, .meter = {.report = progress, .ud = ud}, .piece = malloc(PIECE)};
    int rc = j.piece ? SKIPPY_OK : no_memory(e);
    if (rc == SKIPPY_OK && strlen(dir) > PATH_MAX - 256)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the path of the package is too long");
    if (rc == SKIPPY_OK) rc = describe(&j, e);
    if (rc == SKIPPY_OK) rc = plan_parts(&j, e);
    snprintf(j.parts_dir, sizeof j.parts_dir, "%.*s/parts", (int)sizeof j.parts_dir - 16, dir);
    if (rc == SKIPPY_OK) rc = sk_package_make_folder(j.parts_dir, 0755, e);
    for (size_t i = 0; i < j.package.n_parts && rc == SKIPPY_OK; i++) rc = write_part(&j, i, e);
    if (rc == SKIPPY_OK) rc = write_manifest(&j, e);
    sk_package_free(&j.package);
    free(j.piece);
    return rc;
}
