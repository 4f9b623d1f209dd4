/* What the files that move state in and out of a context share. Nobody outside runtime/ includes this. */
#ifndef SKIPPY_RUNTIME_STATE_INTERNAL_H
#define SKIPPY_RUNTIME_STATE_INTERNAL_H

#include "runtime/context_internal.h"
#include "runtime/state.h"

/* Does the window cache keep every cell? Then both KV sections are alike, and there is no window to store apart. */
bool sk_state_full_window(const sk_context *c);
sk_state_shape sk_state_shape_of(const sk_context *c, bool partial);

/* ---- exports without a check against a learned layout (state_export.c) ---- */

/* llama.cpp's bytes, malloc'ed. */
int sk_state_export_raw(sk_context *c, uint32_t seq, bool partial, uint8_t **data, size_t *len, sk_err *e);
/* The canonical KV part of [from, to) and its parse; on success both are the caller's to free. In a full-size window
 * cache the range must lie within one multiple of the window. */
int sk_state_cut_window(sk_context *c, uint32_t seq, uint32_t scratch, uint32_t from, uint32_t to, uint8_t **data,
                        size_t *len, sk_state_parse *p, sk_err *e);
/* The canonical STATE part at the end of a sequence and its parse. */
int sk_state_cut_tail(sk_context *c, uint32_t seq, uint8_t **data, size_t *len, sk_state_parse *p, sk_err *e);

/* ---- checks against the learned layout (state_verify.c); SKIPPY_E_CORRUPT with words, SKIPPY_E_NOMEM ---- */

/* The digest that belongs in sk_state_caps.layout for a parsed whole export. */
void sk_state_layout_of(const sk_context *c, const sk_state_parse *whole, skippy_key *out);
/* The same where no export could be parsed: from what is known about the model and the measured sizes in caps. */
void sk_state_layout_opaque(const sk_context *c, const sk_state_caps *caps, skippy_key *out);
int sk_state_verify_kv(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len, uint32_t from,
                       uint32_t to, sk_err *e);
int sk_state_verify_tail(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len,
                         uint32_t n_tokens, sk_err *e);
int sk_state_verify_whole(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len,
                          uint32_t n_tokens, sk_err *e);
/* Is a sequence id usable, and is the sequence empty where it must be? SKIPPY_E_INVALID. */
int sk_state_require_empty(const sk_context *c, uint32_t seq, sk_err *e);

/* sk_state_selfcheck; opaque: as if the layout could not be read (tests of the fallback). */
int sk_state_selfcheck_as(sk_context *c, uint32_t seq_a, uint32_t seq_b, uint32_t scratch, bool opaque,
                          sk_state_caps *caps, sk_err *e);

#endif
