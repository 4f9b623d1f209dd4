/* The fourteen presets of the family benchmark: which published file stands for a family, its real size, and how its
 * state is kept. A constant table; pure and thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_CATALOG_H
#define SKIPPY_BENCH_FAMILY_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/family/sha256.h"

enum { SK_PRESETS = 14, SK_PRESET_MAX_SHARDS = 3 };

typedef enum sk_preset_artifact {
    SK_ARTIFACT_GGUF,   /* one file */
    SK_ARTIFACT_SHARDS, /* split; found by the first shard, all must be there */
    SK_ARTIFACT_PACKAGE /* layer package (a folder with a manifest): no whole model, no llama-server baseline */
} sk_preset_artifact;

/* All strings are static. */
typedef struct sk_preset {
    const char *key;      /* "qwen3next" */
    const char *label;    /* "Qwen3Next" */
    const char *model_id; /* "bartowski/Qwen_Qwen3-Coder-Next-GGUF:IQ2_XS" */
    const char *repo;     /* "bartowski/Qwen_Qwen3-Coder-Next-GGUF" */
    const char *revision; /* the beginning of the snapshot's commit that was measured first; any snapshot is accepted */
    const char *file;     /* name in the snapshot; first shard; "" for a package */
    sk_preset_artifact artifact;
    size_t shards;               /* 1 unless SK_ARTIFACT_SHARDS */
    const char *payload;         /* "ResidentKv" or "KvRecurrent" */
    bool recurrent;              /* payload is KvRecurrent */
    bool swa;                    /* has sliding-window layers: the tuned baseline gets --swa-full */
    int32_t layers, width;       /* of the real model */
    uint32_t preset_prefix;      /* tokens */
    uint32_t preset_ctx;         /* 512; 32 for deepseek3 */
    uint64_t kv_bytes_per_token; /* resident, f16, all layers of the real model, 0 = not known (hybrids) */
    int32_t layer_start, layer_end, stage_index; /* package: the range that is measured; else 0, layers, 0 */
    const char *synth;                           /* family name of 'skippy synth' with this shape */
    const char *read;                            /* one sentence for the table's last column: why the payload helps */
} sk_preset;

/* In the order of the tables: Qwen3Next, Falcon-H1, Llama, Qwen3 dense, DeepSeek2, GLM-4.7 Flash, GLM4, Gemma4 A4B,
 * Gemma4 E4B, Gemma3, Gemma2, OLMo, MiniMax M2.7, then DeepSeek3. */
const sk_preset *sk_preset_at(size_t i); /* NULL after the last */
const sk_preset *sk_preset_find(const char *key);
/* Presets of a list of keys with commas between them, in its order; *n is at most SK_PRESETS. Errors: SKIPPY_E_INVALID
 * (an unknown key, too many). */
int sk_presets_parse(const char *list, const sk_preset *out[SK_PRESETS], size_t *n, sk_err *e);
/* Place in the tables; SK_PRESETS for an unknown key. */
size_t sk_preset_rank(const char *key);
/* SHA-256 over a canonical text of the whole table: a plan that was made with another table is refused. "" when out of
 * memory. The text has one line for each preset in this order, its fields in the order of the struct with "|" between
 * them: strings as they are, numbers in decimal, booleans as 0 or 1, the artifact as "gguf", "shards" or "package". */
void sk_catalog_digest(char hex[SK_SHA256_HEX]);

#endif
