/* What the files that make stage files share. Nobody outside runtime/slice*.c includes this. */
#ifndef SKIPPY_RUNTIME_SLICE_INTERNAL_H
#define SKIPPY_RUNTIME_SLICE_INTERNAL_H

#include <gguf.h>

#include "runtime/slice.h"
#include "topology/registry.h"
#include "topology/split_rule.h"

#define SK_SLICE_KEY "skippy.stage."
#define SK_SLICE_SUFFIX_TEMP ".partial"

/* How an architecture says which layers are of which kind. */
enum sk_slice_pattern {
    SK_PATTERN_NONE,     /* all layers are alike */
    SK_PATTERN_INTERVAL, /* full_attention_interval, or attention.recurrent_layers */
    SK_PATTERN_KV_HEADS, /* attention.head_count_kv is 0 for recurrent layers */
    SK_PATTERN_PERIOD,   /* attention.sliding_window_pattern: one number, 6 when absent */
    SK_PATTERN_WINDOWS   /* attention.sliding_window_pattern: a value per layer */
};

/* What the rules look at, read once from the whole model. */
typedef struct sk_slice_facts {
    const sk_tensor_source *s;
    const sk_family_entry *family; /* the registry's entry whose rules hold; NULL: the architecture is not in it */
    bool is_stage;                 /* the source is a stage file itself */
    int32_t layers;                /* that can be cut */
    int64_t width, vocab;
    size_t embd, output; /* tensors; SIZE_MAX when absent */
    enum sk_slice_pattern pattern;
    bool output_required;       /* the loader does not take token_embd for a missing output.weight */
    int64_t interval;           /* of SK_PATTERN_INTERVAL */
    int64_t period;             /* of SK_PATTERN_PERIOD; 0 = every layer has a window */
    int64_t window;             /* attention.sliding_window, 0 = none */
    int64_t q_lora, dense_lead; /* of deepseek2; what the loader uses for the whole model */
    int64_t gating;
    sk_layer_kind kind[SK_MAX_LAYERS];
} sk_slice_facts;

/* Errors: SKIPPY_E_MODEL (metadata that no loader would take), SKIPPY_E_UNSUPPORTED (more layers than SK_MAX_LAYERS).
 */
int sk_slice_facts_read(const sk_tensor_source *s, sk_slice_facts *f, sk_err *e);
static inline bool sk_slice_is_first(sk_layer_range r) {
    return r.start == 0;
}
static inline bool sk_slice_is_last(const sk_slice_facts *f, sk_layer_range r) {
    return r.end == f->layers;
}
static inline bool sk_slice_is_whole(const sk_slice_facts *f, sk_layer_range r) {
    return r.start == 0 && r.end == f->layers;
}
/* Tokens that the stage's loader sees. */
int64_t sk_slice_vocab(const sk_slice_facts *f, sk_layer_range r);
/* Would the deepseek2 loader take a model of this shape for a lite one, which has no attn_q_a? */
bool sk_slice_taken_for_lite(int64_t layers, int64_t vocab);
/* sk_slice_check for facts that are known. */
int sk_slice_check_facts(const sk_slice_facts *f, sk_layer_range r, sk_err *e);
/* The number for attention.sliding_window_pattern that describes these layers of a PERIOD model, -1 when none does. */
int64_t sk_slice_period(const sk_slice_facts *f, sk_layer_range r);

/* "{arch}.key" of the source: position among the key-values, -1 when absent. */
int64_t sk_slice_find(const sk_tensor_source *s, const char *key);

/* The key-values of the stage file, owned by the caller (gguf_free). NULL: out of memory. */
struct gguf_context *sk_slice_meta(const sk_slice_facts *f, sk_layer_range r);

/* One tensor of the stage file. */
typedef struct sk_slice_tensor {
    char name[64];
    size_t source; /* index in the source; SIZE_MAX = zeros that the loader wants and nothing reads */
    uint32_t type;
    int64_t ne[4];
    uint64_t bytes;
} sk_slice_tensor;
typedef struct sk_slice_list {
    sk_slice_tensor *t; /* owned: free(t) */
    size_t n;
} sk_slice_list;
/* What the stage file holds, in the order of the file: first what belongs to no layer, then layer by layer. */
int sk_slice_tensors(const sk_slice_facts *f, sk_layer_range r, sk_slice_list *out, sk_err *e);

/* sk_slice_write that also tells the file's digest and size. */
int sk_slice_write_file(sk_tensor_source *s, sk_layer_range r, const char *path, sk_slice_progress progress, void *ud,
                        skippy_key *digest, uint64_t *size, sk_err *e);
/* What is remembered of a stage file in a cache folder. */
typedef struct sk_slice_record {
    uint64_t size;
    skippy_key digest;
} sk_slice_record;
/* False when there is none, or it is damaged. */
bool sk_slice_record_load(const char *path, sk_slice_record *out);
bool sk_slice_record_save(const char *dir, const char *path, const sk_slice_record *r);
/* Does the file hold these layers of this source, in our version? Reads its header only. */
bool sk_slice_file_is(const char *path, const sk_tensor_source *s, sk_layer_range r);

/* Makes room in a cache folder for a file of `bytes` under path SK_SLICE_SUFFIX_TEMP, and reserves it. Errors:
 * SKIPPY_E_TOO_LARGE, SKIPPY_E_FULL (what is in the way is in use), SKIPPY_E_IO. */
int sk_slice_make_room(const char *dir, uint64_t max_bytes, const char *path, uint64_t bytes, sk_err *e);
/* Is this descriptor still what the path names? */
bool sk_slice_is_named(int fd, const char *path);
/* Opens and locks a lock file, waiting when LOCK_NB is not in how. -1: it is held (LOCK_NB), or errno says why not. */
int sk_slice_lock(const char *path, int how, bool (*go_on)(void *ud), void *ud);

/* Size of the file that sk_slice_write would write. */
int sk_slice_file_size(const sk_tensor_source *s, sk_layer_range r, uint64_t *size, sk_err *e);

#endif
