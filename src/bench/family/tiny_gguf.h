/* For tests only: writes a complete model of one narrow layer, in one file or in shards. */
#ifndef SKIPPY_BENCH_FAMILY_TINY_GGUF_H
#define SKIPPY_BENCH_FAMILY_TINY_GGUF_H

#include "runtime/test_gguf.h"

enum { TINY_WIDTH = 32, TINY_TENSORS = 11 };

typedef struct tiny_gguf {
    const char *arch; /* NULL = "llama"; others only as far as their keys and tensors are llama's */
    const char *name; /* general.name */
    uint32_t file_type;
    uint16_t shard, shards; /* from 0; shards 0 = one file */
    bool stage;             /* says that it is layer 3 of 9 of another model */
} tiny_gguf;

static const char *const TINY_NAMES[TINY_TENSORS] = {
    "token_embd.weight",     "output_norm.weight",  "blk.0.attn_norm.weight",   "blk.0.attn_q.weight",
    "blk.0.attn_k.weight",   "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
    "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"};

static inline uint32_t tiny_dims(const char *name) {
    return strstr(name, "norm") ? 1 : 2;
}

static inline uint64_t tiny_bytes(const char *name) {
    return sizeof(float) * TINY_WIDTH * (tiny_dims(name) == 2 ? TINY_WIDTH : 1);
}

static inline bool tiny_is_here(const tiny_gguf *t, size_t i) {
    return t->shards == 0 || i % t->shards == t->shard;
}

static inline void tiny_number(sk_buf *b, const char *arch, const char *key, uint32_t value) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gg_pair_u32(b, full, value);
}

static inline void tiny_stage(sk_buf *b) {
    gg_pair_u32(b, "skippy.stage.version", 1);
    gg_pair_u32(b, "skippy.stage.layer_start", 3);
    gg_pair_u32(b, "skippy.stage.layer_end", 4);
    gg_pair_u32(b, "skippy.stage.layer_count", 9);
    gg_pair_u32(b, "skippy.stage.width", TINY_WIDTH);
}

static inline void tiny_pairs(sk_buf *b, const tiny_gguf *t) {
    static const char *const keys[] = {"context_length", "embedding_length", "feed_forward_length", "vocab_size"};
    const char *arch = t->arch ? t->arch : "llama";
    const float epsilon = 1e-5f;
    char full[96];
    gg_pair_str(b, "general.architecture", arch);
    gg_pair_str(b, "general.name", t->name ? t->name : "tiny");
    gg_pair_u32(b, "general.file_type", t->file_type);
    gg_pair_str(b, "tokenizer.ggml.model", "no_vocab");
    for (size_t i = 0; i < 4; i++) tiny_number(b, arch, keys[i], TINY_WIDTH);
    tiny_number(b, arch, "block_count", 1);
    tiny_number(b, arch, "attention.head_count", 1);
    snprintf(full, sizeof full, "%s.attention.layer_norm_rms_epsilon", arch);
    gg_str(b, full);
    gg_u32(b, 6);
    sk_buf_add(b, &epsilon, sizeof epsilon);
    if (t->stage) tiny_stage(b);
}

static inline void tiny_split(sk_buf *b, const tiny_gguf *t) {
    gg_pair_u16(b, "split.no", t->shard);
    gg_pair_u16(b, "split.count", t->shards);
    gg_str(b, "split.tensors.count");
    gg_u32(b, 5);
    gg_u32(b, TINY_TENSORS);
}

static inline void tiny_tensors(sk_buf *b, const tiny_gguf *t) {
    uint64_t offset = 0;
    for (size_t i = 0; i < TINY_TENSORS; i++) {
        const uint32_t dims = tiny_dims(TINY_NAMES[i]);
        if (!tiny_is_here(t, i)) continue;
        gg_str(b, TINY_NAMES[i]);
        gg_u32(b, dims);
        for (uint32_t k = 0; k < dims; k++) gg_u64(b, TINY_WIDTH);
        gg_u32(b, 0);
        gg_u64(b, offset);
        offset += tiny_bytes(TINY_NAMES[i]);
    }
    gg_pad(b, 32, offset);
}

/* False when it could not be written. */
static inline bool tiny_gguf_write(const char *path, const tiny_gguf *t) {
    sk_buf b = {0};
    uint64_t n = 0;
    const uint64_t pairs = 11u + (t->stage ? 5u : 0u) + (t->shards ? 3u : 0u);
    for (size_t i = 0; i < TINY_TENSORS; i++) n += tiny_is_here(t, i);
    gg_header(&b, 3, n, pairs);
    tiny_pairs(&b, t);
    if (t->shards) tiny_split(&b, t);
    tiny_tensors(&b, t);
    const bool ok = !b.failed && gg_write(path, b.data, b.len);
    sk_buf_free(&b);
    return ok;
}

#endif
