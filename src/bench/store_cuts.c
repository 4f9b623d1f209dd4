#include "bench/store_cuts.h"

#include <stdlib.h>

int sk_store_cuts(const uint8_t *data, size_t len, const sk_state_shape *shape, uint32_t step, size_t **cuts,
                  size_t *n_cuts, sk_err *e) {
    sk_state_parse p;
    int rc = sk_state_parse_blob(data, len, shape, &p, e);
    if (rc) return rc;
    size_t n = sk_state_cuts(data, len, &p, step, NULL, 0);
    *cuts = calloc(n, sizeof **cuts);
    if (*cuts)
        *n_cuts = sk_state_cuts(data, len, &p, step, *cuts, n);
    else
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu cuts", n);
    sk_state_parse_free(&p);
    return rc;
}
