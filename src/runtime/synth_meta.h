/* Compact metadata text -> GGUF keys. */
#ifndef SKIPPY_RUNTIME_SYNTH_META_H
#define SKIPPY_RUNTIME_SYNTH_META_H

#include <stdint.h>

#include "base/err.h"
#include "gguf.h"

/* Adds the items of `text` to g, each under "ARCH.key".
 *
 *   text  = item { " " item }          item = key "=" type ":" value
 *   type  = u (uint32) | f (float32) | b (bool 0/1) | s (string)
 *         | a (uint32 array) | i (int32 array) | B (bool array)
 *   array = part { "," part }          part = number | "(" number { "," number } ")x" count
 *
 * Example: "block_count=u:6 attention.head_count_kv=a:(0,0,2)x2 rope.freq_base=f:1e6".
 * Errors: SKIPPY_E_INVALID, with the item that could not be read. */
int sk_synth_meta_apply(struct gguf_context *g, const char *arch, const char *text, sk_err *err);

/* Gives the model `layers` layers: sets block_count, and cuts or repeats each array that had one element per layer.
 * 0 = leave as it is. A hybrid keeps both kinds of layers, because llama.cpp aborts at the first decode otherwise.
 * Errors: SKIPPY_E_INVALID (0 < layers < min_layers, a kind of layer would be missing, or more than 512 layers). */
int sk_synth_meta_set_layers(struct gguf_context *g, const char *arch, uint32_t layers, uint32_t min_layers,
                             sk_err *err);

/* Value of ARCH.key as a number; fallback when it is absent. */
uint32_t sk_synth_meta_u32(const struct gguf_context *g, const char *arch, const char *key, uint32_t fallback);

#endif
