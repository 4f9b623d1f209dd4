/* Data of the families that synthetic models can have: metadata, tokenizer, template, left-out tensors. */
#ifndef SKIPPY_RUNTIME_SYNTH_FAMILIES_H
#define SKIPPY_RUNTIME_SYNTH_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Special tokens of a chat format. ids are found by text. All strings are static. */
typedef struct sk_synth_specials {
    const char *const *control;  /* NULL-terminated: never plain text */
    const char *const *marks;    /* NULL-terminated: one token, but visible text (tool and thinking marks) */
    const char *bos, *eos, *eot; /* members of control */
    bool add_bos;
} sk_synth_specials;

typedef struct sk_synth_family {
    const char *name, *arch, *real_model;
    double billions; /* parameters of the real shape, counted over the tensors that llama.cpp asks for */
    bool tied;       /* no output.weight in the file */
    uint32_t min_layers;
    const char *vocab;         /* models/ggml-vocab-<vocab>.gguf for the real shape */
    const char *tiny_vocab;    /* byte-level BPE vocabulary that is reduced for the tiny size */
    const char *pre;           /* tokenizer.ggml.pre, NULL = as in the vocabulary file */
    const char *chat_template; /* models/templates/<chat_template>.jinja, NULL = built-in ChatML */
    const sk_synth_specials *specials;
    const char *const *leave_out; /* NULL-terminated tensor base names that real files of the family lack */
    const char *tiny, *shape;     /* metadata, see sk_synth_meta_apply */
} sk_synth_family;

/* NULL past the end, or when there is no such family. */
const sk_synth_family *sk_synth_family_get(size_t i);
const sk_synth_family *sk_synth_family_find(const char *name);

#endif
