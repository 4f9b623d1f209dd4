/* The head's side of a chain against a stage that is played frame by frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stage/chain_fixture.h"

static sk_chain_event *frame_event(fixture *f, unsigned kind) {
    sk_chain_event *e = owner_event(f, SK_CHAIN_FRAME);
    assert_string_equal(sk_frame_name(e->frame.kind), sk_frame_name(kind));
    return e;
}

static int send_kind(fixture *f, uint32_t epoch, uint16_t kind) {
    const sk_frame frame = {.kind = kind, .lane = 1, .session = 7};
    return sk_chain_send(f->chain, epoch, &frame);
}

static int send_chunk(fixture *f, uint32_t epoch) {
    static const int32_t token = 3;
    static const float hidden[FIXTURE_WIDTH];
    sk_frame frame = {.kind = SK_FRAME_CHUNK, .lane = 1, .session = 7};
    frame.u.chunk = (sk_frame_chunk){
        .n_spans = 1, .n_rows = 1, .width = FIXTURE_WIDTH, .hidden = hidden, .hidden_bytes = sizeof hidden};
    frame.u.chunk.spans[0] = (sk_span){.lane = 1, .session = 7, .n = 1, .tokens = &token};
    return sk_chain_send(f->chain, epoch, &frame);
}

/* ---- coming up ---- */

static void the_greeting_says_who_asks_and_how_to_go_on(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    const sk_frame_hello *h = &f->frame.u.hello;
    assert_int_equal(h->protocol, SK_STAGE_PROTOCOL);
    assert_int_equal(h->index, 1);
    assert_int_equal(h->n_stages, 3);
    assert_int_equal(h->cuts[0], 2);
    assert_int_equal(h->cuts[1], 4);
    assert_int_equal(h->cuts[2], 6);
    assert_int_equal(h->n_route, 1);
    assert_string_equal(h->route[0], "unix:/behind");
    assert_int_equal(h->head.index, 0);
    assert_true(h->head.life != 0);
    assert_string_equal(h->head.abi, "runtime 1");
    sk_chain_facts facts = f->params.facts;
    facts.cuts = (const int32_t[]){0, 2, 4, 6};
    facts.n_stages = 3;
    skippy_key key;
    assert_int_equal(sk_chain_key(&facts, &key), SKIPPY_OK);
    assert_true(skippy_key_equal(&h->chain, &key));
}

static void a_chain_that_is_up_has_cards_and_an_epoch(void **state) {
    fixture *f = *state;
    sk_stage_card cards[SK_CHAIN_MAX];
    sk_link_stats stats;
    fixture_open(f);
    assert_int_equal(sk_chain_epoch(f->chain), 0);
    assert_int_equal(sk_chain_cards(f->chain, cards), 0);
    fixture_come_up(f, 1, 3);
    assert_int_equal(sk_chain_wait_up(f->chain, 0, NULL, NULL, NULL), SKIPPY_OK);
    assert_int_equal(sk_chain_cards(f->chain, cards), 2);
    assert_int_equal(cards[0].layer_start, 2);
    assert_int_equal(cards[1].life, 1002);
    assert_true(cards[1].last);
    sk_chain_get_link_stats(f->chain, &stats);
    assert_int_equal(stats.frames_out, 1);
    assert_int_equal(stats.frames_in, 1);
    assert_true(sk_chain_has_credit(f->chain));
}

static void expect_hello_cuts(fixture *f, int32_t first, int32_t second, int32_t third) {
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    const sk_frame_hello *h = &f->frame.u.hello;
    assert_int_equal(h->cuts[0], first);
    assert_int_equal(h->cuts[1], second);
    assert_int_equal(h->cuts[2], third);
}

static void stages_are_asked_for_cuts_that_are_not_known(void **state) {
    fixture *f = *state;
    static const skippy_key none;
    f->params.cuts = NULL;
    fixture_open(f);
    expect_hello_cuts(f, -1, -1, -1);
    assert_true(skippy_key_equal(&f->frame.u.hello.chain, &none));
    stage_welcome(f, 1);
    stage_await_end(f);
    expect_hello_cuts(f, 2, 4, 6);
    assert_false(skippy_key_equal(&f->frame.u.hello.chain, &none));
    stage_welcome(f, 1);
    sk_chain_event_free(owner_event(f, SK_CHAIN_UP));

    stage_hang_up(f);
    owner_down(f, false, 1, "");
    expect_hello_cuts(f, 2, 4, 6); /* known by now: the head's own cache is named after them */
}

