#include "bench/family/shape.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/synth_families.h"

/* ---- metadata ---- */

/* The number of "key=t:..." in a family's metadata text; of a list "(a,b)xN" the element of this layer. 0 when the key
 * is absent. The texts are constants of this program: their form is known (runtime/synth_meta.h). */
static uint64_t number(const char *text, const char *key, int32_t layer) {
    const size_t n = strlen(key);
    const char *p = text;
    while (p && !(strncmp(p, key, n) == 0 && p[n] == '=')) {
        p = strchr(p, ' ');
        p += p != NULL;
    }
    if (!p) {
        return 0;
    }
    p += n + 3;
    if (*p != '(') {
        return strtoull(p, NULL, 10);
    }
    const size_t inside = strcspn(++p, ")");
    int32_t count = 1;
    for (size_t i = 0; i < inside; i++) {
        count += p[i] == ',';
    }
    for (int32_t skip = layer % count; skip > 0; skip--) {
        p = strchr(p, ',') + 1;
    }
    return strtoull(p, NULL, 10);
}

/* Elements of a list "(a,b)xN"; 0 for other values. */
static int32_t list_length(const char *text, const char *key) {
    const char *p = strstr(text, key);
    if (!p || p[strlen(key)] != '=' || p[strlen(key) + 3] != '(') {
        return 0;
    }
    p += strlen(key) + 3;
    int32_t count = 1;
    for (; *p != ')'; p++) {
        count += *p == ',';
    }
    return count;
}

typedef struct shape {
    const sk_synth_family *family;
    const char *text;
    int32_t layers;
    uint64_t width, heads;
} shape;

static uint64_t of(const shape *s, const char *key) {
    return number(s->text, key, 0);
}

static bool is_gemma4(const shape *s) {
    return strcmp(s->family->arch, "gemma4") == 0;
}

/* ---- counting ---- */

enum { LISTED_EXPERTS = 16 }; /* of each layer, when 'skippy synth' lists the tensors (runtime/synth_tensors.c) */

/* What a matrix becomes in a q4_k_m file. */
typedef enum weight_kind {
    PLAIN,    /* Q4_K */
    PRECIOUS, /* Q6_K in some of the layers: attention values, the way back out of a feed-forward block */
    OUTPUT,   /* Q6_K: the output matrix, and the embedding where it is the output too */
    ROUTER    /* never quantised */
} weight_kind;

typedef struct tally {
    const shape *s;
    uint64_t max_experts; /* counted of each layer's */
    int32_t layer;
    sk_shape_size size;
} tally;

