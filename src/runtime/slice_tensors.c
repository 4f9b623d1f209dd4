/* Which tensors a stage file holds. The loader counts: every tensor that it asks for must be there, and no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>

#include "runtime/slice_internal.h"

/* Zeros that are never multiplied: the graph of a stage stops before its head, and hidden states do not go through the
 * embedding. Small blocks keep them cheap where they must have a row for every token. */
static void blank(sk_slice_tensor *t, const char *name, int64_t width, int64_t rows) {
    bool blocks = width % ggml_blck_size(GGML_TYPE_Q4_0) == 0;
    enum ggml_type type = rows == 1 ? GGML_TYPE_F32 : blocks ? GGML_TYPE_Q4_0 : GGML_TYPE_F16;
    *t = (sk_slice_tensor){.source = SIZE_MAX, .type = type, .ne = {width, rows, 1, 1}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->bytes = ggml_row_size(type, width) * (uint64_t)rows;
}

static void copy_of(sk_slice_tensor *t, const sk_tensor_source *s, size_t i, const char *name) {
    const sk_tensor_desc *d = &s->tensors[i];
    *t = (sk_slice_tensor){.source = i, .type = d->type, .bytes = d->bytes};
    memcpy(t->ne, d->ne, sizeof t->ne);
    /* never longer than the source's name: layers only get smaller numbers */
    snprintf(t->name, sizeof t->name, "%.63s", name);
}

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* With an output.weight of its own, a last stage still must have a token_embd.weight of the same shape. Loaders that
 * take a missing output for tied can be given the output under that name, once. */
static bool output_as_embedding(const sk_slice_facts *f) {
    if (f->output == SIZE_MAX || f->output_required) return false;
    for (size_t i = 0; i < f->s->n_tensors; i++)
        if (i != f->output && has_prefix(f->s->tensors[i].name, "output.")) return false; /* a bias or a scale */
    return true;
}

static size_t put_embedding(const sk_slice_facts *f, sk_layer_range r, sk_slice_tensor *t) {
    const char *embd = "token_embd.weight";
    if (sk_slice_is_first(r))
        copy_of(t, f->s, f->embd, embd);
    else if (sk_slice_is_last(f, r) && (f->output == SIZE_MAX || output_as_embedding(f)))
        copy_of(t, f->s, f->output == SIZE_MAX ? f->embd : f->output, embd);
    else
        blank(t, embd, f->width, sk_slice_vocab(f, r));
    return 1;
}

static size_t put_output(const sk_slice_facts *f, sk_layer_range r, sk_slice_tensor *t) {
    bool last = sk_slice_is_last(f, r), whole = sk_slice_is_whole(f, r);
    if (last && f->output != SIZE_MAX && (whole || !output_as_embedding(f))) {
        copy_of(t, f->s, f->output, "output.weight");
        return 1;
    }
    if (last || !f->output_required) return 0;
    blank(t, "output.weight", f->width, sk_slice_vocab(f, r));
    return 1;
}

static bool has_full_attention(const sk_slice_facts *f, sk_layer_range r) {
    for (int32_t i = r.start; i < r.end; i++)
        if (!f->kind[i].window) return true;
    return false;
}

/* Does this stage get a tensor that belongs to no layer (embedding and output apart)? */
static bool wants_global(const sk_slice_facts *f, sk_layer_range r, const char *name) {
    if (sk_slice_is_whole(f, r)) return true;
    if (has_prefix(name, "rope_")) return f->pattern != SK_PATTERN_WINDOWS || has_full_attention(f, r);
    /* loaders want the final norm of every model; some call it token_embd_norm */
    if (has_prefix(name, "output_norm") || has_prefix(name, "token_embd_norm")) return true;
    return sk_slice_is_last(f, r);
}

static void put_layer(const sk_slice_facts *f, sk_layer_range r, int32_t layer, sk_slice_list *out) {
    char name[96];
    for (size_t i = 0; i < f->s->n_tensors; i++) {
        const sk_tensor_desc *d = &f->s->tensors[i];
        if (d->layer != layer) continue;
        const char *rest = strchr(d->name + 4, '.'); /* after "blk." */
        snprintf(name, sizeof name, "blk.%d%s", layer - r.start, rest ? rest : "");
        copy_of(&out->t[out->n++], f->s, i, name);
    }
}

int sk_slice_tensors(const sk_slice_facts *f, sk_layer_range r, sk_slice_list *out, sk_err *e) {
    out->n = 0;
    out->t = calloc(f->s->n_tensors + 2, sizeof *out->t);
    if (!out->t) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu tensors", f->s->n_tensors);
    out->n += put_embedding(f, r, &out->t[out->n]);
    out->n += put_output(f, r, &out->t[out->n]);
    for (size_t i = 0; i < f->s->n_tensors; i++) {
        const sk_tensor_desc *d = &f->s->tensors[i];
        if (d->layer < 0 && i != f->embd && i != f->output && wants_global(f, r, d->name))
            copy_of(&out->t[out->n++], f->s, i, d->name);
    }
    for (int32_t layer = r.start; layer < r.end; layer++) put_layer(f, r, layer, out);
    return SKIPPY_OK;
}

uint64_t sk_slice_bytes(const sk_tensor_source *s, sk_layer_range r) {
    sk_slice_facts f;
    sk_slice_list list;
    uint64_t sum = 0;
    if (sk_slice_facts_read(s, &f, NULL) || r.start < 0 || r.end <= r.start || r.end > f.layers) return 0;
    if (sk_slice_tensors(&f, r, &list, NULL)) return 0;
    for (size_t i = 0; i < list.n; i++) sum += list.t[i].bytes;
    free(list.t);
    return sum;
}
