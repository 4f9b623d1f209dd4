#include "runtime/package_manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <jansson.h>

#include "base/hash.h"
#include "topology/json_read.h"

enum { MOST_PARTS = SK_MAX_LAYERS + SK_PART_ROLES, MOST_TENSORS = 262144 };

const char *const sk_part_role_names[SK_PART_ROLES + 1] = {"metadata", "embedding", "head", "layer", "shared", NULL};

void sk_package_free(sk_package *p) {
    free(p->parts);
    free(p->tensors);
    memset(p, 0, sizeof *p);
}

void sk_package_part_path(const skippy_key *digest, char path[96]) {
    char hex[2 * sizeof digest->bytes + 1];
    sk_hex(digest->bytes, sizeof digest->bytes, hex);
    snprintf(path, 96, "parts/%s.gguf", hex);
}

bool sk_package_tensor_bytes(uint32_t type, const int64_t ne[4], uint64_t *bytes) {
    if (type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type)type) == 0) return false;
    uint64_t block = (uint64_t)ggml_blck_size((enum ggml_type)type), n = ggml_type_size((enum ggml_type)type);
    if (ne[0] <= 0 || (uint64_t)ne[0] % block != 0) return false;
    bool fits = !__builtin_mul_overflow(n, (uint64_t)ne[0] / block, &n);
    for (int i = 1; i < 4 && fits; i++) fits = ne[i] > 0 && !__builtin_mul_overflow(n, (uint64_t)ne[i], &n);
    *bytes = n;
    return fits && n <= INT64_MAX;
}

int32_t sk_package_tensor_layer(const char *name) {
    static const char prefix[] = "blk.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    int64_t n = 0;
    const char *p = name + sizeof prefix - 1;
    if (*p == '.') return -1;
    for (; *p >= '0' && *p <= '9'; p++) {
        n = n * 10 + (*p - '0');
        if (n > INT32_MAX) return -1;
    }
    return *p == '.' ? (int32_t)n : -1;
}

static bool has_tensor(const sk_package *p, const char *name) {
    for (size_t i = 0; i < p->n_tensors; i++)
        if (strcmp(p->tensors[i].desc.name, name) == 0) return true;
    return false;
}

bool sk_package_stage_needs(const sk_package *p, sk_layer_range r, const sk_package_part *part) {
    const bool last = r.end >= p->n_stage_layer;
    switch (part->role) {
    case SK_PART_EMBEDDING: return r.start == 0 || (last && !has_tensor(p, "output.weight")); /* tied */
    case SK_PART_HEAD: return last;
    case SK_PART_LAYER: return part->layer >= r.start && part->layer < r.end;
    default: return true;
    }
}

/* ---- writing ---- */

static void dump_text(sk_buf *out, const char *key, const char *text) {
    sk_buf_printf(out, " \"%s\": \"", key);
    sk_buf_json_escape(out, text, strlen(text));
    sk_buf_str(out, "\",\n");
}

static void dump_part(sk_buf *out, const sk_package_part *part) {
    char hex[2 * sizeof part->digest.bytes + 1];
    sk_hex(part->digest.bytes, sizeof part->digest.bytes, hex);
    sk_buf_printf(out, "  {\"role\": \"%s\", ", sk_part_role_names[part->role]);
    if (part->role == SK_PART_LAYER) sk_buf_printf(out, "\"layer\": %" PRId32 ", ", part->layer);
    sk_buf_printf(out,
                  "\"path\": \"%s\", \"bytes\": %" PRIu64 ", \"tensors\": %" PRIu32 ", \"tensor_bytes\": %" PRIu64
                  ", \"blake3\": \"%s\"}",
                  part->path, part->bytes, part->n_tensors, part->tensor_bytes, hex);
}

static void dump_tensor(sk_buf *out, const sk_package_tensor *t) {
    sk_buf_str(out, "  {\"name\": \"");
    sk_buf_json_escape(out, t->desc.name, strlen(t->desc.name));
    sk_buf_printf(out, "\", \"type\": %" PRIu32 ", \"ne\": [", t->desc.type);
    for (uint32_t i = 0; i < t->desc.n_dims; i++) sk_buf_printf(out, "%s%" PRId64, i ? ", " : "", t->desc.ne[i]);
    sk_buf_printf(out, "], \"part\": %" PRIu32 "}", t->part);
}

