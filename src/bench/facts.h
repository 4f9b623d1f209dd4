/* What a table of measurements must say about where it was made: machine, model, date. */
#ifndef SKIPPY_BENCH_FACTS_H
#define SKIPPY_BENCH_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/model.h"

typedef struct sk_bench_facts {
    char cpu[128]; /* model name, "unknown CPU" where the kernel does not say */
    long cores;    /* online */
    uint64_t memory_kib;
    char date[32]; /* UTC, ISO 8601 */
    char model_path[1024];
    char model_name[128], arch[48];
    char digest[65]; /* BLAKE3-256 of the file, hexadecimal */
    uint64_t file_bytes;
    int32_t n_ctx_train;
    bool synthetic; /* the metadata says that the weights are not trained */
} sk_bench_facts;

/* Fills the fields about the machine and the date. Never fails. */
void sk_facts_machine(sk_bench_facts *f);
/* Fills the fields about the model; reads the whole file once. Errors: those of sk_model_load, SKIPPY_E_IO. */
int sk_facts_model(sk_bench_facts *f, const char *path, sk_err *e);
/* True when the model's metadata says that its weights are not trained. */
bool sk_facts_synthetic(const sk_model *m);

#endif
