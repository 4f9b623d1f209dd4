/* Stages that serve: what they compute is what the whole model computes, cold and from every place that state is
 * restored from. On tiny generated models of two memory kinds, with one and two stages behind the head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "stage/service_fixture.h"

static const char *const families[] = {"llama", "falcon-h1"};
enum { FAMILIES = 2, SEED = 7, MIB = 1 << 20 };

/* A chain of n_stages, the head included, and one prompt. */
typedef struct chain {
    sv_parts parts;
    sv_service service[SV_STAGES_MAX];
    sv_head head;
    sv_talk talk;
    uint32_t n;
} chain;

static void start_stage(chain *c, uint32_t i, const sk_stage_params *p) {
    sv_start(&c->service[i], c->parts.stage[i], p);
}

static void open_chain(chain *c, const char *family, uint32_t n_stages, void (*change)(sk_stage_params *p)) {
    c->n = n_stages;
    if (!sv_cut(&c->parts, family, n_stages)) skip();
    for (uint32_t i = 1; i < n_stages; i++) {
        sk_stage_params p = sv_params(i);
        if (change) change(&p);
        start_stage(c, i, &p);
    }
    sv_head_open(&c->head, &c->parts);
    sv_talk_open(&c->talk, &c->parts, SEED);
    sv_welcome(&c->head);
}

static void close_chain(chain *c) {
    sv_talk_close(&c->talk);
    sv_head_close(&c->head);
    for (uint32_t i = 1; i < c->n; i++) sv_stop(&c->service[i]);
    sv_parts_free(&c->parts);
}

/* Computes the prompt from nothing on lane 0. */
static uint64_t run_cold(chain *c) {
    uint64_t session = sv_open(&c->head, 0, &c->talk, NULL);
    sv_restore_all(&c->head, 0, session, 0, SK_STAGE_FRESH);
    sv_run(&c->head, 0, session, &c->talk, 0);
    return session;
}

/* Does this stage offer exactly so many tokens? */
static bool offers(const sk_stage_offer *o, uint32_t n) {
    if (n <= o->range_max) return true;
    for (uint32_t i = 0; i < o->n_exact; i++)
        if (o->exact[i] == n) return true;
    return false;
}

/* ---- cold ---- */

static void cold_in_form(const char *family, uint32_t n_stages) {
    chain c;
    open_chain(&c, family, n_stages, NULL);
    assert_int_equal(c.head.welcome.n_cards, n_stages - 1);
    assert_true(c.head.welcome.cards[n_stages - 2].last);
    run_cold(&c);
    close_chain(&c);
}

static void test_cold_logits_are_those_of_the_whole_model(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++)
        for (uint32_t n = 2; n <= 3; n++) cold_in_form(families[i], n);
}

static void test_a_session_without_a_restore_begins_empty(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "llama", 3, NULL);
    c.head.record_to = 0;
    uint64_t session = run_cold(&c);
    sv_stop_session(&c.head, 0, session, true);
    session = sv_open(&c.head, 0, &c.talk, NULL);
    sv_run(&c.head, 0, session, &c.talk, 0);
    close_chain(&c);
}

/* ---- restored ---- */

static void test_hot_lane_goes_on(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        c.head.record_to = SV_BATCH;
        uint64_t session = run_cold(&c);
        sv_stop_session(&c.head, 0, session, true);
        session = sv_open(&c.head, 0, &c.talk, NULL);
        /* an attention-only lane is cut back in place; a recurrent one is past the boundary, an entry has it */
        sv_restore_all(&c.head, 0, session, SV_BATCH, i == 0 ? SK_STAGE_HOT_LANE : SK_STAGE_RESIDENT);
        sv_run(&c.head, 0, session, &c.talk, SV_BATCH);
        close_chain(&c);
    }
}

static void test_running_lane_is_copied(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        sv_fill(&c.head, 0, sv_open(&c.head, 0, &c.talk, NULL), &c.talk, false); /* only the lane has it */
        uint64_t second = sv_open(&c.head, 1, &c.talk, NULL);
        sv_restore_all(&c.head, 1, second, SV_BATCH, SK_STAGE_ACTIVE_LANE);
        sv_run(&c.head, 1, second, &c.talk, SV_BATCH);
        close_chain(&c);
    }
}

