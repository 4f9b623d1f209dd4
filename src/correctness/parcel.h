/* A parcel: the state of one prefix outside the runtime, in the parts that a payload kind has. It travels through the
 * block store, so that certification restores what a tier would give back.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_PARCEL_H
#define SKIPPY_CORRECTNESS_PARCEL_H

#include "correctness/rig.h"
#include "skippy/ram_store.h"

enum { SK_PARCEL_WINDOW = 256, SK_PARCEL_MAX_PARTS = 64 };

typedef struct sk_parcel {
    enum skippy_payload_kind kind;
    uint32_t n_tokens;
    sk_state_part part[SK_PARCEL_MAX_PARTS]; /* data points into blob */
    sk_blob blob[SK_PARCEL_MAX_PARTS];       /* owned */
    size_t n_parts;
    bool forced; /* import without the rules of production: only to show that they are needed */
} sk_parcel;

/* What a payload costs in a store. Bytes and milliseconds. */
typedef struct sk_parcel_cost {
    uint64_t total_bytes, kv_bytes, state_bytes; /* of the parts; state: recurrent or window */
    uint64_t storage_bytes;                      /* what the store occupied for it alone */
    uint64_t blocks, unique_blocks;
    uint64_t grown_bytes, grown_new_bytes; /* the payload 16 tokens later, and what of it was not stored yet */
    skippy_key digest;                     /* over the bytes of all parts in order */
    double export_ms, put_ms, read_ms;
} sk_parcel_cost;

/* A block of a parcel, for reports. */
typedef struct sk_parcel_block {
    uint8_t part_kind; /* enum skippy_part_kind */
    uint64_t offset;   /* in its component (all parts of one kind in order) */
    skippy_block_ref ref;
} sk_parcel_block;

/* Exports the first n_tokens of a sequence, which holds exactly so many. RESIDENT_KV and KV_RECURRENT give KV windows
 * (where there is KV) and a STATE part (where the context needs one); RECURRENT_ONLY the STATE part alone; FULL_STATE
 * one opaque part, which also stands in for the others when the layout cannot be read.
 * Errors: those of sk_state_export_*; SKIPPY_E_TOO_LARGE (more than SK_PARCEL_MAX_PARTS parts). */
int sk_parcel_export(sk_rig *r, uint32_t seq, enum skippy_payload_kind kind, uint32_t n_tokens, sk_parcel *out,
                     sk_err *e);
/* p may be all zero. */
void sk_parcel_free(sk_parcel *p);
/* Leaves only the KV parts (keep_kv) or only the others. */
void sk_parcel_keep(sk_parcel *p, bool keep_kv);

/* Puts the parcel into a store. ns: any namespace key; tokens: n_tokens of them. blocks (may be NULL) receives at most
 * cap descriptions. Adds to *cost: put_ms, bytes, blocks, digest. Errors: those of skippy_ram_put, SKIPPY_E_NOMEM. */
int sk_parcel_put(const sk_parcel *p, skippy_ram_store *s, const skippy_key *ns, const skippy_key *layout,
                  const int32_t *tokens, uint64_t *id, sk_parcel_cost *cost, sk_parcel_block *blocks, size_t cap,
                  sk_err *e);
/* Reads an entry back, every block verified, into a new parcel. Errors: those of skippy_ram_lease and _read;
 * SKIPPY_E_NOMEM. */
int sk_parcel_fetch(skippy_ram_store *s, uint64_t id, sk_parcel *out, sk_err *e);

/* Imports into the empty sequence seq the first n_tokens (at most the parcel's). Errors: those of sk_state_import. */
int sk_parcel_import(const sk_parcel *p, sk_rig *r, uint32_t seq, uint32_t n_tokens, sk_err *e);

#endif
