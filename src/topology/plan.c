#include "topology/plan.h"

#include <string.h>

#include "topology/split_rule.h"

const char *sk_signal_name(enum sk_signal s) {
    static const char *const names[] = {
        [SK_SIG_DEFAULT_WIRE_DTYPE_F16] = "DefaultWireDtypeF16",
        [SK_SIG_DEFAULT_WIRE_DTYPE_F32] = "DefaultWireDtypeF32",
        [SK_SIG_Q8_WIRE_VALIDATED] = "Q8WireValidated",
        [SK_SIG_Q8_WIRE_REJECTED] = "Q8WireRejected",
        [SK_SIG_Q8_WIRE_UNTESTED] = "Q8WireUntested",
        [SK_SIG_EXACT_STATE_MOBILITY_ACCEPTED] = "ExactStateMobilityAccepted",
        [SK_SIG_EXACT_STATE_MOBILITY_REJECTED] = "ExactStateMobilityRejected",
        [SK_SIG_EXACT_STATE_MOBILITY_UNTESTED] = "ExactStateMobilityUntested",
        [SK_SIG_ATTENTION_KV_COSTED] = "AttentionKvCosted",
        [SK_SIG_RECURRENT_OWNER_STICKY] = "RecurrentOwnerSticky",
        [SK_SIG_RECURRENT_STATE_TRANSFER_ALLOWED] = "RecurrentStateTransferAllowed",
        [SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED] = "RecurrentStateTransferRejected",
        [SK_SIG_ACTIVATION_ONLY_BOUNDARY] = "ActivationOnlyBoundary",
        [SK_SIG_TOKEN_SIDEBAND_REQUIRED] = "TokenSidebandRequired",
        [SK_SIG_ACTIVATION_SIDEBAND_REQUIRED] = "ActivationSidebandRequired",
        [SK_SIG_SHARED_KV_REGION_CUT] = "SharedKvRegionCut",
        [SK_SIG_STAGE_RULE_REJECTED] = "StageRuleRejected",
    };
    return s < SK_SIG_COUNT ? names[s] : "unknown";
}

static void add(sk_signals *set, enum sk_signal s) {
    *set |= (sk_signals)1 << s;
}

static int check_request(const sk_plan_request *q, int32_t layers, sk_err *e) {
    const sk_family_entry *f = q->family;
    if (layers <= 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "no model of '%s' was reviewed, so its number of layers must be given",
                          f->record.family);
    if (layers > SK_MAX_LAYERS)
        return sk_err_set(e, SKIPPY_E_INVALID, "%d layers are more than the %d of any model", layers, SK_MAX_LAYERS);
    if (q->n_cuts >= SK_MAX_STAGES)
        return sk_err_set(e, SKIPPY_E_INVALID, "%zu stages are more than %d", q->n_cuts + 1, SK_MAX_STAGES);
    int32_t last = 0;
    for (size_t i = 0; i < q->n_cuts; i++) {
        if (q->cuts[i] <= last || q->cuts[i] >= layers)
            return sk_err_set(e, SKIPPY_E_INVALID, "the cut at layer %d: cuts must ascend from 1 to %d", q->cuts[i],
                              layers - 1);
        last = q->cuts[i];
    }
    if (q->wire == SK_WIRE_Q8 && f->reviewed.q8_wire != SK_VALID_VALIDATED)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "hidden states as q8 were %s for '%s'; use f16",
                          f->has_reviewed ? sk_validation_names[f->reviewed.q8_wire] : "never tested",
                          f->record.family);
    if (f->reviewed.has_shared_kv && layers != f->reviewed.layers)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "which layers share keys and values is known for %d layers, not %d",
                          f->reviewed.layers, layers);
    return SKIPPY_OK;
}

