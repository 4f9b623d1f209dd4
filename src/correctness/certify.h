/* Certification: does a model's state, however it is kept, continue exactly? One run for one model file and one layout
 * of the runtime's memory.
 *
 * The file may be a stage of a model that nobody holds whole. It is then fed what a script says (stage_script.h): what
 * the layers before it make of tokens, when they are given, else hidden states made by a formula. A row of output is a
 * hidden state, or logits on the last stage. That says nothing about whether the stage computes what these layers of
 * the whole model do: stage_certify.h compares that.
 *
 * CAVEATS, read first:
 *  - Not thread-safe, and not beside other llama.cpp work: it loads the model, and starts the program again for the
 *    hand-over to a fresh process.
 *  - A pass says that this build, on this machine, with these settings, restores this model's state exactly for the
 *    prompts that were tried. It is evidence, not a proof for every prompt. */
#ifndef SKIPPY_CORRECTNESS_CERTIFY_H
#define SKIPPY_CORRECTNESS_CERTIFY_H

#include "correctness/handoff.h"

enum { SK_CERTIFY_MAX_LENGTHS = 4 };

/* Called before each step; returns false to stop the run. */
typedef bool (*sk_certify_progress)(void *ud, const char *what);

/* Zero-initialise, then fill in. Strings are borrowed for the run. */
typedef struct sk_certify_options {
    const char *model_path;
    const char *family;   /* name in the report; NULL = what the registry or the file calls it */
    const char *prompt;   /* NULL = tokens drawn from the vocabulary */
    const char *producer; /* a stage: file with every layer before it; NULL = synthetic hidden states */
    uint32_t stage_index; /* a stage: its place in the split, for the report; 0 = the first, or one behind it */
    uint32_t prefix[SK_CERTIFY_MAX_LENGTHS]; /* lengths to try; none = 128 and 304, which crosses a KV window */
    size_t n_prefix;
    uint32_t repeats;  /* hits of one payload; 0 = 3 */
    int32_t n_threads; /* 0 = all cores */
    int32_t n_gpu_layers;
    int flash_attn;              /* -1 auto, 0, 1 */
    const char *type_k, *type_v; /* NULL = f16 */
    bool swa_full;
    const char *digest_dir;         /* where weight digests are remembered; NULL = not */
    const char *const *worker_argv; /* how to start sk_worker_main in a new process; see sk_worker_run */
    int worker_timeout_ms;          /* 0 = 10 minutes */
    enum sk_fault fault;            /* for tests: a certification that cannot fail proves nothing */
    sk_certify_progress progress;
    void *progress_ud;
} sk_certify_options;

/* What was certified. */
typedef struct sk_certify_identity {
    char model_path[1024], model_id[128], arch[48], family[48];
    skippy_key weights;
    uint32_t n_layer;
    int32_t n_swa;
    bool hybrid, recurrent;
    char abi[512], device[128], type_k[16], type_v[16];
    int flash_attn;
    bool swa_full;
    uint32_t n_ctx;
    int32_t n_threads;
    sk_stage_facts stage; /* of a whole model: not a stage, layers 0 to n_layer */
    uint32_t stage_index;
    bool alone;     /* a stage, certified without the whole model */
    bool synthetic; /* fed hidden states made by a formula */
} sk_certify_identity;

typedef struct sk_length_result {
    uint32_t n_tokens;
    sk_criterion criterion;
    sk_drift cold;
    sk_proof_session_times times;
    int32_t predicted_token;
    sk_mode_result mode[SK_MODES];
} sk_length_result;

typedef struct sk_certify_report {
    sk_certify_identity identity;
    enum sk_mode production; /* SK_MODE_RESIDENT_KV or SK_MODE_KV_RECURRENT */
    uint32_t repeats;
    double tokenize_ms, load_ms, total_ms;
    char row_class[256]; /* how bits were compared, or why they could not be */
    char layout[300];    /* whether state leaves the context in parts; else why not */
    sk_length_result length[SK_CERTIFY_MAX_LENGTHS];
    size_t n_lengths;
    int64_t date_s; /* Unix time */
    bool passed;
    char verdict[400]; /* one sentence; what failed first when it did */
} sk_certify_report;
void sk_certify_report_free(sk_certify_report *r);

/* What the run was fed: "tokens", "hidden states of layers 0 to 2", "synthetic hidden states"; returns buf. */
const char *sk_certify_inputs(const sk_certify_identity *i, char *buf, size_t cap);

/* Runs everything. SKIPPY_OK means that there is a report, not that it passed. Errors: those of sk_model_load,
 * sk_context_create and sk_stage_script_make; SKIPPY_E_INVALID (options; prefixes that do not fit the model's context),
 * SKIPPY_E_UNSUPPORTED (the model keeps no sequence state of the kinds that are known), SKIPPY_E_NOMEM, SKIPPY_E_IO,
 * SKIPPY_E_RUNTIME, SKIPPY_E_CANCELLED. */
int sk_certify_run(const sk_certify_options *o, sk_certify_report *out, sk_err *e);

/* Worst outcome of a mode over all lengths: fail, then pass, then refused, then not-applicable. */
enum sk_outcome sk_certify_outcome(const sk_certify_report *r, enum sk_mode mode);

#endif
