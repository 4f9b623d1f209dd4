/* Family tables. Metadata values of the real shapes come from published configurations and GGUF headers; each set was
 * checked by its parameter count. Tiny models keep the family's real head, latent and state sizes, because backends
 * have kernels for those only and because the state layout must stay that of the family. */
#include "runtime/synth_families.h"

#include <string.h>

static const char *const NONE[] = {NULL};

static const char *const LLAMA3_CONTROL[] = {"<|begin_of_text|>",   "<|end_of_text|>",   "<|eot_id|>", "<|eom_id|>",
                                             "<|start_header_id|>", "<|end_header_id|>", NULL};
static const sk_synth_specials SPECIALS_LLAMA3 = {LLAMA3_CONTROL, NONE,         "<|begin_of_text|>",
                                                  "<|eot_id|>",   "<|eot_id|>", true};

static const char *const QWEN_CONTROL[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", NULL};
static const char *const QWEN_MARKS[] = {
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>", NULL};
static const sk_synth_specials SPECIALS_QWEN = {QWEN_CONTROL, QWEN_MARKS,   "<|endoftext|>",
                                                "<|im_end|>", "<|im_end|>", false};
static const sk_synth_specials SPECIALS_CHATML = {QWEN_CONTROL, NONE,         "<|endoftext|>",
                                                  "<|im_end|>", "<|im_end|>", false};

static const char *const PLAIN_CONTROL[] = {"<|endoftext|>", NULL};
static const sk_synth_specials SPECIALS_PLAIN = {PLAIN_CONTROL,   QWEN_MARKS,      "<|endoftext|>",
                                                 "<|endoftext|>", "<|endoftext|>", false};

static const char *const GEMMA_CONTROL[] = {"<pad>",           "<eos>",         "<bos>", "<unk>",
                                            "<start_of_turn>", "<end_of_turn>", NULL};
static const sk_synth_specials SPECIALS_GEMMA = {GEMMA_CONTROL, NONE, "<bos>", "<eos>", "<end_of_turn>", true};

static const char *const GEMMA4_CONTROL[] = {"<pad>",   "<eos>",     "<bos>",   "<unk>",   "<|turn>",
                                             "<turn|>", "<|think|>", "<|tool>", "<tool|>", NULL};
static const char *const GEMMA4_MARKS[] = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                           "<|tool_response>", "<tool_response|>", "<|\"|>",       NULL};
static const sk_synth_specials SPECIALS_GEMMA4 = {GEMMA4_CONTROL, GEMMA4_MARKS, "<bos>", "<eos>", "<turn|>", true};

static const char *const LFM2_CONTROL[] = {"<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", NULL};
static const sk_synth_specials SPECIALS_LFM2 = {LFM2_CONTROL, QWEN_MARKS,   "<|startoftext|>",
                                                "<|im_end|>", "<|im_end|>", true};

static const char *const GRANITE_CONTROL[] = {"<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", NULL};
static const sk_synth_specials SPECIALS_GRANITE = {GRANITE_CONTROL,   QWEN_MARKS,        "<|end_of_text|>",
                                                   "<|end_of_text|>", "<|end_of_text|>", false};

/* The bars are U+FF5C and the low line is U+2581, as in the published tokenizers. */
static const char *const DEEPSEEK_CONTROL[] = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
                                               "<｜Assistant｜>", NULL};
static const char *const DEEPSEEK_MARKS[] = {"<think>",
                                             "</think>",
                                             "<｜tool▁calls▁begin｜>",
                                             "<｜tool▁calls▁end｜>",
                                             "<｜tool▁call▁begin｜>",
                                             "<｜tool▁call▁end｜>",
                                             "<｜tool▁output▁begin｜>",
                                             "<｜tool▁output▁end｜>",
                                             "<｜tool▁sep｜>",
                                             NULL};
static const sk_synth_specials SPECIALS_DEEPSEEK = {DEEPSEEK_CONTROL,          DEEPSEEK_MARKS,
                                                    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
                                                    "<｜end▁of▁sentence｜>",   true};

static const char *const GLM_CONTROL[] = {"<|endoftext|>", "[gMASK]",       "<sop>",           "<|system|>",
                                          "<|user|>",      "<|assistant|>", "<|observation|>", NULL};
static const char *const GLM_MARKS[] = {"<think>",         "</think>",         "<tool_call>", "</tool_call>",
                                        "<arg_key>",       "</arg_key>",       "<arg_value>", "</arg_value>",
                                        "<tool_response>", "</tool_response>", NULL};
static const sk_synth_specials SPECIALS_GLM = {GLM_CONTROL, GLM_MARKS, "[gMASK]", "<|endoftext|>", "<|user|>", false};

