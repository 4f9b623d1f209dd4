/* Test support: a chain, and stages behind it whose part the test plays frame by frame on a real link. */
#ifndef SKIPPY_STAGE_CHAIN_FIXTURE_H
#define SKIPPY_STAGE_CHAIN_FIXTURE_H

#include <pthread.h>

#include "stage/chain.h"

enum { FIXTURE_LAYERS = 6, FIXTURE_VOCAB = 5, FIXTURE_WIDTH = 4, FIXTURE_WAIT_MS = 20000 };

typedef struct fixture {
    char folder[64], address[128]; /* of the first stage: a unix socket */
    const char *addresses[SK_CHAIN_MAX];
    sk_listener *listener;
    uint64_t life; /* of the stages: changed by a test that restarts them */
    sk_chain_params params;
    sk_chain *chain;
    /* the first stage's end of the present link */
    sk_link *peer;
    sk_frame frame; /* last frame that came */
    uint8_t *bytes;
    /* the owner's end */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint32_t wakes, seen;
    sk_chain_event *events; /* taken, not yet looked at */
} fixture;

/* cmocka set-up and tear-down: a listener, and parameters for a chain of one head (layers 0 and 1) and n stages behind
 * it (layers 2-5; 2-3 and 4-5), with given cuts. The chain is not opened yet. */
int fixture_one_stage(void **state);
int fixture_two_stages(void **state);
int fixture_close(void **state);

void fixture_open(fixture *f);
/* Listens with certificates from now on. */
void fixture_secure(fixture *f, const sk_link_security *security);
/* Makes an authority in a folder of the fixture, and certificates for "head" and "stage"; *out points into paths. */
typedef struct fixture_paths {
    char ca[128], cert[128], key[128];
} fixture_paths;
sk_link_security fixture_certificate(const fixture *f, const char *authority, const char *name, fixture_paths *paths);
/* Card of stage `index` of this fixture's chain. */
sk_stage_card fixture_card(const fixture *f, uint32_t index);

/* ---- as the first stage ---- */

void stage_accept(fixture *f);
/* Takes the next frame into f->frame; it must be of this kind. */
void stage_take(fixture *f, unsigned kind);
void stage_say(fixture *f, const sk_frame *frame);
void stage_say_bytes(fixture *f, const void *bytes, size_t len);
void stage_refuse(fixture *f, int status, const char *text);
/* WELCOME with the cards of this fixture's chain. */
void stage_welcome(fixture *f, uint32_t credits);
void stage_hang_up(fixture *f);
/* Waits until the head has ended the link. */
void stage_await_end(fixture *f);
/* Accept, HELLO, WELCOME, and the owner's UP of this epoch. */
void fixture_come_up(fixture *f, uint32_t epoch, uint32_t credits);

/* ---- as the owner ---- */

/* The next event, which must be of this type. The caller frees it. */
sk_chain_event *owner_event(fixture *f, enum sk_chain_event_type type);
/* DOWN whose text has these words in it. */
void owner_down(fixture *f, bool fatal, uint32_t epoch, const char *words);
/* Waits for one more wake than there were. */
void owner_wait(fixture *f);

#endif
