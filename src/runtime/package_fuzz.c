/* libFuzzer target: no manifest may make the parser read outside it, overflow or loop for long; every refusal has
 * words; and what was taken is written as it was understood. */
#include <stdint.h>
#include <string.h>

#include "runtime/package_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the package, reads that, writes again: both texts must be equal. */
static void check_round_trip(const sk_package *p) {
    sk_buf first = {0}, second = {0};
    sk_package again;
    sk_package_dump(p, &first);
    if (first.failed) return;
    if (sk_package_parse(first.data, first.len, &again, NULL) != SKIPPY_OK) __builtin_trap();
    sk_package_dump(&again, &second);
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0) __builtin_trap();
    sk_package_free(&again);
    sk_buf_free(&first);
    sk_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sk_package p;
    sk_err e = {0};
    if (sk_package_parse((const char *)data, size, &p, &e) != SKIPPY_OK) {
        if (e.text[0] == 0) __builtin_trap();
        return 0;
    }
    check_round_trip(&p);
    sk_package_free(&p);
    return 0;
}