static void cuts_that_were_never_up_are_asked_for_again(void **state) {
    fixture *f = *state;
    f->params.cuts = NULL;
    fixture_open(f);
    expect_hello_cuts(f, -1, -1, -1);
    stage_welcome(f, 1);
    expect_hello_cuts(f, 2, 4, 6);
    stage_refuse(f, SKIPPY_E_BUSY, "no time");
    owner_down(f, false, 0, "no time");
    expect_hello_cuts(f, -1, -1, -1);
}

/* ---- not coming up ---- */

static bool stop_at_once(void *ud, const char *text) {
    snprintf(ud, 1024, "%s", text);
    return false;
}

static void waiting_ends_with_what_is_missing(void **state) {
    fixture *f = *state;
    sk_err e;
    char told[1024];
    sk_listener_close(f->listener);
    f->listener = NULL;
    fixture_open(f);
    owner_down(f, false, 0, f->address + 5);
    assert_int_equal(sk_chain_wait_up(f->chain, 1, NULL, NULL, &e), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, f->address + 5));
    assert_int_equal(sk_chain_wait_up(f->chain, FIXTURE_WAIT_MS, stop_at_once, told, &e), SKIPPY_E_CANCELLED);
    assert_non_null(strstr(told, f->address + 5));
}

static void waiting_without_an_answer_names_the_first_stage(void **state) {
    fixture *f = *state;
    sk_err e;
    char told[1024];
    fixture_open(f);
    stage_accept(f);
    assert_int_equal(sk_chain_wait_up(f->chain, FIXTURE_WAIT_MS, stop_at_once, told, &e), SKIPPY_E_CANCELLED);
    assert_non_null(strstr(told, f->address));
    assert_int_equal(sk_chain_wait_up(f->chain, 0, NULL, NULL, &e), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, "no answer yet"));
}

static void a_refusal_for_good_is_fatal_and_shows_the_stages_words(void **state) {
    fixture *f = *state;
    sk_err e;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_refuse(f, SKIPPY_E_UNSUPPORTED, "context of 512 here, 1024 at the head");
    assert_int_equal(sk_chain_wait_up(f->chain, FIXTURE_WAIT_MS, NULL, NULL, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "context of 512 here, 1024 at the head"));
    assert_non_null(strstr(e.text, f->address));
    owner_down(f, true, 0, "context of 512 here, 1024 at the head");
}

static void a_refusal_for_now_is_tried_again(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_refuse(f, SKIPPY_E_IO, "the stage behind cannot be reached");
    owner_down(f, false, 0, "the stage behind cannot be reached");
    fixture_come_up(f, 1, 1);
}

static void the_same_failure_is_told_once(void **state) {
    fixture *f = *state;
    fixture_open(f);
    for (int i = 0; i < 3; i++) {
        stage_accept(f);
        stage_take(f, SK_FRAME_HELLO);
        stage_refuse(f, 12345, i < 2 ? "not now" : "nor now"); /* not a status: an error that may pass */
    }
    owner_down(f, false, 0, "not now");
    owner_down(f, false, 0, "nor now");
    fixture_come_up(f, 1, 1);
}

static void cards_that_do_not_fit_are_fatal(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    sk_frame welcome = {.kind = SK_FRAME_WELCOME, .u.welcome = {.credits = 1, .n_cards = 1}};
    welcome.u.welcome.cards[0] = fixture_card(f, 1);
    welcome.u.welcome.cards[0].width = 99;
    stage_say(f, &welcome);
    owner_down(f, true, 0, "99, the head needs 4");
    stage_await_end(f);
}

static void an_answer_of_another_kind_is_not_taken(void **state) {
    fixture *f = *state;
    const sk_frame probed = {.kind = SK_FRAME_PROBED};
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_say(f, &probed);
    owner_down(f, false, 0, "answered a HELLO with a PROBED frame");
}

