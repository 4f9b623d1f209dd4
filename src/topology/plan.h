/* What a proposed cut of a model means: for each boundary and each stage the signals that a planner acts on. Looks at
 * the registry only, never at a file or a machine. Pure functions. */
#ifndef SKIPPY_TOPOLOGY_PLAN_H
#define SKIPPY_TOPOLOGY_PLAN_H

#include "base/err.h"
#include "topology/capability.h"

/* Reason codes. Their names, without the prefix and in camel case, are what users and logs see. */
enum sk_signal {
    SK_SIG_DEFAULT_WIRE_DTYPE_F16,
    SK_SIG_DEFAULT_WIRE_DTYPE_F32,
    SK_SIG_Q8_WIRE_VALIDATED,
    SK_SIG_Q8_WIRE_REJECTED,
    SK_SIG_Q8_WIRE_UNTESTED,
    SK_SIG_EXACT_STATE_MOBILITY_ACCEPTED,
    SK_SIG_EXACT_STATE_MOBILITY_REJECTED, /* whole sequences are too large to move between machines */
    SK_SIG_EXACT_STATE_MOBILITY_UNTESTED,
    SK_SIG_ATTENTION_KV_COSTED,               /* the stage keeps keys and values: memory grows with the context */
    SK_SIG_RECURRENT_OWNER_STICKY,            /* the stage keeps recurrent state: its layers stay where they are */
    SK_SIG_RECURRENT_STATE_TRANSFER_ALLOWED,  /* ... unless the caller allows moves and the state is small enough */
    SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED, /* the default */
    SK_SIG_ACTIVATION_ONLY_BOUNDARY,          /* nothing but hidden states crosses */
    SK_SIG_TOKEN_SIDEBAND_REQUIRED,           /* token ids must cross, too */
    SK_SIG_ACTIVATION_SIDEBAND_REQUIRED,      /* a second tensor must cross, too */
    SK_SIG_SHARED_KV_REGION_CUT,              /* the cut parts layers that share keys and values: rejected */
    SK_SIG_STAGE_RULE_REJECTED,               /* measured: the stage aborts, or computes other numbers */
    SK_SIG_COUNT
};

/* "DefaultWireDtypeF16" and so on. */
const char *sk_signal_name(enum sk_signal s);

/* A set of signals: bit s is signal s. */
typedef uint32_t sk_signals;
static inline bool sk_signals_have(sk_signals set, enum sk_signal s) {
    return (set >> s & 1u) != 0;
}

enum { SK_MAX_STAGES = 64 };

typedef struct sk_plan_request {
    const sk_family_entry *family;
    int32_t layers; /* 0 = those of the reviewed model */
    enum sk_wire wire;
    const int32_t *cuts; /* ascending; stage i is [cut i-1, cut i) */
    size_t n_cuts;
    bool allow_state_transfer; /* recurrent state may move to another owner if its size was accepted */
} sk_plan_request;

typedef struct sk_plan_boundary {
    int32_t layer; /* the first layer behind it */
    bool accepted;
    sk_signals signals;
    const char *reason; /* why it is rejected, or why a sideband is needed; NULL otherwise */
} sk_plan_boundary;

typedef struct sk_plan_stage {
    sk_layer_range range;
    bool accepted;
    sk_signals signals;
    char reason[160]; /* why it is rejected; "" otherwise */
} sk_plan_stage;

typedef struct sk_plan {
    int32_t layers;
    size_t n_stages; /* boundaries are one fewer */
    sk_plan_stage stages[SK_MAX_STAGES];
    sk_plan_boundary boundaries[SK_MAX_STAGES - 1];
    sk_signals family_signals; /* of the family as a whole: wire and mobility */
    sk_signals signals;        /* all of the above together */
    bool accepted;             /* every boundary and every stage is */
} sk_plan;

/* Describes a cut. A rejected boundary or stage is not an error: the plan says so. Errors: SKIPPY_E_INVALID (cuts do
 * not ascend inside the model, too many stages, the number of layers is not known), SKIPPY_E_UNSUPPORTED (q8 wire that
 * was not validated; shared layers in a model that is not the reviewed one). */
int sk_plan_describe(const sk_plan_request *q, sk_plan *out, sk_err *e);

#endif
