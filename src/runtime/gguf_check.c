#include "runtime/gguf_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

#include "topology/family.h"

/* llama.cpp compares every key and every tensor name with all earlier ones; real files have at most a few thousand. */
#define MAX_KEYS 65536u
#define MAX_TENSORS 262144u
#define MAX_SPLITS 4096u

/* Position in untrusted bytes. Nothing is read without `need`. */
typedef struct cursor {
    const uint8_t *p;
    uint64_t at, size;
    const char *where; /* what is being read, for the error text */
    sk_err *e;
} cursor;

/* A byte string inside the file, not NUL-terminated. */
typedef struct view {
    const char *s;
    uint64_t len;
} view;

static bool need(cursor *c, uint64_t n) {
    if (n <= c->size - c->at) return true;
    sk_err_set(c->e, SKIPPY_E_MODEL,
               "the file is truncated: it ends at byte %" PRIu64 ", inside its header (%s at byte %" PRIu64
               " needs %" PRIu64 " bytes)",
               c->size, c->where, c->at, n);
    return false;
}

static bool read_u32(cursor *c, uint32_t *v) {
    if (!need(c, sizeof *v)) return false;
    memcpy(v, c->p + c->at, sizeof *v);
    c->at += sizeof *v;
    return true;
}

static bool read_u64(cursor *c, uint64_t *v) {
    if (!need(c, sizeof *v)) return false;
    memcpy(v, c->p + c->at, sizeof *v);
    c->at += sizeof *v;
    return true;
}

static bool read_view(cursor *c, view *v) {
    if (!read_u64(c, &v->len) || !need(c, v->len)) return false;
    v->s = (const char *)c->p + c->at;
    c->at += v->len;
    return true;
}

static bool view_is(view v, const char *text) {
    return v.len == strlen(text) && memcmp(v.s, text, v.len) == 0;
}

/* Copies a view as C text, cut to the buffer. */
static void view_copy(view v, char *buf, size_t cap) {
    size_t n = v.len < cap ? (size_t)v.len : cap - 1;
    memcpy(buf, v.s, n);
    buf[n] = 0;
}

uint64_t sk_gguf_value_size(uint32_t type) {
    switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL: return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16: return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32: return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64: return 8;
    default: return 0;
    }
}

static bool skip_array(cursor *c) {
    uint32_t type;
    uint64_t n;
    if (!read_u32(c, &type) || !read_u64(c, &n)) return false;
    uint64_t each = sk_gguf_value_size(type);
    if (each) {
        /* A count whose product overflows is larger than any file. */
        if (!need(c, n > UINT64_MAX / each ? UINT64_MAX : n * each)) return false;
        c->at += n * each;
        return true;
    }
    if (type != GGUF_TYPE_STRING) {
        sk_err_set(c->e, SKIPPY_E_MODEL, "the file is damaged: %s is a list of the unknown type %" PRIu32, c->where,
                   type);
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        view v;
        if (!read_view(c, &v)) return false;
    }
    return true;
}

/* What the check wants to know from the metadata. */
typedef struct wanted {
    sk_gguf_facts *facts;
    uint64_t alignment;
} wanted;

static bool want_string(wanted *w, view key, view value) {
    if (view_is(key, "general.architecture")) view_copy(value, w->facts->arch, sizeof w->facts->arch);
    return true;
}

static bool want_number(cursor *c, wanted *w, view key, uint32_t type, const uint8_t *value) {
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    if (type == GGUF_TYPE_UINT16) memcpy(&u16, value, sizeof u16);
    if (type == GGUF_TYPE_UINT32) memcpy(&u32, value, sizeof u32);
    if (view_is(key, "split.no")) w->facts->split_no = u16;
    if (view_is(key, "split.count")) w->facts->split_count = u16;
    if (view_is(key, GGUF_KEY_GENERAL_ALIGNMENT)) {
        if (u32 == 0 || (u32 & (u32 - 1)) != 0) {
            sk_err_set(c->e, SKIPPY_E_MODEL, "the file is damaged: its alignment %" PRIu32 " is not a power of two",
                       u32);
            return false;
        }
        w->alignment = u32;
    }
    return true;
}