static void an_answer_that_cannot_be_read_is_not_taken(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    static const uint8_t junk[20] = {16, 0, 0, 0, 0xee};
    stage_say_bytes(f, junk, sizeof junk);
    owner_down(f, false, 0, "cannot be read");
}

static void a_stage_that_does_not_answer_is_given_up(void **state) {
    fixture *f = *state;
    f->params.connect_ms = 20; /* 240 ms for the answer */
    fixture_open(f);
    stage_accept(f);
    owner_down(f, false, 0, "did not answer in time");
    stage_take(f, SK_FRAME_HELLO);
    stage_await_end(f);
}

/* ---- going down ---- */

static void after_a_break_there_is_a_new_epoch(void **state) {
    fixture *f = *state;
    sk_stage_card cards[SK_CHAIN_MAX];
    sk_link_stats stats;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    stage_hang_up(f);
    owner_down(f, false, 1, "");
    assert_int_equal(sk_chain_epoch(f->chain), 0);
    assert_int_equal(sk_chain_cards(f->chain, cards), 0);
    assert_false(sk_chain_has_credit(f->chain));
    sk_chain_get_link_stats(f->chain, &stats);
    assert_int_equal(stats.frames_out, 0);
    assert_int_equal(send_kind(f, 1, SK_FRAME_STOP), SKIPPY_E_IO);
    assert_int_equal(send_kind(f, 0, SK_FRAME_STOP), SKIPPY_E_IO);
    fixture_come_up(f, 2, 1);
}

static void calls_of_an_older_epoch_do_nothing(void **state) {
    fixture *f = *state;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    stage_hang_up(f);
    owner_down(f, false, 1, "");
    fixture_come_up(f, 2, 1);
    assert_int_equal(send_kind(f, 1, SK_FRAME_STOP), SKIPPY_E_IO);
    assert_int_equal(send_chunk(f, 1), SKIPPY_E_IO);
    assert_true(sk_chain_has_credit(f->chain)); /* it was not spent */
    assert_int_equal(send_kind(f, 2, SK_FRAME_PROBE), SKIPPY_OK);
    stage_take(f, SK_FRAME_PROBE); /* the first frame that came */
}

static void a_stage_may_say_why_it_goes(void **state) {
    fixture *f = *state;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    stage_refuse(f, SKIPPY_E_IO, "stage 2 went away");
    owner_down(f, false, 1, "stage 2 went away");
    stage_await_end(f);
    fixture_come_up(f, 2, 1);
}

static void a_frame_that_cannot_be_read_ends_the_link(void **state) {
    fixture *f = *state;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    static const uint8_t junk[20] = {16, 0, 0, 0, 0xee};
    stage_say_bytes(f, junk, sizeof junk);
    owner_down(f, false, 1, "sent a frame that cannot be read");
    stage_take(f, SK_FRAME_REFUSE);
    assert_non_null(strstr(f->frame.u.text.text, "cannot be read"));
    stage_await_end(f);
}

static void a_frame_of_the_other_direction_ends_the_link(void **state) {
    fixture *f = *state;
    const sk_frame stop = {.kind = SK_FRAME_STOP};
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    stage_say(f, &stop);
    owner_down(f, false, 1, "sent a STOP frame");
    stage_take(f, SK_FRAME_REFUSE);
    stage_await_end(f);
}

