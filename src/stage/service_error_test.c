/* Stages that are asked for what they cannot do: wrong neighbours, wrong chunks, links cut short, full contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "stage/service_fixture.h"

enum { SEED = 11 };

/* One stage behind the head, the last one, and a prompt. */
typedef struct pair {
    sv_parts parts;
    sv_service service;
    sv_head head;
    sv_talk talk;
} pair;

static void open_pair(pair *p, void (*change)(sk_stage_params *)) {
    if (!sv_cut(&p->parts, "llama", 2)) skip();
    sk_stage_params q = sv_params(1);
    if (change) change(&q);
    sv_start(&p->service, p->parts.stage[1], &q);
    sv_head_open(&p->head, &p->parts);
    sv_talk_open(&p->talk, &p->parts, SEED);
}

static void close_pair(pair *p) {
    sv_talk_close(&p->talk);
    sv_head_close(&p->head);
    sv_stop(&p->service);
    sv_parts_free(&p->parts);
}

/* ---- opening ---- */

static void refuse_open(const sk_model *m, const sk_stage_params *p, int code, const char *word) {
    sk_stage *s = NULL;
    sk_err e = {0};
    assert_int_equal(sk_stage_open(m, p, &s, &e), code);
    assert_null(s);
    if (!strstr(e.text, word)) fail_msg("'%s' does not say '%s'", e.text, word);
}

static void test_what_cannot_be_a_stage_is_refused_at_the_start(void **state) {
    (void)state;
    sv_parts parts;
    if (!sv_cut(&parts, "llama", 2)) skip();
    sk_stage_params p = sv_params(1);
    refuse_open(parts.whole, &p, SKIPPY_E_INVALID, "whole model");
    refuse_open(parts.stage[0], &p, SKIPPY_E_INVALID, "first stage");
    p.dtype = 2;
    refuse_open(parts.stage[1], &p, SKIPPY_E_INVALID, "form 2");
    p = sv_params(1);
    p.listen = NULL;
    refuse_open(parts.stage[1], &p, SKIPPY_E_INVALID, "address");
    p.listen = "nonsense";
    refuse_open(parts.stage[1], &p, SKIPPY_E_INVALID, "nonsense");
    p = sv_params(1);
    p.setup.type_k = "q77";
    refuse_open(parts.stage[1], &p, SKIPPY_E_INVALID, "q77");
    char taken[300];
    snprintf(taken, sizeof taken, "unix:%s/missing/folder.sock", sv_dir());
    p = sv_params(1);
    p.listen = taken;
    refuse_open(parts.stage[1], &p, SKIPPY_E_IO, "folder.sock");
    sv_parts_free(&parts);
}

/* ---- refusals ---- */

static const sk_frame_text *refused(sv_head *h, const sk_frame_hello *q) {
    sv_connect(h, q);
    assert_int_equal(h->frame.kind, SK_FRAME_REFUSE);
    return &h->frame.u.text;
}

/* The text has both values. */
static void refused_for(sv_head *h, const sk_frame_hello *q, const char *theirs, const char *ours) {
    const sk_frame_text *t = refused(h, q);
    if (t->status != SKIPPY_E_UNSUPPORTED) fail_msg("%s", t->text);
    if (!strstr(t->text, theirs) || !strstr(t->text, ours))
        fail_msg("'%s' does not say '%s' and '%s'", t->text, theirs, ours);
    sv_disconnect(h);
}

