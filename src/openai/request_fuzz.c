/* Bodies of any bytes: the field layer, and then everything up to engine requests, on a model of bytes. The first byte
 * chooses the endpoint. Build with -DSKIPPY_BUILD_FUZZERS=ON; run build/fuzz/request_fuzz on a folder of bodies. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "openai/api.h"
#include "openai/fake_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sk_api *shared_api(void) {
    static sk_api *api;
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 4096, .default_n_predict = -1};
    sk_err e = {0};
    if (api) return api;
    sk_log_set_level(SK_LOG_ERROR);
    if (sk_api_create(&p, &api, &e)) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    return api;
}

/* What the engine relies on. */
static void check_call(const sk_api_call *c) {
    for (size_t i = 0; i < sk_api_call_jobs(c); i++) {
        const sk_gen_request *r = sk_api_call_request(c, i);
        if (r->n_tokens == 0 || r->n_tokens >= 4096 || r->n_boundaries > SK_MAX_BOUNDARIES) abort();
        for (size_t k = 0; k < r->n_tokens; k++)
            if (!sk_model_valid_token(fake_model(), r->tokens[k])) abort();
        for (size_t k = 0; k < r->n_boundaries; k++)
            if (r->boundaries[k] >= r->n_tokens || (k > 0 && r->boundaries[k] <= r->boundaries[k - 1])) abort();
    }
}

static void one_shots(sk_api *api, const char *body, size_t size) {
    sk_buf out = {0};
    sk_api_tokenize(api, body, size, &out);
    sk_buf_clear(&out);
    sk_api_detokenize(api, body, size, &out);
    sk_buf_clear(&out);
    sk_api_apply_template(api, body, size, &out);
    sk_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sk_api *api = shared_api();
    if (size == 0) return 0;
    const char *body = (const char *)data + 1;
    sk_api_call *c = NULL;
    sk_api_error err;
    if (data[0] % 4 == 3) {
        one_shots(api, body, size - 1);
        return 0;
    }
    int status = sk_api_parse(api, (enum sk_api_kind)(data[0] % 4), body, size - 1, &c, &err);
    if (status == 0) check_call(c);
    if (status != 0 && (status < 400 || err.message[0] == '\0')) abort();
    sk_api_call_free(c);
    return 0;
}
