#include "runtime/tensor_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

#include "base/hash.h"
#include "runtime/gguf_check.h"

/* One file of the model. */
typedef struct shard {
    int fd;
    uint64_t data; /* offset of its tensor data */
} shard;

/* Where a tensor's bytes are. */
typedef struct place {
    uint32_t shard;
    uint64_t offset; /* in the file */
} place;

typedef struct gguf_files {
    shard *shards;
    size_t n_shards;
    place *places; /* one per tensor */
    sk_tensor_desc *tensors;
    size_t n_tensors;
} gguf_files;

static int files_read(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e) {
    const gguf_files *f = ud;
    if (tensor >= f->n_tensors || offset > f->tensors[tensor].bytes || n > f->tensors[tensor].bytes - offset)
        return sk_err_set(e, SKIPPY_E_INVALID, "bytes %" PRIu64 "+%zu are not in tensor %zu", offset, n, tensor);
    const place *p = &f->places[tensor];
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(f->shards[p->shard].fd, (char *)buf + got, n - got, (off_t)(p->offset + offset + got));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0)
            return sk_err_set(e, SKIPPY_E_IO, "tensor '%s' cannot be read: %s", f->tensors[tensor].name,
                              strerror(errno));
        if (k == 0)
            return sk_err_set(e, SKIPPY_E_CORRUPT, "the model file ends inside tensor '%s': it was cut while in use",
                              f->tensors[tensor].name);
        got += (size_t)k;
    }
    return SKIPPY_OK;
}

static void files_close(void *ud) {
    gguf_files *f = ud;
    for (size_t i = 0; i < f->n_shards; i++)
        if (f->shards[i].fd >= 0) close(f->shards[i].fd);
    free(f->shards);
    free(f->places);
    free(f);
}

/* The number of "blk.N.", -1 for other names. */
static int32_t layer_of(const char *name) {
    if (strncmp(name, "blk.", 4) != 0) return -1;
    char *end;
    long n = strtol(name + 4, &end, 10);
    return end == name + 4 || *end != '.' || n < 0 || n > INT32_MAX ? -1 : (int32_t)n;
}

static void describe(const struct gguf_context *g, int64_t i, sk_tensor_desc *d) {
    *d = (sk_tensor_desc){.type = (uint32_t)gguf_get_tensor_type(g, i), .n_dims = 1};
    snprintf(d->name, sizeof d->name, "%s", gguf_get_tensor_name(g, i));
    memcpy(d->ne, gguf_get_tensor_ne(g, i), sizeof d->ne);
    for (uint32_t k = 0; k < 4; k++)
        if (d->ne[k] > 1) d->n_dims = k + 1;
    d->bytes = gguf_get_tensor_size(g, i);
    d->layer = layer_of(d->name);
}

/* Adds the tensors of one shard. */
static int add_tensors(gguf_files *f, const struct gguf_context *g, uint32_t no, sk_err *e) {
    size_t n = (size_t)gguf_get_n_tensors(g), total = f->n_tensors + n;
    sk_tensor_desc *t = realloc(f->tensors, (total ? total : 1) * sizeof *t);
    if (t) f->tensors = t;
    place *p = realloc(f->places, (total ? total : 1) * sizeof *p);
    if (p) f->places = p;
    if (!t || !p) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu tensors", total);
    for (size_t i = 0; i < n; i++) {
        describe(g, (int64_t)i, &f->tensors[f->n_tensors + i]);
        f->places[f->n_tensors + i] =
            (place){.shard = no, .offset = f->shards[no].data + gguf_get_tensor_offset(g, (int64_t)i)};
    }
    f->n_tensors = total;
    return SKIPPY_OK;
}

/* Opens shard `no`; the metadata of the first goes to the source. */
static int add_shard(gguf_files *f, const char *path, uint32_t no, sk_tensor_source *out, sk_err *e) {
    f->shards[no].fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->shards[no].fd < 0) return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be read: %s", path, strerror(errno));
    struct gguf_init_params ip = {.no_alloc = true, .ctx = NULL};
    struct gguf_context *g = gguf_init_from_file(path, ip);
    if (!g) return sk_err_set(e, SKIPPY_E_MODEL, "llama.cpp cannot read the header of %.300s", path);
    f->shards[no].data = gguf_get_data_offset(g);
    int rc = add_tensors(f, g, no, e);
    if (no == 0 && rc == SKIPPY_OK)
        out->meta = g;
    else
        gguf_free(g);
    return rc;
}

/* "<stem>-00002-of-00003.gguf"; gguf_check has looked at the first shard's name. */
static void shard_path(const char *first, uint32_t no, uint32_t count, char *buf, size_t cap) {
    char suffix[64];
    int n = snprintf(suffix, sizeof suffix, "-00001-of-%05" PRIu32 ".gguf", count);
    size_t stem = strlen(first) - (size_t)n;
    snprintf(buf, cap, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (int)stem, first, no + 1, count);
}