static void test_a_hello_that_does_not_fit_is_refused_with_both_values(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    const sk_frame_hello good = sv_hello(&p.head);
    sk_frame_hello q = good;
    q.protocol = 77;
    const sk_frame_text *t = refused(&p.head, &q); /* the codec's own words */
    assert_non_null(strstr(t->text, "version 77"));
    assert_non_null(strstr(t->text, "version 1"));
    sv_disconnect(&p.head);
    q = good;
    q.n_stages = 3;
    q.cuts[2] = q.cuts[1];
    snprintf(q.route[0], sizeof q.route[0], "unix:/nowhere");
    q.n_route = 1;
    refused_for(&p.head, &q, "between others", "the last");
    q = good;
    q.n_route = 1;
    refused_for(&p.head, &q, "1 addresses", "needs 0");
    q = good;
    q.index = 2;
    refused_for(&p.head, &q, "stage 2", "of 2");
    q = good;
    memset(q.head.source, 'a', 64);
    refused_for(&p.head, &q, "aaaaaaaaaaaaaaaa", good.head.source[0] ? "this stage" : "?");
    q = good;
    q.head.width++;
    refused_for(&p.head, &q, "257", "256");
    q = good;
    snprintf(q.head.abi, sizeof q.head.abi, "another runtime");
    char own[101];
    snprintf(own, sizeof own, "%.100s", good.head.abi);
    refused_for(&p.head, &q, "another runtime", own);
    q = good; /* long texts that differ late are shown from there on */
    q.head.abi[strlen(q.head.abi) - 3] ^= 1;
    refused_for(&p.head, &q, q.head.abi + strlen(q.head.abi) - 8, good.head.abi + strlen(good.head.abi) - 8);
    q = good;
    q.head.n_ctx = 1024;
    refused_for(&p.head, &q, "1024", "512");
    q = good;
    q.head.n_lanes = 9;
    refused_for(&p.head, &q, "lanes 9", "3");
    q = good;
    q.head.n_batch = 65;
    refused_for(&p.head, &q, "65", "64");
    q = good;
    q.head.dtype = 1;
    refused_for(&p.head, &q, "f16", "f32");
    q = good;
    q.cuts[0]--;
    refused_for(&p.head, &q, "2-6", "3-6");
    q = good;
    q.head.layer_end = 2;
    refused_for(&p.head, &q, "layer 2", "at 3");
    q = good;
    q.chain.bytes[0] ^= 1;
    refused_for(&p.head, &q, "the head's settings", "f16/f16");
    sv_welcome(&p.head); /* and the right one is still welcome */
    sv_run(&p.head, 0, sv_open(&p.head, 0, &p.talk, NULL), &p.talk, 0);
    close_pair(&p);
}

static void test_a_stage_behind_that_is_not_there_is_named(void **state) {
    (void)state;
    sv_parts parts;
    sv_service service;
    sv_head head;
    if (!sv_cut(&parts, "llama", 3)) skip();
    sk_stage_params q = sv_params(1);
    sv_start(&service, parts.stage[1], &q);
    sv_head_open(&head, &parts);
    const sk_frame_text *t = refused(&head, NULL);
    assert_non_null(strstr(t->text, "stage 2"));
    assert_non_null(strstr(t->text, sv_params(2).listen));
    sv_head_close(&head);
    sv_stop(&service);
    sv_parts_free(&parts);
}

static void test_a_refusal_further_on_reaches_the_head(void **state) {
    (void)state;
    sv_parts parts;
    sv_service service[3];
    sv_head head;
    if (!sv_cut(&parts, "llama", 3)) skip();
    sk_stage_params q = sv_params(1);
    sv_start(&service[1], parts.stage[1], &q);
    q = sv_params(2);
    q.setup.n_ctx = 256;
    sv_start(&service[2], parts.stage[2], &q);
    sv_head_open(&head, &parts);
    const sk_frame_text *t = refused(&head, NULL);
    assert_int_equal(t->status, SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(t->text, "stage 2"));
    assert_non_null(strstr(t->text, "512"));
    assert_non_null(strstr(t->text, "256"));
    sv_head_close(&head);
    sv_stop(&service[1]);
    sv_stop(&service[2]);
    sv_parts_free(&parts);
}

static void test_a_head_that_does_not_know_the_cuts_learns_them_from_the_cards(void **state) {
    (void)state;
    sv_parts parts;
    sv_service service[3];
    sv_head head;
    if (!sv_cut(&parts, "llama", 3)) skip();
    for (uint32_t i = 1; i < 3; i++) {
        sk_stage_params q = sv_params(i);
        sv_start(&service[i], parts.stage[i], &q);
    }
    sv_head_open(&head, &parts);
    sk_frame_hello q = sv_hello(&head);
    memset(&q.chain, 0, sizeof q.chain);
    for (uint32_t i = 0; i < q.n_stages; i++) q.cuts[i] = -1;
    sv_connect(&head, &q);
    assert_int_equal(head.frame.kind, SK_FRAME_WELCOME);
    const sk_frame_welcome *w = &head.frame.u.welcome;
    assert_int_equal(w->n_cards, 2);
    assert_int_equal(w->cards[0].layer_start, parts.cuts[1]);
    assert_int_equal(w->cards[1].layer_start, parts.cuts[2]);
    assert_int_equal(w->cards[1].n_vocab, parts.n_vocab);
    /* sessions need a split that both know */
    const sk_frame open = {.kind = SK_FRAME_OPEN, .session = 1};
    sv_send(&head, &open);
    assert_non_null(strstr(sv_expect(&head, SK_FRAME_REFUSE)->u.text.text, "OPEN"));
    sv_disconnect(&head);
    sv_welcome(&head);
    sv_head_close(&head);
    for (uint32_t i = 1; i < 3; i++) sv_stop(&service[i]);
    sv_parts_free(&parts);
}

