/* Builds sequence blobs field by field, for tests and for the fuzzer's first inputs. Aborts when out of memory. */
#ifndef SKIPPY_RUNTIME_STATE_BLOB_MAKER_H
#define SKIPPY_RUNTIME_STATE_BLOB_MAKER_H

#include "runtime/state_codec.h"

enum { SK_MADE_LAYERS = 2, SK_MADE_RS_LAYERS = 2, SK_MADE_ROW = 24, SK_MADE_ELEMENT = 2 };

typedef struct sk_made {
    int32_t id;
    uint32_t first;    /* position of the first cell */
    size_t n_kv;       /* KV sections */
    uint32_t cells[2]; /* of each */
    bool has_v, transposed, ext;
    bool rs;
    uint32_t rs_cells;
    bool no_s;          /* S rows of no bytes (LFM2) */
    int32_t type;       /* of K and V */
    uint32_t extra_row; /* bytes more in each K row */
    uint32_t shuffle;   /* not 0: another order of the cells */
} sk_made;

typedef struct sk_made_blob {
    uint8_t *bytes;
    size_t len;
} sk_made_blob;

/* K, V, R and S bytes depend on layer, position and element only, so the same cells in another order carry their rows
 * along. */
sk_made_blob sk_make_blob(const sk_made *m);
/* Can be read with and without V (see state_codec_test.c). */
sk_made_blob sk_make_ambiguous_blob(void);
void sk_made_free(sk_made_blob *b);

uint32_t sk_made_get32(const sk_made_blob *b, size_t at);
void sk_made_put32(sk_made_blob *b, size_t at, uint32_t v);
/* For each byte: payload, or part of a cell's extension? malloc'ed. */
bool *sk_made_unchecked(const sk_made_blob *b, const sk_state_parse *p);
/* Are the cells those that were made (not shuffled)? */
bool sk_made_same_positions(const sk_made_blob *b, const sk_state_parse *p, const sk_made *m);

#endif
