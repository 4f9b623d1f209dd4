/* How a model file names its quantisation. Pure, thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_QUANT_H
#define SKIPPY_BENCH_FAMILY_QUANT_H

#include <stddef.h>

/* Writes the quantisation that a file's name ends with, in capitals ("Q4_K_M" of "llama-3.2-1b-instruct-q4_k_m.gguf",
 * "UD-Q2_K_XL" of a dynamic one), or "" when the name has none. Folders before the name do not count. */
void sk_quant_of_name(const char *path, char *out, size_t cap);
/* The name of GGUF's general.file_type; "" for a number without one. Static. */
const char *sk_quant_of_file_type(long file_type);

#endif