/* llama.cpp's choice for q4_k_m: the first and the last eighth of the layers, and every third between. */
static bool gets_more_bits(const tally *t) {
    const int32_t n = t->s->layers, i = t->layer;
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* Bytes of 256 weights. Rows that are not whole blocks of 256 fall back to types with blocks of 32. */
static uint64_t bytes_of_256(const tally *t, uint64_t row, weight_kind kind) {
    enum { F32 = 1024, Q8_0 = 272, Q6_K = 210, Q5_0 = 176, Q4_K = 144 };
    const bool precise = kind == OUTPUT || (kind == PRECIOUS && gets_more_bits(t));
    if (kind == ROUTER) {
        return F32;
    }
    if (row % 256 != 0) {
        return precise ? Q8_0 : Q5_0;
    }
    return precise ? Q6_K : Q4_K;
}

static void add(tally *t, uint64_t row, uint64_t rows, weight_kind kind) {
    t->size.parameters += row * rows;
    t->size.bytes += row * rows / 256 * bytes_of_256(t, row, kind);
}

/* Grouped-query attention. Gemma 4's full-attention layers have longer heads, and take the keys as values where the
 * model has experts; Qwen3Next's queries carry a gate of the same size. */
static void add_attention(tally *t) {
    const shape *s = t->s;
    const bool window = is_gemma4(s) && number(s->text, "attention.sliding_window_pattern", t->layer) != 0;
    const bool keys_only = is_gemma4(s) && !window && of(s, "expert_count") > 0;
    const uint64_t gate = strcmp(s->family->arch, "qwen3next") == 0 ? 2 : 1;
    uint64_t head = of(s, window ? "attention.key_length_swa" : "attention.key_length");
    head = head ? head : s->width / s->heads;
    const uint64_t kv = number(s->text, "attention.head_count_kv", t->layer) * head;
    add(t, s->width, s->heads * head * gate, PLAIN);
    add(t, s->width, kv, PLAIN);
    add(t, s->width, keys_only ? 0 : kv, PRECIOUS);
    add(t, s->heads * head, s->width, PLAIN);
}

/* Multi-head latent attention. */
static void add_latent_attention(tally *t) {
    const shape *s = t->s;
    const uint64_t latent = of(s, "attention.kv_lora_rank"), query = of(s, "attention.q_lora_rank");
    const uint64_t key = of(s, "attention.key_length_mla"), value = of(s, "attention.value_length_mla");
    const uint64_t rope = of(s, "rope.dimension_count");
    add(t, s->width, query, PLAIN);
    add(t, query ? query : s->width, s->heads * key, PLAIN);
    add(t, s->width, latent + rope, PLAIN);
    add(t, key - rope, latent * s->heads, PLAIN);
    add(t, latent, value * s->heads, PLAIN);
    add(t, s->heads * value, s->width, PLAIN);
}

/* Gated delta net of Qwen3Next: one matrix for queries, keys and values, which counts as values. */
static void add_delta_net(tally *t) {
    const shape *s = t->s;
    const uint64_t inner = of(s, "ssm.inner_size");
    const uint64_t keys = of(s, "ssm.group_count") * of(s, "ssm.state_size");
    add(t, s->width, 2 * keys + inner, PRECIOUS);
    add(t, s->width, inner, PLAIN);
    add(t, s->width, 2 * of(s, "ssm.time_step_rank"), PLAIN);
    add(t, inner, s->width, PLAIN);
}

static void add_mamba(tally *t) {
    const shape *s = t->s;
    const uint64_t inner = of(s, "ssm.inner_size");
    const uint64_t state = of(s, "ssm.group_count") * of(s, "ssm.state_size");
    add(t, s->width, 2 * inner + 2 * state + of(s, "ssm.time_step_rank"), PLAIN);
    add(t, inner, s->width, PLAIN);
}

static void add_mixer(tally *t) {
    const shape *s = t->s;
    const int32_t interval = (int32_t)of(s, "full_attention_interval");
    if (interval && (t->layer + 1) % interval != 0) {
        add_delta_net(t);
        return;
    }
    if (of(s, "attention.kv_lora_rank")) {
        add_latent_attention(t);
    } else {
        add_attention(t);
    }
    if (!interval && of(s, "ssm.inner_size")) {
        add_mamba(t);
    }
}

static void add_feed_forward(tally *t, uint64_t inner, uint64_t copies) {
    add(t, t->s->width, 2 * inner * copies, PLAIN);
    add(t, inner, t->s->width * copies, PRECIOUS);
}

static void add_experts(tally *t) {
    const shape *s = t->s;
    const uint64_t all = of(s, "expert_count"), inner = of(s, "expert_feed_forward_length");
    const uint64_t experts = all < t->max_experts ? all : t->max_experts;
    const uint64_t shared = of(s, "expert_shared_feed_forward_length");
    add(t, s->width, experts, ROUTER);
    add_feed_forward(t, inner, experts);
    add_feed_forward(t, shared ? shared : inner * of(s, "expert_shared_count"), 1);
}

static void add_layer(tally *t) {
    const shape *s = t->s;
    const bool experts = of(s, "expert_count") > 0 && t->layer >= (int32_t)of(s, "leading_dense_block_count");
    const uint64_t per_layer = of(s, "embedding_length_per_layer_input");
    add_mixer(t);
    /* Gemma 4 has a dense block beside its experts. */
    if (!experts || is_gemma4(s)) {
        add_feed_forward(t, of(s, "feed_forward_length"), 1);
    }
    if (experts) {
        add_experts(t);
    }
    add(t, s->width, per_layer, PLAIN);
    add(t, per_layer, s->width, PLAIN);
}

static void add_outside(tally *t) {
    const shape *s = t->s;
    const uint64_t vocab = of(s, "vocab_size");
    const uint64_t inputs = of(s, "embedding_length_per_layer_input") * (uint64_t)s->layers;
    add(t, s->width, vocab, s->family->tied ? OUTPUT : PLAIN);
    add(t, s->width, s->family->tied ? 0 : vocab, OUTPUT);
    add(t, inputs, inputs ? vocab : 0, s->family->tied ? OUTPUT : PLAIN);
    add(t, s->width, inputs, PLAIN);
}

static bool find(const char *synth, shape *s) {
    *s = (shape){.family = sk_synth_family_find(synth)};
    if (!s->family) {
        return false;
    }
    s->text = s->family->shape;
    s->width = of(s, "embedding_length");
    s->heads = of(s, "attention.head_count");
    return true;
}

static tally count_layers(const shape *s, uint64_t max_experts) {
    tally t = {.s = s, .max_experts = max_experts};
    for (t.layer = 0; t.layer < s->layers; t.layer++) {
        add_layer(&t);
    }
    return t;
}

static sk_shape_size count(const shape *s, uint64_t max_experts) {
    tally t = count_layers(s, max_experts);
    add_outside(&t);
    return t.size;
}

bool sk_shape_size_of(const char *synth, int32_t layers, sk_shape_size *out) {
    shape s;
    *out = (sk_shape_size){0};
    if (layers < 1 || !find(synth, &s)) {
        return false;
    }
    s.layers = layers;
    const uint64_t unused_output = s.family->tied ? s.width * of(&s, "vocab_size") : 0;
    *out = count(&s, UINT64_MAX);
    out->active = count_layers(&s, of(&s, "expert_used_count")).size.parameters;
    out->reserved = sizeof(float) * (count(&s, LISTED_EXPERTS).parameters + unused_output);
    return true;
}

/* ---- kinds of layers ---- */

/* Loader defaults where the metadata does not say: Gemma 3 repeats every 6 layers, Gemma 2 every 2. */
static int32_t window_period(const shape *s) {
    const int32_t listed = list_length(s->text, "attention.sliding_window_pattern");
    if (listed) {
        return listed;
    }
    return strcmp(s->family->arch, "gemma3") == 0 ? 6 : strcmp(s->family->arch, "gemma2") == 0 ? 2 : 1;
}

bool sk_shape_layers_of(const char *synth, sk_shape_layers *out) {
    shape s;
    *out = (sk_shape_layers){0};
    if (!find(synth, &s)) {
        return false;
    }
    const int32_t interval = (int32_t)of(&s, "full_attention_interval");
    const int32_t dense = (int32_t)of(&s, "leading_dense_block_count");
    /* Layers at the end that read the keys of earlier ones: both kinds of layer must lie before them. */
    const int32_t sharing = (int32_t)of(&s, "attention.shared_kv_layers");
    out->real = (int32_t)of(&s, "block_count");
    out->period = interval ? interval : window_period(&s);
    out->least = sharing + out->period;
    if (dense && out->least < dense + 1) {
        out->least = dense + 1;
    }
    if (out->least < (int32_t)s.family->min_layers) {
        out->least = (int32_t)s.family->min_layers;
    }
    return true;
}
