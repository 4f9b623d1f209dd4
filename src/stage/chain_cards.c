/* Whether the stages that answered make one chain with the head. */
#include <inttypes.h>
#include <string.h>

#include "stage/chain_internal.h"

typedef struct place { /* a stage in words */
    uint32_t index;
    const char *address;
} place;

static int differs(const place *at, const char *what, int64_t theirs, int64_t ours, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "stage %u at %s: %s %" PRId64 ", the head needs %" PRId64, at->index,
                      at->address, what, theirs, ours);
}

static int check_text(const place *at, const char *what, const char *theirs, const char *ours, sk_err *e) {
    if (strcmp(theirs, ours) == 0) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "stage %u at %s: %s '%.160s', the head's is '%.160s'", at->index,
                      at->address, what, theirs, ours);
}

/* What must be the same on all stages. */
static int check_common(const place *at, const sk_stage_card *head, const sk_stage_card *card, sk_err *e) {
    const struct {
        const char *what;
        int64_t theirs, ours;
    } numbers[] = {
        {"index", card->index, at->index},
        {"layers of the whole model", card->n_layer, head->n_layer},
        {"width of hidden states", card->width, head->width},
        {"type of hidden states on links (0 f32, 1 f16)", card->dtype, head->dtype},
        {"context size", card->n_ctx, head->n_ctx},
        {"lanes", card->n_lanes, head->n_lanes},
        {"batch size", card->n_batch, head->n_batch},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].theirs != numbers[i].ours)
            return differs(at, numbers[i].what, numbers[i].theirs, numbers[i].ours, e);
    int rc = check_text(at, "digest of the whole model", card->source, head->source, e);
    return rc == SKIPPY_OK ? check_text(at, "runtime", card->abi, head->abi, e) : rc;
}

/* Its layers: [start, end), where end < 0 means any. */
static int check_layers(const place *at, const sk_stage_card *card, int32_t start, int32_t end, bool last, sk_err *e) {
    if (card->layer_start != start) return differs(at, "first layer", card->layer_start, start, e);
    if (card->layer_end <= start || card->layer_end > card->n_layer)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "stage %u at %s: layers %d to %d of %d make no range", at->index,
                          at->address, start, card->layer_end, card->n_layer);
    if (last) end = card->n_layer;
    if (end >= 0 && card->layer_end != end) return differs(at, "end of its layers", card->layer_end, end, e);
    if (card->last != last || (card->n_vocab != 0) != last)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "stage %u at %s %s", at->index, at->address,
                          last ? "is the last one but has no output layer"
                               : "has the output layer but is not the last one");
    return SKIPPY_OK;
}

int sk_chain_check_cards(const sk_stage_card *head, const int32_t *cuts, const char *const *addresses, uint32_t n,
                         const sk_frame_welcome *w, sk_err *e) {
    if (w->n_cards != n)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%u stages answered behind %s, %u were named", w->n_cards,
                          addresses[0], n);
    int32_t start = head->layer_end;
    for (uint32_t i = 0; i < n; i++) {
        const sk_stage_card *card = &w->cards[i];
        place at = {i + 1, addresses[i]};
        int rc = check_common(&at, head, card, e);
        if (rc == SKIPPY_OK) rc = check_layers(&at, card, start, cuts ? cuts[i + 1] : -1, i + 1 == n, e);
        if (rc != SKIPPY_OK) return rc;
        start = card->layer_end;
    }
    return SKIPPY_OK;
}
