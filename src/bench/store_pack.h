/* A parcel cut into blocks, ready for any store, and what of it a store had to take. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_PACK_H
#define SKIPPY_BENCH_STORE_PACK_H

#include "correctness/parcel.h"
#include "skippy/payload.h"

/* What parts are made of, for sums apart. */
enum sk_store_content { SK_STORE_KV, SK_STORE_TAIL, SK_STORE_WHOLE, SK_STORE_CONTENTS };

/* Bytes: of all blocks, and of those that a store asked for. */
typedef struct sk_store_sum {
    uint64_t logical, fresh;
} sk_store_sum;

/* The manifest points into the pack and into the parcel's bytes: neither may move or change in between. */
typedef struct sk_store_pack {
    skippy_manifest m;
    skippy_part part[SK_PARCEL_MAX_PARTS];
    skippy_block_ref *ref; /* of all parts, one after the other; owned */
    const uint8_t **data;  /* where each block's bytes are; owned */
    uint8_t *content;      /* enum sk_store_content of each block; owned */
    size_t n, next;        /* next: where the source looks first */
    sk_store_sum sum[SK_STORE_CONTENTS];
} sk_store_pack;

/* What names the entry. Borrowed while the pack is used. */
typedef struct sk_store_name {
    const skippy_key *ns, *layout;
    const int32_t *tokens;
} sk_store_name;

/* Cuts and hashes every part. Errors: those of skippy_blocks_cut and skippy_prefix_key, SKIPPY_E_NOMEM; *out is empty
 * then. */
int sk_store_pack_make(const sk_parcel *parcel, const sk_store_name *name, sk_store_pack *out, sk_err *e);
/* p may be all zero. */
void sk_store_pack_free(sk_store_pack *p);
/* A skippy_block_source over a pack (ud); counts what it gave as fresh. */
int sk_store_pack_source(void *ud, const skippy_block_ref *block, const void **data);
/* Bytes of all contents. */
sk_store_sum sk_store_pack_total(const sk_store_pack *p);

/* Overwrites the first bytes of every block with a number, so that the blocks are new to every store. The parcel is no
 * state any more, and the pack's digests are outdated: free it and make another. */
void sk_store_stamp(sk_parcel *parcel, const sk_store_pack *p, uint64_t number);

/* Reads a block and verifies it: skippy_ram_read or skippy_disk_read. */
typedef int (*sk_store_reader)(void *store, const skippy_block_ref *block, void *buf);
int sk_store_read_ram(void *store, const skippy_block_ref *block, void *buf);
int sk_store_read_disk(void *store, const skippy_block_ref *block, void *buf);
/* Reads every block of an entry into one buffer of SKIPPY_BLOCK_MAX bytes, one over the other. */
int sk_store_read_all(const skippy_manifest *m, sk_store_reader read, void *store, uint8_t *buf, sk_err *e);
/* Reads an entry into memory of its own, as before an import. Errors: those of the reader, SKIPPY_E_NOMEM,
 * SKIPPY_E_TOO_LARGE (more parts than a parcel has); *out is empty then. */
int sk_store_fetch(const skippy_manifest *m, sk_store_reader read, void *store, sk_parcel *out, sk_err *e);

#endif
