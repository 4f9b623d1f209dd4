#include "runtime/package_part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <ggml.h>
#include <gguf.h>

#include "runtime/gguf_check.h"

static bool begins(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool begins_with_any(const char *name, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (begins(name, *prefixes)) return true;
    return false;
}

/* Every stage file has the final norm, since loaders ask for it (some models call it token_embd_norm), so it must not
 * lie beside the large matrices of embedding and head. What no list names is shared, too: a stage that needs it finds
 * it. */
enum sk_part_role sk_part_role_of(const sk_tensor_desc *t) {
    static const char *const shared[] = {"output_norm", "token_embd_norm", NULL};
    static const char *const embedding[] = {"token_embd", "token_types", "position_embd", NULL};
    static const char *const head[] = {"output", "cls", NULL};
    if (t->layer >= 0) return SK_PART_LAYER;
    if (begins_with_any(t->name, shared)) return SK_PART_SHARED;
    if (begins_with_any(t->name, embedding)) return SK_PART_EMBEDDING;
    return begins_with_any(t->name, head) ? SK_PART_HEAD : SK_PART_SHARED;
}

static struct gguf_context *parse_header(const uint8_t *bytes, size_t size, sk_err *e) {
    const struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    sk_gguf_facts facts;
    sk_err inner = {0};
    if (sk_gguf_check_bytes(bytes, size, &facts, &inner) != SKIPPY_OK) {
        sk_err_set(e, SKIPPY_E_CORRUPT, "the part is no usable GGUF: %.400s", inner.text);
        return NULL;
    }
    struct gguf_context *g = gguf_init_from_buffer(bytes, size, params);
    if (!g) sk_err_set(e, SKIPPY_E_CORRUPT, "llama.cpp cannot read the part's header");
    return g;
}

int sk_part_read_header(int fd, struct gguf_context **out, sk_err *e) {
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "the part cannot be read: %s", strerror(errno));
    if (st.st_size <= 0) return sk_err_set(e, SKIPPY_E_CORRUPT, "the part is empty");
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return sk_err_set(e, SKIPPY_E_IO, "the part cannot be mapped: %s", strerror(errno));
    *out = parse_header(map, (size_t)st.st_size, e);
    munmap(map, (size_t)st.st_size);
    return *out ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}

/* Looks the number up as everybody else does, whatever integer type its writer chose. */
static bool number_is(const sk_package *p, struct gguf_context *g, const char *key, int32_t expected) {
    sk_tensor_source view = {.meta = g}; /* borrowed; never closed */
    int64_t value = 0;
    snprintf(view.arch, sizeof view.arch, "%s", p->arch);
    return sk_tensor_source_int(&view, key, &value) && value == expected;
}

static int check_metadata(const sk_package *p, struct gguf_context *g, sk_err *e) {
    const int64_t k = gguf_find_key(g, "general.architecture");
    if (k < 0 || gguf_get_kv_type(g, k) != GGUF_TYPE_STRING || strcmp(gguf_get_val_str(g, k), p->arch) != 0)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the metadata is not of the architecture '%s'", p->arch);
    if (!number_is(p, g, "block_count", p->n_layer))
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the metadata is not of a model with %" PRId32 " layers", p->n_layer);
    if (!number_is(p, g, "embedding_length", p->width))
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the metadata is not of a model with the width %" PRId32, p->width);
    return SKIPPY_OK;
}

static int check_tensor(const sk_tensor_desc *t, const struct gguf_context *g, int64_t *id, sk_err *e) {
    *id = gguf_find_tensor(g, t->name);
    if (*id < 0) return sk_err_set(e, SKIPPY_E_CORRUPT, "tensor '%s' is not in its part", t->name);
    if ((uint32_t)gguf_get_tensor_type(g, *id) != t->type ||
        memcmp(gguf_get_tensor_ne(g, *id), t->ne, sizeof t->ne) != 0 || gguf_get_tensor_size(g, *id) != t->bytes)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "tensor '%s' has another type or shape in its part", t->name);
    return SKIPPY_OK;
}

int sk_part_check(const sk_package *p, size_t no, struct gguf_context *header, uint64_t *offsets, sk_err *e) {
    const sk_package_part *part = &p->parts[no];
    const int64_t n = gguf_get_n_tensors(header);
    if (part->role == SK_PART_METADATA) {
        const int rc = check_metadata(p, header, e);
        if (rc != SKIPPY_OK) return rc;
    } else if (gguf_get_n_kv(header) != 0) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the part has key-values; only the metadata part has some");
    }
    if (n != (int64_t)part->n_tensors)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the part has %" PRId64 " tensors instead of %" PRIu32, n,
                          part->n_tensors);
    for (size_t i = 0; i < p->n_tensors; i++) {
        int64_t id;
        if (p->tensors[i].part != no) continue;
        const int rc = check_tensor(&p->tensors[i].desc, header, &id, e);
        if (rc != SKIPPY_OK) return rc;
        if (offsets) offsets[i] = gguf_get_data_offset(header) + gguf_get_tensor_offset(header, id);
    }
    return SKIPPY_OK;
}
