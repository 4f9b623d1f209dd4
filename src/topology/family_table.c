/* The registry. Architectures are those of llama.cpp v0.4.0; families and example models follow the reviewed list of
 * the original project. A family whose metadata can switch its sliding window off is listed with the mode of its usual
 * files; what counts is what the loaded model says (family.c). */
#include "topology/family_table.h"

#include <string.h>

#define RESIDENT(family, arch, example)                                                                                \
    { {family, arch, SK_CACHE_RESIDENT_KV, example}, SK_TRAIT_NONE }
#define WINDOW(family, arch, example)                                                                                  \
    { {family, arch, SK_CACHE_WINDOW_KV, example}, SK_TRAIT_NONE }
#define RECURRENT(family, arch, example)                                                                               \
    { {family, arch, SK_CACHE_KV_RECURRENT, example}, SK_TRAIT_NONE }
#define REFUSED(family, arch, example, trait)                                                                          \
    { {family, arch, SK_CACHE_DISABLED, example}, trait }

static const sk_family_row rows[] = {
    /* Attention only, full cache. */
    RESIDENT("llama", "llama", "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF:Q4_K_M"),
    RESIDENT("qwen3_dense", "qwen3", "Qwen/Qwen3-0.6B:Q8_0"),
    RESIDENT("qwen3moe", "qwen3moe", "mradermacher/Qwen3-MOE-4x0.6B-2.4B-Writing-Thunder-GGUF:Q4_K_M"),
    RESIDENT("qwen3vl", "qwen3vl", "Qwen/Qwen3-VL-2B-Instruct-GGUF:Q4_K_M"),
    RESIDENT("qwen3vlmoe", "qwen3vlmoe", "noctrex/Qwen3-VL-30B-A3B-Instruct-1M-MXFP4_MOE-GGUF"),
    RESIDENT("qwen2", "qwen2", "meshllm/qwen2.5-0.5b-instruct-parity-q8_0-gguf:Q8_0"),
    RESIDENT("qwen2moe", "qwen2moe", "mradermacher/Qwen2-1.5B-2x-MoE-GGUF:Q4_K_S"),
    RESIDENT("qwen2vl", "qwen2vl", "bartowski/Qwen2-VL-2B-Instruct-GGUF:Q4_K_M"),
    RESIDENT("qwen", "qwen", "zhangtao103239/Qwen-1.8B-GGUF:q5_k_m"),
    RESIDENT("deepseek", "deepseek", "Morgen0052/deepseek-llm-7b-chat-Q4_K_M-GGUF"),
    RESIDENT("deepseek2", "deepseek2", "bartowski/DeepSeek-Coder-V2-Lite-Instruct-GGUF:Q4_K_M"),
    RESIDENT("deepseek3", "deepseek2", "unsloth/DeepSeek-V3.2-GGUF:UD-Q4_K_XL"),
    RESIDENT("glm47_flash", "deepseek2", "unsloth/GLM-4.7-Flash-GGUF:Q4_K_M"),
    RESIDENT("deepseek2ocr", "deepseek2-ocr", "ggml-org/DeepSeek-OCR-GGUF:Q8_0"),
    RESIDENT("glm4", "glm4", "meshllm/glm-4-9b-0414-parity-q4_k_m-gguf:Q4_K_M"),
    RESIDENT("glm4_moe", "glm4moe", "noctrex/GLM-4.7-Flash-REAP-23B-A3B-MXFP4_MOE-GGUF"),
    RESIDENT("chatglm", "chatglm", "mradermacher/chatglm3-6b-i1-GGUF:IQ2_M"),
    RESIDENT("mistral", "mistral3", "lmstudio-community/Ministral-3-3B-Instruct-2512-GGUF:Q4_K_M"),
    RESIDENT("mistral4", "mistral4", "bartowski/mistralai_Mistral-Small-4-119B-2603-GGUF:IQ2_XXS"),
    RESIDENT("phi2", "phi2", "TheBloke/phi-2-GGUF:Q4_K_M"),
    RESIDENT("phi", "phi3", "bartowski/Phi-3.5-mini-instruct-GGUF:Q4_K_M"),
    RESIDENT("phimoe", "phimoe", "bartowski/Phi-3.5-MoE-instruct-GGUF:Q4_K_M"),
    RESIDENT("gemma", "gemma", ""),
    RESIDENT("olmo", "olmo", "meshllm/olmo-7b-instruct-hf-parity-f16-gguf:F16"),
    RESIDENT("olmo2", "olmo2", "allenai/OLMo-2-1124-7B-Instruct-GGUF:Q4_K_M"),
    RESIDENT("olmoe", "olmoe", "bartowski/OLMoE-1B-7B-0924-Instruct-GGUF:Q4_K_M"),
    RESIDENT("minimax_m27", "minimax-m2", "unsloth/MiniMax-M2.7-GGUF:UD-Q2_K_XL"),
    RESIDENT("granite", "granite", "bartowski/ibm-granite_granite-3.2-2b-instruct-GGUF:Q4_K_M"),
    RESIDENT("granite_moe", "granitemoe", "mradermacher/tiny-random-granite-moe-GGUF:Q4_K_M"),
    RESIDENT("hunyuan_dense", "hunyuan-dense", "Edge-Quant/Hunyuan-1.8B-Instruct-Q4_K_M-GGUF"),
    RESIDENT("hunyuan_moe", "hunyuan-moe", "unsloth/Hunyuan-A13B-Instruct-GGUF:UD-IQ2_XXS"),
    RESIDENT("hunyuan_vl", "hunyuan_vl", "ggml-org/HunyuanOCR-GGUF:Q8_0"),
    RESIDENT("hy_v3", "hy_v3", ""),
    RESIDENT("gptneox", "gptneox", "warriorknight3/pythia-70m-Q4_K_M-GGUF"),
    RESIDENT("gptj", "gptj", ""),
    RESIDENT("gpt2", "gpt2", "QuantFactory/gpt2-GGUF:Q4_K_M"),
    RESIDENT("bloom", "bloom", "QuantFactory/bloomz-560m-GGUF:Q4_K_M"),
    RESIDENT("stablelm", "stablelm", "TheBloke/stablelm-zephyr-3b-GGUF:Q4_K_M"),
    RESIDENT("starcoder2", "starcoder2", "combos/starcoder2-3b-Q4_K_M-GGUF"),
    RESIDENT("starcoder", "starcoder", "RichardErkhov/bigcode_-_tiny_starcoder_py-gguf:Q2_K"),
    RESIDENT("mpt", "mpt", "mradermacher/mpt-7b-chat-GGUF:Q4_K_M"),
    RESIDENT("internlm2", "internlm2", "lmstudio-community/internlm2_5-1_8b-chat-GGUF"),
    RESIDENT("baichuan", "baichuan", "lucasxx/Baichuan2-7B-Chat-Q4_K_M-GGUF"),
    RESIDENT("exaone", "exaone", "lmstudio-community/EXAONE-3.5-2.4B-Instruct-GGUF"),
    RESIDENT("command_r", "command-r", "qwp4w3hyb/c4ai-command-r-v01-iMat-GGUF:IQ2_M"),
    RESIDENT("falcon", "falcon", "Kondara/falcon-7b-instruct-Q4_K_M-GGUF"),
    RESIDENT("maincoder", "maincoder", "mradermacher/Maincoder-1B-GGUF:Q2_K"),
    RESIDENT("openelm", "openelm", "LiteLLMs/OpenELM-270M-GGUF:Q2_K"),
    RESIDENT("plamo", "plamo", "QuantFactory/plamo-13b-GGUF:Q2_K"),
    RESIDENT("refact", "refact", "RichardErkhov/smallcloudai_-_Refact-1_6B-fim-gguf:Q2_K"),
    RESIDENT("smollm3", "smollm3", "bartowski/HuggingFaceTB_SmolLM3-3B-GGUF:IQ2_M"),
    RESIDENT("minicpm", "minicpm", "s3nh/MiniCPM-2B-dpo-fp32-GGUF:Q3_K_S"),
    RESIDENT("minicpm3", "minicpm3", "duyntnet/MiniCPM-3B-OpenHermes-2.5-v2-imatrix-GGUF:IQ2_XXS"),
    RESIDENT("plm", "plm", "StatPan/42dot_LLM-PLM-1.3B_GGUF:q3_k_m"),
    RESIDENT("arcee", "arcee", "bartowski/arcee-ai_AFM-4.5B-GGUF:IQ2_M"),
    RESIDENT("arctic", "arctic", ""),
    RESIDENT("codeshell", "codeshell", "mradermacher/CodeShell-7B-i1-GGUF:IQ2_M"),
    RESIDENT("deci", "deci", "mradermacher/DeciLM-6b-instruct-i1-GGUF:IQ2_M"),
    RESIDENT("xverse", "xverse", "xverse/XVERSE-7B-Chat-GGUF:q2_k"),
    RESIDENT("apertus", "apertus", "unsloth/Apertus-8B-Instruct-2509-GGUF:UD-IQ2_M"),
    RESIDENT("bitnet", "bitnet", "Sarverott/bitnet_b1_58-large-Q4_K_M-GGUF"),
    RESIDENT("ernie4_5", "ernie4_5", "lmstudio-community/ERNIE-4.5-0.3B-GGUF"),
    RESIDENT("ernie4_5_moe", "ernie4_5-moe", "lmstudio-community/ERNIE-4.5-21B-A3B-PT-GGUF"),
    RESIDENT("jais", "jais", "mradermacher/Jais-family-256m-GGUF"),
    RESIDENT("jais2", "jais2", "mradermacher/JAIS2-IT-0.3-GGUF"),
    RESIDENT("nemotron", "nemotron", "mradermacher/nemotron-3-8b-chat-4k-sft-hf-i1-GGUF:IQ2_XS"),
    RESIDENT("seed_oss", "seed_oss", "lmstudio-community/Seed-OSS-36B-Instruct-GGUF"),
    RESIDENT("grok", "grok", ""),
    RESIDENT("dbrx", "dbrx", ""),
    RESIDENT("orion", "orion", ""),
    RESIDENT("chameleon", "chameleon", ""),
    RESIDENT("cogvlm", "cogvlm", ""),
    RESIDENT("paddleocr", "paddleocr", ""),
    RESIDENT("bailingmoe", "bailingmoe", ""),
    RESIDENT("bailingmoe2", "bailingmoe2", ""),
    RESIDENT("dots1", "dots1", ""),
    RESIDENT("grovemoe", "grovemoe", ""),
    RESIDENT("pangu_embedded", "pangu-embedded", ""),
    RESIDENT("talkie", "talkie", ""),
    RESIDENT("nanbeige", "nanbeige", ""),

    /* Attention only, some layers with a sliding window. */
    WINDOW("gemma4_a4b", "gemma4", "batiai/Gemma-4-26B-A4B-it-GGUF:Q6_K"),
    WINDOW("gemma4_e4b", "gemma4", "unsloth/gemma-4-E4B-it-GGUF:Q4_K_M"),
    WINDOW("gemma3", "gemma3", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"),
    WINDOW("gemma3n", "gemma3n", "lmstudio-community/gemma-3n-E2B-it-GGUF:Q4_K_M"),
    WINDOW("gemma2", "gemma2", "bartowski/gemma-2-2b-it-GGUF:Q4_K_M"),
    WINDOW("openai_moe", "gpt-oss", "ggml-org/gpt-oss-20b-GGUF"),
    WINDOW("cohere2", "cohere2", "Lumia101/c4ai-command-r7b-12-2024-Q4_K_M-GGUF"),
    WINDOW("cohere2moe", "cohere2moe", ""),
    WINDOW("exaone4", "exaone4", "bartowski/LGAI-EXAONE_EXAONE-4.0-1.2B-GGUF"),
    WINDOW("exaone_moe", "exaone-moe", "LGAI-EXAONE/K-EXAONE-236B-A23B-GGUF:Q4_K_M"),
    WINDOW("plamo3", "plamo3", "mmnga-o/plamo-3-nict-2b-base-gguf:IQ3_M"),
    WINDOW("smallthinker", "smallthinker", "bartowski/SmallThinker-3B-Preview-GGUF:IQ2_M"),
    WINDOW("granite_swa", "granite_swa", ""),
    WINDOW("afmoe", "afmoe", ""),
    WINDOW("laguna", "laguna", ""),
    WINDOW("mellum", "mellum", ""),
    WINDOW("mimo2", "mimo2", ""),
    WINDOW("step35", "step35", ""),
    WINDOW("muse_glimmer", "muse-glimmer", ""),

    /* Hybrid and recurrent. */
    RECURRENT("qwen3next", "qwen3next", "bartowski/Qwen_Qwen3-Coder-Next-GGUF:IQ2_XS"),
    RECURRENT("qwen35", "qwen35", "mradermacher/UnifiedReward-Edit-qwen35-4b-i1-GGUF:IQ2_M"),
    RECURRENT("qwen35moe", "qwen35moe", "unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_XL"),
    RECURRENT("falcon_h1", "falcon-h1", "tiiuae/Falcon-H1-1.5B-Instruct-GGUF:Q4_K_M"),
    RECURRENT("lfm2", "lfm2", "meshllm/lfm2-350m-parity-q4_k_m-gguf"),
    RECURRENT("lfm2moe", "lfm2moe", "noctrex/LFM2-8B-A1B-MXFP4_MOE-GGUF"),
    RECURRENT("granite_hybrid", "granitehybrid", "magiccodingman/Granite-4.0-H-350M-Unsloth-MXFP4-Hybrid-GGUF"),
    RECURRENT("jamba", "jamba", "bartowski/ai21labs_AI21-Jamba2-3B-GGUF:Q4_K_M"),
    RECURRENT("nemotron_h", "nemotron_h", "nvidia/NVIDIA-Nemotron-3-Nano-4B-GGUF:Q4_K_M"),
    RECURRENT("nemotron_h_moe", "nemotron_h_moe", "lmstudio-community/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-GGUF"),
    RECURRENT("plamo2", "plamo2", "mmnga/plamo-2-1b-gguf:Q4_K_M"),
    RECURRENT("kimi_linear", "kimi-linear", "bartowski/moonshotai_Kimi-Linear-48B-A3B-Instruct-GGUF:IQ2_XXS"),
    RECURRENT("kimi_k3", "kimi-k3", ""),
    RECURRENT("bailingmoe3", "bailingmoe3", ""),
    RECURRENT("minimax_01", "minimax-01", ""),
    RECURRENT("mamba", "mamba", "mradermacher/mamba-130m-hf-GGUF:Q4_K_M"),
    RECURRENT("mamba2", "mamba2", "mradermacher/mamba-2.8b-hf-GGUF:Q4_K_M"),
    RECURRENT("rwkv6", "rwkv6", "latestissue/rwkv-6-finch-1b6-gguf:Q4_K"),
    RECURRENT("rwkv6qwen2", "rwkv6qwen2", ""),
    RECURRENT("rwkv7", "rwkv7", "Mungert/rwkv7-191M-world-GGUF:q4_k"),
    RECURRENT("arwkv7", "arwkv7", "mradermacher/ARWKV-7B-Preview-0.1-i1-GGUF:IQ2_M"),

    /* Known, and not reused. */
    REFUSED("llama4", "llama4", "ggml-org/Llama-4-Scout-17B-16E-Instruct-GGUF:Q4_K_M", SK_TRAIT_CHUNKED),
    REFUSED("deepseek32", "deepseek32", "", SK_TRAIT_INDEXER),
    REFUSED("deepseek4", "deepseek4", "", SK_TRAIT_INDEXER),
    REFUSED("glm_dsa", "glm-dsa", "", SK_TRAIT_INDEXER),
    REFUSED("dots3note", "dots3note", "", SK_TRAIT_INDEXER),
    REFUSED("minimax_m3", "minimax-m3", "", SK_TRAIT_INDEXER),
    REFUSED("qwen4exp", "qwen4exp", "", SK_TRAIT_INDEXER),
    REFUSED("eagle3", "eagle3", "", SK_TRAIT_DRAFT),
    REFUSED("dflash", "dflash", "", SK_TRAIT_DRAFT),
    REFUSED("gemma4_assistant", "gemma4-assistant", "", SK_TRAIT_DRAFT),
    REFUSED("granite_switch", "graniteswitch", "", SK_TRAIT_ROUTED),
    REFUSED("llada", "llada", "mradermacher/LLaDA-1.5-Tiny-GGUF:Q2_K", SK_TRAIT_DIFFUSION),
    REFUSED("llada_moe", "llada-moe", "mradermacher/LLaDA-MoE-7B-A1B-Instruct-i1-GGUF:IQ2_XS", SK_TRAIT_DIFFUSION),
    REFUSED("dream", "dream", "mradermacher/DreamOn-v0-7B-i1-GGUF:IQ2_XS", SK_TRAIT_DIFFUSION),
    REFUSED("rnd1", "rnd1", "", SK_TRAIT_DIFFUSION),
    REFUSED("bert", "bert", "", SK_TRAIT_ENCODER),
    REFUSED("modern_bert", "modern-bert", "", SK_TRAIT_ENCODER),
    REFUSED("nomic_bert", "nomic-bert", "", SK_TRAIT_ENCODER),
    REFUSED("nomic_bert_moe", "nomic-bert-moe", "", SK_TRAIT_ENCODER),
    REFUSED("neo_bert", "neo-bert", "", SK_TRAIT_ENCODER),
    REFUSED("jina_bert_v2", "jina-bert-v2", "", SK_TRAIT_ENCODER),
    REFUSED("jina_bert_v3", "jina-bert-v3", "", SK_TRAIT_ENCODER),
    REFUSED("eurobert", "eurobert", "", SK_TRAIT_ENCODER),
    REFUSED("gemma_embedding", "gemma-embedding", "", SK_TRAIT_ENCODER),
    REFUSED("llama_embed", "llama-embed", "", SK_TRAIT_ENCODER),
    REFUSED("t5", "t5", "", SK_TRAIT_ENCODER),
    REFUSED("t5encoder", "t5encoder", "", SK_TRAIT_ENCODER),
    REFUSED("wavtokenizer_dec", "wavtokenizer-dec", "", SK_TRAIT_SPEECH),
    REFUSED("qwen3tts", "qwen3tts", "", SK_TRAIT_SPEECH),
    REFUSED("pockettts", "pockettts", "", SK_TRAIT_SPEECH),
};

#define N_ROWS (sizeof rows / sizeof rows[0])

const sk_family_row *sk_family_row_at(size_t i) {
    return i < N_ROWS ? &rows[i] : NULL;
}

const sk_family_row *sk_family_row_find(const char *arch) {
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].record.arch, arch) == 0) return &rows[i];
    }
    return NULL;
}