static bool read_pair(cursor *c, wanted *w) {
    char name[80];
    view key, text;
    uint32_t type;
    c->where = "a metadata key";
    if (!read_view(c, &key)) return false;
    view_copy(key, name, sizeof name);
    c->where = name;
    bool ok = read_u32(c, &type);
    if (ok && type == GGUF_TYPE_STRING) {
        ok = read_view(c, &text) && want_string(w, key, text);
    } else if (ok && type == GGUF_TYPE_ARRAY) {
        ok = skip_array(c);
    } else if (ok && sk_gguf_value_size(type)) {
        const uint8_t *value = c->p + c->at;
        ok = need(c, sk_gguf_value_size(type)) && want_number(c, w, key, type, value);
        if (ok) c->at += sk_gguf_value_size(type);
    } else if (ok) {
        sk_err_set(c->e, SKIPPY_E_MODEL, "the file is damaged: metadata '%s' has the unknown type %" PRIu32, name,
                   type);
        ok = false;
    }
    c->where = "metadata";
    return ok;
}

/* One entry of the tensor list. */
typedef struct tensor {
    char name[GGML_MAX_NAME];
    uint64_t offset, size; /* bytes, offset from the start of the data section */
} tensor;

static bool bad_tensor(cursor *c, const tensor *t, const char *what) {
    sk_err_set(c->e, SKIPPY_E_MODEL, "the file is damaged: tensor '%s' %s", t->name, what);
    return false;
}

/* Size in bytes of a tensor with these dimensions; false when it cannot be represented. */
static bool tensor_bytes(const uint64_t ne[GGML_MAX_DIMS], enum ggml_type type, uint64_t *bytes) {
    if (ne[0] > INT64_MAX / ggml_type_size(type)) return false;
    uint64_t n = ne[0] / (uint64_t)ggml_blck_size(type) * ggml_type_size(type);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        if (ne[i] != 0 && n > INT64_MAX / ne[i]) return false;
        n *= ne[i];
    }
    *bytes = n;
    return true;
}

static bool read_tensor(cursor *c, tensor *t) {
    view name;
    uint32_t n_dims, type;
    uint64_t ne[GGML_MAX_DIMS] = {1, 1, 1, 1};
    c->where = "the tensor list";
    if (!read_view(c, &name)) return false;
    view_copy(name, t->name, sizeof t->name);
    if (name.len >= sizeof t->name) return bad_tensor(c, t, "has a name that is too long");
    if (!read_u32(c, &n_dims)) return false;
    if (n_dims > GGML_MAX_DIMS) return bad_tensor(c, t, "has more than four dimensions");
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!read_u64(c, &ne[i])) return false;
    }
    if (!read_u32(c, &type) || !read_u64(c, &t->offset)) return false;
    if (type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type)type) == 0) {
        sk_err_set(c->e, SKIPPY_E_UNSUPPORTED,
                   "tensor '%s' has the type %" PRIu32 ", which this build of llama.cpp does not know", t->name, type);
        return false;
    }
    if (ne[0] % (uint64_t)ggml_blck_size((enum ggml_type)type) != 0)
        return bad_tensor(c, t, "has a row that is not whole blocks");
    if (!tensor_bytes(ne, (enum ggml_type)type, &t->size)) return bad_tensor(c, t, "has impossible dimensions");
    return true;
}

/* The tensor list says where data lies from the start of a section that begins after the list, so the list is read
 * twice: once to find the section, once to compare with the file's size. */
