/* A stage that serves: listens for the stage before it, connects to the one behind it, computes its layers, keeps its
 * own exact cache. One upstream link at a time; when it breaks, the lanes are dropped (what was recorded stays) and the
 * next one is accepted.
 *
 * Threads: the caller's runs the service (context, cache, frames in order); one relays answers from the stage behind
 * while the other computes; one accepts peers; each link and the stores have their own. */
#ifndef SKIPPY_STAGE_SERVICE_H
#define SKIPPY_STAGE_SERVICE_H

#include "base/err.h"
#include "reuse/hold.h"
#include "reuse/setup.h"
#include "runtime/model.h"
#include "skippy/activation.h"
#include "stage/frame.h"
#include "stage/link.h"

typedef struct sk_stage sk_stage;

typedef struct sk_stage_params {
    sk_setup_params setup; /* topology_id, stage_id and stage_index are filled by the service from the first HELLO;
                            * n_ctx, n_lanes and n_batch must be those of the head (the HELLO is refused otherwise) */
    uint64_t logits_bytes; /* cap on stored terminal logits (last stage); 0 = 64 MiB */
    uint32_t min_tokens;   /* 0 = 16 */
    uint64_t ram_bytes, disk_bytes; /* as in sk_hold_params */
    const char *disk_dir;
    uint64_t activation_bytes; /* cap of the activation cache; 0 = none */
    uint8_t dtype;             /* of hidden states on the links: 0 f32 (exact), 1 f16 */
    const char *listen;        /* address */
    sk_link_options link;      /* for both links; wake and ud are the service's own */
    uint32_t connect_ms;       /* to the stage behind; 0 = 10000 */
} sk_stage_params;

/* Loads nothing (the model and all strings of p are borrowed until the close), makes context and cache, checks the
 * codec, listens. Errors in words. */
int sk_stage_open(const sk_model *m, const sk_stage_params *p, sk_stage **out, sk_err *e);
/* Serves until sk_stage_stop. Upstream links come and go meanwhile. Returns SKIPPY_OK, or an error that no later link
 * could mend. */
int sk_stage_run(sk_stage *s, sk_err *e);
/* Ends sk_stage_run; thread-safe and async-signal-safe. */
void sk_stage_stop(sk_stage *s);
void sk_stage_close(sk_stage *s);
/* Address that it listens on (with the port that was chosen). */
const char *sk_stage_address(const sk_stage *s);

typedef struct sk_stage_stats {
    uint64_t links, sessions, chunks, rows, rows_replayed, results, terminal_hits, records, faults;
    uint64_t restores, restored_tokens, restore_failures;
    uint64_t by_source[6]; /* enum sk_stage_source */
    uint64_t compute_ns;
    uint64_t hidden_bytes_in, hidden_bytes_out;
    uint64_t cells_used, entries;
    sk_hold_stats hold;
    skippy_activation_stats activations;
    bool connected;
    bool disk_ready; /* the disk store is open, its entries can be used */
} sk_stage_stats;
/* Consistent copy; thread-safe. */
void sk_stage_get_stats(sk_stage *s, sk_stage_stats *out);

/* Identity of a split as both ends of a link see it: everything that must be the same on all stages. */
typedef struct sk_chain_facts {
    const char *source;  /* hex digest of the whole model */
    const int32_t *cuts; /* first layer of each stage, the head's 0 included, and n_layer at the end: n_stages + 1 */
    uint32_t n_stages, width, n_ctx;
    uint8_t dtype;
    const char *abi, *type_k, *type_v;
    int flash_attn;
    bool swa_full;
    float rope_freq_base, rope_freq_scale;
} sk_chain_facts;
/* Every field changes the key. Pure. SKIPPY_E_INVALID (facts of no chain: no source, cuts that do not rise from 0 ...).
 */
int sk_chain_key(const sk_chain_facts *f, skippy_key *out);
/* "0-6,6-12,12-16;f32": topology_id of every stage's identity. */
void sk_chain_topology(const int32_t *cuts, uint32_t n_stages, uint8_t dtype, char *buf, size_t cap);

#endif