static int add_digest(sk_hasher *h, const char *path, const char *digest_dir, skippy_progress_fn progress, void *ud,
                      skippy_key *key, sk_err *e) {
    int rc = skippy_file_digest(path, digest_dir, progress, ud, key, NULL);
    if (rc) return sk_err_set(e, rc, "%.300s could not be digested: %s", path, skippy_strerror(rc));
    sk_hash_update(h, key->bytes, sizeof key->bytes);
    return SKIPPY_OK;
}

static int open_shards(gguf_files *f, const char *path, uint32_t count, const char *digest_dir,
                       skippy_progress_fn progress, void *ud, sk_tensor_source *out, sk_err *e) {
    char name[4200];
    sk_hasher h;
    sk_hash_init(&h);
    for (uint32_t i = 0; i < count; i++) {
        if (count == 1)
            snprintf(name, sizeof name, "%s", path);
        else
            shard_path(path, i, count, name, sizeof name);
        int rc = add_digest(&h, name, digest_dir, progress, ud, &out->digest, e);
        if (rc == SKIPPY_OK) rc = add_shard(f, name, i, out, e);
        if (rc) return rc;
    }
    if (count > 1) sk_hash_final(&h, out->digest.bytes); /* one file: its own digest, so that names agree everywhere */
    return SKIPPY_OK;
}

static void fill_name(sk_tensor_source *s, const char *path) {
    int64_t k = gguf_find_key(s->meta, "general.name");
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    if (k >= 0 && gguf_get_kv_type(s->meta, k) == GGUF_TYPE_STRING && gguf_get_val_str(s->meta, k)[0])
        base = gguf_get_val_str(s->meta, k);
    snprintf(s->name, sizeof s->name, "%.255s", base);
}

static int fill_facts(sk_tensor_source *s, const char *path, const sk_gguf_facts *facts, sk_err *e) {
    int64_t n = 0;
    snprintf(s->arch, sizeof s->arch, "%s", facts->arch);
    if (!s->arch[0]) return sk_err_set(e, SKIPPY_E_MODEL, "%.300s names no architecture", path);
    if (!sk_tensor_source_int(s, "block_count", &n) || n <= 0 || n > INT32_MAX)
        return sk_err_set(e, SKIPPY_E_MODEL, "%.300s does not say how many layers it has (%s.block_count)", path,
                          s->arch);
    s->n_layer = (int32_t)n;
    fill_name(s, path);
    return SKIPPY_OK;
}

int sk_tensor_source_open_gguf(const char *path, const char *digest_dir, skippy_progress_fn progress, void *ud,
                               sk_tensor_source *out, sk_err *e) {
    sk_gguf_facts facts;
    memset(out, 0, sizeof *out);
    int rc = sk_gguf_check_file(path, &facts, e);
    if (rc) return rc;
    uint32_t count = facts.split_count > 1 ? facts.split_count : 1;
    gguf_files *f = calloc(1, sizeof *f);
    if (f) f->shards = malloc(count * sizeof *f->shards);
    if (!f || !f->shards) {
        free(f);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %u shards", count);
    }
    for (uint32_t i = 0; i < count; i++) f->shards[i].fd = -1;
    f->n_shards = count;
    out->ud = f;
    out->read = files_read;
    out->close = files_close;
    rc = open_shards(f, path, count, digest_dir, progress, ud, out, e);
    out->tensors = f->tensors;
    out->n_tensors = f->n_tensors;
    if (rc == SKIPPY_OK) rc = fill_facts(out, path, &facts, e);
    if (rc) sk_tensor_source_close(out);
    return rc;
}

void sk_tensor_source_close(sk_tensor_source *s) {
    if (s->close) s->close(s->ud);
    if (s->meta) gguf_free(s->meta);
    free(s->tensors);
    memset(s, 0, sizeof *s);
}

static bool int_value(const struct gguf_context *g, int64_t k, int64_t *out) {
    switch (gguf_get_kv_type(g, k)) {
    case GGUF_TYPE_UINT8: *out = gguf_get_val_u8(g, k); return true;
    case GGUF_TYPE_INT8: *out = (int64_t)gguf_get_val_i8(g, k); return true;
    case GGUF_TYPE_UINT16: *out = gguf_get_val_u16(g, k); return true;
    case GGUF_TYPE_INT16: *out = gguf_get_val_i16(g, k); return true;
    case GGUF_TYPE_UINT32: *out = gguf_get_val_u32(g, k); return true;
    case GGUF_TYPE_INT32: *out = gguf_get_val_i32(g, k); return true;
    case GGUF_TYPE_INT64: *out = gguf_get_val_i64(g, k); return true;
    case GGUF_TYPE_BOOL: *out = gguf_get_val_bool(g, k); return true;
    case GGUF_TYPE_UINT64: {
        uint64_t v = gguf_get_val_u64(g, k);
        *out = (int64_t)v;
        return v <= INT64_MAX;
    }
    default: return false;
    }
}

bool sk_tensor_source_int(const sk_tensor_source *s, const char *key, int64_t *out) {
    char full[256];
    snprintf(full, sizeof full, "%s.%s", s->arch, key);
    int64_t k = gguf_find_key(s->meta, full);
    if (k < 0) k = gguf_find_key(s->meta, key);
    return k >= 0 && int_value(s->meta, k, out);
}