static bool read_tensors(cursor *c, uint64_t n, uint64_t alignment, sk_gguf_facts *facts) {
    tensor t;
    cursor first = *c;
    for (uint64_t i = 0; i < n; i++) {
        if (!read_tensor(c, &t)) return false;
        if (sk_family_stateful_tensor(t.name)) facts->stateful_tensors++;
    }
    uint64_t data = (c->at + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < n; i++) {
        if (!read_tensor(&first, &t)) return false;
        uint64_t end;
        if (__builtin_add_overflow(data, t.offset, &end) || __builtin_add_overflow(end, t.size, &end))
            return bad_tensor(c, &t, "has an impossible offset");
        if (end > c->size) {
            sk_err_set(c->e, SKIPPY_E_MODEL,
                       "the file is truncated: tensor '%s' ends at byte %" PRIu64 " but the file has %" PRIu64
                       " bytes; download it again",
                       t.name, end, c->size);
            return false;
        }
    }
    return true;
}

static bool read_version(cursor *c, sk_gguf_facts *facts) {
    c->where = "the version";
    if (!read_u32(c, &facts->version)) return false;
    /* A small number whose low half is zero was written with the other byte order. */
    if (facts->version != 0 && (facts->version & 0xffffu) == 0)
        sk_err_set(c->e, SKIPPY_E_UNSUPPORTED,
                   "the file was written for a machine of the other byte order (big-endian)");
    else if (facts->version < 2 || facts->version > GGUF_VERSION)
        sk_err_set(c->e, SKIPPY_E_UNSUPPORTED, "the file is GGUF version %" PRIu32 "; versions 2 to %d can be read",
                   facts->version, GGUF_VERSION);
    else
        return true;
    return false;
}

static bool read_header(cursor *c, sk_gguf_facts *facts) {
    wanted w = {.facts = facts, .alignment = GGUF_DEFAULT_ALIGNMENT};
    uint64_t n_tensors, n_pairs;
    if (!read_version(c, facts)) return false;
    c->where = "the counts";
    if (!read_u64(c, &n_tensors) || !read_u64(c, &n_pairs)) return false;
    if (n_tensors > MAX_TENSORS || n_pairs > MAX_KEYS) {
        sk_err_set(c->e, SKIPPY_E_MODEL,
                   "the file is damaged: it claims %" PRIu64 " tensors and %" PRIu64 " metadata keys", n_tensors,
                   n_pairs);
        return false;
    }
    for (uint64_t i = 0; i < n_pairs; i++) {
        if (!read_pair(c, &w)) return false;
    }
    facts->n_tensors = n_tensors;
    return read_tensors(c, n_tensors, w.alignment, facts);
}

int sk_gguf_check_bytes(const uint8_t *bytes, size_t size, sk_gguf_facts *out, sk_err *e) {
    sk_err local = {0};
    cursor c = {.p = bytes, .at = 0, .size = size, .where = "the magic", .e = e ? e : &local};
    memset(out, 0, sizeof *out);
    out->file_bytes = size;
    if (size == 0) return sk_err_set(e, SKIPPY_E_MODEL, "the file is empty");
    size_t n_magic = size < 4 ? size : 4;
    if (memcmp(bytes, GGUF_MAGIC, n_magic) != 0)
        return sk_err_set(e, SKIPPY_E_MODEL, "the file is not GGUF: it does not begin with the letters GGUF");
    if (!need(&c, 4)) return c.e->code;
    c.at = 4;
    return read_header(&c, out) ? SKIPPY_OK : c.e->code;
}

/* Puts the path before the text of an error that was about the content. */
static int with_path(const char *path, sk_err *e, int rc) {
    if (rc == SKIPPY_OK || !e) return rc;
    sk_err inner = *e;
    return sk_err_set(e, rc, "%.250s: %s", path, inner.text);
}

