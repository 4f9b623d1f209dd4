/* What the files of a chain share. See chain.h.
 *
 * The chain's thread owns the link; the owner uses it with `lock` held, under which it appears and disappears. The
 * link's thread only wakes the chain's, without a lock, and the owner's wake is called without one. */
#ifndef SKIPPY_STAGE_CHAIN_INTERNAL_H
#define SKIPPY_STAGE_CHAIN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/chain.h"
#include "stage/waker.h"

enum {
    SK_CHAIN_STRINGS = SK_CHAIN_MAX + 8, /* addresses, the facts' and the link's */
    SK_CHAIN_CONNECT_MS = 10000,
    SK_CHAIN_ANSWER_FACTOR = 12, /* each stage may take so many times longer to answer than to be reached */
    SK_CHAIN_WAIT_MS = 10000,    /* longest single wait for a wake; loops come back */
    SK_CHAIN_FIRST_PAUSE_MS = 100,
    SK_CHAIN_LAST_PAUSE_MS = 5000,
    SK_CHAIN_LINGER_MS = 1000 /* for what waits to be sent when a link is given up */
};

struct sk_chain {
    /* set once */
    char *strings[SK_CHAIN_STRINGS]; /* owned copies of what the parameters point to */
    size_t n_strings;
    const char *addresses[SK_CHAIN_MAX];
    uint32_t n_addresses;
    sk_stage_card head;
    sk_chain_facts facts; /* without cuts and n_stages */
    sk_link_options link_options;
    uint32_t connect_ms;
    void (*wake)(void *ud);
    void *ud;
    pthread_t thread;
    bool waker_open;

    /* the thread's alone */
    bool cuts_known;
    int32_t cuts[SK_CHAIN_MAX];   /* n_addresses + 1: first layers of the stages behind the head, then n_layer */
    uint64_t lives[SK_CHAIN_MAX]; /* of the stages when the chain was last up; 0 = never */
    uint32_t last_epoch;
    sk_chain_event *down; /* made when the chain came up, so that the news of its end cannot fail */

    sk_waker waker; /* of the thread: a frame, the end of the link, or closing */
    atomic_bool closing;

    _Atomic uint32_t epoch; /* written with `lock` held */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* epoch or failure */
    sk_link *link;          /* NULL while down */
    sk_stage_card cards[SK_CHAIN_MAX];
    uint32_t n_cards;
    sk_chain_event *first, **last;
    char failure[512]; /* why it is down; "" = not known yet */
    bool fatal;
};

/* ---- chain_cards.c ---- */

/* Do these cards make a chain with the head? cuts (n + 1, as in sk_chain) NULL: any that follow each other. Errors:
 * SKIPPY_E_UNSUPPORTED with the stage, its address and both values. Pure. */
int sk_chain_check_cards(const sk_stage_card *head, const int32_t *cuts, const char *const *addresses, uint32_t n,
                         const sk_frame_welcome *w, sk_err *e);

/* ---- chain_connect.c: the chain's thread ---- */

/* Connects, greets and checks, learning the cuts before when they are not known. SKIPPY_OK: *out is a link with
 * credits, ready for sessions, and w has the cards. Errors in words; SKIPPY_E_CANCELLED: the chain is being closed. */
int sk_chain_connect(sk_chain *c, sk_link **out, sk_frame_welcome *w, sk_err *e);
/* May trying again mend it? */
bool sk_chain_is_fatal(int status);
/* Error of a REFUSE frame, with the first stage's address. */
int sk_chain_refused(const sk_chain *c, const sk_frame_text *t, sk_err *e);

/* ---- chain_params.c ---- */

/* Copies and checks the parameters into a zeroed chain. Errors as sk_chain_open; sk_chain_free_params after an error as
 * well. */
int sk_chain_copy_params(sk_chain *c, const sk_chain_params *p, sk_err *e);
void sk_chain_free_params(sk_chain *c);

/* ---- chain_thread.c ---- */

void *sk_chain_main(void *chain);
/* Calls the owner's wake. No lock may be held. */
void sk_chain_wake_owner(const sk_chain *c);

#endif
