/* A stage between two others: credits, answers that pass by, and a stage behind that stalls or goes away. The stage
 * behind is the test itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stage/service_fixture.h"
#include "stage/stage_internal.h"

enum { SEED = 11 };

/* A stage 1 of three whose next stage is this test. */
typedef struct middle {
    sv_parts parts;
    sv_service service;
    sv_head head;
    sv_talk talk;
    sk_listener *listener;
    sk_link *below;
    pthread_t thread;
} middle;

/* Answers the HELLO as the last stage would, with one credit. */
static void *welcome_main(void *arg) {
    middle *m = arg;
    sk_err e = {0};
    const sk_link_options o = {0};
    if (sk_listener_accept(m->listener, &o, SV_MS, &m->below, &e)) return NULL;
    uint8_t *bytes = NULL;
    size_t len;
    if (sk_link_receive(m->below, SV_MS, &bytes, &len, &e)) return NULL;
    free(bytes);
    sk_link_set_limit(m->below, 1 << 26);
    sk_frame f = {.kind = SK_FRAME_WELCOME, .u.welcome = {.credits = 1, .n_cards = 1}};
    f.u.welcome.cards[0] = (sk_stage_card){.index = 2,
                                           .layer_start = m->parts.cuts[2],
                                           .layer_end = m->parts.cuts[3],
                                           .n_layer = m->parts.cuts[3],
                                           .n_vocab = m->parts.n_vocab,
                                           .last = true};
    sk_buf b = {0};
    if (sk_frame_encode(&f, &b)) sk_link_send(m->below, &b, false, 0, &e);
    sk_buf_free(&b);
    return NULL;
}

static void open_middle(middle *m, uint32_t stall_ms) {
    *m = (middle){0};
    if (!sv_cut(&m->parts, "llama", 3)) skip();
    sk_err e = {0};
    const sk_link_security plain = {0};
    if (sk_listener_open(sv_params(2).listen, &plain, &m->listener, &e)) fail_msg("%s", e.text);
    sk_stage_params p = sv_params(1);
    sv_open_stage(&m->service, m->parts.stage[1], &p);
    if (stall_ms) m->service.stage->stall_ms = stall_ms;
    sv_run_stage(&m->service);
    sv_head_open(&m->head, &m->parts);
    sv_talk_open(&m->talk, &m->parts, SEED);
    assert_int_equal(pthread_create(&m->thread, NULL, welcome_main, m), 0);
    sv_welcome(&m->head);
    pthread_join(m->thread, NULL);
    assert_non_null(m->below);
}

static void close_middle(middle *m) {
    sk_link_close(m->below, 0);
    sk_listener_close(m->listener);
    sv_talk_close(&m->talk);
    sv_head_close(&m->head);
    sv_stop(&m->service);
    sv_parts_free(&m->parts);
}

static void send_up(middle *m, const sk_frame *f) {
    sk_buf b = {0};
    sk_err e = {0};
    assert_true(sk_frame_encode(f, &b));
    assert_int_equal(sk_link_send(m->below, &b, false, 0, &e), SKIPPY_OK);
    sk_buf_free(&b);
}

static bool has_computed(const sk_stage_stats *st) {
    return st->chunks > 0;
}

/* Takes what stage 1 sends until so many frames of this kind have come. */
static void await_frames(middle *m, uint16_t kind, uint32_t n) {
    while (n > 0) {
        uint8_t *bytes = NULL;
        size_t len;
        sk_frame f = {0};
        sk_err e = {0};
        if (sk_link_receive(m->below, SV_MS, &bytes, &len, &e)) fail_msg("%s", e.text);
        assert_int_equal(sk_frame_decode(bytes, len, &f, &e), SKIPPY_OK);
        n -= f.kind == kind;
        sk_frame_free(&f);
        free(bytes);
    }
}

/* Three chunks of eight tokens, as many as may wait. */
static uint64_t send_three(middle *m) {
    sv_feed(&m->head, 0, &m->talk, 24);
    uint64_t session = sv_open(&m->head, 0, &m->talk, NULL);
    for (uint32_t pos = 0; pos < 24; pos += 8) {
        const sk_span p = sv_span(0, session, &m->talk, pos, 8, 0);
        sv_chunk(&m->head, &p, 1, m->head.hidden + (size_t)pos * m->parts.width);
    }
    return session;
}

static void test_chunks_wait_for_the_credits_of_the_next_stage(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    send_three(&m);
    assert_true(sv_wait_credits(&m.head, 1, SV_MS));
    /* the first went down; the second is computed and has no credit, so nothing is given back for it */
    assert_false(sv_wait_credits(&m.head, 2, 200));
    assert_false(sk_link_is_down(m.head.link));
    const sk_frame credit = {.kind = SK_FRAME_CREDIT, .u.count = {.n = 1}};
    send_up(&m, &credit);
    assert_true(sv_wait_credits(&m.head, 2, SV_MS));
    send_up(&m, &credit);
    assert_true(sv_wait_credits(&m.head, 3, SV_MS));
    close_middle(&m);
}

static void test_answers_pass_while_a_chunk_waits(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    const uint64_t session = send_three(&m);
    float *row = calloc(m.parts.n_vocab, sizeof *row);
    assert_non_null(row);
    const sk_frame result = {.kind = SK_FRAME_RESULT,
                             .session = session,
                             .u.result = {.pos = 8, .compute_ns = 5, .logits = row, .n_logits = m.parts.n_vocab}};
    send_up(&m, &result);
    assert_int_equal(sv_expect(&m.head, SK_FRAME_RESULT)->u.result.pos, 8);
    free(row);
    sk_frame fault = {.kind = SK_FRAME_FAULT, .session = session, .u.text = {.status = SKIPPY_E_FULL}};
    snprintf(fault.u.text.text, sizeof fault.u.text.text, "full down here");
    send_up(&m, &fault);
    sv_expect_fault(&m.head, session, SKIPPY_E_FULL, "full", "here");
    close_middle(&m);
}

