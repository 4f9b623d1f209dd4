/* Records of stage files in a cache folder:
 *
 *   0  "SKSTAGE1"
 *   8  size of the file, u64 little endian
 *  16  BLAKE3 of the file
 *  48  BLAKE3 of the 48 bytes before
 */
#include <string.h>

#include "base/hash.h"
#include "base/record.h"
#include "runtime/gguf_check.h"
#include "runtime/slice_internal.h"

enum { AT_SIZE = 8, AT_DIGEST = 16, AT_CHECK = 48, RECORD_BYTES = 80 };
static const char MAGIC[] = "SKSTAGE1";

bool sk_slice_record_save(const char *dir, const char *path, const sk_slice_record *r) {
    uint8_t b[RECORD_BYTES];
    memcpy(b, MAGIC, AT_SIZE);
    sk_put_u64(b + AT_SIZE, r->size);
    memcpy(b + AT_DIGEST, r->digest.bytes, SK_HASH_BYTES);
    sk_hash(b, AT_CHECK, b + AT_CHECK);
    return sk_record_save(dir, path, b, sizeof b);
}

bool sk_slice_record_load(const char *path, sk_slice_record *out) {
    uint8_t b[RECORD_BYTES], check[SK_HASH_BYTES];
    if (!sk_record_load(path, b, sizeof b)) return false;
    sk_hash(b, AT_CHECK, check);
    if (memcmp(b, MAGIC, AT_SIZE) != 0 || memcmp(b + AT_CHECK, check, sizeof check) != 0) return false;
    out->size = (uint64_t)sk_get_u32(b + AT_SIZE) | (uint64_t)sk_get_u32(b + AT_SIZE + 4) << 32;
    memcpy(out->digest.bytes, b + AT_DIGEST, SK_HASH_BYTES);
    return true;
}

static bool u32_is(const struct gguf_context *g, const char *key, int64_t value) {
    int64_t k = gguf_find_key(g, key);
    return k >= 0 && gguf_get_kv_type(g, k) == GGUF_TYPE_UINT32 && gguf_get_val_u32(g, k) == value;
}

static bool str_is(const struct gguf_context *g, const char *key, const char *value) {
    int64_t k = gguf_find_key(g, key);
    return k >= 0 && gguf_get_kv_type(g, k) == GGUF_TYPE_STRING && strcmp(gguf_get_val_str(g, k), value) == 0;
}

bool sk_slice_file_is(const char *path, const sk_tensor_source *s, sk_layer_range r) {
    sk_gguf_facts facts;
    char hex[65];
    if (sk_gguf_check_file(path, &facts, NULL)) return false;
    struct gguf_init_params ip = {.no_alloc = true, .ctx = NULL};
    struct gguf_context *g = gguf_init_from_file(path, ip);
    if (!g) return false;
    sk_hex(s->digest.bytes, sizeof s->digest.bytes, hex);
    bool same = u32_is(g, SK_SLICE_KEY "version", SK_SLICE_VERSION) && u32_is(g, SK_SLICE_KEY "layer_start", r.start) &&
                u32_is(g, SK_SLICE_KEY "layer_end", r.end) && str_is(g, SK_SLICE_KEY "source", hex);
    gguf_free(g);
    return same;
}