static sk_signals family_signals(const sk_family_entry *f) {
    static const enum sk_signal q8[] = {[SK_VALID_UNTESTED] = SK_SIG_Q8_WIRE_UNTESTED,
                                        [SK_VALID_VALIDATED] = SK_SIG_Q8_WIRE_VALIDATED,
                                        [SK_VALID_REJECTED] = SK_SIG_Q8_WIRE_REJECTED};
    static const enum sk_signal mobility[] = {[SK_MOBILITY_UNTESTED] = SK_SIG_EXACT_STATE_MOBILITY_UNTESTED,
                                              [SK_MOBILITY_ACCEPTED] = SK_SIG_EXACT_STATE_MOBILITY_ACCEPTED,
                                              [SK_MOBILITY_TOO_LARGE] = SK_SIG_EXACT_STATE_MOBILITY_REJECTED};
    sk_signals set = 0;
    bool wide = f->has_reviewed && f->reviewed.wire == SK_WIRE_F32; /* what nobody reviewed starts with f16 */
    add(&set, wide ? SK_SIG_DEFAULT_WIRE_DTYPE_F32 : SK_SIG_DEFAULT_WIRE_DTYPE_F16);
    add(&set, q8[f->reviewed.q8_wire]);
    add(&set, mobility[f->reviewed.mobility]);
    return set;
}

static void describe_stage(const sk_plan_request *q, int32_t layers, sk_plan_stage *s) {
    const sk_family_entry *f = q->family;
    sk_layer_kind any = {0};
    for (int32_t i = s->range.start; i < s->range.end; i++) {
        sk_layer_kind k = sk_split_layer_kind(f, layers, i);
        any.attention |= k.attention;
        any.recurrent |= k.recurrent;
    }
    if (any.attention) add(&s->signals, SK_SIG_ATTENTION_KV_COSTED);
    if (any.recurrent) {
        bool may_move = q->allow_state_transfer && f->reviewed.mobility == SK_MOBILITY_ACCEPTED;
        add(&s->signals, SK_SIG_RECURRENT_OWNER_STICKY);
        add(&s->signals, may_move ? SK_SIG_RECURRENT_STATE_TRANSFER_ALLOWED : SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED);
    }
    s->accepted = sk_split_stage_allowed(f, layers, s->range, s->reason, sizeof s->reason);
    if (!s->accepted) add(&s->signals, SK_SIG_STAGE_RULE_REJECTED);
}

/* What a layer behind the boundary needs must cross it, however far behind the layer is. */
static void describe_boundary(const sk_family_entry *f, int32_t layers, sk_plan_boundary *b) {
    for (size_t i = 0; i < f->reviewed.n_sidebands; i++) {
        const sk_sideband *band = &f->reviewed.sidebands[i];
        if (band->from_layer >= layers) continue;
        add(&b->signals,
            band->kind == SK_SIDEBAND_TOKEN_IDS ? SK_SIG_TOKEN_SIDEBAND_REQUIRED : SK_SIG_ACTIVATION_SIDEBAND_REQUIRED);
        b->reason = band->reason;
    }
    b->accepted = sk_split_cut_allowed(f, b->layer, &b->reason);
    if (!b->accepted)
        add(&b->signals, SK_SIG_SHARED_KV_REGION_CUT);
    else if (b->signals == 0)
        add(&b->signals, SK_SIG_ACTIVATION_ONLY_BOUNDARY);
}

int sk_plan_describe(const sk_plan_request *q, sk_plan *out, sk_err *e) {
    int32_t layers = q->layers > 0 ? q->layers : q->family->reviewed.layers;
    memset(out, 0, sizeof *out);
    int rc = check_request(q, layers, e);
    if (rc != SKIPPY_OK) return rc;
    out->layers = layers;
    out->n_stages = q->n_cuts + 1;
    out->family_signals = out->signals = family_signals(q->family);
    out->accepted = true;
    for (size_t i = 0; i < out->n_stages; i++) {
        sk_plan_stage *s = &out->stages[i];
        s->range.start = i == 0 ? 0 : q->cuts[i - 1];
        s->range.end = i == q->n_cuts ? layers : q->cuts[i];
        describe_stage(q, layers, s);
        out->signals |= s->signals;
        out->accepted &= s->accepted;
    }
    for (size_t i = 0; i < q->n_cuts; i++) {
        sk_plan_boundary *b = &out->boundaries[i];
        b->layer = q->cuts[i];
        describe_boundary(q->family, layers, b);
        out->signals |= b->signals;
        out->accepted &= b->accepted;
    }
    return SKIPPY_OK;
}