/* What f says on standard error while the chain comes up in this epoch. */
static void come_up_and_listen(fixture *f, uint32_t epoch, char *said, size_t cap) {
    FILE *file = tmpfile();
    assert_non_null(file);
    int own = dup(STDERR_FILENO);
    assert_true(own >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    fixture_come_up(f, epoch, 1);
    assert_true(dup2(own, STDERR_FILENO) >= 0);
    close(own);
    rewind(file);
    size_t n = fread(said, 1, cap - 1, file);
    said[n] = '\0';
    fclose(file);
}

static void stages_that_began_another_life_are_named(void **state) {
    fixture *f = *state;
    char said[2048];
    fixture_open(f);
    come_up_and_listen(f, 1, said, sizeof said);
    assert_null(strstr(said, "restarted"));
    stage_hang_up(f);
    owner_down(f, false, 1, "");
    come_up_and_listen(f, 2, said, sizeof said);
    assert_null(strstr(said, "restarted"));
    stage_hang_up(f);
    owner_down(f, false, 2, "");
    f->life = 2000;
    come_up_and_listen(f, 3, said, sizeof said);
    assert_non_null(strstr(said, "stage 1 at "));
    assert_non_null(strstr(said, "restarted"));
}

/* ---- frames ---- */

static void frames_come_in_order_with_their_content(void **state) {
    fixture *f = *state;
    static const float row[FIXTURE_VOCAB] = {1, 2, 3, 4, 5};
    sk_frame probed = {.kind = SK_FRAME_PROBED, .lane = 1, .session = 7, .u.probed.n_offers = 1};
    probed.u.probed.offers[0].range_max = 40;
    const sk_frame restored = {.kind = SK_FRAME_RESTORED, .session = 8};
    const sk_frame result = {
        .kind = SK_FRAME_RESULT, .session = 9, .u.result = {.logits = row, .n_logits = FIXTURE_VOCAB}};
    const sk_frame fault = {.kind = SK_FRAME_FAULT, .session = 10, .u.text = {.status = 12, .text = "broken"}};
    const sk_frame erased = {.kind = SK_FRAME_ERASED, .u.count.n = 3};
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    const sk_frame *all[] = {&probed, &restored, &result, &fault, &erased};
    for (int i = 0; i < 5; i++) stage_say(f, all[i]);
    sk_chain_event *e = frame_event(f, SK_FRAME_PROBED);
    assert_int_equal(e->epoch, 1);
    assert_int_equal(e->frame.session, 7);
    assert_int_equal(e->frame.u.probed.offers[0].range_max, 40);
    sk_chain_event_free(e);
    sk_chain_event_free(frame_event(f, SK_FRAME_RESTORED));
    e = frame_event(f, SK_FRAME_RESULT);
    assert_memory_equal(e->frame.u.result.logits, row, sizeof row);
    sk_chain_event_free(e);
    e = frame_event(f, SK_FRAME_FAULT);
    assert_string_equal(e->frame.u.text.text, "broken");
    sk_chain_event_free(e);
    e = frame_event(f, SK_FRAME_ERASED);
    assert_int_equal(e->frame.u.count.n, 3);
    sk_chain_event_free(e);
}

static void a_row_of_logits_may_be_larger_than_a_greeting(void **state) {
    fixture *f = *state;
    enum { ROW = 40000 }; /* 160 KB */
    float *row = calloc(ROW, sizeof *row);
    assert_non_null(row);
    row[ROW - 1] = 3;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    sk_frame welcome = {.kind = SK_FRAME_WELCOME, .u.welcome = {.credits = 1, .n_cards = 1}};
    welcome.u.welcome.cards[0] = fixture_card(f, 1);
    welcome.u.welcome.cards[0].n_vocab = ROW;
    stage_say(f, &welcome);
    sk_chain_event_free(owner_event(f, SK_CHAIN_UP));
    const sk_frame result = {.kind = SK_FRAME_RESULT, .u.result = {.logits = row, .n_logits = ROW}};
    stage_say(f, &result);
    sk_chain_event *e = frame_event(f, SK_FRAME_RESULT);
    assert_memory_equal(e->frame.u.result.logits, row, ROW * sizeof *row);
    sk_chain_event_free(e);
    free(row);
}

static void chunks_wait_for_credits_and_other_frames_do_not(void **state) {
    fixture *f = *state;
    const sk_frame credit = {.kind = SK_FRAME_CREDIT, .u.count.n = 1};
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    assert_int_equal(send_chunk(f, 1), SKIPPY_OK);
    assert_false(sk_chain_has_credit(f->chain));
    assert_int_equal(send_chunk(f, 1), SKIPPY_E_BUSY);
    assert_int_equal(send_kind(f, 1, SK_FRAME_STOP), SKIPPY_OK);
    stage_take(f, SK_FRAME_CHUNK);
    assert_int_equal(f->frame.u.chunk.n_rows, 1);
    stage_take(f, SK_FRAME_STOP);
    stage_say(f, &credit);
    while (!sk_chain_has_credit(f->chain)) owner_wait(f);
    assert_null(sk_chain_events(f->chain)); /* credits are no event */
    assert_int_equal(send_chunk(f, 1), SKIPPY_OK);
    stage_take(f, SK_FRAME_CHUNK);
}

static void a_frame_that_is_not_legal_is_not_sent(void **state) {
    fixture *f = *state;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    assert_int_equal(send_kind(f, 1, SK_FRAME_KINDS), SKIPPY_E_INVALID);
}

/* ---- closing ---- */

static void what_waits_is_sent_before_the_end(void **state) {
    fixture *f = *state;
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    assert_int_equal(send_kind(f, 1, SK_FRAME_STOP), SKIPPY_OK);
    sk_chain_close(f->chain);
    f->chain = NULL;
    stage_take(f, SK_FRAME_STOP);
    stage_await_end(f);
}

static void a_chain_that_is_not_answered_can_be_closed(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    sk_chain_close(f->chain); /* hangs, without a wake, for the two minutes that the answer may take */
    f->chain = NULL;
    stage_await_end(f);
}

static void a_chain_that_is_not_accepted_can_be_closed(void **state) {
    fixture *f = *state;
    f->params.connect_ms = 50;
    fixture_open(f);
    sk_chain_close(f->chain);
    f->chain = NULL;
}

static void a_chain_that_pauses_can_be_closed(void **state) {
    fixture *f = *state;
    fixture_open(f);
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_refuse(f, SKIPPY_E_INVALID, "no");
    owner_down(f, true, 0, "no");
    sk_chain_close(f->chain);
    f->chain = NULL;
}

static void events_that_nobody_takes_are_freed(void **state) {
    fixture *f = *state;
    const sk_frame probed = {.kind = SK_FRAME_PROBED};
    fixture_open(f);
    fixture_come_up(f, 1, 1);
    stage_say(f, &probed);
    owner_wait(f);
    sk_chain_close(f->chain); /* a leak would be reported */
    f->chain = NULL;
    sk_chain_close(NULL);
    sk_chain_event_free(NULL);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, fixture_one_stage, fixture_close)
#define TWO(f) cmocka_unit_test_setup_teardown(f, fixture_two_stages, fixture_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        TWO(the_greeting_says_who_asks_and_how_to_go_on),
        TWO(a_chain_that_is_up_has_cards_and_an_epoch),
        TWO(stages_are_asked_for_cuts_that_are_not_known),
        TWO(cuts_that_were_never_up_are_asked_for_again),
        ONE(waiting_ends_with_what_is_missing),
        ONE(waiting_without_an_answer_names_the_first_stage),
        ONE(a_refusal_for_good_is_fatal_and_shows_the_stages_words),
        ONE(a_refusal_for_now_is_tried_again),
        ONE(the_same_failure_is_told_once),
        ONE(cards_that_do_not_fit_are_fatal),
        ONE(an_answer_of_another_kind_is_not_taken),
        ONE(an_answer_that_cannot_be_read_is_not_taken),
        ONE(a_stage_that_does_not_answer_is_given_up),
        ONE(after_a_break_there_is_a_new_epoch),
        ONE(calls_of_an_older_epoch_do_nothing),
        ONE(stages_that_began_another_life_are_named),
        ONE(a_stage_may_say_why_it_goes),
        ONE(a_frame_that_cannot_be_read_ends_the_link),
        ONE(a_frame_of_the_other_direction_ends_the_link),
        ONE(frames_come_in_order_with_their_content),
        ONE(a_row_of_logits_may_be_larger_than_a_greeting),
        ONE(chunks_wait_for_credits_and_other_frames_do_not),
        ONE(a_frame_that_is_not_legal_is_not_sent),
        ONE(what_waits_is_sent_before_the_end),
        ONE(a_chain_that_is_not_answered_can_be_closed),
        ONE(a_chain_that_is_not_accepted_can_be_closed),
        ONE(a_chain_that_pauses_can_be_closed),
        ONE(events_that_nobody_takes_are_freed),
    };
    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
