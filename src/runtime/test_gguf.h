/* For tests only: builds small GGUF files by hand, right or wrong, and finds real ones. */
#ifndef SKIPPY_RUNTIME_TEST_GGUF_H
#define SKIPPY_RUNTIME_TEST_GGUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static inline void gg_u16(sk_buf *b, uint16_t v) {
    sk_buf_add(b, &v, sizeof v);
}

static inline void gg_u32(sk_buf *b, uint32_t v) {
    sk_buf_add(b, &v, sizeof v);
}

static inline void gg_u64(sk_buf *b, uint64_t v) {
    sk_buf_add(b, &v, sizeof v);
}

static inline void gg_str(sk_buf *b, const char *s) {
    gg_u64(b, strlen(s));
    sk_buf_str(b, s);
}

static inline void gg_header(sk_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_pairs) {
    sk_buf_str(b, "GGUF");
    gg_u32(b, version);
    gg_u64(b, n_tensors);
    gg_u64(b, n_pairs);
}

static inline void gg_pair_str(sk_buf *b, const char *key, const char *value) {
    gg_str(b, key);
    gg_u32(b, 8);
    gg_str(b, value);
}

static inline void gg_pair_u16(sk_buf *b, const char *key, uint16_t value) {
    gg_str(b, key);
    gg_u32(b, 2);
    gg_u16(b, value);
}

static inline void gg_pair_u32(sk_buf *b, const char *key, uint32_t value) {
    gg_str(b, key);
    gg_u32(b, 4);
    gg_u32(b, value);
}

/* A one-dimensional F32 tensor. */
static inline void gg_tensor(sk_buf *b, const char *name, uint64_t elements, uint64_t offset) {
    gg_str(b, name);
    gg_u32(b, 1);
    gg_u64(b, elements);
    gg_u32(b, 0);
    gg_u64(b, offset);
}

static inline void gg_pad(sk_buf *b, size_t alignment, size_t more) {
    while (b->len % alignment) sk_buf_add(b, "", 1);
    for (size_t i = 0; i < more; i++) sk_buf_add(b, "", 1);
}

/* A whole file: one architecture, tensors "blk.0.a.weight" (32 floats) and `second` (32 floats). */
static inline void gg_small_file(sk_buf *b, const char *arch, const char *second) {
    gg_header(b, 3, 2, 1);
    gg_pair_str(b, "general.architecture", arch);
    gg_tensor(b, "blk.0.a.weight", 32, 0);
    gg_tensor(b, second, 32, 128);
    gg_pad(b, 32, 256);
}

/* Creates a fresh directory; the caller removes what it puts there. */
static inline bool gg_temp_dir(char *path, size_t cap) {
    const char *base = getenv("TMPDIR");
    snprintf(path, cap, "%s/skippy-test-XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(path) != NULL;
}

static inline bool gg_write(const char *path, const void *data, size_t len) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool ok = fwrite(data, 1, len, f) == len;
    return fclose(f) == 0 && ok;
}

static inline bool gg_read(const char *path, sk_buf *b) {
    char chunk[65536];
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) sk_buf_add(b, chunk, n);
    fclose(f);
    return !b->failed;
}

/* A vocabulary file of the llama.cpp tree; false when the tree is not there. */
static inline bool gg_vocab_path(const char *name, char *path, size_t cap) {
    const char *tree = getenv("LLAMA_CPP_SRC");
#ifdef SKIPPY_LLAMA_SRC
    if (!tree || !tree[0]) tree = SKIPPY_LLAMA_SRC;
#endif
    if (!tree || !tree[0]) return false;
    snprintf(path, cap, "%s/models/%s", tree, name);
    return access(path, R_OK) == 0;
}

/* A small real model: in SKIPPY_TEST_MODELS, or in shared/models beside the source tree. */
static inline bool gg_model_path(const char *name, char *path, size_t cap) {
    const char *dir = getenv("SKIPPY_TEST_MODELS"), *source = getenv("SKIPPY_SOURCE_DIR");
    if (dir && dir[0])
        snprintf(path, cap, "%s/%s", dir, name);
    else if (source)
        snprintf(path, cap, "%s/../shared/models/%s", source, name);
    else
        return false;
    return access(path, R_OK) == 0;
}

#endif
