/* Frames of a stage link: what neighbours in a chain say to each other. Byte layout: docs/formats/stage-link.md.
 *
 *   u32 length of what follows, u16 kind, u16 flags, u32 lane, u64 session; then the body of the kind
 *
 * All integers little endian. The length is bounded before anything is allocated (sk_frame_limit). Decoding is a pure
 * function on untrusted bytes: every count is checked against what is left; pointers in a decoded frame lie in the
 * bytes that were decoded (copied out where alignment matters, so the bytes may lie anywhere). */
#ifndef SKIPPY_STAGE_FRAME_H
#define SKIPPY_STAGE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "skippy/identity.h"

#define SK_STAGE_PROTOCOL 1

enum {
    SK_FRAME_HEADER = 20,              /* bytes, length included */
    SK_CHAIN_MAX = 16,                 /* stages of a chain, the head included */
    SK_SPANS_MAX = 64,                 /* of a chunk */
    SK_BEST_LOGITS = 16,               /* of a row, where that is enough to sample from */
    SK_FRAME_LENGTHS_MAX = 64,         /* restorable lengths of one stage */
    SK_FRAME_TOKENS_MAX = 1 << 22,     /* of a prompt */
    SK_FRAME_TEXT_MAX = 1024,          /* of a string */
    SK_FRAME_ACTIVATIONS_MAX = 1 << 29 /* bytes */
};

enum sk_frame_kind {
    SK_FRAME_HELLO = 1,    /* down: who asks, and the route from here on */
    SK_FRAME_WELCOME = 2,  /* up: who answers, and all stages behind it */
    SK_FRAME_REFUSE = 3,   /* either way: why the link ends; text for people */
    SK_FRAME_OPEN = 4,     /* down: a session begins on a lane */
    SK_FRAME_PROBE = 5,    /* down: what could be restored? */
    SK_FRAME_PROBED = 6,   /* up */
    SK_FRAME_RESTORE = 7,  /* down: restore these lengths, one for each stage from here on */
    SK_FRAME_RESTORED = 8, /* up */
    SK_FRAME_CHUNK = 9,    /* down: tokens with their hidden states */
    SK_FRAME_RESULT = 10,  /* up: a row of logits */
    SK_FRAME_RECORD = 11,  /* down: keep the state of so many tokens */
    SK_FRAME_TRIM = 12,    /* down: forget the tokens from here on */
    SK_FRAME_STOP = 13,    /* down: the session is over; flag KEEP: the lane keeps its tokens */
    SK_FRAME_FAULT = 14,   /* up: the session cannot go on; its later frames are ignored until OPEN or STOP */
    SK_FRAME_CREDIT = 15,  /* up: so many more chunks may be sent */
    SK_FRAME_ERASE = 16,   /* down: drop what is stored */
    SK_FRAME_ERASED = 17,  /* up: when this stage and all behind it are done */
    SK_FRAME_PING = 18,    /* either way; answered by the link itself */
    SK_FRAME_PONG = 19,
    SK_FRAME_KINDS
};
/* "CHUNK" and so on; "?" when unknown. */
const char *sk_frame_name(unsigned kind);

enum sk_frame_flag {
    SK_FLAG_NO_CACHE = 1, /* OPEN: nothing of this session is read from or recorded in a cache */
    SK_FLAG_KEEP = 2,     /* STOP */
    SK_FLAG_BEST = 8,     /* RESULT: the largest logits of the row, not all of it */
    SK_FLAG_REPLAY = 4,   /* CHUNK: hidden states from an activation cache, for stages that restored less */
};