static void test_a_second_peer_is_refused_while_the_first_lives(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    sv_head second;
    sv_head_open(&second, &p.parts);
    const sk_frame_text *t = refused(&second, NULL);
    assert_int_equal(t->status, SKIPPY_E_BUSY);
    assert_non_null(strstr(t->text, "already serving"));
    assert_null(sv_next(&second)); /* and the link is closed */
    sv_run(&p.head, 0, sv_open(&p.head, 0, &p.talk, NULL), &p.talk, 0);
    sv_disconnect(&second);
    sv_disconnect(&p.head);
    sv_welcome(&second);
    sv_head_close(&second);
    close_pair(&p);
}

/* ---- faults ---- */

/* After a fault nothing is heard of the session until it begins anew, and then it works. */
static void begins_anew(pair *p, uint32_t lane, uint64_t session) {
    const sk_span span = sv_span(lane, session, &p->talk, 0, 1, SK_SPAN_OUTPUT);
    sv_chunk(&p->head, &span, 1, p->head.hidden);
    sv_count(&p->head, SK_FRAME_RECORD, lane, session, 1);
    sv_count(&p->head, SK_FRAME_TRIM, lane, session, 0);
    const sk_frame probe = {.kind = SK_FRAME_PROBE, .lane = lane, .session = session};
    sv_send(&p->head, &probe);
    const uint32_t some[] = {SV_BATCH}, none[] = {0};
    assert_int_equal(sv_restore(&p->head, lane, session, some)->status, SKIPPY_E_INVALID);
    assert_int_equal(sv_restore(&p->head, lane, session, none)->status, SKIPPY_OK);
    p->head.record_to = 0;
    sv_run(&p->head, lane, session, &p->talk, 0);
    sv_stop_session(&p->head, lane, session, false);
}

static void test_a_wrong_chunk_is_a_fault_that_names_both_sides(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    sv_feed(&p.head, 0, &p.talk, SV_BATCH);
    sk_span good = sv_span(0, 0, &p.talk, 0, 8, 0), bad;
    for (int kind = 0; kind < 6; kind++) {
        const uint64_t session = sv_open(&p.head, 0, &p.talk, NULL);
        char a[17], b[17];
        bad = good;
        bad.session = session;
        int32_t others[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        switch (kind) {
        case 0: /* digest before */
            bad.before.bytes[0] ^= 0x55;
            sk_hex(bad.before.bytes, 8, a);
            sk_hex(good.before.bytes, 8, b);
            sv_chunk(&p.head, &bad, 1, p.head.hidden);
            sv_expect_fault(&p.head, session, SKIPPY_E_CORRUPT, a, b);
            break;
        case 1: /* digest after */
            bad.after.bytes[0] ^= 0x55;
            sk_hex(bad.after.bytes, 8, a);
            sk_hex(good.after.bytes, 8, b);
            sv_chunk(&p.head, &bad, 1, p.head.hidden);
            sv_expect_fault(&p.head, session, SKIPPY_E_CORRUPT, a, b);
            break;
        case 2: /* other tokens than the session began with, with their own digest */
            bad.tokens = others;
            sk_hash(others, sizeof others, bad.after.bytes);
            sv_chunk(&p.head, &bad, 1, p.head.hidden);
            sv_expect_fault(&p.head, session, SKIPPY_E_CORRUPT, "tokens 0 to 8", "not those");
            break;
        case 3: /* position */
            bad = sv_span(0, session, &p.talk, 5, 8, 0);
            sv_chunk(&p.head, &bad, 1, p.head.hidden);
            sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "token 5", "holds 0");
            break;
        case 4: { /* one session twice */
            const sk_span twice[] = {bad, bad};
            sv_chunk(&p.head, twice, 2, p.head.hidden);
            sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "two spans", "session");
            break;
        }
        case 5: /* a lane cannot be cut to more than it has */
            sv_count(&p.head, SK_FRAME_TRIM, 0, session, 9);
            sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "9 tokens", "holds 0");
            break;
        default: break;
        }
        begins_anew(&p, 0, session);
    }
    close_pair(&p);
}

