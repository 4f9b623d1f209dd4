/* Writing a synthetic GGUF: header first, then the tensors one after another with bounded memory. */
#ifndef SKIPPY_RUNTIME_SYNTH_FILE_H
#define SKIPPY_RUNTIME_SYNTH_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/synth.h"
#include "runtime/synth_tensors.h"
#include "runtime/synth_values.h"
#include "runtime/synth_vocab.h"

typedef struct sk_synth_job {
    const char *path;
    struct gguf_context *meta; /* gets the tensor descriptions */
    const sk_synth_tensors *tensors;
    const sk_synth_vocab *vocab;
    sk_synth_model_facts facts;
    uint64_t seed;
    bool half; /* matrices as F16 */
    sk_synth_progress progress;
    void *progress_ud;
} sk_synth_job;

/* Bytes that the tensors take in the file, without the header. */
uint64_t sk_synth_file_data_bytes(const sk_synth_tensors *t, bool half);
/* Writes the whole file. An unfinished file is left for the caller to remove. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM,
 * SKIPPY_E_CANCELLED. */
int sk_synth_file_write(const sk_synth_job *job, uint64_t *file_bytes, sk_err *err);

#endif