static void test_entries_outlive_the_link(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        c.head.record_to = SV_BATCH;
        run_cold(&c);
        const uint64_t life = c.head.welcome.cards[0].life;
        sv_disconnect(&c.head);
        sv_welcome(&c.head);
        assert_int_equal(c.head.welcome.cards[0].life, life);
        uint64_t session = sv_open(&c.head, 2, &c.talk, NULL);
        const sk_frame_probed *p = sv_probe(&c.head, 2, session);
        for (uint32_t k = 0; k < p->n_offers; k++) assert_true(offers(&p->offers[k], SV_BATCH));
        sv_restore_all(&c.head, 2, session, SV_BATCH, SK_STAGE_RESIDENT);
        sv_run(&c.head, 2, session, &c.talk, SV_BATCH);
        close_chain(&c);
    }
}

static void test_an_exact_repeat_is_answered_from_stored_logits(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        sv_stop_session(&c.head, 0, run_cold(&c), false);
        uint64_t session = sv_open(&c.head, 0, &c.talk, NULL);
        const sk_frame_probed *p = sv_probe(&c.head, 0, session);
        assert_false(p->offers[0].terminal);
        assert_true(p->offers[1].terminal);
        const uint32_t lengths[] = {SV_PROMPT, SV_PROMPT};
        const sk_frame_restored *r = sv_restore(&c.head, 0, session, lengths);
        assert_int_equal(r->status, SKIPPY_OK);
        sv_same_row(&c.head, &c.talk, 0, r->logits, r->n_logits);
        sv_run(&c.head, 0, session, &c.talk, SV_PROMPT);
        sk_stage_stats st;
        sk_stage_get_stats(c.service[2].stage, &st);
        assert_int_equal(st.terminal_hits, 1);
        close_chain(&c);
    }
}

/* ---- from the stores ---- */

static void small_with_ram(sk_stage_params *p) {
    p->setup.cache_seqs = 1;
    p->ram_bytes = 64 * MIB;
}

static bool has_no_cells(const sk_stage_stats *st) {
    return st->cells_used == 0;
}

/* The stores work in the background: asks until all stages offer so many tokens, and the logits when they are wanted.
 */
static uint64_t open_when_offered(chain *c, uint32_t length, bool terminal) {
    for (int i = 0; i < SV_MS / 5; i++) {
        uint64_t session = sv_open(&c->head, 0, &c->talk, NULL);
        const sk_frame_probed *p = sv_probe(&c->head, 0, session);
        bool all = true;
        for (uint32_t k = 0; k < p->n_offers; k++) all = all && offers(&p->offers[k], length);
        if (all && (!terminal || p->offers[p->n_offers - 1].terminal)) return session;
        sv_stop_session(&c->head, 0, session, false);
        sv_pause();
    }
    fail_msg("no stage ever offered %u tokens", length);
    return 0;
}

/* Another prompt takes the only place for an entry, so what was there leaves the context. */
static void push_out(chain *c) {
    sv_talk other;
    sv_talk_open(&other, &c->parts, SEED + 1);
    uint64_t session = sv_open(&c->head, 0, &other, NULL);
    sv_restore_all(&c->head, 0, session, 0, SK_STAGE_FRESH);
    sv_fill(&c->head, 0, session, &other, true);
    sv_stop_session(&c->head, 0, session, false);
    sv_talk_close(&other);
}

static void test_evicted_state_comes_back_from_ram(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, small_with_ram);
        c.head.record_to = SV_BATCH;
        sv_stop_session(&c.head, 0, run_cold(&c), false);
        push_out(&c);
        uint64_t session = open_when_offered(&c, SV_BATCH, false);
        sv_restore_all(&c.head, 0, session, SV_BATCH, SK_STAGE_RAM);
        sv_run(&c.head, 0, session, &c.talk, SV_BATCH);
        close_chain(&c);
    }
}

static char disk[2][300];

static void with_disk(sk_stage_params *p) {
    const bool last = strstr(p->listen, "-2.sock") != NULL;
    snprintf(disk[last], sizeof disk[last], "%s/disk", sv_dir()); /* one folder for both stages */
    p->disk_dir = disk[last];
}

/* Stops the stage and starts it anew: another life, nothing but its disk. */
static void restart(chain *c, uint32_t i, void (*change)(sk_stage_params *p)) {
    sv_stop(&c->service[i]);
    sk_stage_params p = sv_params(i);
    if (change) change(&p);
    start_stage(c, i, &p);
}

static bool has_exported(const sk_stage_stats *st) {
    return st->hold.exports > 0;
}

