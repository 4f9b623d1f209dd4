/* Remembered row classes. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/record.h"
#include "runtime/rowclass.h"

/* Raised when the probe tries other things than before: older measurements then prove less than they should. */
enum { PROBE_VERSION = 1 };

enum { AT_KEY = 8, AT_MULTIPLE = 40, AT_MAX_ROWS = 44, AT_ALIGNED = 48, CHECKED_BYTES = 52 };
static const char magic[8] = {'s', 'k', 'i', 'p', 'p', 'y', 'R', '1'};

/* ---- the key ---- */

/* One build may run on many processors and picks its kernels when it starts: the system's words for the first one. */
static void hash_processor(sk_hasher *h) {
    static const char *const names[] = {"model name", "flags", "Features", "CPU part"};
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f) && line[0] != '\n')
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0) sk_hash_update(h, line, strlen(line) + 1);
    if (f) fclose(f);
}

void sk_row_class_key(const uint8_t identity[SK_HASH_BYTES], const sk_context *c, int32_t n_threads,
                      int32_t n_threads_batch, uint8_t key[SK_HASH_BYTES]) {
    const sk_context_info *info = sk_context_get_info(c);
    const uint32_t numbers[] = {PROBE_VERSION,         info->n_ctx,         info->n_batch,
                                info->n_ubatch,        info->n_seq_max,     (uint32_t)info->flash_attn,
                                (uint32_t)info->n_swa, (uint32_t)n_threads, (uint32_t)n_threads_batch};
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, magic, sizeof magic);
    sk_hash_update(&h, identity, SK_HASH_BYTES);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint8_t bytes[4];
        sk_put_u32(bytes, numbers[i]);
        sk_hash_update(&h, bytes, sizeof bytes);
    }
    sk_hash_update(&h, info->type_k, strlen(info->type_k) + 1);
    sk_hash_update(&h, info->type_v, strlen(info->type_v) + 1);
    hash_processor(&h);
    sk_hash_final(&h, key);
}

/* ---- records ---- */

static void encode(uint8_t out[SK_ROW_CLASS_RECORD_BYTES], const uint8_t key[SK_HASH_BYTES], const sk_row_class *rc) {
    memcpy(out, magic, sizeof magic);
    memcpy(out + AT_KEY, key, SK_HASH_BYTES);
    sk_put_u32(out + AT_MULTIPLE, rc->multiple);
    sk_put_u32(out + AT_MAX_ROWS, rc->max_rows);
    sk_put_u32(out + AT_ALIGNED, rc->aligned);
    sk_hash(out, CHECKED_BYTES, out + CHECKED_BYTES);
}

/* Could the probe have found this class on this context? */
static bool possible(const sk_row_class *rc, const sk_context_info *info) {
    return (rc->multiple == 2 || rc->multiple == 4 || rc->multiple == 8) && rc->max_rows >= rc->multiple &&
           rc->max_rows <= info->n_batch && rc->max_rows % rc->multiple == 0 && (!rc->aligned || info->recurrent);
}

/* A record is valid exactly when encoding its own class for this key gives the same bytes: one comparison covers magic,
 * key, the form of every field and the checksum. */
static bool load(const char *path, const uint8_t key[SK_HASH_BYTES], const sk_context_info *info, sk_row_class *out) {
    uint8_t bytes[SK_ROW_CLASS_RECORD_BYTES], expected[SK_ROW_CLASS_RECORD_BYTES];
    if (!sk_record_load(path, bytes, sizeof bytes)) return false;
    const sk_row_class found = {.multiple = sk_get_u32(bytes + AT_MULTIPLE),
                                .max_rows = sk_get_u32(bytes + AT_MAX_ROWS),
                                .aligned = sk_get_u32(bytes + AT_ALIGNED) != 0};
    encode(expected, key, &found);
    if (memcmp(bytes, expected, sizeof expected) != 0 || !possible(&found, info)) return false;
    *out = found;
    return true;
}

int sk_row_class_get(sk_context *c, const sk_model *m, const char *dir, const uint8_t key[SK_HASH_BYTES], uint32_t lane,
                     uint32_t scratch, uint32_t n_scratch, sk_row_class *out, bool *remembered, sk_err *e) {
    char path[PATH_MAX];
    const bool keeps = dir && *dir && sk_record_path(path, sizeof path, dir, key, ".rows");
    const bool found = keeps && load(path, key, sk_context_get_info(c), out);
    if (remembered) *remembered = found;
    if (found) return SKIPPY_OK;
    int rc = sk_row_class_probe(c, m, lane, scratch, n_scratch, out, e);
    if (rc == SKIPPY_OK && keeps) {
        uint8_t bytes[SK_ROW_CLASS_RECORD_BYTES];
        encode(bytes, key, out);
        (void)sk_record_save(dir, path, bytes, sizeof bytes);
    }
    return rc;
}