void sk_package_dump(const sk_package *p, sk_buf *out) {
    char hex[2 * sizeof p->source_digest.bytes + 1];
    sk_hex(p->source_digest.bytes, sizeof p->source_digest.bytes, hex);
    sk_buf_printf(out, "{\n \"format\": %" PRIu32 ",\n", p->format);
    dump_text(out, "model_id", p->model_id);
    dump_text(out, "architecture", p->arch);
    if (p->family[0]) dump_text(out, "family", p->family);
    sk_buf_printf(out, " \"layers\": %" PRId32 ",\n \"stage_layers\": %" PRId32 ",\n \"width\": %" PRId32 ",\n",
                  p->n_layer, p->n_stage_layer, p->width);
    dump_text(out, "source_blake3", hex);
    sk_buf_str(out, " \"parts\": [\n");
    for (size_t i = 0; i < p->n_parts; i++) {
        dump_part(out, &p->parts[i]);
        sk_buf_str(out, i + 1 < p->n_parts ? ",\n" : "\n");
    }
    sk_buf_str(out, " ],\n \"tensors\": [\n");
    for (size_t i = 0; i < p->n_tensors; i++) {
        dump_tensor(out, &p->tensors[i]);
        sk_buf_str(out, i + 1 < p->n_tensors ? ",\n" : "\n");
    }
    sk_buf_str(out, " ]\n}\n");
}

/* ---- reading ---- */

