#include "cli/cut_plan.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* best[i][end]: the least sum of costs with which i + 1 stages hold the layers [0, end); from: where the last of them
 * starts. */
typedef struct table {
    const sk_tensor_source *s;
    const uint64_t *memory;
    int32_t layers;
    size_t n_stages;
    uint64_t *bytes; /* [start * (layers + 1) + end]; 0 = the file does not allow this stage */
    double *best;    /* [i * (layers + 1) + end] */
    int32_t *from;
} table;

static size_t cell(const table *t, size_t row, int32_t end) {
    return row * (size_t)(t->layers + 1) + (size_t)end;
}

/* Asks the file about every stage there could be. *any tells whether one is allowed that is not the whole model. */
static void read_file(table *t, bool *any) {
    for (int32_t start = 0; start < t->layers; start++)
        for (int32_t end = start + 1; end <= t->layers; end++) {
            const sk_layer_range r = {start, end};
            sk_err why;
            const bool allowed = sk_slice_check(t->s, r, &why) == SKIPPY_OK;
            t->bytes[cell(t, (size_t)start, end)] = allowed ? sk_slice_bytes(t->s, r) : 0;
            if (allowed && end - start < t->layers) *any = true;
        }
}

/* Stage i of layers [start, end): DBL_MAX when it cannot be. */
static double cost(const table *t, size_t i, int32_t start, int32_t end, bool must_fit) {
    const uint64_t bytes = t->bytes[cell(t, (size_t)start, end)];
    if (bytes == 0) return DBL_MAX;
    if (!t->memory) return (double)(end - start) * (double)(end - start);
    if (must_fit && bytes > t->memory[i]) return DBL_MAX;
    return (double)bytes * (double)bytes / ((double)t->memory[i] + 1.0);
}

static void improve(table *t, size_t i, int32_t end, bool must_fit) {
    double least = DBL_MAX;
    int32_t from = -1;
    for (int32_t start = i == 0 ? 0 : (int32_t)i; start < end; start++) {
        const double before = i == 0 ? 0.0 : t->best[cell(t, i - 1, start)];
        const double own = before < DBL_MAX ? cost(t, i, start, end, must_fit) : DBL_MAX;
        if (own < DBL_MAX && before + own < least) {
            least = before + own;
            from = start;
        }
        if (i == 0) break; /* the first stage starts at 0 */
    }
    t->best[cell(t, i, end)] = least;
    t->from[cell(t, i, end)] = from;
}

static bool solve(table *t, bool must_fit, sk_cut_plan *out) {
    for (size_t i = 0; i < t->n_stages; i++)
        for (int32_t end = 0; end <= t->layers; end++) improve(t, i, end, must_fit);
    int32_t end = t->layers;
    if (t->from[cell(t, t->n_stages - 1, end)] < 0) return false;
    *out = (sk_cut_plan){.n_layer = t->layers, .n_stages = t->n_stages};
    for (size_t i = t->n_stages; i-- > 0;) {
        const int32_t start = t->from[cell(t, i, end)];
        out->stage[i] = (sk_layer_range){start, end};
        out->bytes[i] = t->bytes[cell(t, (size_t)start, end)];
        end = start;
    }
    return true;
}

/* No cuts: says what stands against the ones that would be tried first. */
static int refuse(const table *t, bool any, sk_err *e) {
    sk_err why = {0};
    const int32_t half = t->layers / (int32_t)t->n_stages;
    if (sk_slice_check(t->s, (sk_layer_range){0, half}, &why) == SKIPPY_OK)
        sk_slice_check(t->s, (sk_layer_range){half, t->layers}, &why);
    if (why.text[0]) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s", why.text);
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "'%.100s' (%d layers) cannot be cut into %zu stages%s", t->s->name,
                      (int)t->layers, t->n_stages, any ? "; fewer may be possible" : "");
}

/* How much is missing: each stage against its own memory. */
static int too_large(const table *t, const sk_cut_plan *closest, sk_err *e) {
    uint64_t missing = 0;
    for (size_t i = 0; i < t->n_stages; i++)
        if (closest->bytes[i] > t->memory[i]) missing += closest->bytes[i] - t->memory[i];
    return sk_err_set(e, SKIPPY_E_TOO_LARGE,
                      "'%.100s' does not fit: cuts in proportion to the memory lack %" PRIu64
                      " bytes (%.1f MiB) of memory for weights alone",
                      t->s->name, missing, (double)missing / 1048576.0);
}

static int plan(table *t, sk_cut_plan *out, sk_err *e) {
    bool any = false;
    read_file(t, &any);
    if (solve(t, true, out)) return SKIPPY_OK;
    return t->memory && solve(t, false, out) ? too_large(t, out, e) : refuse(t, any, e);
}

static int check_count(const sk_tensor_source *s, size_t n_stages, sk_err *e) {
    const int32_t layers = sk_slice_layers(s);
    if (n_stages == 0 || n_stages > SK_CUT_STAGES_MAX)
        return sk_err_set(e, SKIPPY_E_INVALID, "a model can be cut into 1 to %d stages, not %zu", SK_CUT_STAGES_MAX,
                          n_stages);
    if (layers < 1 || (size_t)layers < n_stages)
        return sk_err_set(e, SKIPPY_E_INVALID, "%d layers cannot be cut into %zu stages", (int)layers, n_stages);
    return SKIPPY_OK;
}

int sk_cut_plan_make(const sk_tensor_source *s, size_t n_stages, const uint64_t *memory, sk_cut_plan *out, sk_err *e) {
    int rc = check_count(s, n_stages, e);
    if (rc != SKIPPY_OK) return rc;
    table t = {.s = s, .memory = memory, .layers = sk_slice_layers(s), .n_stages = n_stages};
    const size_t width = (size_t)t.layers + 1;
    t.bytes = calloc(width * width, sizeof *t.bytes);
    t.best = calloc(n_stages * width, sizeof *t.best);
    t.from = calloc(n_stages * width, sizeof *t.from);
    if (t.bytes && t.best && t.from)
        rc = plan(&t, out, e);
    else
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a plan");
    free(t.bytes);
    free(t.best);
    free(t.from);
    return rc;
}

int sk_cut_plan_fixed(const sk_tensor_source *s, const int32_t *cuts, size_t n_stages, sk_cut_plan *out, sk_err *e) {
    int rc = check_count(s, n_stages, e);
    if (rc != SKIPPY_OK) return rc;
    *out = (sk_cut_plan){.n_layer = sk_slice_layers(s), .n_stages = n_stages};
    for (size_t i = 0; i < n_stages; i++) {
        const sk_layer_range r = {i == 0 ? 0 : cuts[i - 1], i + 1 == n_stages ? out->n_layer : cuts[i]};
        if (r.end <= r.start)
            return sk_err_set(e, SKIPPY_E_INVALID, "cuts must ascend inside the %d layers", (int)out->n_layer);
        rc = sk_slice_check(s, r, e);
        if (rc != SKIPPY_OK) return rc;
        out->stage[i] = r;
        out->bytes[i] = sk_slice_bytes(s, r);
    }
    return SKIPPY_OK;
}

const char *sk_cut_plan_text(const sk_cut_plan *p, char *buf, size_t cap) {
    size_t at = 0;
    for (size_t i = 0; i < p->n_stages && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%d to %d",
                               i == 0                 ? "layers "
                               : i + 1 == p->n_stages ? " and "
                                                      : ", ",
                               (int)p->stage[i].start, (int)p->stage[i].end - 1);
    return buf;
}
