/* The head's side of a chain: the link to the first stage behind it, and all answers.
 *
 * Calls come from one owner thread (the engine's) and never wait. Events are taken by it after `wake`. A chain
 * connects, and connects again after a break with growing pauses (0.1 s to 5 s), on a thread of its own. Sessions and
 * answers of an earlier link are never mixed with those of the present one: every event carries the epoch, and calls
 * with an old epoch do nothing. */
#ifndef SKIPPY_STAGE_CHAIN_H
#define SKIPPY_STAGE_CHAIN_H

#include "base/err.h"
#include "stage/frame.h"
#include "stage/link.h"
#include "stage/service.h"

typedef struct sk_chain sk_chain;

typedef struct sk_chain_params {
    const char *const *addresses; /* of the stages behind the head, in order */
    uint32_t n_addresses;
    const int32_t *cuts;    /* first layers of these stages, then n_layer: n_addresses + 1; NULL: the stages say
                             * (their cards are taken over when they follow each other without a gap) */
    sk_stage_card head;     /* life and index are filled in */
    sk_chain_facts facts;   /* of the head; cuts and n_stages are filled in */
    sk_link_options link;   /* wake, ud and queue_max are the chain's own */
    uint32_t connect_ms;    /* to be reached; each stage has 12 times that to answer. 0 = 10000 */
    void (*wake)(void *ud); /* any thread: there are events, or credits; may be NULL */
    void *ud;
} sk_chain_params;

enum sk_chain_event_type {
    SK_CHAIN_UP = 1,   /* all stages are there: cards */
    SK_CHAIN_DOWN = 2, /* the link broke, or an attempt to connect failed (told again when the reason changes): text.
                        * Sessions of this epoch are gone */
    SK_CHAIN_FRAME = 3 /* PROBED, RESTORED, RESULT, FAULT, ERASED: frame */
};
typedef struct sk_chain_event {
    struct sk_chain_event *next;
    enum sk_chain_event_type type;
    uint32_t epoch;
    bool fatal;     /* DOWN: a mismatch that trying again cannot mend (the chain goes on trying slowly all the same) */
    char text[512]; /* DOWN */
    sk_frame frame; /* FRAME; its memory is freed by sk_chain_event_free */
    uint8_t *bytes;
} sk_chain_event;
void sk_chain_event_free(sk_chain_event *e);

/* Starts connecting. Errors: SKIPPY_E_INVALID (address, number of stages, cuts), SKIPPY_E_NOMEM, SKIPPY_E_IO (no
 * descriptor left). Strings and cuts are copied. */
int sk_chain_open(const sk_chain_params *p, sk_chain **out, sk_err *e);
/* Ends the link, and with it all sessions, after sending what waits (at most 1 s), and the thread; waits for an attempt
 * to connect that is under way (connect_ms at most). Events that were not taken are freed. c may be NULL. */
void sk_chain_close(sk_chain *c);
/* Takes all events: a list in order, owned by the caller. */
sk_chain_event *sk_chain_events(sk_chain *c);
/* Waits until the chain is up, for the start of a server. SKIPPY_E_TIMEOUT with what is missing; SKIPPY_E_UNSUPPORTED:
 * refused for good, with both values. Does not take events. progress is called about every second with what is waited
 * for; false stops (SKIPPY_E_CANCELLED). */
int sk_chain_wait_up(sk_chain *c, uint32_t timeout_ms, bool (*progress)(void *ud, const char *text), void *ud,
                     sk_err *e);
/* The present epoch, 0 while down. */
uint32_t sk_chain_epoch(const sk_chain *c);
/* Cards of the stages behind the head in the present epoch; n = 0 while down. Copies. */
uint32_t sk_chain_cards(sk_chain *c, sk_stage_card out[SK_CHAIN_MAX]);

/* Sends a frame (encoded here; borrowed for the call). SKIPPY_OK; SKIPPY_E_BUSY: no credit for a CHUNK, try again after
 * a wake (credits wake as well); SKIPPY_E_IO: down, or another epoch; SKIPPY_E_INVALID: no legal frame; SKIPPY_E_NOMEM.
 */
int sk_chain_send(sk_chain *c, uint32_t epoch, const sk_frame *f);
/* May a CHUNK be sent now? */
bool sk_chain_has_credit(const sk_chain *c);
void sk_chain_get_link_stats(sk_chain *c, sk_link_stats *out);

#endif