static void test_state_and_logits_come_back_from_disk_after_a_restart(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, with_disk);
        const uint64_t begun = sk_now_ns();
        sv_stop_session(&c.head, 0, run_cold(&c), false);
        const uint64_t life = c.head.welcome.cards[0].life;
        sk_stage_stats st;
        for (uint32_t k = 1; k < 3; k++) sv_wait_stats(&c.service[k], has_exported, &st); /* the disk is ready */
        assert_true(sk_now_ns() - begun >= SK_HOLD_REST_NS); /* no copy while the head may ask again at once */
        sv_disconnect(&c.head);
        for (uint32_t k = 1; k < 3; k++) restart(&c, k, with_disk);
        sv_welcome(&c.head);
        assert_true(c.head.welcome.cards[0].life != life);
        uint64_t session = open_when_offered(&c, SV_PROMPT, true);
        const uint32_t whole[] = {SV_PROMPT, SV_PROMPT};
        const sk_frame_restored *r = sv_restore(&c.head, 0, session, whole);
        if (r->status) fail_msg("%s", r->text);
        assert_int_equal(r->source[0], SK_STAGE_DISK);
        assert_int_equal(r->source[1], SK_STAGE_DISK);
        sv_same_row(&c.head, &c.talk, 0, r->logits, r->n_logits);
        sv_run(&c.head, 0, session, &c.talk, SV_PROMPT);
        close_chain(&c);
    }
}

/* ---- replay ---- */

static bool has_replayed(const sk_stage_stats *st) {
    return st->rows_replayed == SV_BATCH;
}

static void test_kept_hidden_states_are_replayed_for_a_stage_that_restarted(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        c.head.record_to = SV_BATCH;
        run_cold(&c);
        restart(&c, 2, NULL);
        sv_disconnect(&c.head);
        sv_welcome(&c.head);
        uint64_t session = sv_open(&c.head, 0, &c.talk, NULL);
        const sk_frame_probed *p = sv_probe(&c.head, 0, session);
        assert_true(offers(&p->offers[0], SV_BATCH));
        assert_int_equal(p->offers[0].act_from, 0);
        assert_int_equal(p->offers[0].act_to, SV_PROMPT);
        assert_int_equal(p->offers[1].range_max + p->offers[1].n_exact, 0);
        const uint32_t lengths[] = {SV_BATCH, 0};
        const sk_frame_restored *r = sv_restore(&c.head, 0, session, lengths);
        if (r->status) fail_msg("%s", r->text);
        assert_int_equal(r->source[0], SK_STAGE_RESIDENT);
        assert_int_equal(r->source[1], SK_STAGE_FRESH);
        assert_int_equal(r->replayed_bytes, SV_BATCH * c.parts.width * sizeof(float));
        sv_run(&c.head, 0, session, &c.talk, SV_BATCH);
        sk_stage_stats st;
        sv_wait_stats(&c.service[1], has_replayed, &st);
        close_chain(&c);
    }
}

static void test_a_replay_of_what_is_not_kept_restores_nothing(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "falcon-h1", 3, NULL);
    const uint64_t first = sv_open(&c.head, 0, &c.talk, NULL);
    sv_fill(&c.head, 0, first, &c.talk, false);
    const sk_frame erase = {.kind = SK_FRAME_ERASE};
    sv_send(&c.head, &erase);
    sv_expect(&c.head, SK_FRAME_ERASED);
    /* the running lane still has the state, but the hidden states are gone */
    uint64_t session = sv_open(&c.head, 1, &c.talk, NULL);
    const uint32_t lengths[] = {SV_BATCH, 0};
    const sk_frame_restored *r = sv_restore(&c.head, 1, session, lengths);
    assert_int_equal(r->status, SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(r->text, "stage 1"));
    assert_int_equal(r->source[0], SK_STAGE_FRESH);
    sv_stop_session(&c.head, 0, first, false);
    sv_restore_all(&c.head, 1, session, 0, SK_STAGE_FRESH);
    sv_run(&c.head, 1, session, &c.talk, 0);
    close_chain(&c);
}

/* ---- who may use what ---- */

static bool offers_nothing(const sk_frame_probed *p) {
    for (uint32_t i = 0; i < p->n_offers; i++) {
        const sk_stage_offer *o = &p->offers[i];
        if (o->range_max || o->n_exact || o->terminal || o->act_to != o->act_from) return false;
    }
    return true;
}

