/* May a model be cut here? Applies what the review says about cuts and what was measured about stages. Pure functions.
 */
#ifndef SKIPPY_TOPOLOGY_SPLIT_RULE_H
#define SKIPPY_TOPOLOGY_SPLIT_RULE_H

#include "topology/capability.h"

/* What one layer of a model computes with. */
typedef struct sk_layer_kind {
    bool attention, recurrent, window;
} sk_layer_kind;

/* Kind of a layer in a model of the family that has `layers` layers. Where the registry knows the family's kind of
 * state but not layer by layer, a layer counts as everything that the family has. */
sk_layer_kind sk_split_layer_kind(const sk_family_entry *f, int32_t layers, int32_t layer);

/* True when a cut in front of layer `cut` parts no layers that share keys and values. *reason: why not, for people. */
bool sk_split_cut_allowed(const sk_family_entry *f, int32_t cut, const char **reason);

/* True when the measured rules allow a stage of layers [s.start, s.end), or when nothing was measured, or when the
 * stage is the whole model. Otherwise the sentence in why (cap bytes) says what stands against it. */
bool sk_split_stage_allowed(const sk_family_entry *f, int32_t layers, sk_layer_range s, char *why, size_t cap);

#endif