/* Text that is shown to people: a control character in it could move a terminal's cursor. */
static void read_plain(sk_reader *r, const json_t *o, const char *key, char *out, size_t cap) {
    const char *text = NULL;
    sk_read_text(r, o, key, &text);
    if (r->failed || !text) return;
    const size_t n = strlen(text);
    if (n >= cap) sk_read_fail(r, "'%s' has %zu bytes; at most %zu are allowed", key, n, cap - 1);
    for (size_t i = 0; i < n && !r->failed; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) sk_read_fail(r, "'%s' holds a control character", key);
    if (!r->failed) memcpy(out, text, n + 1);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void read_digest(sk_reader *r, const json_t *o, const char *key, skippy_key *out) {
    const char *text = NULL;
    sk_read_text(r, o, key, &text);
    if (r->failed || !text) return;
    bool ok = strlen(text) == 2 * sizeof out->bytes;
    for (size_t i = 0; i < sizeof out->bytes && ok; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        ok = high >= 0 && low >= 0;
        if (ok) out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (!ok) sk_read_fail(r, "'%s' must be 64 digits of lower-case hexadecimal", key);
}

/* A required array of 1 to cap elements. */
static const json_t *read_list(sk_reader *r, const json_t *o, const char *key, size_t cap) {
    const json_t *list = sk_read_opt_array(r, o, key, cap);
    if (!list) sk_read_fail(r, "the key '%s' is missing", key);
    return r->failed ? NULL : list;
}

static void read_size(sk_reader *r, const json_t *o, const char *key, int64_t min, uint64_t *out) {
    int64_t v = 0;
    sk_read_i64(r, o, key, min, INT64_MAX, &v);
    *out = (uint64_t)v;
}

/* The path says nothing that the digest does not say; another path would lead out of the folder, or to a file whose
 * name claims other content. */
static void read_path(sk_reader *r, const json_t *o, sk_package_part *part) {
    char expected[sizeof part->path];
    const char *path = NULL;
    sk_read_text(r, o, "path", &path);
    if (r->failed || !path) return;
    sk_package_part_path(&part->digest, expected);
    if (strcmp(path, expected) != 0) sk_read_fail(r, "the path '%.100s' is not parts/<blake3>.gguf of this part", path);
    memcpy(part->path, expected, sizeof part->path);
}

static void read_part(sk_reader *r, const json_t *o, size_t i, int32_t n_layer, sk_package_part *part) {
    static const char *const keys[] = {"role", "layer", "path", "bytes", "tensors", "tensor_bytes", "blake3", NULL};
    int role = 0;
    int32_t n_tensors = 0;
    if (r->failed) return;
    snprintf(r->where, sizeof r->where, "parts[%zu]", i);
    sk_read_keys(r, o, keys);
    sk_read_word(r, o, "role", sk_part_role_names, &role);
    part->role = (enum sk_part_role)role;
    part->layer = -1;
    if (part->role == SK_PART_LAYER)
        sk_read_i32(r, o, "layer", 0, n_layer - 1, &part->layer);
    else if (json_object_get(o, "layer"))
        sk_read_fail(r, "only a part with the role 'layer' has a layer");
    read_digest(r, o, "blake3", &part->digest);
    read_path(r, o, part);
    read_size(r, o, "bytes", 1, &part->bytes);
    read_size(r, o, "tensor_bytes", 0, &part->tensor_bytes);
    sk_read_i32(r, o, "tensors", 0, MOST_TENSORS, &n_tensors);
    part->n_tensors = (uint32_t)n_tensors;
    if (part->tensor_bytes > part->bytes) sk_read_fail(r, "more tensor bytes than bytes");
}

static void read_dimensions(sk_reader *r, const json_t *o, sk_tensor_desc *d) {
    const json_t *ne = read_list(r, o, "ne", 4);
    for (size_t k = 0; k < 4; k++) d->ne[k] = 1;
    d->n_dims = (uint32_t)json_array_size(ne);
    for (size_t k = 0; k < d->n_dims && !r->failed; k++) {
        const json_t *v = json_array_get(ne, k);
        if (!json_is_integer(v) || json_integer_value(v) < 1)
            sk_read_fail(r, "'ne' must hold whole numbers above 0");
        else
            d->ne[k] = json_integer_value(v);
    }
    if (!r->failed && d->n_dims > 1 && d->ne[d->n_dims - 1] == 1)
        sk_read_fail(r, "the last of several dimensions is never 1"); /* one way to write a shape, one manifest */
}

static void read_tensor(sk_reader *r, const json_t *o, size_t i, size_t n_parts, sk_package_tensor *t) {
    static const char *const keys[] = {"name", "type", "ne", "part", NULL};
    int32_t type = 0, part = 0;
    if (r->failed) return;
    snprintf(r->where, sizeof r->where, "tensors[%zu]", i);
    sk_read_keys(r, o, keys);
    read_plain(r, o, "name", t->desc.name, sizeof t->desc.name);
    sk_read_i32(r, o, "type", 0, GGML_TYPE_COUNT - 1, &type);
    sk_read_i32(r, o, "part", 0, (int32_t)n_parts - 1, &part);
    read_dimensions(r, o, &t->desc);
    if (r->failed) return;
    t->desc.type = (uint32_t)type;
    t->part = (uint32_t)part;
    t->desc.layer = sk_package_tensor_layer(t->desc.name);
    if (!sk_package_tensor_bytes(t->desc.type, t->desc.ne, &t->desc.bytes))
        sk_read_fail(r, "type %" PRId32 " and dimensions do not go together", type);
}

/* ---- what the parts must be together ---- */

static void check_roles(sk_reader *r, const sk_package *p) {
    size_t count[SK_PART_ROLES] = {0};
    bool seen[SK_MAX_LAYERS] = {false};
    snprintf(r->where, sizeof r->where, "parts");
    for (size_t i = 0; i < p->n_parts && !r->failed; i++) {
        const sk_package_part *part = &p->parts[i];
        count[part->role]++;
        if (part->role != SK_PART_LAYER) {
            if (count[part->role] > 1)
                sk_read_fail(r, "there are two parts with the role '%s'", sk_part_role_names[part->role]);
            continue;
        }
        if (seen[part->layer]) sk_read_fail(r, "layer %" PRId32 " is there twice", part->layer);
        seen[part->layer] = true;
    }
    if (count[SK_PART_METADATA] == 0) sk_read_fail(r, "there is no part with the role 'metadata'");
    for (int32_t i = 0; i < p->n_layer && !r->failed; i++)
        if (!seen[i]) sk_read_fail(r, "layer %" PRId32 " is missing", i);
}

/* Every tensor lies in a part of its kind, and the parts' sums are those of their tensors. */
static void check_sums(sk_reader *r, const sk_package *p) {
    uint32_t count[MOST_PARTS] = {0};
    uint64_t bytes[MOST_PARTS] = {0};
    for (size_t i = 0; i < p->n_tensors && !r->failed; i++) {
        const sk_package_tensor *t = &p->tensors[i];
        const sk_package_part *part = &p->parts[t->part];
        snprintf(r->where, sizeof r->where, "tensors[%zu]", i);
        count[t->part]++;
        if (part->role == SK_PART_METADATA || part->layer != t->desc.layer)
            sk_read_fail(r, "'%s' cannot be in part %" PRIu32, t->desc.name, t->part);
        if (__builtin_add_overflow(bytes[t->part], t->desc.bytes, &bytes[t->part]))
            sk_read_fail(r, "part %" PRIu32 " has more bytes than a number can say", t->part);
    }
    for (size_t i = 0; i < p->n_parts && !r->failed; i++) {
        snprintf(r->where, sizeof r->where, "parts[%zu]", i);
        if (count[i] != p->parts[i].n_tensors || bytes[i] != p->parts[i].tensor_bytes)
            sk_read_fail(r,
                         "it claims %" PRIu32 " tensors with %" PRIu64
                         " bytes, but the list of tensors gives it %" PRIu32 " with %" PRIu64,
                         p->parts[i].n_tensors, p->parts[i].tensor_bytes, count[i], bytes[i]);
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(sk_reader *r, const sk_package *p) {
    if (r->failed) return SKIPPY_OK; /* said already */
    const char **name = malloc((p->n_tensors ? p->n_tensors : 1) * sizeof *name);
    if (!name) return sk_err_set(r->e, SKIPPY_E_NOMEM, "out of memory for %zu tensors", p->n_tensors);
    for (size_t i = 0; i < p->n_tensors; i++) name[i] = p->tensors[i].desc.name;
    qsort((void *)name, p->n_tensors, sizeof *name, by_name);
    snprintf(r->where, sizeof r->where, "tensors");
    for (size_t i = 1; i < p->n_tensors && !r->failed; i++)
        if (strcmp(name[i - 1], name[i]) == 0) sk_read_fail(r, "'%s' is there twice", name[i]);
    free((void *)name);
    return SKIPPY_OK;
}

static void read_head(sk_reader *r, const json_t *root, sk_package *p) {
    static const char *const keys[] = {"format", "model_id",      "architecture", "family",  "layers", "stage_layers",
                                       "width",  "source_blake3", "parts",        "tensors", NULL};
    snprintf(r->where, sizeof r->where, SK_PACKAGE_MANIFEST);
    sk_read_keys(r, root, keys);
    read_plain(r, root, "model_id", p->model_id, sizeof p->model_id);
    read_plain(r, root, "architecture", p->arch, sizeof p->arch);
    if (json_object_get(root, "family")) read_plain(r, root, "family", p->family, sizeof p->family);
    sk_read_i32(r, root, "layers", 1, SK_MAX_LAYERS, &p->n_layer);
    sk_read_i32(r, root, "stage_layers", 1, p->n_layer, &p->n_stage_layer);
    sk_read_i32(r, root, "width", 1, INT32_MAX, &p->width);
    read_digest(r, root, "source_blake3", &p->source_digest);
}

static int read_lists(sk_reader *r, const json_t *root, sk_package *p) {
    const json_t *parts = read_list(r, root, "parts", MOST_PARTS);
    const json_t *tensors = read_list(r, root, "tensors", MOST_TENSORS);
    if (r->failed) return SKIPPY_OK;
    p->n_parts = json_array_size(parts);
    p->n_tensors = json_array_size(tensors);
    p->parts = calloc(p->n_parts, sizeof *p->parts);
    p->tensors = calloc(p->n_tensors, sizeof *p->tensors);
    if (!p->parts || !p->tensors)
        return sk_err_set(r->e, SKIPPY_E_NOMEM, "out of memory for %zu tensors", p->n_tensors);
    for (size_t i = 0; i < p->n_parts; i++) read_part(r, json_array_get(parts, i), i, p->n_layer, &p->parts[i]);
    for (size_t i = 0; i < p->n_tensors; i++) read_tensor(r, json_array_get(tensors, i), i, p->n_parts, &p->tensors[i]);
    if (!r->failed) check_roles(r, p);
    if (!r->failed) check_sums(r, p);
    return check_names(r, p);
}

/* The format comes first: what another one calls its fields is not known. */
static int read_format(const json_t *root, sk_package *p, sk_err *e) {
    const json_t *format = json_object_get(root, "format");
    if (!json_is_integer(format))
        return sk_err_set(e, SKIPPY_E_INVALID, SK_PACKAGE_MANIFEST ": 'format' must be a whole number");
    if (json_integer_value(format) != SK_PACKAGE_FORMAT)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          SK_PACKAGE_MANIFEST ": format %" PRId64 " is not known; this version reads format %d",
                          (int64_t)json_integer_value(format), SK_PACKAGE_FORMAT);
    p->format = SK_PACKAGE_FORMAT;
    return SKIPPY_OK;
}

int sk_package_parse(const char *json, size_t len, sk_package *out, sk_err *e) {
    sk_err local = {0};
    json_error_t where;
    sk_reader r = {.e = e ? e : &local};
    memset(out, 0, sizeof *out);
    if (len > SK_PACKAGE_MANIFEST_MAX)
        return sk_err_set(e, SKIPPY_E_INVALID, SK_PACKAGE_MANIFEST " has %zu bytes; none has more than %zu", len,
                          SK_PACKAGE_MANIFEST_MAX);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return sk_err_set(e, SKIPPY_E_INVALID, SK_PACKAGE_MANIFEST " is not JSON: line %d: %.200s", where.line,
                          where.text);
    int rc = read_format(root, out, e);
    if (rc == SKIPPY_OK) {
        read_head(&r, root, out);
        rc = read_lists(&r, root, out);
    }
    if (rc == SKIPPY_OK && r.failed) rc = SKIPPY_E_INVALID;
    json_decref(root);
    if (rc == SKIPPY_OK)
        sk_hash(json, len, out->manifest_digest.bytes);
    else
        sk_package_free(out);
    return rc;
}
