#include "correctness/stage_feed.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/stage_context.h"

int sk_stage_feed_init(sk_stage_feed *f, const sk_model *stage, const sk_stage_script *script, size_t rows, sk_err *e) {
    const sk_stage_facts *s = &sk_model_get_info(stage)->stage;
    *f = (sk_stage_feed){.script = script, .gives = !s->last, .width = (uint32_t)s->width};
    if (script->width != f->width || s->first != (script->hidden == NULL))
        return sk_err_set(e, SKIPPY_E_INVALID, "a script with %s of %u values for a stage that takes %s of %u",
                          script->hidden ? "hidden states" : "tokens", script->width,
                          s->first ? "tokens" : "hidden states", f->width);
    if (!s->first) f->in = calloc(rows * f->width, sizeof *f->in);
    if (f->gives) f->out = calloc(rows * f->width, sizeof *f->out);
    if ((s->first || f->in) && (!f->gives || f->out)) return SKIPPY_OK;
    sk_stage_feed_free(f);
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a batch of hidden states");
}

void sk_stage_feed_free(sk_stage_feed *f) {
    free(f->in);
    free(f->out);
    *f = (sk_stage_feed){0};
}

size_t sk_stage_feed_values(const sk_stage_feed *f, const sk_model *stage) {
    return f->gives ? f->width : (size_t)sk_model_get_info(stage)->n_vocab;
}

/* Every row gets what the script has for its position, whatever sequence it belongs to. */
static int fill_inputs(sk_stage_feed *f, const sk_context *c, const sk_row *rows, uint32_t n, sk_err *e) {
    uint32_t position = 0;
    for (uint32_t i = 0; i < n; i++, position++) {
        if (i == 0 || rows[i].seq != rows[i - 1].seq) position = sk_context_seq_len(c, rows[i].seq);
        if (position >= f->script->n)
            return sk_err_set(e, SKIPPY_E_INVALID, "position %u of a script of %u", position, f->script->n);
        if (!f->in) continue;
        memcpy(f->in + (size_t)i * f->width, f->script->hidden + (size_t)position * f->width, f->width * sizeof *f->in);
    }
    return SKIPPY_OK;
}

/* In a row class the number of outputs is a multiple too: all rows, or none. */
static void level_outputs(sk_row *rows, uint32_t n) {
    bool any = false;
    for (uint32_t i = 0; i < n; i++) any = any || rows[i].output;
    for (uint32_t i = 0; i < n; i++) rows[i].output = any;
}

int sk_stage_feed_decode(sk_stage_feed *f, sk_context *c, const sk_row_class *rc, sk_row *rows, uint32_t n,
                         uint32_t scratch, sk_err *e) {
    uint32_t pad = rc && !sk_context_get_info(c)->recurrent ? sk_row_class_pad(rc, n) : 0;
    for (uint32_t i = 0; i < pad; i++) rows[n + i] = (sk_row){.seq = scratch, .token = f->script->tokens[i]};
    if (rc) level_outputs(rows, n + pad);
    int result = fill_inputs(f, c, rows, n + pad, e);
    if (result == SKIPPY_OK) result = sk_context_decode_stage(c, rows, n + pad, f->in, f->out, NULL, e);
    if (pad) sk_context_seq_clear(c, scratch);
    return result;
}

const float *sk_stage_feed_row(const sk_stage_feed *f, sk_context *c, size_t index) {
    return f->gives ? f->out + index * f->width : sk_context_logits(c, index);
}
