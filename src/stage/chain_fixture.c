#include "stage/chain_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/test_folder.h"

static const int32_t cuts_one[] = {2, 6}, cuts_two[] = {2, 4, 6};

/* ---- set-up ---- */

static void wake(void *ud) {
    fixture *f = ud;
    pthread_mutex_lock(&f->lock);
    f->wakes++;
    pthread_cond_signal(&f->woken);
    pthread_mutex_unlock(&f->lock);
}

static sk_stage_card common_card(void) {
    sk_stage_card c = {.n_layer = FIXTURE_LAYERS, .width = FIXTURE_WIDTH, .n_ctx = 64, .n_lanes = 2, .n_batch = 16};
    snprintf(c.abi, sizeof c.abi, "runtime 1");
    snprintf(c.source, sizeof c.source, "00ff");
    return c;
}

sk_stage_card fixture_card(const fixture *f, uint32_t index) {
    sk_stage_card c = common_card();
    c.life = f->life + index;
    c.index = index;
    c.last = index == f->params.n_addresses;
    c.layer_start = index == 1 ? 2 : 4;
    c.layer_end = c.last ? FIXTURE_LAYERS : 4;
    c.n_vocab = c.last ? FIXTURE_VOCAB : 0;
    snprintf(c.name, sizeof c.name, "%s", f->addresses[index - 1]);
    return c;
}

static int start(void **state, uint32_t n_stages) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    *state = f;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->woken, NULL);
    snprintf(f->folder, sizeof f->folder, "/tmp/skippy-chain-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->address, sizeof f->address, "unix:%s/first", f->folder);
    f->addresses[0] = f->address;
    f->addresses[1] = "unix:/behind";
    f->params = (sk_chain_params){.addresses = f->addresses,
                                  .n_addresses = n_stages,
                                  .cuts = n_stages == 1 ? cuts_one : cuts_two,
                                  .head = common_card(),
                                  .facts = {.source = "00ff", .width = FIXTURE_WIDTH, .n_ctx = 64, .abi = "runtime 1"},
                                  .wake = wake,
                                  .ud = f};
    f->params.head.layer_end = 2;
    f->life = 1000;
    const sk_link_security plain = {0};
    return sk_listener_open(f->address, &plain, &f->listener, NULL);
}

int fixture_one_stage(void **state) {
    return start(state, 1);
}

int fixture_two_stages(void **state) {
    return start(state, 2);
}

static void forget_frame(fixture *f) {
    sk_frame_free(&f->frame);
    free(f->bytes);
    f->bytes = NULL;
}

int fixture_close(void **state) {
    fixture *f = *state;
    sk_link_close(f->peer, 0); /* first: a chain that is closed waits a moment for the stage to take its last frames */
    sk_chain_close(f->chain);
    sk_listener_close(f->listener);
    forget_frame(f);
    for (sk_chain_event *e = f->events, *next; e; e = next) {
        next = e->next;
        sk_chain_event_free(e);
    }
    pthread_cond_destroy(&f->woken);
    pthread_mutex_destroy(&f->lock);
    int rc = test_remove_tree(f->folder);
    free(f);
    return rc;
}