static void test_a_result_gains_the_time_of_each_stage_that_it_passes(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    sv_feed(&m.head, 0, &m.talk, 8);
    const uint64_t session = sv_open(&m.head, 0, &m.talk, NULL);
    const sk_span p = sv_span(0, session, &m.talk, 0, 8, SK_SPAN_OUTPUT);
    sv_chunk(&m.head, &p, 1, m.head.hidden);
    assert_true(sv_wait_credits(&m.head, 1, SV_MS)); /* it is computed and on its way */
    float *row = calloc(m.parts.n_vocab, sizeof *row);
    assert_non_null(row);
    sk_frame result = {.kind = SK_FRAME_RESULT,
                       .session = session,
                       .u.result = {.pos = 8, .compute_ns = 5, .logits = row, .n_logits = m.parts.n_vocab}};
    send_up(&m, &result);
    const sk_frame *f = sv_expect(&m.head, SK_FRAME_RESULT);
    sk_stage_stats st;
    sv_wait_stats(&m.service, has_computed, &st);
    assert_int_equal(f->u.result.compute_ns, 5 + st.compute_ns);
    result.u.result.pos = 9; /* of another chunk: not this stage's time */
    send_up(&m, &result);
    assert_int_equal(sv_expect(&m.head, SK_FRAME_RESULT)->u.result.compute_ns, 5);
    free(row);
    close_middle(&m);
}

static void test_a_fault_behind_ends_the_restore_that_waits_for_it(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    const uint64_t session = sv_open(&m.head, 0, &m.talk, NULL);
    sk_frame restore = {.kind = SK_FRAME_RESTORE, .session = session, .u.restore = {.n_lengths = 2}};
    sv_send(&m.head, &restore);
    await_frames(&m, SK_FRAME_RESTORE, 1);
    const sk_frame fault = {.kind = SK_FRAME_FAULT, .session = session, .u.text = {.status = SKIPPY_E_NOMEM}};
    send_up(&m, &fault);
    sv_expect(&m.head, SK_FRAME_FAULT);
    /* the second restore is answered, not refused because of the first */
    sv_send(&m.head, &restore);
    const sk_frame restored = {.kind = SK_FRAME_RESTORED, .session = session, .u.restored = {.n_sources = 1}};
    await_frames(&m, SK_FRAME_RESTORE, 1);
    send_up(&m, &restored);
    assert_int_equal(sv_expect(&m.head, SK_FRAME_RESTORED)->u.restored.status, SKIPPY_OK);
    close_middle(&m);
}

static void test_a_next_stage_that_takes_nothing_ends_the_link(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 100);
    send_three(&m);
    assert_non_null(strstr(sv_expect(&m.head, SK_FRAME_REFUSE)->u.text.text, "taken nothing"));
    close_middle(&m);
}

static bool is_alone(const sk_stage_stats *st) {
    return !st->connected && st->cells_used == 0;
}

static void test_a_next_stage_that_goes_away_ends_the_link_with_the_reason(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    sk_link_close(m.below, 0);
    m.below = NULL;
    assert_non_null(strstr(sv_expect(&m.head, SK_FRAME_REFUSE)->u.text.text, "stage behind"));
    assert_null(sv_next(&m.head));
    sk_stage_stats st;
    sv_wait_stats(&m.service, is_alone, &st);
    close_middle(&m);
}

static void test_a_stage_can_be_stopped_while_it_computes(void **state) {
    (void)state;
    middle m;
    open_middle(&m, 0);
    send_three(&m);
    sk_stage_stop(m.service.stage);
    const sk_frame *f = sv_next(&m.head);
    if (f) assert_non_null(strstr(f->u.text.text, "being stopped"));
    close_middle(&m);
}

static void test_a_peer_that_says_nothing_gives_way_to_the_next(void **state) {
    (void)state;
    sv_parts parts;
    sv_service service;
    sv_head head, silent;
    sk_err e = {0};
    if (!sv_cut(&parts, "llama", 2)) skip();
    const sk_stage_params p = sv_params(1);
    const sk_link_options o = {0};
    sv_open_stage(&service, parts.stage[1], &p);
    service.stage->silence_ms = 1;
    sv_run_stage(&service);
    sv_head_open(&head, &parts);
    sv_head_open(&silent, &parts);
    if (sk_link_connect(p.listen, &o, SV_MS, &silent.link, &e)) fail_msg("%s", e.text);
    sv_welcome(&head);
    assert_non_null(strstr(sv_expect(&silent, SK_FRAME_REFUSE)->u.text.text, "no HELLO"));
    sv_head_close(&silent);
    sv_head_close(&head);
    sv_stop(&service);
    sv_parts_free(&parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_wait_for_the_credits_of_the_next_stage),
        cmocka_unit_test(test_answers_pass_while_a_chunk_waits),
        cmocka_unit_test(test_a_result_gains_the_time_of_each_stage_that_it_passes),
        cmocka_unit_test(test_a_fault_behind_ends_the_restore_that_waits_for_it),
        cmocka_unit_test(test_a_next_stage_that_takes_nothing_ends_the_link),
        cmocka_unit_test(test_a_next_stage_that_goes_away_ends_the_link_with_the_reason),
        cmocka_unit_test(test_a_stage_can_be_stopped_while_it_computes),
        cmocka_unit_test(test_a_peer_that_says_nothing_gives_way_to_the_next),
    };
    return cmocka_run_group_tests(tests, sv_setup, sv_teardown);
}
