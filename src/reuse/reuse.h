/* The cache of one context: index, resident entries and terminal logits on one side, the runtime's sequences on
 * the other. Everything that keeps the two in step is here: an entry is in the index exactly as long as its sequence
 * holds its tokens. Owner thread only. */
#ifndef SKIPPY_REUSE_REUSE_H
#define SKIPPY_REUSE_REUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reuse/copies.h"
#include "reuse/lineage.h"
#include "reuse/prefix.h"
#include "reuse/terminal.h"
#include "runtime/context.h"
#include "skippy/index.h"
#include "skippy/payload.h"
#include "skippy/resident.h"
#include "topology/family.h"

typedef struct sk_reuse_entry {
    uint64_t id;
    uint32_t seq;
    sk_prefix prefix;    /* owned */
    sk_lineage *lineage; /* windows that left the runtime already; NULL = none known */
    sk_copies copies;
    uint32_t tries; /* failed attempts to store it */
    uint32_t
        deeper; /* longer entries of the same beginning that were recorded so far; counted where something may ask */
    double used_ms; /* compute clock of the last use */
} sk_reuse_entry;

/* What an index id names. The id is the native id of the residency, shifted, and this tag. */
enum sk_index_tag {
    SK_TAG_ENTRY = 0,        /* resident entry */
    SK_TAG_ROW = 1,          /* terminal logits in memory */
    SK_TAG_RAM = 2,          /* entry of the RAM store */
    SK_TAG_DISK = 3,         /* entry of the disk store */
    SK_TAG_RAM_TERMINAL = 4, /* terminal logits in the RAM store */
    SK_TAG_DISK_TERMINAL = 5
};
static inline uint64_t sk_index_id(uint64_t native, enum sk_index_tag tag) {
    return native << 3 | (uint64_t)tag;
}
static inline uint64_t sk_index_native(uint64_t id) {
    return id >> 3;
}

typedef struct sk_reuse {
    bool enabled, exact; /* exact: only recorded boundaries are usable */
    sk_context *ctx;
    skippy_index *index;
    skippy_resident *resident;
    sk_terminal terminal;
    sk_memory_cost cost;
    size_t min_tokens;
    size_t align; /* bit mode of some models: only lengths that are a multiple are good beginnings of longer prompts;
                     else 1 */
    sk_reuse_entry *entries;
    size_t n_entries, cap;
    uint64_t next_terminal, clock;
    double computed_ms; /* compute clock: time in decodes so far; the owner counts it */
    /* Called before an entry or a logits row leaves to make room for another: the last chance to keep a copy. May be
     * NULL. */
    void (*before_evict)(void *ud, sk_reuse_entry *x);
    void (*before_evict_row)(void *ud, sk_terminal_row *row);
    void *ud;
} sk_reuse;

typedef struct sk_reuse_params {
    sk_context *ctx;
    const sk_family_policy *policy;
    bool off;
    uint32_t first_seq, n_seqs; /* sequence ids of the cache */
    sk_memory_cost cost;
    uint64_t logits_bytes;
    size_t n_vocab, min_tokens, align;
} sk_reuse_params;

int sk_reuse_init(sk_reuse *r, const sk_reuse_params *p, sk_err *e);
void sk_reuse_free(sk_reuse *r);

typedef struct sk_reuse_hit {
    struct {
        size_t length;     /* usable tokens, 0 = none */
        uint64_t id;       /* native id in that tier */
        uint64_t terminal; /* native id of the logits of exactly this prompt, 0 = none in that tier */
    } tier[SKIPPY_TIER_COUNT];
    size_t common; /* longest common beginning with anything stored */
} sk_reuse_hit;

/* Longest usable stored beginning of tokens, in each tier. A state of the whole length counts only where logits of
 * exactly this prompt are found with it (in memory, or in the same tier). */
void sk_reuse_find(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out);
/* Terminal logits row, NULL when gone. */
const float *sk_reuse_logits(sk_reuse *r, uint64_t terminal);
/* Entry by id, NULL when gone. Valid until the next record or eviction. */
sk_reuse_entry *sk_reuse_entry_at(const sk_reuse *r, uint64_t id);
/* Restores `length` tokens of an entry into an empty lane, whose lineage (NULL before) is then the entry's, so far. On
 * any error the lane is empty and the entry is quarantined.
 */
int sk_reuse_restore(sk_reuse *r, uint64_t entry, size_t length, uint32_t lane, sk_lineage **lineage, sk_err *e);
/* Records a prefix (borrowed) that a lane holds exactly. Does nothing when it is covered already. lineage: of the lane;
 * shared. stored: tiers that hold exactly this state already. Evicts as needed. Errors are not the request's problem:
 * SKIPPY_E_FULL, SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM mean "not recorded". */
int sk_reuse_record(sk_reuse *r, const sk_prefix *prefix, uint32_t lane, sk_lineage *lineage, unsigned stored);
/* Records the terminal logits of a prompt (borrowed). */
int sk_reuse_record_logits(sk_reuse *r, const sk_prefix *prompt, const float *row, unsigned stored);
/* Evicts one entry (lowest benefit). False when there is none to evict. */
bool sk_reuse_evict_one(sk_reuse *r, enum skippy_evict_reason why);
/* Drops an entry that a store outside of the runtime has. SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY. */
int sk_reuse_drop_idle(sk_reuse *r, uint64_t id);
/* Drops every entry and logits row that the filter means (NULL = all). Returns how many. */
size_t sk_reuse_erase(sk_reuse *r, const skippy_erase_filter *f);

#endif
