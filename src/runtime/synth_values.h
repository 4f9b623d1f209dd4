/* Values of synthetic weights: which distribution a tensor has, and a counter-based generator.
 *
 * Pure functions, thread-safe. Every element is a function of (seed, tensor name, index) in integer arithmetic and one
 * float multiplication and addition, so the bytes do not depend on the machine, the chunk size or the other tensors. */
#ifndef SKIPPY_RUNTIME_SYNTH_VALUES_H
#define SKIPPY_RUNTIME_SYNTH_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum sk_synth_law {
    SK_SYNTH_NORMAL = 0,      /* a = mean, b = standard deviation */
    SK_SYNTH_UNIFORM = 1,     /* a = low, b = high */
    SK_SYNTH_ROPE_LLAMA3 = 2, /* a = rope base, b unused: llama3 frequency factors (factor 32, 1, 4, context 8192) */
    SK_SYNTH_ROPE_QUARTER = 3 /* 1 for the first quarter, 1e30 for the rest: rotation of a quarter of each head */
};

typedef struct sk_synth_rule {
    enum sk_synth_law law;
    float a, b;
} sk_synth_rule;

/* What a rule depends on besides the name. */
typedef struct sk_synth_model_facts {
    const char *arch;
    uint32_t n_embd;
    float rope_base;
    int tied; /* the output matrix is token_embd */
} sk_synth_model_facts;

/* Chooses the rule of a tensor. name is the full name ("blk.3.attn_q.weight"); ne the shape, ne[0] the row length. */
sk_synth_rule sk_synth_rule_for(const sk_synth_model_facts *m, const char *name, const int64_t ne[4]);
/* The part of a name after "blk.N.", or the name itself. */
const char *sk_synth_base_name(const char *name);
/* Generator key of one tensor. */
uint64_t sk_synth_key(uint64_t seed, const char *name);
/* Writes elements [first, first + n) of a tensor of n_total elements. */
void sk_synth_fill(const sk_synth_rule *r, uint64_t key, uint64_t first, size_t n, uint64_t n_total, float *out);

#endif
