#include "bench/stages_split.h"

#include "runtime/slice.h"

int sk_stages_split_make(int32_t n_layers, const int32_t *cuts, size_t n, sk_stages_split *out, sk_err *e) {
    *out = (sk_stages_split){.n = n};
    for (size_t i = 1; i < n; i++)
        out->first[i] = cuts[i - 1] ? cuts[i - 1] : (int32_t)((int64_t)n_layers * (int64_t)i / (int64_t)n);
    out->first[n] = n_layers;
    for (size_t i = 0; i < n; i++) {
        if (out->first[i] >= out->first[i + 1])
            return sk_err_set(
                e, SKIPPY_E_INVALID,
                "a model of %d layers cannot be cut into %zu stages so that stage %zu has the layers from %d to "
                "before %d",
                (int)n_layers, n, i, (int)out->first[i], (int)out->first[i + 1]);
    }
    return SKIPPY_OK;
}

static int weigh(const sk_tensor_source *s, sk_stages_split *split, sk_err *e) {
    split->model_weights = 0;
    for (size_t i = 0; i < s->n_tensors; i++) split->model_weights += s->tensors[i].bytes;
    for (size_t i = 0; i < split->n; i++) {
        const sk_layer_range r = {.start = split->first[i], .end = split->first[i + 1]};
        const int rc = sk_slice_check(s, r, e);
        if (rc != SKIPPY_OK) return rc;
        split->weights[i] = sk_slice_bytes(s, r);
    }
    return SKIPPY_OK;
}

int sk_stages_split_open(const char *model, int32_t cut, const int32_t cuts[2], sk_stages_split *two,
                         sk_stages_split *three, sk_err *e) {
    sk_tensor_source s = {0};
    int rc = sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_stages_split_make(sk_slice_layers(&s), &cut, 2, two, e);
    if (rc == SKIPPY_OK) rc = sk_stages_split_make(sk_slice_layers(&s), cuts, 3, three, e);
    if (rc == SKIPPY_OK) rc = weigh(&s, two, e);
    if (rc == SKIPPY_OK) rc = weigh(&s, three, e);
    sk_tensor_source_close(&s);
    return rc;
}
