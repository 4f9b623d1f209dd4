/* Everything that one context keeps: resident entries and rows of logits (reuse.h), and their copies in the stores
 * outside of the runtime (tiers.h). The engine has one, and so has each stage of a split model.
 *
 * Owner thread only, but for sk_hold_params.wake, which is called from the stores' threads. */
#ifndef SKIPPY_REUSE_HOLD_H
#define SKIPPY_REUSE_HOLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "reuse/ram_cap.h"
#include "reuse/rates.h"
#include "reuse/reuse.h"
#include "reuse/tiers.h"
#include "runtime/state.h"

typedef struct sk_hold_params {
    uint64_t ram_bytes;      /* cap of the RAM store; 0 = none, or SK_RAM_DERIVE */
    const char *disk_dir;    /* folder of the disk store; NULL = none; borrowed until the close */
    uint64_t disk_bytes;     /* cap of that folder; 0 = no limit */
    uint64_t disk_throttle;  /* tests: reads of the disk store at so many bytes a second; 0 = unhindered */
    const char *store_name;  /* folder below disk_dir: one for each namespace; copied */
    uint32_t scratch;        /* sequence id for exports and imports, empty between calls; scratch - 1 is one of the
                              * cache's, and 0 a lane's: both are empty when the hold is opened */
    enum sk_cache_mode mode; /* of the family's policy: kind of payload */
    uint64_t
        weight_bytes; /* of the model's weights; 0 = prefixes that nobody uses stay in the context, else see idle.c */
    /* Owner's: frees cells or pool memory by clearing whatever is cheapest to lose. False: there is nothing. */
    bool (*make_room)(void *ud, uint32_t cells);
    bool (*evict_any)(void *ud);
    /* Any thread: sk_hold_take_events has something to take. May be NULL. */
    void (*wake)(void *ud);
    /* Answer to sk_hold_erase: dropped from the stores. */
    void (*erased)(void *ud, size_t count, int rc);
    void *ud;
} sk_hold_params;

typedef struct sk_hold_stats {
    uint64_t exports, export_bytes, exports_skipped, exports_lost, imports, import_bytes;
} sk_hold_stats;

typedef struct sk_hold {
    sk_hold_params params;
    sk_context *ctx;
    sk_reuse reuse;
    sk_rates rates;
    sk_state_caps caps;        /* of the state codec; meaningful when tiers is set */
    sk_tiers *tiers;           /* NULL = state never leaves the runtime */
    bool disk_ready;           /* entries of the disk store can be used */
    uint64_t last_work_ns;     /* when a request of the owner ran last, 0 = never; see sk_hold_worked */
    uint64_t copy_due_since;   /* since when something waits to be copied out, or of the last copy; 0 = nothing waits */
    struct sk_recall *recalls; /* those that have a fetch, linked */
    sk_hold_stats st;
    uint64_t ram_bytes;       /* cap of the RAM store that exists, 0 = none */
    const char *state_reason; /* why state does not leave the runtime, or leaves it whole only; "" */
    /* shared with the stores' threads */
    pthread_mutex_t lock;
    pthread_cond_t reported;
    bool event;
} sk_hold;

/* Makes the cache of a context and, when stores are asked for, proves the state codec on it and starts them. Without,
 * or when the codec is not exact on this context (state_reason says why), nothing leaves the runtime: not an error. The
 * hold must not move afterwards. After an error nothing needs to be closed. Errors: SKIPPY_E_NOMEM; SKIPPY_E_RUNTIME,
 * SKIPPY_E_INVALID (the check could not be made, as when its sequences are not empty). */
int sk_hold_open(sk_hold *h, const sk_reuse_params *reuse, const sk_hold_params *p, sk_err *e);
/* Ends the stores (they finish what was handed over) and frees everything. A zeroed hold is fine. */
void sk_hold_close(sk_hold *h);

/* Takes what the stores report. */
void sk_hold_take_events(sk_hold *h);
/* Is something to be taken? Thread-safe. */
bool sk_hold_has_events(sk_hold *h);

/* ---- on the way out ---- */

/* For so long after a request nothing is copied out: a client that asks again at once does not find the owner copying.
 */
#define SK_HOLD_REST_NS 250000000u
/* The owner tells that a request ran until now. A hold that is not open is fine. */
void sk_hold_worked(sk_hold *h);
/* Has nothing run for SK_HOLD_REST_NS? */
bool sk_hold_rests(const sk_hold *h);
/* Is there something to copy out that the store thread has room for? */
bool sk_hold_spill_wanted(const sk_hold *h);
/* Copies out one entry or row of logits: when the owner rests, and while requests run (busy) now and then. */
void sk_hold_spill_step(sk_hold *h, bool busy);
/* Copies out everything that no store has yet and waits for it, before the end. */
void sk_hold_spill_flush(sk_hold *h);

