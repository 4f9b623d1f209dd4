/* Checks sampling settings. Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_SAMPLING_H
#define SKIPPY_RUNTIME_SAMPLING_H

#include "runtime/sampler.h"

/* SKIPPY_E_INVALID and the name of the first field that is out of range, else SKIPPY_OK. */
int sk_sampling_check(const sk_model *m, const sk_sampling *s, sk_err *e);

#endif
