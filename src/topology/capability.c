#include "topology/capability.h"

const char *const sk_state_names[] = {"attention", "window", "hybrid", "recurrent", "other", "none", NULL};
const char *const sk_trait_names[] = {"none",      "chunked", "indexer", "draft",       "encoder",
                                      "diffusion", "speech",  "routed",  "unsupported", NULL};
const char *const sk_wire_names[] = {"f32", "f16", "q8", NULL};
const char *const sk_validation_names[] = {"untested", "validated", "rejected", NULL};
const char *const sk_mobility_names[] = {"untested", "accepted", "rejected_too_large", NULL};
const char *const sk_sideband_names[] = {"token_ids", "rwkv7_v_first", "gemma3n_altup", NULL};
const char *const sk_finding_names[] = {"exact",
                                        "exact_values",
                                        "exact_inside_window",
                                        "exact_after_conversion",
                                        "inexact",
                                        "silently_wrong",
                                        "wrong_when_forced",
                                        "refused",
                                        "not_applicable",
                                        NULL};

bool sk_reviewed_layer_recurrent(const sk_reviewed *r, int32_t layer) {
    for (size_t i = 0; i < r->n_recurrent; i++)
        if (layer >= r->recurrent[i].start && layer < r->recurrent[i].end) return true;
    return false;
}

const char *sk_family_evidence(const sk_family_entry *f) {
    if (f->n_measured > 0) return "measured";
    return f->has_reviewed ? "reviewed" : "listed";
}