static void test_a_chunk_of_another_shape_is_a_fault(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    sv_feed(&p.head, 0, &p.talk, SV_PROMPT);
    uint64_t session = sv_open(&p.head, 0, &p.talk, NULL);
    const sk_span large = sv_span(0, session, &p.talk, 0, SV_BATCH + 1, 0);
    sv_chunk(&p.head, &large, 1, p.head.hidden);
    sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "65 rows", "64 rows");
    begins_anew(&p, 0, session);
    session = sv_open(&p.head, 0, &p.talk, NULL);
    p.head.dtype = 1;
    const sk_span narrow = sv_span(0, session, &p.talk, 0, 8, 0);
    sv_chunk(&p.head, &narrow, 1, p.head.hidden);
    sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "form 1", "form 0");
    p.head.dtype = 0;
    begins_anew(&p, 0, session);
    close_pair(&p);
}

static void test_frames_of_unknown_sessions_are_faults(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    sv_feed(&p.head, 0, &p.talk, 8);
    const uint64_t session = sv_open(&p.head, 1, &p.talk, NULL);
    const sk_span unknown[] = {sv_span(1, 900, &p.talk, 0, 8, 0), sv_span(77, 901, &p.talk, 0, 8, 0),
                               sv_span(2, 902, &p.talk, 0, 8, 0)};
    char there[40];
    snprintf(there, sizeof there, "session %llu", (unsigned long long)session);
    sv_chunk(&p.head, &unknown[0], 1, p.head.hidden);
    sv_expect_fault(&p.head, 900, SKIPPY_E_NOT_FOUND, "session 900", there);
    sv_chunk(&p.head, &unknown[1], 1, p.head.hidden);
    sv_expect_fault(&p.head, 901, SKIPPY_E_NOT_FOUND, "lane 77", "none");
    sv_chunk(&p.head, &unknown[2], 1, p.head.hidden);
    sv_expect_fault(&p.head, 902, SKIPPY_E_NOT_FOUND, "session 902", "none");
    const uint16_t kinds[] = {SK_FRAME_PROBE, SK_FRAME_RECORD, SK_FRAME_TRIM};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const sk_frame f = {.kind = kinds[i], .lane = 1, .session = 903};
        sv_send(&p.head, &f);
        sv_expect_fault(&p.head, 903, SKIPPY_E_NOT_FOUND, sk_frame_name(kinds[i]), "903");
    }
    const sk_frame outside = {.kind = SK_FRAME_OPEN, .lane = SV_LANES, .session = 904};
    sv_send(&p.head, &outside);
    sv_expect_fault(&p.head, 904, SKIPPY_E_INVALID, "lane 3", "0 to 2");
    sv_stop_session(&p.head, 2, 905, true); /* nothing to stop: nobody is told */
    sv_run(&p.head, 1, session, &p.talk, 0);
    close_pair(&p);
}

static void test_lengths_that_no_chain_can_restore_are_a_fault(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    uint64_t session = sv_open(&p.head, 0, &p.talk, NULL);
    const sk_frame two = {.kind = SK_FRAME_RESTORE, .session = session, .u.restore = {.n_lengths = 2}};
    sv_send(&p.head, &two);
    sv_expect_fault(&p.head, session, SKIPPY_E_INVALID, "2 lengths", "needs 1");
    session = sv_open(&p.head, 0, &p.talk, NULL);
    const uint32_t beyond[] = {SV_PROMPT + 1};
    const sk_frame_restored *r = sv_restore(&p.head, 0, session, beyond);
    assert_int_equal(r->status, SKIPPY_E_INVALID);
    assert_non_null(strstr(r->text, "shorter"));
    sv_run(&p.head, 0, session, &p.talk, 0);
    close_pair(&p);
}

static bool has_faults(const sk_stage_stats *st) {
    return st->faults > 0;
}

static void test_a_context_that_is_full_is_a_fault_after_idle_lanes_were_cleared(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    sv_talk t = p.talk;
    for (uint32_t i = 0; i < SV_CTX; i++) t.tokens[i] = (int32_t)(100 + i);
    t.n_prompt = SV_CTX - SV_BATCH;
    sv_feed(&p.head, 0, &t, t.n_prompt);
    /* an idle lane with a batch, then one session that leaves just a batch free, then another that needs two */
    uint64_t idle = sv_open(&p.head, 2, &t, NULL);
    for (uint32_t lane = 0, pos; lane < 2; lane++) {
        if (lane == 0) {
            sv_fill(&p.head, 2, idle, &t, false);
            sv_stop_session(&p.head, 2, idle, true);
            sv_feed(&p.head, 0, &t, t.n_prompt);
        }
        uint64_t session = sv_open(&p.head, lane, &t, NULL);
        for (pos = 0; pos < (lane == 0 ? t.n_prompt : 2 * SV_BATCH); pos += SV_BATCH) {
            const sk_span span = sv_span(lane, session, &t, pos, SV_BATCH, 0);
            sv_chunk(&p.head, &span, 1, p.head.hidden + (size_t)pos * p.parts.width);
        }
        if (lane == 1) sv_expect_fault(&p.head, session, SKIPPY_E_FULL, "stage 1", "tokens 64 to 128");
    }
    sk_stage_stats st;
    sv_wait_stats(&p.service, has_faults, &st);
    assert_int_equal(st.faults, 1);
    close_pair(&p);
}

