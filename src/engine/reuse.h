/* The cache seen from the engine: index, resident entries and terminal logits on one side, the runtime's sequences on
 * the other. Everything that keeps the two in step is here: an entry is in the index exactly as long as its sequence
 * holds its tokens. Engine thread only. */
#ifndef SKIPPY_ENGINE_REUSE_H
#define SKIPPY_ENGINE_REUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/terminal.h"
#include "runtime/context.h"
#include "skippy/index.h"
#include "skippy/resident.h"
#include "topology/family.h"

typedef struct sk_reuse_entry {
    uint64_t id;
    uint32_t seq;
    size_t n_tokens;
    skippy_key ns;
    int32_t *tokens;
    char *tenant;
} sk_reuse_entry;

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
    uint64_t next_terminal; /* ids of terminal rows: odd; entry ids are doubled, so even */
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
    size_t length;  /* usable tokens, 0 = none */
    uint64_t entry; /* resident entry id */
    uint64_t
        terminal;  /* logits of exactly this prompt, 0 = none; usable when the state of the full length is found too */
    size_t common; /* longest common beginning with anything stored */
} sk_reuse_hit;

/* Longest usable stored beginning of tokens. allow_full: the whole length may be used (terminal logits are wanted). */
void sk_reuse_find(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out);
/* Terminal logits row, NULL when gone. */
const float *sk_reuse_logits(sk_reuse *r, uint64_t terminal);
/* Restores `length` tokens of an entry into an empty lane. On any error the lane is empty and the entry is quarantined.
 */
int sk_reuse_restore(sk_reuse *r, uint64_t entry, size_t length, uint32_t lane, sk_err *e);
/* Records the first n tokens of a lane, which holds exactly n tokens. Does nothing when they are covered already.
 * Evicts as needed. Errors are not the request's problem: SKIPPY_E_FULL, SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM mean "not
 * recorded". */
int sk_reuse_record(sk_reuse *r, const skippy_key *ns, const char *tenant, const int32_t *tokens, size_t n,
                    uint32_t lane);
/* Records the terminal logits of a prompt. */
int sk_reuse_record_logits(sk_reuse *r, const skippy_key *ns, const char *tenant, const int32_t *tokens, size_t n,
                           const float *row);
/* Evicts one entry (lowest benefit). False when there is none to evict. */
bool sk_reuse_evict_one(sk_reuse *r, enum skippy_evict_reason why);
/* Drops everything of a tenant (all when tenant is NULL and all is set). Returns entries dropped. */
size_t sk_reuse_erase(sk_reuse *r, const char *tenant, bool all);

#endif