static void test_tenants_and_opted_out_sessions_share_nothing(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "llama", 3, NULL);
    const sv_open_options mine = {.tenant = "a", .cache_namespace = "x"};
    const sv_open_options others[] = {{.tenant = "b", .cache_namespace = "x"},
                                      {.tenant = "a", .cache_namespace = "y"},
                                      {.tenant = "a"},
                                      {0},
                                      {.tenant = "a", .cache_namespace = "x", .no_cache = true}};
    sv_run(&c.head, 0, sv_open(&c.head, 0, &c.talk, &mine), &c.talk, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t session = sv_open(&c.head, 1, &c.talk, &others[i]);
        assert_true(offers_nothing(sv_probe(&c.head, 1, session)));
        const uint32_t lengths[] = {SV_BATCH, SV_BATCH};
        assert_int_not_equal(sv_restore(&c.head, 1, session, lengths)->status, SKIPPY_OK);
        sv_stop_session(&c.head, 1, session, true);
    }
    uint64_t session = sv_open(&c.head, 1, &c.talk, &mine);
    const sk_frame_probed *p = sv_probe(&c.head, 1, session);
    assert_int_equal(p->offers[0].range_max, SV_PROMPT);
    close_chain(&c);
}

static void test_an_opted_out_session_leaves_nothing(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "falcon-h1", 3, NULL);
    const sv_open_options out = {.no_cache = true};
    uint64_t session = sv_open(&c.head, 0, &c.talk, &out);
    sv_run(&c.head, 0, session, &c.talk, 0);
    sv_stop_session(&c.head, 0, session, true);
    session = sv_open(&c.head, 0, &c.talk, NULL);
    assert_true(offers_nothing(sv_probe(&c.head, 0, session)));
    sk_stage_stats st;
    sv_wait_stats(&c.service[2], has_no_cells, &st);
    close_chain(&c);
}

static void test_an_erase_takes_entries_lanes_and_hidden_states_of_all_stages(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "llama", 3, NULL);
    sv_stop_session(&c.head, 0, run_cold(&c), true);
    const sk_frame erase = {.kind = SK_FRAME_ERASE, .lane = 0, .session = 77};
    sv_send(&c.head, &erase);
    const sk_frame *f = sv_expect(&c.head, SK_FRAME_ERASED);
    assert_int_equal(f->session, 77);
    assert_int_equal(f->u.count.status, SKIPPY_OK);
    assert_int_equal(f->u.count.n, 2); /* the longest entry of each stage covers the shorter one */
    uint64_t session = sv_open(&c.head, 0, &c.talk, NULL);
    assert_true(offers_nothing(sv_probe(&c.head, 0, session)));
    close_chain(&c);
}

static void test_an_erase_of_one_tenant_leaves_the_others(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "llama", 2, NULL);
    const sv_open_options a = {.tenant = "a"}, b = {.tenant = "b"};
    sv_fill(&c.head, 0, sv_open(&c.head, 0, &c.talk, &a), &c.talk, true);
    sv_fill(&c.head, 1, sv_open(&c.head, 1, &c.talk, &b), &c.talk, true);
    sv_stop_session(&c.head, 0, c.head.last_session - 1, false);
    sv_stop_session(&c.head, 1, c.head.last_session, false);
    const sk_frame erase = {.kind = SK_FRAME_ERASE, .u.erase = {.tenant = "a"}};
    sv_send(&c.head, &erase);
    assert_int_equal(sv_expect(&c.head, SK_FRAME_ERASED)->u.count.n, 1);
    assert_true(offers_nothing(sv_probe(&c.head, 0, sv_open(&c.head, 0, &c.talk, &a))));
    assert_int_equal(sv_probe(&c.head, 1, sv_open(&c.head, 1, &c.talk, &b))->offers[0].range_max, SV_BATCH);
    close_chain(&c);
}

static void test_an_erase_reaches_the_stores(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "falcon-h1", 3, small_with_ram);
    c.head.record_to = SV_BATCH;
    sv_stop_session(&c.head, 0, run_cold(&c), false);
    push_out(&c);
    sv_stop_session(&c.head, 0, open_when_offered(&c, SV_BATCH, false), false);
    const sk_frame erase = {.kind = SK_FRAME_ERASE};
    sv_send(&c.head, &erase);
    const sk_frame *f = sv_expect(&c.head, SK_FRAME_ERASED);
    assert_int_equal(f->u.count.status, SKIPPY_OK);
    assert_true(f->u.count.n >= 4); /* of each stage: the entry in the context, and the one in the store */
    assert_true(offers_nothing(sv_probe(&c.head, 0, sv_open(&c.head, 0, &c.talk, NULL))));
    close_chain(&c);
}

