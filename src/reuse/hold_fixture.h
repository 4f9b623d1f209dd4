/* Test support: a tiny model, its context and a hold whose owner is the test. Not part of the product. */
#ifndef SKIPPY_REUSE_HOLD_FIXTURE_H
#define SKIPPY_REUSE_HOLD_FIXTURE_H

#include <semaphore.h>

#include "reuse/hold.h"

/* Sequences: two lanes, three of the cache, one for exports and imports. */
enum { LANE = 0, OTHER_LANE = 1, CACHE_SEQ = 2, CACHE_SEQS = 3, SCRATCH = 5, SEQS = 6 };
enum { BATCH = 48, KEPT = 300, PROMPT = 340, MIB = 1 << 20 };

/* One of each kind of memory: attention, sliding window, hybrid, delta net, recurrent. */
enum { BED_FAMILIES = 5 };
extern const char *const bed_families[BED_FAMILIES];

typedef struct bed {
    sk_model *model;
    sk_context *ctx;
    sk_family_policy policy;
    sk_hold h;
    sem_t events; /* one for each time that the stores woke the owner */
    int32_t tokens[PROMPT];
    sk_prefix prompt; /* PROMPT tokens, of which KEPT are stored; tenant "a" */
    bool no_room;     /* the owner has nothing to give up */
    size_t n_erased, erased_calls;
    int erased_rc;
} bed;

/* Model and context, no hold. Skips the test without models. Free it with bed_free, which closes the hold. */
bed *bed_new(const char *family);
void bed_free(bed *b);
/* Opens the hold; of p only the stores count. */
int bed_try_open(bed *b, sk_hold_params p, uint64_t logits_bytes, sk_err *e);
void bed_open(bed *b, sk_hold_params p);
/* With a hold that has the first KEPT tokens in its RAM store and nowhere else but in LANE. */
bed *bed_demoted(const char *family, sk_reuse_hit *hit);

/* The first n tokens of the prompt, borrowed. */
sk_prefix bed_beginning(const bed *b, size_t n);
/* Decodes them into LANE, which is empty. */
void bed_compute(bed *b, uint32_t n);
/* Computes the first KEPT tokens in LANE and records them. */
void bed_keep(bed *b);
/* Evicts the only entry and waits until it is found in the RAM store. */
sk_reuse_hit bed_demote(bed *b);
/* What is stored of the prompt. */
sk_reuse_hit bed_find(bed *b);

/* Waits for one more report of the stores and takes what there is: ask again what you wait for. */
void bed_next_report(bed *b);
/* Promotes and waits for it: NONE or READY. */
enum sk_promotion bed_ask(bed *b, sk_recall *r, const sk_prefix *prompt, const sk_reuse_hit *hit, bool gate);
/* Imports KEPT tokens into OTHER_LANE. */
void bed_import(bed *b, sk_recall *r, sk_lineage **lineage);

/* Canonical bytes of a sequence; free them with sk_blob_free. */
sk_blob bed_state_of(const bed *b, uint32_t seq);
/* Frees both. */
void bed_assert_same_state(sk_blob x, sk_blob y);

#endif
