/* Searches for bytes that the decoder trusts too much, and for bytes that decode to a frame that encodes to others:
 * every frame has one encoding. The input is placed at every alignment, since the decoder copies what lies unaligned.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stage/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *bytes, size_t size) {
    static sk_frame f; /* too large for comfort on the stack of a sanitizer */
    sk_err e;
    if (sk_frame_decode(bytes, size, &f, &e) != SKIPPY_OK) {
        if (f.owned || !e.text[0]) abort();
        return;
    }
    sk_buf again = {0};
    if (!sk_frame_encode(&f, &again)) abort();
    if (again.len != size + 4 || memcmp(again.data + 4, bytes, size) != 0) abort();
    sk_buf_free(&again);
    sk_frame_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (size_t shift = 0; shift < 4; shift++) {
        uint8_t *copy = malloc(shift + size + 1); /* its own allocation: reads behind the end are seen */
        if (!copy) abort();
        if (size) memcpy(copy + shift + 1, data, size);
        check(copy + shift + 1, size);
        free(copy);
    }
    return 0;
}