/* ---- another split ---- */

/* HELLO to the last of three stages from a head that computes all layers before it. */
static sk_frame_hello hello_of_two(const chain *c) {
    sk_frame_hello q = sv_hello(&c->head);
    const int32_t cuts[] = {0, c->parts.cuts[2], c->parts.cuts[3]};
    const sk_context_info *ci = sk_context_get_info(c->head.ctx);
    const sk_chain_facts f = {.source = q.head.source,
                              .cuts = cuts,
                              .n_stages = 2,
                              .width = c->parts.width,
                              .n_ctx = SV_CTX,
                              .abi = q.head.abi,
                              .type_k = ci->type_k,
                              .type_v = ci->type_v,
                              .flash_attn = ci->flash_attn};
    q.n_stages = 2;
    q.n_route = 0;
    q.head.layer_end = cuts[1];
    memcpy(q.cuts, cuts + 1, 2 * sizeof *cuts);
    assert_int_equal(sk_chain_key(&f, &q.chain), SKIPPY_OK);
    return q;
}

static void welcome_as(chain *c, const sk_frame_hello *q) {
    sv_disconnect(&c->head);
    sv_connect(&c->head, q);
    if (c->head.frame.kind != SK_FRAME_WELCOME) fail_msg("%s", c->head.frame.u.text.text);
    sk_link_add_credits(c->head.link, c->head.frame.u.welcome.credits);
}

static uint32_t offered_to(chain *c) {
    const uint64_t session = sv_open(&c->head, 0, &c->talk, NULL);
    const sk_frame f = {.kind = SK_FRAME_PROBE, .session = session};
    sv_send(&c->head, &f);
    const uint32_t n = sv_expect(&c->head, SK_FRAME_PROBED)->u.probed.offers[0].range_max;
    sv_stop_session(&c->head, 0, session, false);
    return n;
}

static void test_what_one_split_stored_is_never_offered_to_another(void **state) {
    (void)state;
    chain c = {.n = 3};
    if (!sv_cut(&c.parts, "llama", 3)) skip();
    sk_stage_params p = sv_params(1); /* where the head connects to */
    sv_start(&c.service[2], c.parts.stage[2], &p);
    sv_head_open(&c.head, &c.parts);
    sv_talk_open(&c.talk, &c.parts, SEED);
    const sk_frame_hello two = hello_of_two(&c);
    sk_frame_hello three = sv_hello(&c.head);
    three.index = 2;
    three.n_route = 0;
    welcome_as(&c, &two);
    const uint64_t session = sv_open(&c.head, 0, &c.talk, NULL);
    sv_fill(&c.head, 0, session, &c.talk, true);
    sv_stop_session(&c.head, 0, session, false);
    assert_int_equal(offered_to(&c), SV_BATCH);
    welcome_as(&c, &two);
    assert_int_equal(offered_to(&c), SV_BATCH);
    welcome_as(&c, &three);
    assert_int_equal(offered_to(&c), 0);
    sv_talk_close(&c.talk);
    sv_head_close(&c.head);
    sv_stop(&c.service[2]);
    sv_parts_free(&c.parts);
}

/* ---- several at once, half width, cut back ---- */

static void test_lanes_share_a_chunk(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        chain c;
        open_chain(&c, families[i], 3, NULL);
        const uint32_t n = SV_BATCH / 2;
        sv_talk other;
        sv_talk_open(&other, &c.parts, SEED + 9);
        float *hidden = calloc((size_t)2 * n * c.parts.width, sizeof *hidden);
        assert_non_null(hidden);
        const size_t bytes = (size_t)n * c.parts.width * sizeof *hidden;
        const uint64_t a = sv_open(&c.head, 0, &c.talk, NULL), b = sv_open(&c.head, 1, &other, NULL);
        sv_feed(&c.head, 0, &c.talk, n);
        memcpy(hidden, c.head.hidden, bytes);
        sv_feed(&c.head, 1, &other, n);
        memcpy(hidden + (size_t)n * c.parts.width, c.head.hidden, bytes);
        const sk_span spans[] = {sv_span(0, a, &c.talk, 0, n, SK_SPAN_OUTPUT),
                                 sv_span(1, b, &other, 0, n, SK_SPAN_OUTPUT)};
        sv_chunk(&c.head, spans, 2, hidden);
        float *first = calloc(c.parts.n_vocab, sizeof *first);
        assert_non_null(first);
        const sk_frame *f = sv_expect(&c.head, SK_FRAME_RESULT);
        assert_int_equal(f->session, a);
        memcpy(first, f->u.result.logits, c.parts.n_vocab * sizeof *first);
        f = sv_expect(&c.head, SK_FRAME_RESULT);
        assert_int_equal(f->session, b);
        assert_int_equal(f->lane, 1);
        assert_memory_not_equal(first, f->u.result.logits, c.parts.n_vocab * sizeof *first);
        free(first);
        free(hidden);
        sv_talk_close(&other);
        close_chain(&c);
    }
}

