#include "bench/family/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define RESIDENT .payload = "ResidentKv"
#define RECURRENT .payload = "KvRecurrent", .recurrent = true
#define ONE_FILE .artifact = SK_ARTIFACT_GGUF, .shards = 1

/* Bytes per token are those of llama.cpp's cache: attention layers x (key + value) rows of f16. With multi-head latent
 * attention a row is the latent and its rope part, keys only: 576 values. The published file of DeepSeek2 is older than
 * that layout and keeps full keys and values. Window layers count like the others: a prefix shorter than the window
 * fills them alike. */
static const sk_preset presets[SK_PRESETS] = {
    {.key = "qwen3next",
     .label = "Qwen3Next",
     .model_id = "bartowski/Qwen_Qwen3-Coder-Next-GGUF:IQ2_XS",
     .repo = "bartowski/Qwen_Qwen3-Coder-Next-GGUF",
     .revision = "d32741c4",
     .file = "Qwen_Qwen3-Coder-Next-IQ2_XS.gguf",
     ONE_FILE,
     RECURRENT,
     .layers = 48,
     .width = 2048,
     .preset_prefix = 16,
     .preset_ctx = 512,
     .layer_end = 48,
     .synth = "qwen3next",
     .read = "Three of four layers keep a fixed-size state that cannot be cut at a token: a stored copy of it replaces "
             "computing the prompt again."},
    {.key = "falcon_h1",
     .label = "Falcon-H1",
     .model_id = "tiiuae/Falcon-H1-1.5B-Instruct-GGUF:Q4_K_M",
     .repo = "tiiuae/Falcon-H1-1.5B-Instruct-GGUF",
     .revision = "0d3a6cfe",
     .file = "Falcon-H1-1.5B-Instruct-Q4_K_M.gguf",
     ONE_FILE,
     RECURRENT,
     .layers = 24,
     .width = 2048,
     .preset_prefix = 128,
     .preset_ctx = 512,
     .layer_end = 24,
     .synth = "falcon-h1",
     .read = "Every layer runs attention and a state-space mixer side by side, so only a copy of both brings a prefix "
             "back."},
    {.key = "llama",
     .label = "Llama",
     .model_id = "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF:Q4_K_M",
     .repo = "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF",
     .revision = "7d1f7002",
     .file = "llama-3.2-1b-instruct-q4_k_m.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 16,
     .width = 2048,
     .preset_prefix = 128,
     .preset_ctx = 512,
     .kv_bytes_per_token = 32768,
     .layer_end = 16,
     .synth = "llama",
     .read = "llama-server's slots reuse the same cells here; what differs is the work around a hit."},
    {.key = "qwen3_dense",
     .label = "Qwen3 dense",
     .model_id = "Qwen/Qwen3-0.6B:Q8_0",
     .repo = "Qwen/Qwen3-0.6B-GGUF",
     .revision = "23749fef",
     .file = "Qwen3-0.6B-Q8_0.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 28,
     .width = 1024,
     .preset_prefix = 128,
     .preset_ctx = 512,
     .kv_bytes_per_token = 114688,
     .layer_end = 28,
     .synth = "qwen3",
     .read = "The smallest model: one token costs little, so overhead decides and the margin is the thinnest."},
    {.key = "deepseek2",
     .label = "DeepSeek2",
     .model_id = "bartowski/DeepSeek-Coder-V2-Lite-Instruct-GGUF:Q4_K_M",
     .repo = "bartowski/DeepSeek-Coder-V2-Lite-Instruct-GGUF",
     .revision = "8f248fa2",
     .file = "DeepSeek-Coder-V2-Lite-Instruct-Q4_K_M.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 27,
     .width = 2048,
     .preset_prefix = 64,
     .preset_ctx = 512,
     .kv_bytes_per_token = 276480,
     .layer_end = 27,
     .synth = "deepseek2lite",
     .read = "Latent attention with experts; a prefix stays in its cells and nothing is copied."},
    {.key = "glm47_flash",
     .label = "GLM-4.7 Flash",
     .model_id = "unsloth/GLM-4.7-Flash-GGUF:Q4_K_M",
     .repo = "unsloth/GLM-4.7-Flash-GGUF",
     .revision = "0d32489e",
     .file = "GLM-4.7-Flash-Q4_K_M.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 47,
     .width = 2048,
     .preset_prefix = 32,
     .preset_ctx = 512,
     .kv_bytes_per_token = 54144,
     .layer_end = 47,
     .synth = "glm47flash",
     .read = "Latent attention stores keys only, so long prefixes stay cheap to keep resident."},
    {.key = "glm4",
     .label = "GLM4",
     .model_id = "meshllm/glm-4-9b-0414-parity-q4_k_m-gguf:Q4_K_M",
     .repo = "meshllm/glm-4-9b-0414-parity-q4_k_m-gguf",
     .revision = "b15dd8df",
     .file = "glm-4-9b-0414-q4_k_m.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 40,
     .width = 4096,
     .preset_prefix = 32,
     .preset_ctx = 512,
     .kv_bytes_per_token = 40960,
     .layer_end = 40,
     .synth = "glm4",
     .read = "Two key heads for 32 query heads: little state for much compute, which favours reuse."},
    {.key = "gemma4_a4b",
     .label = "Gemma4 A4B",
     .model_id = "batiai/Gemma-4-26B-A4B-it-GGUF:Q6_K",
     .repo = "batiai/Gemma-4-26B-A4B-it-GGUF",
     .revision = "45ad6023",
     .file = "google-gemma-4-26B-A4B-it-Q6_K.gguf",
     ONE_FILE,
     RESIDENT,
     .swa = true,
     .layers = 30,
     .width = 2816,
     .preset_prefix = 16,
     .preset_ctx = 512,
     .kv_bytes_per_token = 225280,
     .layer_end = 30,
     .synth = "gemma4a4b",
     .read = "Five of six layers see a window of 1,024 tokens; a resident copy must own its window to stay valid."},
    {.key = "gemma4_e4b",
     .label = "Gemma4 E4B",
     .model_id = "unsloth/gemma-4-E4B-it-GGUF:Q4_K_M",
     .repo = "unsloth/gemma-4-E4B-it-GGUF",
     .revision = "315e0340",
     .file = "gemma-4-E4B-it-Q4_K_M.gguf",
     ONE_FILE,
     RESIDENT,
     .swa = true,
     .layers = 42,
     .width = 2560,
     .preset_prefix = 16,
     .preset_ctx = 512,
     .kv_bytes_per_token = 57344,
     .layer_end = 42,
     .synth = "gemma4e4b",
     .read = "18 of 42 layers read another layer's keys and values, so the state is small for the depth."},
    {.key = "gemma3",
     .label = "Gemma3",
     .model_id = "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M",
     .repo = "ggml-org/gemma-3-1b-it-GGUF",
     .revision = "f9c28bcd",
     .file = "gemma-3-1b-it-Q4_K_M.gguf",
     ONE_FILE,
     RESIDENT,
     .swa = true,
     .layers = 26,
     .width = 1152,
     .preset_prefix = 128,
     .preset_ctx = 512,
     .kv_bytes_per_token = 26624,
     .layer_end = 26,
     .synth = "gemma3",
     .read = "One key head and a window of 512 tokens: almost no state, and a large vocabulary to compute each time."},
    {.key = "gemma2",
     .label = "Gemma2",
     .model_id = "bartowski/gemma-2-2b-it-GGUF:Q4_K_M",
     .repo = "bartowski/gemma-2-2b-it-GGUF",
     .revision = "855f67ca",
     .file = "gemma-2-2b-it-Q4_K_M.gguf",
     ONE_FILE,
     RESIDENT,
     .swa = true,
     .layers = 26,
     .width = 2304,
     .preset_prefix = 128,
     .preset_ctx = 512,
     .kv_bytes_per_token = 106496,
     .layer_end = 26,
     .synth = "gemma2",
     .read = "Every second layer has a window of 4,096 tokens; prefixes below that behave as in a dense model."},
    {.key = "olmo",
     .label = "OLMo",
     .model_id = "meshllm/olmo-7b-instruct-hf-parity-f16-gguf:F16",
     .repo = "meshllm/olmo-7b-instruct-hf-parity-f16-gguf",
     .revision = "846c0ae3",
     .file = "olmo-7b-instruct-hf-f16.gguf",
     ONE_FILE,
     RESIDENT,
     .layers = 32,
     .width = 4096,
     .preset_prefix = 64,
     .preset_ctx = 512,
     .kv_bytes_per_token = 524288,
     .layer_end = 32,
     .synth = "olmo",
     .read =
         "Full multi-head attention: the largest state per token of the dense families, and never copied on a hit."},
    {.key = "minimax_m27",
     .label = "MiniMax M2.7",
     .model_id = "unsloth/MiniMax-M2.7-GGUF:UD-Q2_K_XL",
     .repo = "unsloth/MiniMax-M2.7-GGUF",
     .revision = "d2a05ccf",
     .file = "UD-Q2_K_XL/MiniMax-M2.7-UD-Q2_K_XL-00001-of-00003.gguf",
     .artifact = SK_ARTIFACT_SHARDS,
     .shards = 3,
     RESIDENT,
     .layers = 62,
     .width = 3072,
     .preset_prefix = 16,
     .preset_ctx = 512,
     .kv_bytes_per_token = 253952,
     .layer_end = 62,
     .synth = "minimax-m2",
     .read = "256 experts in three files: computing a prefix is dear, keeping it is not."},
    {.key = "deepseek3",
     .label = "DeepSeek3",
     .model_id = "unsloth/DeepSeek-V3.2-GGUF:UD-Q4_K_XL",
     .repo = "meshllm/DeepSeek-V3.2-UD-Q4_K_XL-layers",
     .revision = "c7d74031",
     .file = "",
     .artifact = SK_ARTIFACT_PACKAGE,
     .shards = 1,
     RESIDENT,
     .layers = 61,
     .width = 7168,
     .preset_prefix = 4,
     .preset_ctx = 32,
     .kv_bytes_per_token = 70272,
     .layer_start = 3,
     .layer_end = 4,
     .stage_index = 1,
     .synth = "deepseek3",
     .read = "Layer 3 alone, from a layer package: the whole model need not be on the machine."},
};

