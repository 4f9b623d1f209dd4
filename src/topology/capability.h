/* What the registry knows about a family: the reviewed model, the rules for cutting it into stages, and what was
 * measured on the pinned llama.cpp. Plain data, read from families.json by registry.h; every string belongs to the
 * registry and lives as long as it. */
#ifndef SKIPPY_TOPOLOGY_CAPABILITY_H
#define SKIPPY_TOPOLOGY_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology/family.h"

/* The state a model continues from. */
enum sk_state_kind {
    SK_STATE_ATTENTION, /* keys and values of every position */
    SK_STATE_WINDOW,    /* the same, some layers keep a window only */
    SK_STATE_HYBRID,    /* attention layers and recurrent layers */
    SK_STATE_RECURRENT, /* recurrent layers only */
    SK_STATE_OTHER,     /* more than keys and values: indexer keys, compressed state */
    SK_STATE_NONE,      /* the model does not continue a prefix of tokens by itself */
    SK_STATE_COUNT
};

/* Why an architecture needs a rule of its own. All but SK_TRAIT_NONE go with a disabled cache. */
enum sk_family_trait {
    SK_TRAIT_NONE = 0,
    SK_TRAIT_CHUNKED,     /* attention in aligned chunks instead of a sliding window */
    SK_TRAIT_INDEXER,     /* the cache holds more than keys and values: indexer keys or compressed state */
    SK_TRAIT_DRAFT,       /* drafts tokens for another model and reads that model's memory */
    SK_TRAIT_ENCODER,     /* no autoregressive decoder: embeddings, classifiers, encoder-decoder */
    SK_TRAIT_DIFFUSION,   /* rewrites tokens it already produced */
    SK_TRAIT_SPEECH,      /* produces audio codes */
    SK_TRAIT_ROUTED,      /* control tokens in the prompt switch adapters for the tokens that follow */
    SK_TRAIT_UNSUPPORTED, /* the pinned llama.cpp has no such architecture */
    SK_TRAIT_COUNT
};

/* Element type of hidden states between stages. */
enum sk_wire { SK_WIRE_F32, SK_WIRE_F16, SK_WIRE_Q8, SK_WIRE_COUNT };

/* What the reviewers found about hidden states sent as q8. */
enum sk_validation { SK_VALID_UNTESTED, SK_VALID_VALIDATED, SK_VALID_REJECTED, SK_VALID_COUNT };

/* Whether a sequence's whole state may move to another machine. Says nothing about caching it where it is. */
enum sk_mobility { SK_MOBILITY_UNTESTED, SK_MOBILITY_ACCEPTED, SK_MOBILITY_TOO_LARGE, SK_MOBILITY_COUNT };

/* What must cross a stage boundary beside the hidden state. */
enum sk_sideband_kind {
    SK_SIDEBAND_TOKEN_IDS,
    SK_SIDEBAND_RWKV7_V_FIRST,
    SK_SIDEBAND_GEMMA3N_ALTUP,
    SK_SIDEBAND_COUNT
};

/* The outcome of one measurement. */
enum sk_finding {
    SK_FOUND_EXACT,             /* bit-identical logits and state */
    SK_FOUND_EXACT_VALUES,      /* state values equal; sums may run in another order afterwards */
    SK_FOUND_INSIDE_WINDOW,     /* exact as long as the needed window is still there, else refused */
    SK_FOUND_AFTER_CONVERSION,  /* exact once the file was rewritten */
    SK_FOUND_INEXACT,           /* close, never identical */
    SK_FOUND_SILENTLY_WRONG,    /* llama.cpp reports success and computes other numbers: must be refused by us */
    SK_FOUND_WRONG_WHEN_FORCED, /* wrong when the missing part is zeroed; nobody does so by accident */
    SK_FOUND_REFUSED,           /* llama.cpp or we refuse */
    SK_FOUND_NOT_APPLICABLE,
    SK_FOUND_COUNT
};

/* Layers [start, end). */
typedef struct sk_layer_range {
    int32_t start, end;
} sk_layer_range;

/* No model has more layers. */
enum { SK_MAX_LAYERS = 512 };

enum { SK_MAX_RANGES = 8, SK_MAX_CUTS = 8, SK_MAX_SIDEBANDS = 2, SK_MAX_NEEDS = 4, SK_MAX_LISTED_LAYERS = 16 };