static void as_f16(sk_stage_params *p) {
    p->dtype = 1;
}

static bool has_computed(const sk_stage_stats *st) {
    return st->chunks > 0;
}

static void test_half_width_links_stay_close(void **state) {
    (void)state;
    chain c = {.n = 3};
    if (!sv_cut(&c.parts, "llama", 3)) skip();
    for (uint32_t i = 1; i < 3; i++) {
        sk_stage_params p = sv_params(i);
        as_f16(&p);
        start_stage(&c, i, &p);
    }
    sv_head_open(&c.head, &c.parts);
    sv_talk_open(&c.talk, &c.parts, SEED);
    c.head.dtype = 1;
    sv_welcome(&c.head);
    uint64_t session = sv_open(&c.head, 0, &c.talk, NULL);
    sv_feed(&c.head, 0, &c.talk, SV_BATCH);
    const sk_span p = sv_span(0, session, &c.talk, 0, SV_BATCH, SK_SPAN_PROMPT | SK_SPAN_OUTPUT);
    sv_chunk(&c.head, &p, 1, c.head.hidden);
    const sk_frame *f = sv_expect(&c.head, SK_FRAME_RESULT);
    assert_int_equal(f->u.result.n_logits, c.parts.n_vocab);
    sk_stage_stats st;
    sv_wait_stats(&c.service[1], has_computed, &st); /* they are published after the answer */
    assert_int_equal(st.hidden_bytes_in, SV_BATCH * c.parts.width * 2);
    assert_int_equal(st.hidden_bytes_out, SV_BATCH * c.parts.width * 2);
    close_chain(&c);
}

static void test_a_trim_forgets_the_tokens_behind_it(void **state) {
    (void)state;
    chain c;
    open_chain(&c, "llama", 3, NULL);
    uint64_t session = run_cold(&c);
    sv_count(&c.head, SK_FRAME_TRIM, 0, session, SV_BATCH);
    sv_run(&c.head, 0, session, &c.talk, SV_BATCH);
    close_chain(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_logits_are_those_of_the_whole_model),
        cmocka_unit_test(test_a_session_without_a_restore_begins_empty),
        cmocka_unit_test(test_hot_lane_goes_on),
        cmocka_unit_test(test_running_lane_is_copied),
        cmocka_unit_test(test_entries_outlive_the_link),
        cmocka_unit_test(test_an_exact_repeat_is_answered_from_stored_logits),
        cmocka_unit_test(test_evicted_state_comes_back_from_ram),
        cmocka_unit_test(test_state_and_logits_come_back_from_disk_after_a_restart),
        cmocka_unit_test(test_kept_hidden_states_are_replayed_for_a_stage_that_restarted),
        cmocka_unit_test(test_a_replay_of_what_is_not_kept_restores_nothing),
        cmocka_unit_test(test_tenants_and_opted_out_sessions_share_nothing),
        cmocka_unit_test(test_an_opted_out_session_leaves_nothing),
        cmocka_unit_test(test_an_erase_takes_entries_lanes_and_hidden_states_of_all_stages),
        cmocka_unit_test(test_an_erase_of_one_tenant_leaves_the_others),
        cmocka_unit_test(test_an_erase_reaches_the_stores),
        cmocka_unit_test(test_what_one_split_stored_is_never_offered_to_another),
        cmocka_unit_test(test_lanes_share_a_chunk),
        cmocka_unit_test(test_half_width_links_stay_close),
        cmocka_unit_test(test_a_trim_forgets_the_tokens_behind_it),
    };
    return cmocka_run_group_tests(tests, sv_setup, sv_teardown);
}
