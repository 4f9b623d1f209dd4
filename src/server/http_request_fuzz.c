/* libFuzzer: any bytes as a request head, and as a chunked body that arrives in two parts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_chunks.h"
#include "server/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_head(const uint8_t *data, size_t size) {
    size_t end = sk_http_head_end((const char *)data, size, 0);
    if (end == 0) return;
    char *text = malloc(end + 1);
    if (!text) return;
    memcpy(text, data, end);
    text[end] = '\0';
    sk_http_head head;
    const char *why = NULL;
    int status = sk_http_head_parse(text, end, &head, &why);
    if (status != 0 && !why) abort();
    if (status == 0 && head.chunked && head.content_length != 0) abort();
    free(text);
}

static void fuzz_chunks(const uint8_t *data, size_t size) {
    enum { MAX_BODY = 4096 };
    sk_http_chunks c = {0};
    sk_buf out = {0};
    size_t half = size / 2, used = 0;
    int rc = sk_http_chunks_feed(&c, (const char *)data, half, MAX_BODY, &out, &used);
    if (rc == 0) sk_http_chunks_feed(&c, (const char *)data + half, size - half, MAX_BODY, &out, &used);
    if (out.len > MAX_BODY) abort();
    sk_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_head(data, size);
    fuzz_chunks(data, size);
    return 0;
}
