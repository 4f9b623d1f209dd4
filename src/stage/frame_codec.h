/* What the encoder and the decoder of frames share: sizes of the fixed parts and the rules that a frame must keep.
 * The byte layout is in docs/formats/stage-link.md. Internal to the codec. */
#ifndef SKIPPY_STAGE_FRAME_CODEC_H
#define SKIPPY_STAGE_FRAME_CODEC_H

#include "stage/frame.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames carry tokens, hidden states and logits as they lie in memory: that needs a little-endian machine"
#endif

enum {
    SK_FRAME_PREFIX = 4,              /* the length field */
    SK_FRAME_ABSENT = 0xffff,         /* length of a string that is not there (NULL) */
    SK_FRAME_SPAN_BYTES = 88,         /* one span of a CHUNK, without its tokens */
    SK_FRAME_CHUNK_BYTES = 16,        /* CHUNK before the spans */
    SK_FRAME_LOGITS_MAX = 1 << 24,    /* values of a row */
    SK_FRAME_FIRST_LIMIT = 64 * 1024, /* largest length before the greeting was read */
    SK_FRAME_FLAGS_ALL = SK_FLAG_NO_CACHE | SK_FLAG_KEEP | SK_FLAG_REPLAY
};

/* Bytes of the hidden states that a chunk of this shape carries; 0 for an unknown dtype. No overflow: three factors of
 * at most 32 bits are bounded one by one first (sk_frame_fault), else the result is only used in a comparison. */
uint64_t sk_frame_hidden_bytes(uint32_t n_rows, uint32_t width, uint8_t dtype);

/* The one place that says which frames are legal: NULL, or what is wrong in words ("..., so 'a CHUNK frame: %s'"). The
 * encoder asks before it writes, the decoder after it read, so that neither accepts what the other refuses. Looks at
 * fields only, never at what pointers refer to but strings and spans. */
const char *sk_frame_fault(const sk_frame *f);

#endif