/* ---- links ---- */

static bool is_alone(const sk_stage_stats *st) {
    return !st->connected && st->cells_used == 0;
}

/* Begins a frame on a socket of its own and never ends it. */
static void cut_in_a_chunk(const pair *p) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", sv_params(1).listen + strlen("unix:"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    sk_buf b = {0};
    const sk_frame hello = {.kind = SK_FRAME_HELLO, .u.hello = sv_hello(&p->head)};
    const sk_frame open = {
        .kind = SK_FRAME_OPEN, .session = 1, .u.open = {.tokens = p->talk.tokens, .n_tokens = p->talk.n_prompt}};
    sk_frame chunk = {.kind = SK_FRAME_CHUNK};
    chunk.u.chunk = (sk_frame_chunk){.n_spans = 1,
                                     .n_rows = 8,
                                     .width = p->parts.width,
                                     .hidden = p->head.hidden,
                                     .hidden_bytes = (uint64_t)8 * p->parts.width * sizeof(float)};
    chunk.u.chunk.spans[0] = sv_span(0, 1, &p->talk, 0, 8, 0);
    assert_true(sk_frame_encode(&hello, &b) && sk_frame_encode(&open, &b) && sk_frame_encode(&chunk, &b));
    assert_int_equal(write(fd, b.data, b.len - 100), (ssize_t)(b.len - 100));
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1); /* the WELCOME: it listens */
    sk_buf_free(&b);
    close(fd);
}

static void test_a_link_cut_inside_a_chunk_leaves_nothing_behind(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_feed(&p.head, 0, &p.talk, 8);
    cut_in_a_chunk(&p);
    sk_stage_stats st;
    sv_wait_stats(&p.service, is_alone, &st);
    assert_int_equal(st.chunks, 0);
    sv_welcome(&p.head);
    sv_run(&p.head, 0, sv_open(&p.head, 0, &p.talk, NULL), &p.talk, 0);
    close_pair(&p);
}

static void test_a_frame_that_does_not_belong_ends_the_link(void **state) {
    (void)state;
    pair p;
    open_pair(&p, NULL);
    sv_welcome(&p.head);
    const sk_frame f = {.kind = SK_FRAME_ERASED};
    sv_send(&p.head, &f);
    assert_non_null(strstr(sv_expect(&p.head, SK_FRAME_REFUSE)->u.text.text, "ERASED"));
    sv_disconnect(&p.head);
    sv_connect(&p.head, NULL);
    sk_buf b = {0};
    sk_err e;
    const uint8_t nonsense[] = {16, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    sk_buf_add(&b, nonsense, sizeof nonsense);
    assert_int_equal(sk_link_send(p.head.link, &b, false, 0, &e), SKIPPY_OK);
    sk_buf_free(&b);
    assert_non_null(strstr(sv_expect(&p.head, SK_FRAME_REFUSE)->u.text.text, "cannot be read"));
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_a_stage_is_refused_at_the_start),
        cmocka_unit_test(test_a_hello_that_does_not_fit_is_refused_with_both_values),
        cmocka_unit_test(test_a_stage_behind_that_is_not_there_is_named),
        cmocka_unit_test(test_a_refusal_further_on_reaches_the_head),
        cmocka_unit_test(test_a_head_that_does_not_know_the_cuts_learns_them_from_the_cards),
        cmocka_unit_test(test_a_second_peer_is_refused_while_the_first_lives),
        cmocka_unit_test(test_a_wrong_chunk_is_a_fault_that_names_both_sides),
        cmocka_unit_test(test_a_chunk_of_another_shape_is_a_fault),
        cmocka_unit_test(test_frames_of_unknown_sessions_are_faults),
        cmocka_unit_test(test_lengths_that_no_chain_can_restore_are_a_fault),
        cmocka_unit_test(test_a_context_that_is_full_is_a_fault_after_idle_lanes_were_cleared),
        cmocka_unit_test(test_a_link_cut_inside_a_chunk_leaves_nothing_behind),
        cmocka_unit_test(test_a_frame_that_does_not_belong_ends_the_link),
    };
    return cmocka_run_group_tests(tests, sv_setup, sv_teardown);
}
