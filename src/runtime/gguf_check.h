/* Structural check of a GGUF before llama.cpp sees it, so that people get words instead of a library's assertion.
 * Works on untrusted bytes: every length is checked against the file's size before it is used. */
#ifndef SKIPPY_RUNTIME_GGUF_CHECK_H
#define SKIPPY_RUNTIME_GGUF_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sk_gguf_facts {
    char arch[48]; /* general.architecture, "" when absent */
    uint32_t version;
    uint64_t n_tensors;             /* over all shards */
    uint64_t stateful_tensors;      /* names that sk_family_stateful_tensor accepts, over all shards */
    uint64_t file_bytes;            /* over all shards */
    uint32_t split_no, split_count; /* 0 and 0 for a file that is whole */
} sk_gguf_facts;

/* Bytes of one value of a fixed-size metadata type (enum gguf_type); 0 for strings, arrays and unknown types. */
uint64_t sk_gguf_value_size(uint32_t type);

/* Checks one file that lies in memory. Pure function. Errors: SKIPPY_E_MODEL (not GGUF, truncated, damaged),
 * SKIPPY_E_UNSUPPORTED (version, byte order, tensor type). */
int sk_gguf_check_bytes(const uint8_t *bytes, size_t size, sk_gguf_facts *out, sk_err *e);

/* Checks a model file and, when it is the first shard of several, all of them. Maps each file for the duration of the
 * call and reads its header only. Errors: those above, SKIPPY_E_NOT_FOUND (the file is missing), SKIPPY_E_MODEL (a
 * directory, empty, not readable, not the first shard, a shard is missing or belongs to another model). */
int sk_gguf_check_file(const char *path, sk_gguf_facts *out, sk_err *e);

#endif