const sk_preset *sk_preset_at(size_t i) {
    return i < SK_PRESETS ? &presets[i] : NULL;
}

int sk_presets_parse(const char *list, const sk_preset *out[SK_PRESETS], size_t *n, sk_err *e) {
    *n = 0;
    for (const char *p = list; *p;) {
        const size_t len = strcspn(p, ",");
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)len, p);
        const sk_preset *preset = sk_preset_find(key);
        if (!preset || *n == SK_PRESETS) {
            return sk_err_set(e, SKIPPY_E_INVALID, preset ? "'%.*s' is one case too many" : "there is no case '%.*s'",
                              (int)len, p);
        }
        out[(*n)++] = preset;
        p += len + (p[len] == ',');
    }
    return SKIPPY_OK;
}

size_t sk_preset_rank(const char *key) {
    size_t i = 0;
    while (i < SK_PRESETS && strcmp(presets[i].key, key) != 0) {
        i++;
    }
    return i;
}

const sk_preset *sk_preset_find(const char *key) {
    return sk_preset_at(sk_preset_rank(key));
}

static const char *artifact_name(sk_preset_artifact a) {
    switch (a) {
    case SK_ARTIFACT_GGUF: return "gguf";
    case SK_ARTIFACT_SHARDS: return "shards";
    case SK_ARTIFACT_PACKAGE: return "package";
    }
    return "";
}

/* The line of one preset, as the header describes it. */
static void canonical_line(const sk_preset *p, sk_buf *out) {
    sk_buf_printf(out, "%s|%s|%s|%s|%s|%s|%s|%zu|%s|%d|%d|", p->key, p->label, p->model_id, p->repo, p->revision,
                  p->file, artifact_name(p->artifact), p->shards, p->payload, p->recurrent, p->swa);
    sk_buf_printf(out, "%" PRId32 "|%" PRId32 "|%" PRIu32 "|%" PRIu32 "|%" PRIu64 "|", p->layers, p->width,
                  p->preset_prefix, p->preset_ctx, p->kv_bytes_per_token);
    sk_buf_printf(out, "%" PRId32 "|%" PRId32 "|%" PRId32 "|%s|%s\n", p->layer_start, p->layer_end, p->stage_index,
                  p->synth, p->read);
}

void sk_catalog_digest(char hex[SK_SHA256_HEX]) {
    sk_buf text = {0};
    hex[0] = '\0';
    for (size_t i = 0; i < SK_PRESETS; i++) {
        canonical_line(&presets[i], &text);
    }
    if (!text.failed) {
        sk_sha256_text(text.data, text.len, hex);
    }
    sk_buf_free(&text);
}