void fixture_open(fixture *f) {
    sk_err e = {0};
    if (sk_chain_open(&f->params, &f->chain, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

/* ---- certificates ---- */

void fixture_secure(fixture *f, const sk_link_security *security) {
    sk_err e = {0};
    sk_listener_close(f->listener);
    f->listener = NULL;
    if (sk_listener_open(f->address, security, &f->listener, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

sk_link_security fixture_certificate(const fixture *f, const char *authority, const char *name, fixture_paths *paths) {
    static const char *const names[] = {"head", "stage"};
    char folder[96];
    sk_err e = {0};
    snprintf(folder, sizeof folder, "%s/%s", f->folder, authority);
    snprintf(paths->ca, sizeof paths->ca, "%s/ca.crt", folder);
    snprintf(paths->cert, sizeof paths->cert, "%s/%s.crt", folder, name);
    snprintf(paths->key, sizeof paths->key, "%s/%s.key", folder, name);
    if (access(paths->ca, F_OK) != 0 && sk_link_certs(folder, names, 2, 30, false, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
    return (sk_link_security){.ca = paths->ca, .cert = paths->cert, .key = paths->key};
}

/* ---- the first stage ---- */

void stage_hang_up(fixture *f) {
    sk_link_close(f->peer, FIXTURE_WAIT_MS);
    f->peer = NULL;
}

void stage_accept(fixture *f) {
    const sk_link_options o = {0};
    sk_err e = {0};
    stage_hang_up(f);
    if (sk_listener_accept(f->listener, &o, FIXTURE_WAIT_MS, &f->peer, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

void stage_take(fixture *f, unsigned kind) {
    size_t len;
    sk_err e = {0};
    forget_frame(f);
    if (sk_link_receive(f->peer, FIXTURE_WAIT_MS, &f->bytes, &len, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    if (sk_frame_decode(f->bytes, len, &f->frame, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_string_equal(sk_frame_name(f->frame.kind), sk_frame_name(kind));
}

static void send_all(fixture *f, sk_buf *b) {
    sk_err e = {0};
    if (sk_link_send(f->peer, b, false, 0, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    sk_buf_free(b);
}

void stage_say(fixture *f, const sk_frame *frame) {
    sk_buf b = {0};
    assert_true(sk_frame_encode(frame, &b));
    send_all(f, &b);
}

void stage_say_bytes(fixture *f, const void *bytes, size_t len) {
    sk_buf b = {0};
    sk_buf_add(&b, bytes, len);
    assert_false(b.failed);
    send_all(f, &b);
}

void stage_refuse(fixture *f, int status, const char *text) {
    sk_frame frame = {.kind = SK_FRAME_REFUSE, .u.text.status = status};
    snprintf(frame.u.text.text, sizeof frame.u.text.text, "%s", text);
    stage_say(f, &frame);
}

void stage_welcome(fixture *f, uint32_t credits) {
    sk_frame frame = {.kind = SK_FRAME_WELCOME, .u.welcome = {.credits = credits, .n_cards = f->params.n_addresses}};
    for (uint32_t i = 0; i < f->params.n_addresses; i++) frame.u.welcome.cards[i] = fixture_card(f, i + 1);
    stage_say(f, &frame);
}

void stage_await_end(fixture *f) {
    uint8_t *bytes = NULL;
    size_t len;
    int rc;
    while ((rc = sk_link_receive(f->peer, FIXTURE_WAIT_MS, &bytes, &len, NULL)) == SKIPPY_OK) free(bytes);
    assert_int_equal(rc, SKIPPY_E_IO);
}

void fixture_come_up(fixture *f, uint32_t epoch, uint32_t credits) {
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_welcome(f, credits);
    sk_chain_event *e = owner_event(f, SK_CHAIN_UP);
    assert_int_equal(e->epoch, epoch);
    assert_int_equal(sk_chain_epoch(f->chain), epoch);
    sk_chain_event_free(e);
}

/* ---- the owner ---- */

void owner_wait(fixture *f) {
    uint64_t deadline = sk_now_ns() + (uint64_t)FIXTURE_WAIT_MS * 1000000u;
    pthread_mutex_lock(&f->lock);
    while (f->wakes == f->seen && sk_now_ns() < deadline) {
        struct timespec until = sk_wall_after_ms(FIXTURE_WAIT_MS);
        pthread_cond_timedwait(&f->woken, &f->lock, &until);
    }
    bool woken = f->wakes != f->seen;
    f->seen = f->wakes;
    pthread_mutex_unlock(&f->lock);
    if (!woken) fail_msg("the chain did not wake its owner");
}

sk_chain_event *owner_event(fixture *f, enum sk_chain_event_type type) {
    while (!f->events && !(f->events = sk_chain_events(f->chain))) owner_wait(f);
    sk_chain_event *e = f->events;
    f->events = e->next;
    e->next = NULL;
    if (e->type != type) fail_msg("event %d instead of %d: %s", (int)e->type, (int)type, e->text);
    return e;
}

void owner_down(fixture *f, bool fatal, uint32_t epoch, const char *words) {
    sk_chain_event *e = owner_event(f, SK_CHAIN_DOWN);
    if (!strstr(e->text, words)) fail_msg("'%s' has no '%s' in it", e->text, words);
    assert_int_equal(e->fatal, fatal);
    assert_int_equal(e->epoch, epoch);
    sk_chain_event_free(e);
}
