/* What this stage is, and whether a HELLO fits it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "stage/stage_internal.h"

/* ---- the card ---- */

static uint64_t new_life(void) {
    uint64_t life = 0;
    if (getrandom(&life, sizeof life, 0) != sizeof life) life = sk_now_ns() ^ sk_unix_ms() << 20;
    return life ? life : 1;
}

void sk_stage_fill_card(sk_stage *s) {
    sk_stage_card *c = &s->card;
    *c = (sk_stage_card){.life = new_life(),
                         .layer_start = s->facts.layer_start,
                         .layer_end = s->facts.layer_end,
                         .n_layer = s->facts.n_layer,
                         .width = (uint32_t)s->facts.width,
                         .n_vocab = s->n_vocab,
                         .n_ctx = s->setup.n_ctx,
                         .n_lanes = s->setup.n_lanes,
                         .n_batch = s->setup.n_batch,
                         .dtype = s->params.dtype,
                         .last = s->facts.last};
    sk_runtime_abi(c->abi, sizeof c->abi);
    memcpy(c->source, s->facts.source, sizeof c->source);
    snprintf(c->name, sizeof c->name, "%.255s", sk_listener_address(s->listener));
}

/* ---- whether it fits ---- */

static const char *dtype_name(uint8_t dtype) {
    return dtype == 0 ? "f32" : "f16";
}

bool sk_stage_is_inquiry(const sk_frame_hello *h) {
    return h->n_stages >= 2 && h->n_stages <= SK_CHAIN_MAX && h->cuts[h->n_stages - 1] < 0;
}

static int check_place(const sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    if (h->n_stages < 2 || h->n_stages > SK_CHAIN_MAX || h->index < 1 || h->index >= h->n_stages)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "stage %" PRIu32 " of %" PRIu32 " is not a place behind a head",
                          h->index, h->n_stages);
    if (h->n_route != h->n_stages - 1 - h->index)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "%" PRIu32 " addresses follow stage %" PRIu32 " of %" PRIu32 ", which needs %" PRIu32,
                          h->n_route, h->index, h->n_stages, h->n_stages - 1 - h->index);
    const bool is_last = h->index + 1 == h->n_stages;
    if (is_last != s->facts.last)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "stage %" PRIu32 " of %" PRIu32 " shall be %s, but layers %" PRId32 "-%" PRId32
                          " of this stage are %s of the model's %" PRId32 ": change the order or number of the stages",
                          h->index, h->n_stages, is_last ? "the last" : "between others", s->facts.layer_start,
                          s->facts.layer_end, s->facts.last ? "the last" : "not the last", s->facts.n_layer);
    return SKIPPY_OK;
}

/* Where two long texts begin to differ, a little earlier: at the beginning of that part. */
static size_t first_difference(const char *a, const char *b) {
    size_t i = 0, part = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == ';' || a[i] == '|') part = i + 1;
    return part;
}

static int check_model(const sk_stage *s, const sk_stage_card *head, sk_err *e) {
    const sk_stage_card *own = &s->card;
    if (strcmp(head->source, own->source) != 0)
        return sk_err_set(
            e, SKIPPY_E_UNSUPPORTED,
            "the head's model has the digest %.16s, that of this stage %.16s: cut both from the same file",
            head->source, own->source);
    if (head->n_layer != own->n_layer || head->width != own->width)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "the head's model has %" PRId32 " layers of width %" PRIu32 ", that of this stage %" PRId32
                          " of width %" PRIu32 ": cut both from the same file",
                          head->n_layer, head->width, own->n_layer, own->width);
    if (strcmp(head->abi, own->abi) != 0) {
        size_t at = first_difference(head->abi, own->abi);
        return sk_err_set(
            e, SKIPPY_E_UNSUPPORTED,
            "the head computes with '%s%.150s', this stage with '%s%.150s': use the same build on machines "
            "of the same kind",
            at ? "..." : "", head->abi + at, at ? "..." : "", own->abi + at);
    }
    return SKIPPY_OK;
}

