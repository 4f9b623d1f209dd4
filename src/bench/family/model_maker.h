/* Makes one generated model with the program's own commands. Not thread-safe (bench/process.h). */
#ifndef SKIPPY_BENCH_FAMILY_MODEL_MAKER_H
#define SKIPPY_BENCH_FAMILY_MODEL_MAKER_H

#include "bench/family/models.h"

/* Leaves ROOT/KEY.gguf, or ROOT/KEY/ for a package; on any failure neither it nor a scratch file. Errors: as
 * sk_models_make. */
int sk_model_maker_run(const sk_models_options *o, const sk_preset *p, int32_t layers, sk_err *e);

#endif