static int check_descriptor(int fd, const char *path, sk_gguf_facts *out, sk_err *e) {
    struct stat st;
    if (fstat(fd, &st) != 0) return sk_err_set(e, SKIPPY_E_MODEL, "%.250s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return sk_err_set(e, SKIPPY_E_MODEL, "%.250s is a directory; name the .gguf file in it", path);
    if (!S_ISREG(st.st_mode)) return sk_err_set(e, SKIPPY_E_MODEL, "%.250s is not a regular file", path);
    if (st.st_size == 0) return sk_err_set(e, SKIPPY_E_MODEL, "%.250s: the file is empty", path);
    size_t size = (size_t)st.st_size;
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return sk_err_set(e, SKIPPY_E_MODEL, "%.250s cannot be mapped: %s", path, strerror(errno));
    int rc = with_path(path, e, sk_gguf_check_bytes(map, size, out, e));
    munmap(map, size);
    return rc;
}

static int check_one(const char *path, sk_gguf_facts *out, sk_err *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return sk_err_set(e, SKIPPY_E_NOT_FOUND, "%.250s: there is no such file", path);
    if (fd < 0) return sk_err_set(e, SKIPPY_E_MODEL, "%.250s cannot be read: %s", path, strerror(errno));
    int rc = check_descriptor(fd, path, out, e);
    close(fd);
    return rc;
}

/* llama.cpp finds the other shards by name: <prefix>-00001-of-00003.gguf. */
static int shard_path(const char *first, uint32_t no, uint32_t count, char *buf, size_t cap, sk_err *e) {
    char suffix[64];
    snprintf(suffix, sizeof suffix, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", 1u, count);
    size_t n = strlen(first), n_suffix = strlen(suffix);
    if (n < n_suffix || strcmp(first + n - n_suffix, suffix) != 0)
        return sk_err_set(e, SKIPPY_E_MODEL, "%.250s is the first of %" PRIu32 " shards, so its name must end in %s",
                          first, count, suffix);
    int len = snprintf(buf, cap, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (int)(n - n_suffix), first, no, count);
    if (len < 0 || (size_t)len >= cap) return sk_err_set(e, SKIPPY_E_MODEL, "the path of the model is too long");
    return SKIPPY_OK;
}

static int check_shards(const char *first, sk_gguf_facts *out, sk_err *e) {
    char path[4200];
    for (uint32_t i = 1; i < out->split_count; i++) {
        sk_gguf_facts shard;
        int rc = shard_path(first, i + 1, out->split_count, path, sizeof path, e);
        if (rc == SKIPPY_OK) rc = check_one(path, &shard, e);
        if (rc == SKIPPY_E_NOT_FOUND)
            rc = sk_err_set(e, SKIPPY_E_MODEL, "shard %" PRIu32 " of %" PRIu32 " is missing: %.300s", i + 1,
                            out->split_count, path);
        if (rc != SKIPPY_OK) return rc;
        if (shard.split_no != i || shard.split_count != out->split_count)
            return sk_err_set(e, SKIPPY_E_MODEL, "%.300s is not shard %" PRIu32 " of %" PRIu32 ", as its name says",
                              path, i + 1, out->split_count);
        out->n_tensors += shard.n_tensors;
        out->stateful_tensors += shard.stateful_tensors;
        out->file_bytes += shard.file_bytes;
    }
    return SKIPPY_OK;
}

int sk_gguf_check_file(const char *path, sk_gguf_facts *out, sk_err *e) {
    int rc = check_one(path, out, e);
    if (rc != SKIPPY_OK || out->split_count <= 1) return rc;
    if (out->split_count > MAX_SPLITS)
        return sk_err_set(e, SKIPPY_E_MODEL, "%.250s claims %" PRIu32 " shards", path, out->split_count);
    if (out->split_no != 0)
        return sk_err_set(e, SKIPPY_E_MODEL,
                          "%.250s is shard %" PRIu32 " of %" PRIu32 "; name the first shard (-00001-of-%05" PRIu32
                          ".gguf)",
                          path, out->split_no + 1, out->split_count, out->split_count);
    return check_shards(path, out, e);
}
