/* libFuzzer target: no bytes may make the structural check read outside them, overflow or loop for long. */
#include "runtime/gguf_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sk_gguf_facts facts;
    sk_err e = {0};
    int rc = sk_gguf_check_bytes(data, size, &facts, &e);
    if (rc != SKIPPY_OK && e.text[0] == 0) __builtin_trap(); /* every refusal has words */
    return 0;
}
