/* The row class of a stage (runtime/rowclass.h): which batches give equal bits. Measured with the script itself, at the
 * lengths of the certification, since a stage has no logits for the probe of whole models.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_STAGE_CLASS_H
#define SKIPPY_CORRECTNESS_STAGE_CLASS_H

#include "correctness/rig.h"

/* Sets r->rows to the smallest class in which the script gives the same rows at the bottom of an empty pool in large
 * pieces, and above it, beside another sequence, in the smallest pieces. All sequences are empty before and after. The
 * rig's feed, batch and context are ready. Errors: SKIPPY_E_UNSUPPORTED (none holds; r->rows is zero), those of
 * sk_rig_feed, SKIPPY_E_NOMEM. */
int sk_stage_class_find(sk_rig *r, sk_err *e);

#endif