static const char *const MINIMAX_CONTROL[] = {"]~!b[", "]~b]", "[e~[", NULL};
static const char *const MINIMAX_MARKS[] = {"<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>", NULL};
static const sk_synth_specials SPECIALS_MINIMAX = {MINIMAX_CONTROL, MINIMAX_MARKS, "]~!b[", "[e~[", "[e~[", false};

/* Optional tensors that the loader would accept but that real files of the family do not have. */
static const char *const WITHOUT_NOTHING[] = {NULL};
static const char *const WITHOUT_CLS[] = {"cls.output.weight", "cls.output.bias", NULL};
static const char *const WITHOUT_FALCON_H1[] = {"ssm_norm.weight", "rope_freqs.weight", NULL};
static const char *const WITHOUT_QWEN3NEXT[] = {"ssm_in.weight", NULL};
static const char *const WITHOUT_DENSE[] = {"dense_2.weight", "dense_2.bias", "dense_3.weight", "dense_3.bias", NULL};
static const char *const WITHOUT_ROPE_FREQS[] = {"rope_freqs.weight", NULL};
static const char *const WITHOUT_PROBS_B[] = {"exp_probs_b.bias", NULL};

static const sk_synth_family FAMILIES[] = {
    {.name = "llama",
     .arch = "llama",
     .real_model = "Llama-3.2-1B",
     .billions = 1.2358,
     .tied = true,
     .min_layers = 1,
     .vocab = "llama-bpe",
     .tiny_vocab = "llama-bpe",
     .pre = NULL,
     .chat_template = "meta-llama-Llama-3.2-3B-Instruct",
     .specials = &SPECIALS_LLAMA3,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:256 feed_forward_length=u:512 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:64 attention.value_length=u:64 "
             "rope.dimension_count=u:64 rope.freq_base=f:500000 attention.layer_norm_rms_epsilon=f:1e-5",
     .shape = "block_count=u:16 context_length=u:131072 embedding_length=u:2048 feed_forward_length=u:8192 "
              "attention.head_count=u:32 attention.head_count_kv=u:8 attention.key_length=u:64 "
              "attention.value_length=u:64 rope.dimension_count=u:64 rope.freq_base=f:500000 "
              "attention.layer_norm_rms_epsilon=f:1e-5 vocab_size=u:128256"},
    {.name = "qwen3",
     .arch = "qwen3",
     .real_model = "Qwen3-0.6B",
     .billions = 0.596,
     .tied = true,
     .min_layers = 1,
     .vocab = "qwen2",
     .tiny_vocab = "qwen2",
     .pre = NULL,
     .chat_template = "Qwen-Qwen3-0.6B",
     .specials = &SPECIALS_QWEN,
     .leave_out = WITHOUT_CLS,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:2 attention.key_length=u:128 attention.value_length=u:128 "
             "rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-6",
     .shape = "block_count=u:28 context_length=u:40960 embedding_length=u:1024 feed_forward_length=u:3072 "
              "attention.head_count=u:16 attention.head_count_kv=u:8 attention.key_length=u:128 "
              "attention.value_length=u:128 rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-6 "
              "vocab_size=u:151936"},
    {.name = "falcon-h1",
     .arch = "falcon-h1",
     .real_model = "Falcon-H1-1.5B",
     .billions = 1.5548,
     .tied = false,
     .min_layers = 1,
     .vocab = "falcon",
     .tiny_vocab = "falcon",
     .pre = NULL,
     .chat_template = NULL,
     .specials = &SPECIALS_CHATML,
     .leave_out = WITHOUT_FALCON_H1,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:256 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:64 attention.value_length=u:64 "
             "rope.freq_base=f:1e11 attention.layer_norm_rms_epsilon=f:1e-5 ssm.conv_kernel=u:4 "
             "ssm.inner_size=u:256 ssm.state_size=u:256 ssm.time_step_rank=u:4 ssm.group_count=u:1",
     .shape = "block_count=u:24 context_length=u:131072 embedding_length=u:2048 feed_forward_length=u:4608 "
              "attention.head_count=u:8 attention.head_count_kv=u:2 attention.key_length=u:128 "
              "attention.value_length=u:128 rope.freq_base=f:1e11 attention.layer_norm_rms_epsilon=f:1e-5 "
              "ssm.conv_kernel=u:4 ssm.inner_size=u:3072 ssm.state_size=u:256 ssm.time_step_rank=u:48 "
              "ssm.group_count=u:1 vocab_size=u:65537"},
    {.name = "qwen3next",
     .arch = "qwen3next",
     .real_model = "Qwen3-Coder-Next",
     .billions = 79.6744,
     .tied = false,
     .min_layers = 4,
     .vocab = "qwen2",
     .tiny_vocab = "qwen2",
     .pre = NULL,
     .chat_template = "Qwen3-Coder",
     .specials = &SPECIALS_QWEN,
     .leave_out = WITHOUT_QWEN3NEXT,
     .tiny = "block_count=u:12 embedding_length=u:128 feed_forward_length=u:256 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:64 attention.value_length=u:64 "
             "rope.dimension_count=u:16 rope.freq_base=f:5e6 attention.layer_norm_rms_epsilon=f:1e-6 "
             "expert_count=u:16 expert_used_count=u:4 expert_feed_forward_length=u:64 "
             "expert_shared_feed_forward_length=u:64 ssm.conv_kernel=u:4 ssm.state_size=u:128 "
             "ssm.group_count=u:2 ssm.time_step_rank=u:4 ssm.inner_size=u:512 full_attention_interval=u:4",
     .shape = "block_count=u:48 context_length=u:262144 embedding_length=u:2048 feed_forward_length=u:5120 "
              "attention.head_count=u:16 attention.head_count_kv=u:2 attention.key_length=u:256 "
              "attention.value_length=u:256 rope.dimension_count=u:64 rope.freq_base=f:5e6 "
              "attention.layer_norm_rms_epsilon=f:1e-6 expert_count=u:512 expert_used_count=u:10 "
              "expert_feed_forward_length=u:512 expert_shared_feed_forward_length=u:512 ssm.conv_kernel=u:4 "
              "ssm.state_size=u:128 ssm.group_count=u:16 ssm.time_step_rank=u:32 ssm.inner_size=u:4096 "
              "full_attention_interval=u:4 vocab_size=u:151936"},
    {.name = "qwen35",
     .arch = "qwen35",
     .real_model = "Qwen3.5-4B",
     .billions = 4.2058,
     .tied = true,
     .min_layers = 4,
     .vocab = "qwen35",
     .tiny_vocab = "qwen35",
     .pre = NULL,
     .chat_template = "Qwen3.5-4B",
     .specials = &SPECIALS_QWEN,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:12 embedding_length=u:128 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:64 attention.value_length=u:64 "
             "rope.dimension_count=u:16 rope.dimension_sections=i:3,3,2,0 rope.freq_base=f:1e7 "
             "attention.layer_norm_rms_epsilon=f:1e-6 ssm.conv_kernel=u:4 ssm.state_size=u:128 "
             "ssm.group_count=u:2 ssm.time_step_rank=u:4 ssm.inner_size=u:512 full_attention_interval=u:4",
     .shape = "block_count=u:32 context_length=u:262144 embedding_length=u:2560 feed_forward_length=u:9216 "
              "attention.head_count=u:16 attention.head_count_kv=u:4 attention.key_length=u:256 "
              "attention.value_length=u:256 rope.dimension_count=u:64 rope.dimension_sections=i:11,11,10,0 "
              "rope.freq_base=f:1e7 attention.layer_norm_rms_epsilon=f:1e-6 ssm.conv_kernel=u:4 "
              "ssm.state_size=u:128 ssm.group_count=u:16 ssm.time_step_rank=u:32 ssm.inner_size=u:4096 "
              "full_attention_interval=u:4 vocab_size=u:248320"},
    {.name = "gemma3",
     .arch = "gemma3",
     .real_model = "gemma-3-1b",
     .billions = 0.9999,
     .tied = true,
     .min_layers = 6,
     .vocab = "gemma-4",
     .tiny_vocab = "llama-bpe",
     .pre = NULL,
     .chat_template = "google-gemma-2-2b-it",
     .specials = &SPECIALS_GEMMA,
     .leave_out = WITHOUT_DENSE,
     .tiny = "block_count=u:12 embedding_length=u:144 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:256 attention.value_length=u:256 "
             "rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-6 attention.sliding_window=u:64",
     .shape = "block_count=u:26 context_length=u:32768 embedding_length=u:1152 feed_forward_length=u:6912 "
              "attention.head_count=u:4 attention.head_count_kv=u:1 attention.key_length=u:256 "
              "attention.value_length=u:256 rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-6 "
              "attention.sliding_window=u:512 vocab_size=u:262144"},
    {.name = "gemma2",
     .arch = "gemma2",
     .real_model = "gemma-2-2b",
     .billions = 2.6143,
     .tied = true,
     .min_layers = 2,
     .vocab = "llama-spm",
     .tiny_vocab = "llama-bpe",
     .pre = NULL,
     .chat_template = "google-gemma-2-2b-it",
     .specials = &SPECIALS_GEMMA,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:144 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:2 attention.key_length=u:256 attention.value_length=u:256 "
             "attention.layer_norm_rms_epsilon=f:1e-6 attention.sliding_window=u:64 "
             "attn_logit_softcapping=f:50 final_logit_softcapping=f:30",
     .shape = "block_count=u:26 context_length=u:8192 embedding_length=u:2304 feed_forward_length=u:9216 "
              "attention.head_count=u:8 attention.head_count_kv=u:4 attention.key_length=u:256 "
              "attention.value_length=u:256 attention.layer_norm_rms_epsilon=f:1e-6 "
              "attention.sliding_window=u:4096 attn_logit_softcapping=f:50 final_logit_softcapping=f:30 "
              "vocab_size=u:256000"},
    {.name = "gemma4a4b",
     .arch = "gemma4",
     .real_model = "gemma-4-26B-A4B",
     .billions = 25.2331,
     .tied = true,
     .min_layers = 6,
     .vocab = "gemma-4",
     .tiny_vocab = "llama-bpe",
     .pre = NULL,
     .chat_template = "google-gemma-4-31B-it",
     .specials = &SPECIALS_GEMMA4,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:12 embedding_length=u:128 feed_forward_length=u:192 attention.head_count=u:4 "
             "attention.head_count_kv=a:2,2,2,2,2,1,2,2,2,2,2,1 attention.key_length=u:512 "
             "attention.value_length=u:512 attention.key_length_swa=u:256 attention.value_length_swa=u:256 "
             "rope.dimension_count=u:512 rope.dimension_count_swa=u:256 rope.freq_base=f:1e6 "
             "rope.freq_base_swa=f:10000 attention.layer_norm_rms_epsilon=f:1e-6 "
             "attention.sliding_window=u:64 attention.sliding_window_pattern=B:1,1,1,1,1,0,1,1,1,1,1,0 "
             "attention.shared_kv_layers=u:0 embedding_length_per_layer_input=u:0 "
             "final_logit_softcapping=f:30 expert_count=u:16 expert_used_count=u:4 "
             "expert_feed_forward_length=u:64",
     .shape = "block_count=u:30 context_length=u:262144 embedding_length=u:2816 feed_forward_length=u:2112 "
              "attention.head_count=u:16 attention.head_count_kv=a:(8,8,8,8,8,2)x5 attention.key_length=u:512 "
              "attention.value_length=u:512 attention.key_length_swa=u:256 attention.value_length_swa=u:256 "
              "rope.dimension_count=u:512 rope.dimension_count_swa=u:256 rope.freq_base=f:1e6 "
              "rope.freq_base_swa=f:10000 attention.layer_norm_rms_epsilon=f:1e-6 "
              "attention.sliding_window=u:1024 attention.sliding_window_pattern=B:(1,1,1,1,1,0)x5 "
              "attention.shared_kv_layers=u:0 embedding_length_per_layer_input=u:0 "
              "final_logit_softcapping=f:30 expert_count=u:128 expert_used_count=u:8 "
              "expert_feed_forward_length=u:704 vocab_size=u:262144"},
    {.name = "gemma4e4b",
     .arch = "gemma4",
     .real_model = "gemma-4-E4B",
     .billions = 7.5181,
     .tied = true,
     .min_layers = 12,
     .vocab = "gemma-4",
     .tiny_vocab = "llama-bpe",
     .pre = NULL,
     .chat_template = "google-gemma-4-31B-it",
     .specials = &SPECIALS_GEMMA4,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:12 embedding_length=u:128 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:512 attention.value_length=u:512 "
             "attention.key_length_swa=u:256 attention.value_length_swa=u:256 rope.dimension_count=u:512 "
             "rope.dimension_count_swa=u:256 rope.freq_base=f:1e6 rope.freq_base_swa=f:10000 "
             "attention.layer_norm_rms_epsilon=f:1e-6 attention.sliding_window=u:64 "
             "attention.sliding_window_pattern=B:1,1,1,1,1,0,1,1,1,1,1,0 attention.shared_kv_layers=u:6 "
             "embedding_length_per_layer_input=u:64 final_logit_softcapping=f:30",
     .shape = "block_count=u:42 context_length=u:131072 embedding_length=u:2560 feed_forward_length=u:10240 "
              "attention.head_count=u:8 attention.head_count_kv=u:2 attention.key_length=u:512 "
              "attention.value_length=u:512 attention.key_length_swa=u:256 attention.value_length_swa=u:256 "
              "rope.dimension_count=u:512 rope.dimension_count_swa=u:256 rope.freq_base=f:1e6 "
              "rope.freq_base_swa=f:10000 attention.layer_norm_rms_epsilon=f:1e-6 "
              "attention.sliding_window=u:512 attention.sliding_window_pattern=B:(1,1,1,1,1,0)x7 "
              "attention.shared_kv_layers=u:18 embedding_length_per_layer_input=u:256 "
              "final_logit_softcapping=f:30 vocab_size=u:262144"},
    {.name = "mamba2",
     .arch = "mamba2",
     .real_model = "mamba2-2.7b",
     .billions = 2.7026,
     .tied = true,
     .min_layers = 1,
     .vocab = "gpt-neox",
     .tiny_vocab = "gpt-neox",
     .pre = "gpt-2",
     .chat_template = NULL,
     .specials = &SPECIALS_CHATML,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:0 attention.head_count=u:0 "
             "attention.layer_norm_rms_epsilon=f:1e-5 ssm.conv_kernel=u:4 ssm.inner_size=u:256 "
             "ssm.state_size=u:128 ssm.time_step_rank=u:4 ssm.group_count=u:1",
     .shape = "block_count=u:64 context_length=u:1048576 embedding_length=u:2560 feed_forward_length=u:0 "
              "attention.head_count=u:0 attention.layer_norm_rms_epsilon=f:1e-5 ssm.conv_kernel=u:4 "
              "ssm.inner_size=u:5120 ssm.state_size=u:128 ssm.time_step_rank=u:80 ssm.group_count=u:1 "
              "vocab_size=u:50288"},
    {.name = "rwkv7",
     .arch = "rwkv7",
     .real_model = "rwkv7-191M-world",
     .billions = 0.1911,
     .tied = false,
     .min_layers = 1,
     .vocab = "falcon",
     .tiny_vocab = "falcon",
     .pre = NULL,
     .chat_template = "llama-cpp-rwkv-world",
     .specials = &SPECIALS_PLAIN,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:512 attention.head_count=u:0 "
             "attention.layer_norm_epsilon=f:1e-5 wkv.head_size=u:64 attention.decay_lora_rank=u:32 "
             "attention.iclr_lora_rank=u:32 attention.value_residual_mix_lora_rank=u:32 "
             "attention.gate_lora_rank=u:64",
     .shape = "block_count=u:12 context_length=u:1048576 embedding_length=u:768 feed_forward_length=u:3072 "
              "attention.head_count=u:0 attention.layer_norm_epsilon=f:1e-5 wkv.head_size=u:64 "
              "attention.decay_lora_rank=u:64 attention.iclr_lora_rank=u:64 "
              "attention.value_residual_mix_lora_rank=u:32 attention.gate_lora_rank=u:128 vocab_size=u:65536"},
    {.name = "lfm2",
     .arch = "lfm2",
     .real_model = "LFM2-350M",
     .billions = 0.3545,
     .tied = true,
     .min_layers = 3,
     .vocab = "falcon",
     .tiny_vocab = "llama-bpe",
     .pre = "lfm2",
     .chat_template = "LFM2.5-Instruct",
     .specials = &SPECIALS_LFM2,
     .leave_out = WITHOUT_DENSE,
     .tiny = "block_count=u:9 embedding_length=u:256 feed_forward_length=u:512 attention.head_count=u:4 "
             "attention.head_count_kv=a:0,0,2,0,0,2,0,0,2 rope.freq_base=f:1e6 "
             "attention.layer_norm_rms_epsilon=f:1e-5 shortconv.l_cache=u:3",
     .shape = "block_count=u:16 context_length=u:128000 embedding_length=u:1024 feed_forward_length=u:4608 "
              "attention.head_count=u:16 attention.head_count_kv=a:0,0,8,0,0,8,0,0,8,0,8,0,8,0,8,0 "
              "rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-5 shortconv.l_cache=u:3 "
              "vocab_size=u:65536"},
    {.name = "granitehybrid",
     .arch = "granitehybrid",
     .real_model = "granite-4.0-h-350m",
     .billions = 0.3403,
     .tied = true,
     .min_layers = 3,
     .vocab = "starcoder",
     .tiny_vocab = "starcoder",
     .pre = NULL,
     .chat_template = "ibm-granite-granite-4.0",
     .specials = &SPECIALS_GRANITE,
     .leave_out = WITHOUT_ROPE_FREQS,
     .tiny = "block_count=u:9 embedding_length=u:128 feed_forward_length=u:256 attention.head_count=u:4 "
             "attention.head_count_kv=a:0,0,2,0,0,2,0,0,2 attention.layer_norm_rms_epsilon=f:1e-5 "
             "ssm.conv_kernel=u:4 ssm.inner_size=u:256 ssm.state_size=u:128 ssm.time_step_rank=u:8 "
             "ssm.group_count=u:1 rope.scaling.finetuned=b:0 rope.dimension_count=u:32 embedding_scale=f:12 "
             "residual_scale=f:0.246 attention.scale=f:0.03125 logit_scale=f:3",
     .shape = "block_count=u:32 context_length=u:1048576 embedding_length=u:768 feed_forward_length=u:2048 "
              "attention.head_count=u:12 "
              "attention.head_count_kv=a:0,0,0,0,0,0,0,0,0,0,4,0,0,4,0,0,0,4,0,0,0,0,0,0,0,0,0,4,0,0,0,0 "
              "attention.layer_norm_rms_epsilon=f:1e-5 rope.dimension_count=u:64 rope.scaling.finetuned=b:0 "
              "ssm.conv_kernel=u:4 ssm.inner_size=u:1536 ssm.state_size=u:128 ssm.time_step_rank=u:48 "
              "ssm.group_count=u:1 embedding_scale=f:12 residual_scale=f:0.246 attention.scale=f:0.015625 "
              "logit_scale=f:3 vocab_size=u:100352"},
    {.name = "deepseek2lite",
     .arch = "deepseek2",
     .real_model = "DeepSeek-Coder-V2-Lite",
     .billions = 15.7065,
     .tied = false,
     .min_layers = 2,
     .vocab = "deepseek-llm",
     .tiny_vocab = "deepseek-llm",
     .pre = NULL,
     .chat_template = "deepseek-ai-DeepSeek-V3.1",
     .specials = &SPECIALS_DEEPSEEK,
     .leave_out = WITHOUT_PROBS_B,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:512 leading_dense_block_count=u:1 "
             "attention.head_count=u:4 attention.head_count_kv=u:1 attention.kv_lora_rank=u:512 "
             "attention.q_lora_rank=u:0 attention.key_length=u:576 attention.value_length=u:512 "
             "attention.key_length_mla=u:192 attention.value_length_mla=u:128 rope.dimension_count=u:64 "
             "rope.freq_base=f:10000 rope.scaling.type=s:yarn rope.scaling.factor=f:40 "
             "rope.scaling.original_context_length=u:4096 rope.scaling.yarn_log_multiplier=f:0.0707 "
             "attention.layer_norm_rms_epsilon=f:1e-6 expert_count=u:16 expert_used_count=u:4 "
             "expert_shared_count=u:2 expert_feed_forward_length=u:64 expert_weights_scale=f:1 "
             "expert_weights_norm=b:0 expert_gating_func=u:1",
     .shape = "block_count=u:27 context_length=u:163840 embedding_length=u:2048 feed_forward_length=u:10944 "
              "leading_dense_block_count=u:1 attention.head_count=u:16 attention.head_count_kv=u:1 "
              "attention.kv_lora_rank=u:512 attention.q_lora_rank=u:0 attention.key_length=u:576 "
              "attention.value_length=u:512 attention.key_length_mla=u:192 attention.value_length_mla=u:128 "
              "rope.dimension_count=u:64 rope.freq_base=f:10000 rope.scaling.type=s:yarn "
              "rope.scaling.factor=f:40 rope.scaling.original_context_length=u:4096 "
              "rope.scaling.yarn_log_multiplier=f:0.0707 attention.layer_norm_rms_epsilon=f:1e-6 "
              "expert_count=u:64 expert_used_count=u:6 expert_shared_count=u:2 "
              "expert_feed_forward_length=u:1408 expert_weights_scale=f:1 expert_weights_norm=b:0 "
              "expert_gating_func=u:1 vocab_size=u:102400"},
    {.name = "deepseek2mha",
     .arch = "deepseek2",
     .real_model = "DeepSeek-Coder-V2-Lite, older file without MLA",
     .billions = 15.7065,
     .tied = false,
     .min_layers = 2,
     .vocab = "deepseek-llm",
     .tiny_vocab = "deepseek-llm",
     .pre = NULL,
     .chat_template = "deepseek-ai-DeepSeek-V3.1",
     .specials = &SPECIALS_DEEPSEEK,
     .leave_out = WITHOUT_PROBS_B,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:512 leading_dense_block_count=u:1 "
             "attention.head_count=u:4 attention.head_count_kv=u:4 attention.kv_lora_rank=u:512 "
             "attention.q_lora_rank=u:0 attention.key_length=u:192 attention.value_length=u:128 "
             "rope.dimension_count=u:64 rope.freq_base=f:10000 rope.scaling.type=s:yarn "
             "rope.scaling.factor=f:40 rope.scaling.original_context_length=u:4096 "
             "rope.scaling.yarn_log_multiplier=f:0.0707 attention.layer_norm_rms_epsilon=f:1e-6 "
             "expert_count=u:16 expert_used_count=u:4 expert_shared_count=u:2 expert_feed_forward_length=u:64 "
             "expert_weights_scale=f:1 expert_weights_norm=b:0 expert_gating_func=u:1",
     .shape = "block_count=u:27 context_length=u:163840 embedding_length=u:2048 feed_forward_length=u:10944 "
              "leading_dense_block_count=u:1 attention.head_count=u:16 attention.head_count_kv=u:16 "
              "attention.kv_lora_rank=u:512 attention.q_lora_rank=u:0 attention.key_length=u:192 "
              "attention.value_length=u:128 rope.dimension_count=u:64 rope.freq_base=f:10000 "
              "rope.scaling.type=s:yarn rope.scaling.factor=f:40 rope.scaling.original_context_length=u:4096 "
              "rope.scaling.yarn_log_multiplier=f:0.0707 attention.layer_norm_rms_epsilon=f:1e-6 "
              "expert_count=u:64 expert_used_count=u:6 expert_shared_count=u:2 "
              "expert_feed_forward_length=u:1408 expert_weights_scale=f:1 expert_weights_norm=b:0 "
              "expert_gating_func=u:1 vocab_size=u:102400"},
    {.name = "deepseek3",
     .arch = "deepseek2",
     .real_model = "DeepSeek-V3",
     .billions = 671.0264,
     .tied = false,
     .min_layers = 4,
     .vocab = "deepseek-llm",
     .tiny_vocab = "deepseek-llm",
     .pre = NULL,
     .chat_template = "deepseek-ai-DeepSeek-V3.1",
     .specials = &SPECIALS_DEEPSEEK,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:7 embedding_length=u:128 feed_forward_length=u:512 leading_dense_block_count=u:3 "
             "attention.head_count=u:4 attention.head_count_kv=u:1 attention.q_lora_rank=u:192 "
             "attention.kv_lora_rank=u:512 attention.key_length=u:576 attention.value_length=u:512 "
             "attention.key_length_mla=u:192 attention.value_length_mla=u:128 rope.dimension_count=u:64 "
             "rope.freq_base=f:10000 rope.scaling.type=s:yarn rope.scaling.factor=f:40 "
             "rope.scaling.original_context_length=u:4096 rope.scaling.yarn_log_multiplier=f:0.1 "
             "attention.layer_norm_rms_epsilon=f:1e-6 expert_count=u:16 expert_used_count=u:4 "
             "expert_shared_count=u:1 expert_group_count=u:4 expert_group_used_count=u:2 "
             "expert_feed_forward_length=u:64 expert_weights_scale=f:2.5 expert_weights_norm=b:1 "
             "expert_gating_func=u:2",
     .shape = "block_count=u:61 context_length=u:163840 embedding_length=u:7168 feed_forward_length=u:18432 "
              "leading_dense_block_count=u:3 attention.head_count=u:128 attention.head_count_kv=u:1 "
              "attention.q_lora_rank=u:1536 attention.kv_lora_rank=u:512 attention.key_length=u:576 "
              "attention.value_length=u:512 attention.key_length_mla=u:192 attention.value_length_mla=u:128 "
              "rope.dimension_count=u:64 rope.freq_base=f:10000 rope.scaling.type=s:yarn "
              "rope.scaling.factor=f:40 rope.scaling.original_context_length=u:4096 "
              "rope.scaling.yarn_log_multiplier=f:0.1 attention.layer_norm_rms_epsilon=f:1e-6 "
              "expert_count=u:256 expert_used_count=u:8 expert_shared_count=u:1 expert_group_count=u:8 "
              "expert_group_used_count=u:4 expert_feed_forward_length=u:2048 expert_weights_scale=f:2.5 "
              "expert_weights_norm=b:1 expert_gating_func=u:2 vocab_size=u:129280"},
    {.name = "glm47flash",
     .arch = "deepseek2",
     .real_model = "GLM-4.7-Flash",
     .billions = 29.9434,
     .tied = false,
     .min_layers = 2,
     .vocab = "deepseek-llm",
     .tiny_vocab = "qwen2",
     .pre = "glm4",
     .chat_template = "GLM-4.7-Flash",
     .specials = &SPECIALS_GLM,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:512 leading_dense_block_count=u:1 "
             "attention.head_count=u:4 attention.head_count_kv=u:1 attention.q_lora_rank=u:192 "
             "attention.kv_lora_rank=u:512 attention.key_length=u:576 attention.value_length=u:512 "
             "attention.key_length_mla=u:256 attention.value_length_mla=u:256 rope.dimension_count=u:64 "
             "rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-5 expert_count=u:16 "
             "expert_used_count=u:4 expert_shared_count=u:1 expert_feed_forward_length=u:64 "
             "expert_weights_scale=f:1.8 expert_weights_norm=b:1 expert_gating_func=u:2",
     .shape = "block_count=u:47 context_length=u:202752 embedding_length=u:2048 feed_forward_length=u:10240 "
              "leading_dense_block_count=u:1 attention.head_count=u:20 attention.head_count_kv=u:1 "
              "attention.q_lora_rank=u:768 attention.kv_lora_rank=u:512 attention.key_length=u:576 "
              "attention.value_length=u:512 attention.key_length_mla=u:256 attention.value_length_mla=u:256 "
              "rope.dimension_count=u:64 rope.freq_base=f:1e6 attention.layer_norm_rms_epsilon=f:1e-5 "
              "expert_count=u:64 expert_used_count=u:4 expert_shared_count=u:1 "
              "expert_feed_forward_length=u:1536 expert_weights_scale=f:1.8 expert_weights_norm=b:1 "
              "expert_gating_func=u:2 vocab_size=u:154880"},
    {.name = "glm4",
     .arch = "glm4",
     .real_model = "GLM-4-9B-0414",
     .billions = 9.4001,
     .tied = false,
     .min_layers = 1,
     .vocab = "deepseek-llm",
     .tiny_vocab = "qwen2",
     .pre = "glm4",
     .chat_template = "GLM-4.6",
     .specials = &SPECIALS_GLM,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:256 feed_forward_length=u:384 attention.head_count=u:4 "
             "attention.head_count_kv=u:1 attention.key_length=u:128 attention.value_length=u:128 "
             "rope.dimension_count=u:64 rope.freq_base=f:10000 attention.layer_norm_rms_epsilon=f:1e-5",
     .shape = "block_count=u:40 context_length=u:32768 embedding_length=u:4096 feed_forward_length=u:13696 "
              "attention.head_count=u:32 attention.head_count_kv=u:2 attention.key_length=u:128 "
              "attention.value_length=u:128 rope.dimension_count=u:64 rope.freq_base=f:10000 "
              "attention.layer_norm_rms_epsilon=f:1e-5 vocab_size=u:151552"},
    {.name = "minimax-m2",
     .arch = "minimax-m2",
     .real_model = "MiniMax-M2.7",
     .billions = 228.69,
     .tied = false,
     .min_layers = 1,
     .vocab = "llama-bpe",
     .tiny_vocab = "llama-bpe",
     .pre = "minimax-m2",
     .chat_template = "MiniMax-M2",
     .specials = &SPECIALS_MINIMAX,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:128 feed_forward_length=u:64 expert_feed_forward_length=u:64 "
             "attention.head_count=u:4 attention.head_count_kv=u:1 attention.key_length=u:128 "
             "attention.value_length=u:128 rope.dimension_count=u:64 rope.freq_base=f:5e6 "
             "attention.layer_norm_rms_epsilon=f:1e-6 expert_count=u:16 expert_used_count=u:4 "
             "expert_gating_func=u:2",
     .shape = "block_count=u:62 context_length=u:196608 embedding_length=u:3072 feed_forward_length=u:1536 "
              "expert_feed_forward_length=u:1536 attention.head_count=u:48 attention.head_count_kv=u:8 "
              "attention.key_length=u:128 attention.value_length=u:128 rope.dimension_count=u:64 "
              "rope.freq_base=f:5e6 attention.layer_norm_rms_epsilon=f:1e-6 expert_count=u:256 "
              "expert_used_count=u:8 expert_gating_func=u:2 vocab_size=u:200064"},
    {.name = "olmo",
     .arch = "olmo",
     .real_model = "OLMo-7B",
     .billions = 6.8881,
     .tied = false,
     .min_layers = 1,
     .vocab = "gpt-neox",
     .tiny_vocab = "gpt-neox",
     .pre = "olmo",
     .chat_template = NULL,
     .specials = &SPECIALS_CHATML,
     .leave_out = WITHOUT_NOTHING,
     .tiny = "block_count=u:6 embedding_length=u:256 feed_forward_length=u:512 attention.head_count=u:4 "
             "attention.head_count_kv=u:4 rope.freq_base=f:10000 attention.layer_norm_epsilon=f:1e-5",
     .shape = "block_count=u:32 context_length=u:2048 embedding_length=u:4096 feed_forward_length=u:11008 "
              "attention.head_count=u:32 attention.head_count_kv=u:32 rope.freq_base=f:10000 "
              "attention.layer_norm_epsilon=f:1e-5 vocab_size=u:50304"},
};

const sk_synth_family *sk_synth_family_get(size_t i) {
    return i < sizeof FAMILIES / sizeof FAMILIES[0] ? &FAMILIES[i] : NULL;
}

const sk_synth_family *sk_synth_family_find(const char *name) {
    for (size_t i = 0; name && i < sizeof FAMILIES / sizeof FAMILIES[0]; i++)
        if (strcmp(FAMILIES[i].name, name) == 0) return &FAMILIES[i];
    return NULL;
}