static int check_size(const char *what, const char *option, uint32_t head, uint32_t own, sk_err *e) {
    if (head == own) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                      "the head has %s %" PRIu32 ", this stage %" PRIu32 ": start both with the same %s", what, head,
                      own, option);
}

static int check_sizes(const sk_stage *s, const sk_stage_card *head, sk_err *e) {
    const sk_stage_card *own = &s->card;
    int rc = check_size("context size", "-c", head->n_ctx, own->n_ctx, e);
    if (rc == SKIPPY_OK) rc = check_size("number of lanes", "-np", head->n_lanes, own->n_lanes, e);
    if (rc == SKIPPY_OK) rc = check_size("batch size", "-b and -ub", head->n_batch, own->n_batch, e);
    if (rc || head->dtype == own->dtype) return rc;
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                      "the head sends hidden states as %s, this stage as %s: start both with the same form",
                      dtype_name(head->dtype), dtype_name(own->dtype));
}

static int check_cuts(const sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    const int32_t first = h->cuts[h->index - 1], end = h->cuts[h->index];
    if (first != s->facts.layer_start || end != s->facts.layer_end)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "stage %" PRIu32 " shall compute layers %" PRId32 "-%" PRId32 ", this stage has %" PRId32
                          "-%" PRId32 ": give the head and the stages the same cuts",
                          h->index, first, end, s->facts.layer_start, s->facts.layer_end);
    if (h->cuts[h->n_stages - 1] != s->facts.n_layer)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "the chain ends at layer %" PRId32 ", this stage's model at %" PRId32,
                          h->cuts[h->n_stages - 1], s->facts.n_layer);
    if (h->head.layer_end != h->cuts[0])
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "the head ends at layer %" PRId32 ", but the chain goes on at %" PRId32, h->head.layer_end,
                          h->cuts[0]);
    return SKIPPY_OK;
}

/* What has no field of its own in a card: types of the KV cache, attention, rope. */
static int check_chain(const sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    const sk_context_info *ci = sk_context_get_info(s->setup.ctx);
    int32_t cuts[SK_CHAIN_MAX + 1] = {0};
    memcpy(cuts + 1, h->cuts, h->n_stages * sizeof *cuts);
    const sk_chain_facts f = {.source = s->facts.source,
                              .cuts = cuts,
                              .n_stages = h->n_stages,
                              .width = s->card.width,
                              .n_ctx = s->setup.n_ctx,
                              .dtype = s->card.dtype,
                              .abi = s->card.abi,
                              .type_k = ci->type_k,
                              .type_v = ci->type_v,
                              .flash_attn = ci->flash_attn,
                              .swa_full = s->setup.identity.swa_full,
                              .rope_freq_base = s->params.setup.rope_freq_base,
                              .rope_freq_scale = s->params.setup.rope_freq_scale};
    skippy_key own;
    int rc = sk_chain_key(&f, &own);
    if (rc) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the cuts of the chain do not rise from 0 to the last layer");
    if (skippy_key_equal(&own, &h->chain)) return SKIPPY_OK;
    char theirs[17], ours[17];
    sk_hex(h->chain.bytes, 8, theirs);
    sk_hex(own.bytes, 8, ours);
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                      "the head's settings have the digest %s, those of this stage %s. This stage has a KV cache of "
                      "%s/%s, flash attention %d, whole sliding window %d, rope base %g and scale %g: start both with "
                      "the same",
                      theirs, ours, ci->type_k, ci->type_v, ci->flash_attn, f.swa_full, (double)f.rope_freq_base,
                      (double)f.rope_freq_scale);
}

int sk_stage_check_hello(const sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    int rc = check_place(s, h, e);
    if (rc == SKIPPY_OK) rc = check_model(s, &h->head, e);
    if (rc == SKIPPY_OK) rc = check_sizes(s, &h->head, e);
    if (rc || sk_stage_is_inquiry(h)) return rc;
    rc = check_cuts(s, h, e);
    return rc ? rc : check_chain(s, h, e);
}
