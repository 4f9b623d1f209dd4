#include "runtime/synth_values.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), t = strlen(tail);
    return n >= t && strcmp(s + n - t, tail) == 0;
}

const char *sk_synth_base_name(const char *name) {
    if (strncmp(name, "blk.", 4) != 0) return name;
    const char *dot = strchr(name + 4, '.');
    return dot ? dot + 1 : name;
}

uint64_t sk_synth_key(uint64_t seed, const char *name) {
    uint8_t digest[SK_HASH_BYTES], prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)(seed >> (8 * i));
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, prefix, sizeof prefix);
    sk_hash_update(&h, name, strlen(name));
    sk_hash_final(&h, digest);
    uint64_t key = 0;
    for (int i = 0; i < 8; i++) key |= (uint64_t)digest[i] << (8 * i);
    return key;
}

/* SplitMix64's output function over a counter (Steele, Lea, Flood 2014): any element can be computed alone. */
static uint64_t random_word(uint64_t key, uint64_t index) {
    uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Sum of four 16-bit uniforms, scaled to mean 0 and deviation 1: close to a normal distribution within +-3.4 and,
 * unlike Box-Muller, without library functions whose last bit differs between machines. */
static float normal_value(uint64_t word) {
    int32_t sum = (int32_t)(word & 0xffff) + (int32_t)(word >> 16 & 0xffff) + (int32_t)(word >> 32 & 0xffff) +
                  (int32_t)(word >> 48);
    return (float)(sum - 2 * 65535) * (1.0f / 37837.227f); /* sqrt((65536^2 - 1) / 3) */
}

static float uniform_value(uint64_t word) {
    return (float)(word >> 40) * (1.0f / 16777216.0f);
}

/* Frequency factor i of n for the llama3 long-context scheme. */
static float llama3_factor(double base, uint64_t i, uint64_t n) {
    const double factor = 32, low = 1, high = 4, context = 8192;
    double wavelength = 2 * 3.14159265358979323846 * pow(base, (double)i / (double)n);
    if (wavelength < context / high) return 1;
    if (wavelength > context / low) return (float)factor;
    double smooth = (context / wavelength - low) / (high - low);
    return (float)(1 / ((1 - smooth) / factor + smooth));
}

void sk_synth_fill(const sk_synth_rule *r, uint64_t key, uint64_t first, size_t n, uint64_t n_total, float *out) {
    switch (r->law) {
    case SK_SYNTH_NORMAL:
        for (size_t i = 0; i < n; i++) out[i] = r->a + r->b * normal_value(random_word(key, first + i));
        break;
    case SK_SYNTH_UNIFORM:
        for (size_t i = 0; i < n; i++) out[i] = r->a + (r->b - r->a) * uniform_value(random_word(key, first + i));
        break;
    case SK_SYNTH_ROPE_LLAMA3:
        for (size_t i = 0; i < n; i++) out[i] = llama3_factor(r->a, first + i, n_total);
        break;
    case SK_SYNTH_ROPE_QUARTER:
        for (size_t i = 0; i < n; i++) out[i] = first + i < n_total / 4 ? 1.0f : 1e30f;
        break;
    }
}

static bool is_gemma(const char *arch) {
    return strncmp(arch, "gemma", 5) == 0;
}

static sk_synth_rule normal(float mean, float deviation) {
    return (sk_synth_rule){SK_SYNTH_NORMAL, mean, deviation};
}

/* Small tensors with a meaning of their own. The values keep random models finite, varied and with a long memory:
 * decays near one, time steps near 0.08, moderate convolutions (measured: a token 300 positions back still moves the
 * logits). */
static const struct {
    const char *base;
    sk_synth_rule rule;
} BY_NAME[] = {
    {"ssm_a", {SK_SYNTH_UNIFORM, -0.65f, -0.05f}}, /* already -exp(A_log) */
    {"ssm_dt.bias", {SK_SYNTH_NORMAL, -2.5f, 0.5f}},
    {"ssm_d", {SK_SYNTH_NORMAL, 1.0f, 0.0f}},
    {"ssm_conv1d.weight", {SK_SYNTH_NORMAL, 0.0f, 0.5f}},
    {"shortconv.conv.weight", {SK_SYNTH_NORMAL, 0.0f, 0.6f}},
    {"time_mix_w0.weight", {SK_SYNTH_NORMAL, -3.0f, 0.7f}},
    {"time_mix_a0.weight", {SK_SYNTH_NORMAL, 0.0f, 0.3f}},
    {"time_mix_v0.weight", {SK_SYNTH_NORMAL, 0.0f, 0.3f}},
    {"time_mix_lerp_fused.weight", {SK_SYNTH_UNIFORM, 0.0f, 1.0f}},
    {"channel_mix_lerp_k.weight", {SK_SYNTH_UNIFORM, 0.0f, 1.0f}},
    {"time_mix_k_k.weight", {SK_SYNTH_NORMAL, 0.9f, 0.05f}},
    {"time_mix_k_a.weight", {SK_SYNTH_NORMAL, 0.9f, 0.05f}},
    {"time_mix_r_k.weight", {SK_SYNTH_NORMAL, 0.0f, 0.1f}},
    {"time_mix_ln.weight", {SK_SYNTH_NORMAL, 1.0f, 0.05f}},
    {"exp_probs_b.bias", {SK_SYNTH_NORMAL, 0.0f, 0.05f}},
    {"layer_output_scale.weight", {SK_SYNTH_NORMAL, 1.0f, 0.05f}},
    {"ffn_gate_inp.scale", {SK_SYNTH_NORMAL, 1.0f, 0.05f}},
    {"ffn_down_exps.scale", {SK_SYNTH_NORMAL, 1.0f, 0.05f}},
};

static bool rule_by_name(const char *base, sk_synth_rule *out) {
    for (size_t i = 0; i < sizeof BY_NAME / sizeof BY_NAME[0]; i++) {
        if (strcmp(BY_NAME[i].base, base) != 0) continue;
        *out = BY_NAME[i].rule;
        return true;
    }
    return false;
}

/* In a tied model the last token's own logit is raised by |embedding|^2, and it would repeat for ever with large rows:
 * 1.6 / sqrt(n_embd) gives logits a deviation of about 1.6 at any width and keeps that bias below it. */
static sk_synth_rule embedding_rule(const sk_synth_model_facts *m) {
    float root = sqrtf((float)m->n_embd);
    if (is_gemma(m->arch)) return normal(0, 0.15f / root);               /* the graph multiplies by sqrt(n_embd) */
    if (strcmp(m->arch, "granitehybrid") == 0) return normal(0, 0.005f); /* and here by 12 */
    return normal(0, m->tied ? 1.6f / root : 0.15f);
}

static sk_synth_rule norm_rule(const sk_synth_model_facts *m, const char *name, const char *base) {
    float mean = 1.0f;
    if (strncmp(base, "attn_q_norm.", 12) == 0 || strncmp(base, "attn_k_norm.", 12) == 0)
        mean = strcmp(m->arch, "gemma4") == 0 ? 0.4f : 1.6f; /* gemma4's attention scale is 1 */
    else if (strcmp(name, "output_norm.weight") == 0 && is_gemma(m->arch))
        mean = 20.0f; /* undoes the small embedding */
    else if (strcmp(name, "output_norm.weight") == 0 && strcmp(m->arch, "granitehybrid") == 0)
        mean = 1020.0f / sqrtf((float)m->n_embd);
    return normal(mean, 0.05f * mean);
}

/* Queries and keys are larger than usual: attention would be flat otherwise and a long context would not matter. */
static bool is_attention_score(const char *base) {
    return strcmp(base, "attn_q.weight") == 0 || strcmp(base, "attn_k.weight") == 0 ||
           strcmp(base, "attn_q_b.weight") == 0 || strcmp(base, "attn_kv_a_mqa.weight") == 0;
}

sk_synth_rule sk_synth_rule_for(const sk_synth_model_facts *m, const char *name, const int64_t ne[4]) {
    sk_synth_rule rule;
    const char *base = sk_synth_base_name(name);
    if (rule_by_name(base, &rule)) return rule;
    if (strcmp(base, "rope_freqs.weight") == 0)
        return (sk_synth_rule){is_gemma(m->arch) ? SK_SYNTH_ROPE_QUARTER : SK_SYNTH_ROPE_LLAMA3, m->rope_base, 0};
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)
        return embedding_rule(m);
    if (strcmp(name, "output.weight") == 0) return normal(0, 2.0f / sqrtf((float)m->n_embd));
    if (ends_with(base, "norm.weight") || ends_with(base, "norm")) return norm_rule(m, name, base);
    if (ends_with(base, ".bias")) return normal(0, 0.02f);
    float deviation = 1.0f / sqrtf((float)ne[0]);
    return normal(0, is_attention_score(base) ? 1.6f * deviation : deviation);
}