/* What a stage is and has. */
typedef struct sk_stage_card {
    uint64_t life;  /* random number of the process: another one means another life */
    uint32_t index; /* in the chain; the head is 0 */
    int32_t layer_start, layer_end, n_layer;
    uint32_t width;   /* values of a hidden state */
    uint32_t n_vocab; /* of the logits; last stage only, else 0 */
    uint32_t n_ctx, n_lanes, n_batch;
    uint8_t dtype; /* of hidden states on links: 0 f32, 1 f16 */
    bool last;
    char abi[SK_FRAME_TEXT_MAX]; /* llama.cpp version and build (sk_runtime_abi) */
    char source[65];             /* hex digest of the whole model */
    char name[256];              /* where it runs, for people: address it listens on */
} sk_stage_card;

/* HELLO. chain: identity of the split (model, cuts, dtype, context, KV types ...) as the head sees it; the stage
 * computes the same from its own facts and refuses another one. cuts: first layers of all stages after the head's, and
 * n_layer at the end. A head that does not know them sends -1 for all: then a stage puts its own first layer in its
 * place before it sends the HELLO on, compares neither cuts nor chain, and answers with its card. The head ends that
 * link and connects again with what the cards say. */
typedef struct sk_frame_hello {
    uint32_t protocol;
    skippy_key chain;
    sk_stage_card head;
    uint32_t index;             /* that the receiver shall be */
    uint32_t n_stages;          /* of the chain, the head included */
    int32_t cuts[SK_CHAIN_MAX]; /* n_stages: cuts[i] is the first layer of stage i+1; the last is n_layer */
    uint32_t n_route;           /* addresses of the stages behind the receiver */
    char route[SK_CHAIN_MAX][256];
} sk_frame_hello;

/* WELCOME: cards of the sender and of all behind it, in order. */
typedef struct sk_frame_welcome {
    uint32_t credits; /* chunks that may be sent before the first CREDIT */
    uint32_t n_cards;
    sk_stage_card cards[SK_CHAIN_MAX];
} sk_frame_welcome;

typedef struct sk_frame_open {
    const char *tenant, *cache_namespace; /* NULL = none; owned by the decoded frame */
    const int32_t *tokens;                /* of the prompt (and what was generated, when it is replayed) */
    uint32_t n_tokens;
} sk_frame_open;

/* What one stage can restore, and which of the hidden states that it would forward it holds: positions [act_from,
 * act_to). */
typedef struct sk_stage_offer {
    uint32_t range_max; /* every length up to this one */
    uint32_t n_exact;   /* and these, descending */
    uint32_t exact[SK_FRAME_LENGTHS_MAX];
    uint32_t act_from, act_to;
    bool terminal; /* logits of exactly the prompt (last stage) */
} sk_stage_offer;

typedef struct sk_frame_probed { /* offers of the sender and of all behind it, in order */
    uint32_t n_offers;
    sk_stage_offer offers[SK_CHAIN_MAX];
} sk_frame_probed;

typedef struct sk_frame_restore { /* lengths for the receiver and all behind it */
    uint32_t n_lengths;
    uint32_t length[SK_CHAIN_MAX];
} sk_frame_restore;

enum sk_stage_source {                     /* where a stage's state came from */
                       SK_STAGE_FRESH = 0, /* nothing restored */
                       SK_STAGE_HOT_LANE,
                       SK_STAGE_RESIDENT,
                       SK_STAGE_ACTIVE_LANE,
                       SK_STAGE_RAM,
                       SK_STAGE_DISK
};

typedef struct sk_frame_restored {
    int32_t status; /* SKIPPY_OK, or why not (then nothing is restored behind the head) */
    uint32_t n_sources;
    uint8_t source[SK_CHAIN_MAX]; /* enum sk_stage_source of the sender and of all behind it */
    uint64_t replayed_bytes;      /* hidden states that come from activation caches */
    const float *logits; /* of the whole prompt, when the last stage restored all of it and has them; else NULL */
    uint32_t n_logits;
    char text[256]; /* status not OK: which stage, and why */
} sk_frame_restored;

