/* The "plan" of an operator's request: what is measured. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_OPERATOR_PLAN_H
#define SKIPPY_BENCH_FAMILY_OPERATOR_PLAN_H

#include "bench/family/operator.h"
#include "bench/family/strict.h"

/* Fills out, which is all zero. Refusals are left in the reader; sk_operator_plan_free in every case. */
void sk_operator_plan_read(const sk_strict *plan, sk_operator_plan *out);
void sk_operator_plan_free(sk_operator_plan *p);
/* {"path": absolute, "sha256": digest}; nothing is changed when v is absent. */
void sk_operator_pin_read(const sk_strict *v, sk_pinned_file *out);

#endif
