/* How large a family's generated model gets with fewer layers: counted from the metadata of its real shape
 * (runtime/synth_families.h) without building it. Pure, thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_SHAPE_H
#define SKIPPY_BENCH_FAMILY_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sk_shape_size {
    uint64_t parameters; /* without norms and biases: below a thousandth */
    uint64_t bytes;      /* of a q4_k_m file, by llama.cpp's rules for types; without vocabulary and vectors */
    uint64_t active;     /* weights of the layers that one token goes through */
    uint64_t reserved;   /* bytes of address space that 'skippy synth' takes to list the tensors: four for each weight,
                            with 16 experts at most, and an output matrix even where the embedding is one */
} sk_shape_size;

/* Which numbers of layers keep every kind of layer of the family. */
typedef struct sk_shape_layers {
    int32_t real;   /* of the real model */
    int32_t period; /* a hybrid's interval, a sliding window's pattern; else 1 */
    int32_t least;  /* with fewer, a kind would be missing or llama.cpp refuses the model */
} sk_shape_layers;

/* synth: a family of 'skippy synth'. False for a name that it does not have. */
bool sk_shape_layers_of(const char *synth, sk_shape_layers *out);
/* False for an unknown family and for layers below 1. */
bool sk_shape_size_of(const char *synth, int32_t layers, sk_shape_size *out);

#endif