/* Frees the cells of what nobody used for a while and the RAM store has, see idle.c. keep: sequences that requests use
 * or are about to use. coming_ms: what the next request will at least compute. Returns how many entries left. */
size_t sk_hold_drop_idle(sk_hold *h, const uint32_t *keep, uint32_t n_keep, double coming_ms);
/* Would something that was used last at used_ms of the compute clock (reuse.computed_ms) leave now? */
bool sk_hold_is_idle(const sk_hold *h, double used_ms, double coming_ms);
/* Is there a state of all of this prefix, in the context or in the RAM store? */
bool sk_hold_has(const sk_hold *h, const sk_prefix *p);

/* ---- on the way back ---- */

/* One request's dealings with the stores. Zero-initialise; sk_recall_drop before it goes. */
typedef struct sk_recall {
    struct sk_recall *next; /* of the hold's list while there is a fetch: it must not move then */
    sk_fetch *fetch;        /* NULL = none; its results are valid when it is done */
    bool no_tiers;          /* a fetch or an import failed: not tried again */
    bool gated;             /* a store had more, but computing is faster: estimate says why */
    sk_estimate estimate;
} sk_recall;

enum sk_promotion { SK_PROMOTE_NONE = 0, SK_PROMOTE_WAIT = 1, SK_PROMOTE_READY = 2 };

/* Asks for state of `prompt` (borrowed; all of the request's tokens) beyond `have` usable tokens, as `hit` says what is
 * stored. WAIT: it is on its way, or another recall's is, which will be there for both: ask again after an event.
 * READY: r->fetch has it. gate: takes a store only when that is faster than computing, and the whole prompt only with
 * its logits; false: whenever it has at least one token more. */
enum sk_promotion sk_hold_promote(sk_hold *h, sk_recall *r, const sk_prefix *prompt, const sk_reuse_hit *hit,
                                  size_t have, bool gate);
/* Imports the fetch that is done into the empty lane (a sequence id); a recorded boundary becomes resident again, and
 * so does its row of logits. *lineage (NULL = none known) is replaced by that of the store. The fetch stays until it is
 * taken or dropped. On an error the lane is empty, *lineage is as it was, and the recall does not ask the stores again.
 */
int sk_hold_import(sk_hold *h, sk_recall *r, const sk_prefix *prompt, uint32_t lane, sk_lineage **lineage, sk_err *e);
/* Takes the fetch out of the recall: the caller frees it. NULL = there is none, or it was still on its way and is given
 * up. */
sk_fetch *sk_recall_take(sk_hold *h, sk_recall *r);
/* Gives up the fetch, whether it is done or still on its way. */
void sk_recall_drop(sk_hold *h, sk_recall *r);

/* ---- all of it ---- */

/* Drops every entry and row that the filter means (NULL = all), in the runtime at once (the entries are counted and
 * returned) and in the stores: params.erased is called once when they are done, before this returns when there are none
 * or when they cannot be asked for lack of memory (SKIPPY_E_NOMEM). */
size_t sk_hold_erase(sk_hold *h, const skippy_erase_filter *f);

/* ---- what can be restored ---- */

enum { SK_MAX_LENGTHS = 64 };

/* Lengths of a prompt that can be restored from here. */
typedef struct sk_restorable {
    size_t range_max;               /* every length up to this one; 0 = none */
    uint32_t exact[SK_MAX_LENGTHS]; /* these as well, descending; beyond SK_MAX_LENGTHS the longest count */
    size_t n_exact;
    bool terminal; /* logits of exactly this prompt are here */
} sk_restorable;

/* Adds what the context and the stores hold of tokens[0..n); *out is zeroed or has what the caller knows (its lanes).
 * Keeps the order and drops doubles. All n tokens count whether or not their logits are here: another stage may have
 * them. Where prompts are cut at absolute multiples (reuse.align), a shorter length counts only when it is one. */
void sk_hold_restorable(const sk_hold *h, const skippy_key *ns, const int32_t *tokens, size_t n, sk_restorable *out);
/* Adds one length. reach_down: every shorter one, too. */
void sk_restorable_add(sk_restorable *r, size_t length, bool reach_down);
/* Can exactly n tokens be restored? Nothing (0) always can. */
bool sk_restorable_has(const sk_restorable *r, size_t n);
/* What is stored of exactly tokens[0..n), in each tier that can be used: length is n or 0, terminal as sk_reuse_find
 * has it; a state counts with or without it. */
void sk_hold_find_at(const sk_hold *h, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out);

#endif
