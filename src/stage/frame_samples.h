/* Test support: one small and one extreme frame of every kind. */
#ifndef SKIPPY_STAGE_FRAME_SAMPLES_H
#define SKIPPY_STAGE_FRAME_SAMPLES_H

#include "stage/frame.h"

enum sample_size {
    SAMPLE_SMALL,   /* few, different values: every field can be told from its neighbour in the bytes */
    SAMPLE_EMPTY,   /* as little as is legal: no strings, no rows, counts of 0 where they may be */
    SAMPLE_EXTREME, /* every count, text and number at its limit (arrays of tokens and values stay short) */
    SAMPLE_SIZES
};

/* Fills *f (all of it; padding is zero). Pointers lie in static memory. kind: 1 .. SK_FRAME_KINDS-1. */
void frame_sample(sk_frame *f, unsigned kind, enum sample_size size);

/* Every field and everything that pointers refer to. */
bool frame_equal(const sk_frame *a, const sk_frame *b);

#endif