/* Tokens of one session in a chunk. */
typedef struct sk_span {
    uint32_t lane;
    uint64_t session;
    uint32_t pos, n;          /* positions [pos, pos+n) */
    uint8_t flags;            /* enum sk_span_flag */
    skippy_key before, after; /* BLAKE3 of tokens [0, pos) and [0, pos+n), i32 little endian */
    const int32_t *tokens;    /* n */
} sk_span;
enum sk_span_flag {
    SK_SPAN_OUTPUT = 1,   /* logits of the last row are wanted */
    SK_SPAN_BEST = 8,     /* with OUTPUT: the largest SK_BEST_LOGITS of them are enough */
    SK_SPAN_TERMINAL = 2, /* the last row ends the prompt: its logits are worth keeping */
    SK_SPAN_PROMPT = 4,   /* rows of this or the next prompt: their hidden states are worth keeping */
};

typedef struct sk_frame_chunk {
    uint32_t n_spans, n_rows, width;
    uint8_t dtype;
    sk_span spans[SK_SPANS_MAX];
    const void *hidden; /* n_rows x width values of dtype, rows in the order of the spans; may be unaligned */
    uint64_t hidden_bytes;
} sk_frame_chunk;

typedef struct sk_frame_result {
    uint32_t pos;        /* tokens of the sequence now */
    uint64_t compute_ns; /* of all stages that computed the chunk behind the receiver */
    const float *logits;
    uint32_t n_logits;
    const int32_t *tokens; /* with the flag BEST: n_logits, at most SK_BEST_LOGITS; the largest first, of equal ones the
                            * lower token. Else NULL: logits is the whole row */
} sk_frame_result;

typedef struct sk_frame_count { /* RECORD, TRIM: tokens; CREDIT: chunks; ERASED: entries; PING, PONG: anything */
    uint64_t n;
    int32_t status; /* ERASED */
} sk_frame_count;

typedef struct sk_frame_text { /* REFUSE, FAULT */
    int32_t status;            /* enum skippy_status */
    char text[SK_FRAME_TEXT_MAX];
} sk_frame_text;

/* ERASE: fields of skippy_erase_filter that cross a link; NULL = any. Owned by the decoded frame. */
typedef struct sk_frame_erase {
    const char *tenant, *cache_namespace;
    const int32_t *tokens; /* beginning that entries must have; n_tokens 0 = any */
    uint32_t n_tokens;
} sk_frame_erase;

typedef struct sk_frame {
    uint16_t kind, flags;
    uint32_t lane;
    uint64_t session;
    union {
        sk_frame_hello hello;
        sk_frame_welcome welcome;
        sk_frame_open open;
        sk_frame_probed probed;
        sk_frame_restore restore;
        sk_frame_restored restored;
        sk_frame_chunk chunk;
        sk_frame_result result;
        sk_frame_count count;
        sk_frame_text text;
        sk_frame_erase erase;
    } u;
    void *owned; /* memory of the pointers above; sk_frame_free */
} sk_frame;

/* Appends the whole frame, length included, to out. False: a field is out of bounds, or out of memory (out->failed). */
bool sk_frame_encode(const sk_frame *f, sk_buf *out);
/* Decodes one frame without its length field (kind first). A frame's own copies of token and logits arrays are made
 * where they would be unaligned; `hidden` points into bytes, which must outlive the frame. Errors: SKIPPY_E_INVALID (in
 * words: which kind, what is wrong), SKIPPY_E_NOMEM. */
int sk_frame_decode(const uint8_t *bytes, size_t len, sk_frame *out, sk_err *e);
void sk_frame_free(sk_frame *f);

/* Largest frame (length field's value) that may come: what a chunk of n_batch rows of this width or a row of logits
 * needs, and what a prompt of n_ctx tokens needs. Before the HELLO or WELCOME is read: 64 KiB. */
uint32_t sk_frame_limit(uint32_t n_batch, uint32_t width, uint32_t n_vocab, uint32_t n_ctx);

#endif