/* Layers that read keys and values which other layers produced. */
typedef struct sk_shared_kv {
    sk_layer_range range;
    bool reject_inside;             /* no cut strictly inside range */
    int32_t forbidden[SK_MAX_CUTS]; /* cuts that are refused wherever range lies */
    size_t n_forbidden;
    const char *reason;
} sk_shared_kv;

typedef struct sk_sideband {
    enum sk_sideband_kind kind;
    int32_t from_layer; /* the first layer that needs it */
    const char *reason;
} sk_sideband;

/* The model that the original project reviewed for the family. */
typedef struct sk_reviewed {
    const char *model;     /* repository:selector */
    const char *file_arch; /* the file's general.architecture where it is not the family's; else NULL */
    int32_t layers, width, shards;
    enum sk_wire wire;
    enum sk_validation q8_wire;
    enum sk_mobility mobility;
    bool package_only; /* too large to be served whole: evidence comes from single stages */
    sk_layer_range recurrent[SK_MAX_RANGES];
    size_t n_recurrent;
    bool has_shared_kv;
    sk_shared_kv shared_kv;
    sk_sideband sidebands[SK_MAX_SIDEBANDS];
    size_t n_sidebands;
} sk_reviewed;

/* Which stages compute the same numbers as the whole model, as measured. Layer numbers are the reviewed model's. */
typedef struct sk_split_rule {
    enum sk_finding result;                         /* exact, exact_after_conversion, inexact or refused */
    int32_t min_layers;                             /* of a stage */
    int32_t start_multiple;                         /* a stage starts at a multiple of it */
    int32_t attention_every;                        /* layer i has attention iff (i + 1) % it == 0; 0 = not so */
    int32_t attention_layers[SK_MAX_LISTED_LAYERS]; /* or these have attention; the others are recurrent */
    size_t n_attention_layers;
    int32_t full_attention_every;              /* layer i has no window iff (i + 1) % it == 0; 0 = not so */
    bool window_as_period;                     /* a stage file can state its windows as one period only */
    int32_t refused_stage_layers[SK_MAX_CUTS]; /* numbers of layers that the loader takes for another model */
    size_t n_refused_stage_layers;
    int32_t refused_layers[SK_MAX_CUTS]; /* models with so many layers cannot be cut at all */
    size_t n_refused_layers;
    const char *needs[SK_MAX_NEEDS]; /* what the stage file must get right */
    size_t n_needs;
    const char *reason; /* NULL where every cut is allowed */
} sk_split_rule;

/* What was measured on the pinned llama.cpp, on CPU. The findings are those of a small model of the family's structure;
 * the bytes are the named model's, with F16 keys and values, by formulas that agreed with the small model's exports. */
typedef struct sk_measured {
    const char *model;
    int64_t kv_bytes_per_token;     /* layers that keep every position */
    int64_t window_bytes_per_token; /* layers that keep a window */
    int32_t window_tokens;          /* 0 = no window */
    int64_t recurrent_bytes;        /* per sequence */
    enum sk_finding resident_restore, truncated_reuse, export_import, kv_only, page_wise, stages;
} sk_measured;

enum { SK_MAX_MEASURED = 2 };

typedef struct sk_family_entry {
    sk_family_record record; /* arch is "" where llama.cpp has none, example "" where nothing was reviewed */
    enum sk_state_kind state;
    enum sk_family_trait trait;
    const char *note; /* NULL: none */
    bool has_reviewed, has_split;
    sk_reviewed reviewed;
    sk_split_rule split;
    sk_measured measured[SK_MAX_MEASURED];
    size_t n_measured;
} sk_family_entry;

/* The words of families.json. Each list ends with NULL; the position is the enum's value. */
extern const char *const sk_state_names[SK_STATE_COUNT + 1];
extern const char *const sk_trait_names[SK_TRAIT_COUNT + 1];
extern const char *const sk_wire_names[SK_WIRE_COUNT + 1];
extern const char *const sk_validation_names[SK_VALID_COUNT + 1];
extern const char *const sk_mobility_names[SK_MOBILITY_COUNT + 1];
extern const char *const sk_sideband_names[SK_SIDEBAND_COUNT + 1];
extern const char *const sk_finding_names[SK_FOUND_COUNT + 1];

/* True when layer holds recurrent state in the reviewed model. */
bool sk_reviewed_layer_recurrent(const sk_reviewed *r, int32_t layer);

/* How much is known: "measured" (on the pinned llama.cpp), "reviewed" (by the original project) or "listed" (the
 * architecture alone). */
const char *sk_family_evidence(const sk_family_entry *f);

#endif
