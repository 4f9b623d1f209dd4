/* libFuzzer target: no bytes may make the readers of a request or of a run's input read outside them; every refusal has
 * words; and an input that was taken is written as it was read. The first byte chooses the reader. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/input.h"
#include "bench/family/operator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void fuzz_request(json_t *root) {
    sk_operator *op = NULL;
    sk_err e = {0};
    const int rc = sk_operator_parse(root, &op, &e);
    check((rc == SKIPPY_OK) == (op != NULL) && (op || e.text[0] != '\0'));
    if (op) {
        check(op->plan.n_cases >= 1 && op->plan.cache_root[0] == '/' && op->native_build[0] == '/');
        check((op->plan.n_use_cases > 0) == (op->plan.corpus.path[0] != '\0'));
        check((op->plan.old_server.path[0] != '\0') == (op->plan.new_server.path[0] != '\0'));
    }
    sk_operator_free(op);
}

static void fuzz_input(json_t *root) {
    sk_family_input *in = NULL, *again = NULL;
    sk_err e = {0};
    const int rc = sk_family_input_parse(root, &in, &e);
    check((rc == SKIPPY_OK) == (in != NULL) && (in || e.text[0] != '\0'));
    if (!in) return;
    json_t *written = sk_family_input_json(in);
    check(written && sk_family_input_parse(written, &again, &e) == SKIPPY_OK);
    json_t *twice = sk_family_input_json(again);
    check(json_equal(written, twice));
    json_decref(twice);
    json_decref(written);
    sk_family_input_free(again);
    sk_family_input_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    json_t *root = json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL);
    if (!root) return 0;
    if (data[0] % 2) {
        fuzz_input(root);
    } else {
        fuzz_request(root);
    }
    json_decref(root);
    return 0;
}
