/* Shared by the tests of stage files: sources, stage files, chains of stages. Fails the test on any error. */
#ifndef SKIPPY_RUNTIME_SLICE_FIXTURE_H
#define SKIPPY_RUNTIME_SLICE_FIXTURE_H

#include "runtime/context.h"
#include "runtime/slice.h"
#include "runtime/state.h"
#include "skippy/payload.h"

enum { SX_MAX_STAGES = 4, SX_BATCH = 32, SX_UBATCH = 16, SX_SEQS = 4, SX_SCRATCH = SX_SEQS - 1 };

/* A folder for this program's files; removed by sx_teardown. */
int sx_setup(void **state);
int sx_teardown(void **state);
const char *sx_dir(void);

/* Path of a tiny model: one of the build's test models, else made now. False (the reason was printed) when it cannot be
 * made here: skip() then. family: a name of synth.h, "+q8_0" behind it for other weights. */
bool sx_model(const char *family, char *path, size_t cap);
/* The same, opened. */
bool sx_source(const char *family, sk_tensor_source *s);

/* Stages of one model, or the whole model as the only stage. */
typedef struct sx_chain {
    sk_model *m[SX_MAX_STAGES];
    sk_context *c[SX_MAX_STAGES];
    sk_state_caps caps[SX_MAX_STAGES];
    char path[SX_MAX_STAGES][512];
    size_t n;
    int32_t n_vocab;
} sx_chain;

/* Sets an integer of the source's metadata, "{arch}." before the key. */
void sx_set(sk_tensor_source *s, const char *key, uint32_t value);
/* Cuts the source at these layers: cuts[0] is 0, the last is the number of layers. */
void sx_chain_cut(sx_chain *ch, sk_tensor_source *s, const int32_t *cuts, size_t n_stages);
/* The model of a file. */
void sx_chain_whole(sx_chain *ch, const char *path);
/* Learns how to export and import on every stage. */
void sx_chain_check(sx_chain *ch);
void sx_chain_close(sx_chain *ch);

/* Runs n tokens of a sequence (they depend on the position only) in calls of at most SX_BATCH rows through all stages.
 * Returns the last row's logits, valid until the next call. */
const float *sx_chain_feed(sx_chain *ch, uint32_t seq, uint32_t n);
/* Copies, or exports and imports, a sequence on every stage. */
void sx_chain_copy(sx_chain *ch, uint32_t src, uint32_t dst);
void sx_chain_move(sx_chain *ch, uint32_t src, uint32_t dst);

/* Feeds both and compares the last row's bits. */
void sx_same(sx_chain *a, sx_chain *b, uint32_t seq, uint32_t n, const char *what);

#endif
