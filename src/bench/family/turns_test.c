#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/test_folder.h"
#include "bench/conversation.h"
#include "bench/family/fake_server.h"
#include "bench/family/turns.h"
#include "bench/interrupt.h"

static char folder[64];

/* What the part for tests does, and what it saw. */
static struct {
    size_t rounds[SK_FAMILY_MAX_HOSTS];         /* by the place of the host in `hosts` */
    size_t fail_prepare, fail_host, fail_round; /* place + 1; 0 = never */
    int fail_rc;
    size_t stop_after; /* rounds of all hosts until the deadline is over; 0 = never */
    sk_turns *turns;
    const sk_family_host *hosts;
    sk_buf log; /* "llama-server:0 skippy:0 ..." */
    size_t prepared, finished, done;
} script;

static size_t place(const sk_part_host *h) {
    return (size_t)(h->host - script.hosts);
}

static size_t script_rounds(const sk_part_host *h) {
    return script.rounds[place(h)];
}

static size_t script_tokens(const sk_part_task *t) {
    (void)t;
    return 1;
}

/* One cold answer, so that there is something to compare. */
static int script_prepare(sk_part_host *h, sk_err *e) {
    sk_conversation c;
    script.prepared++;
    if (script.fail_prepare == place(h) + 1) {
        return sk_err_set(e, SKIPPY_E_INVALID, "not prepared");
    }
    sk_prompts_note(&h->prompts, "a text", 6);
    h->prompts.made++;
    json_object_set_new(h->extra, "prepared", json_true());
    int rc = sk_conversation_init(&c, false, e);
    rc = rc ? rc : sk_conversation_add(&c, "user", "how are you", e);
    rc = rc ? rc : sk_part_send(h, &c, 1, NULL, true, NULL, e);
    sk_conversation_free(&c);
    return rc;
}

static int script_round(sk_part_host *h, size_t i, sk_err *e) {
    sk_conversation c;
    char text[32];
    sk_buf_printf(&script.log, "%s:%zu ", h->host->name, i);
    if (script.fail_host == place(h) + 1 && script.fail_round == i) {
        return sk_err_set(e, script.fail_rc, "round %zu went wrong", i);
    }
    snprintf(text, sizeof text, "round %zu", i);
    sk_prompts_note(&h->prompts, text, strlen(text));
    h->prompts.made++;
    int rc = sk_conversation_init(&c, false, e);
    rc = rc ? rc : sk_conversation_add(&c, "user", text, e);
    rc = rc ? rc : sk_part_send(h, &c, 1, "script", false, NULL, e);
    sk_conversation_free(&c);
    script.done++;
    if (script.done == script.stop_after) {
        script.turns->deadline_ns = 1;
    }
    return rc;
}

static void script_finish(sk_part_host *h) {
    (void)h;
    script.finished++;
}

static const sk_part scripted = {.name = "scripted",
                                 .title = "scripted",
                                 .rounds = script_rounds,
                                 .lane_tokens = script_tokens,
                                 .prepare = script_prepare,
                                 .round = script_round,
                                 .finish = script_finish};

/* ---- three servers ---- */

enum { HOSTS = 3 };

static const sk_family_sizes sizes = {.seed = 1};
static const sk_family_cell cell = {.prefix_tokens = 16};
static const sk_part_task task = {.cell = &cell, .sizes = &sizes};

typedef struct table {
    sk_family_host hosts[HOSTS];
    sk_turns turns;
    sk_part_result result;
} table;

static void set_up(table *x, bool together, const char *flags_of_baselines, const char *flags_of_ours) {
    memset(&script, 0, sizeof script);
    *x = (table){.hosts = {fake_host(SK_HOST_BASE, folder, flags_of_baselines),
                           fake_host(SK_HOST_TUNED, folder, flags_of_baselines),
                           fake_host(SK_HOST_OURS, folder, flags_of_ours)},
                 .turns = {.n_hosts = HOSTS, .together = together, .task = &task}};
    x->turns.hosts = x->hosts;
    script.hosts = x->hosts;
    script.turns = &x->turns;
    for (size_t i = 0; i < HOSTS; i++) {
        script.rounds[i] = 3;
        if (together) {
            assert_int_equal(sk_host_start(&x->hosts[i], NULL), SKIPPY_OK);
        }
    }
}

static int run(table *x) {
    return sk_turns_run(&x->turns, &scripted, &x->result);
}

static void tear_down(table *x) {
    assert_int_equal(script.prepared, script.finished);
    sk_part_result_free(&x->result);
    for (size_t i = 0; i < HOSTS; i++) {
        sk_host_free(&x->hosts[i]);
    }
    sk_buf_free(&script.log);
}

static size_t samples(const table *x, size_t host) {
    const sk_series *s = sk_measurement_find(&x->result.m[host], "script");
    return s ? s->n : 0;
}

/* ---- tests ---- */

static void another_server_begins_each_round(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_string_equal(script.log.data,
                        "llama-server:0 llama-server-tuned:0 skippy:0 llama-server-tuned:1 skippy:1 llama-server:1 "
                        "skippy:2 llama-server:2 llama-server-tuned:2 ");
    assert_true(x.result.gate[0].comparable && x.result.gate[1].comparable);
    assert_int_equal(x.result.gate[0].answers, 4);
    assert_string_equal(x.result.m[0].version, "fake 1");
    assert_non_null(strstr(x.result.m[2].command, FAKE_SERVER_COMMAND));
    assert_true(x.result.m[2].memory.peak_rss > 0);
    assert_true(x.hosts[0].port != 0); /* it runs on for the next part */
    tear_down(&x);
}

static void servers_that_do_not_fit_together_run_one_after_another(void **state) {
    (void)state;
    table x;
    set_up(&x, false, NULL, NULL);
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_string_equal(script.log.data,
                        "llama-server:0 llama-server:1 llama-server:2 llama-server-tuned:0 llama-server-tuned:1 "
                        "llama-server-tuned:2 skippy:0 skippy:1 skippy:2 ");
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(x.hosts[i].port, 0);
        assert_int_equal(json_array_size(x.hosts[i].receipts), 1);
    }
    assert_true(x.result.gate[0].comparable && x.result.gate[1].comparable);
    tear_down(&x);
}

static void a_failing_server_does_not_stop_the_others(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    script.fail_host = 2;
    script.fail_round = 1;
    script.fail_rc = SKIPPY_E_CORRUPT;
    assert_int_equal(run(&x), SKIPPY_E_CORRUPT);
    assert_string_equal(x.result.err.text, "llama-server-tuned: round 1 went wrong");
    assert_int_equal(x.result.m[1].error.code, SKIPPY_E_CORRUPT);
    assert_int_equal(samples(&x, 0), 3);
    assert_int_equal(samples(&x, 1), 1); /* what was measured is kept */
    assert_int_equal(samples(&x, 2), 3);
    assert_true(x.result.gate[0].comparable);
    assert_false(x.result.gate[1].comparable);
    tear_down(&x);
}

static void a_server_that_cannot_be_prepared_does_no_round(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    script.fail_prepare = 1;
    assert_int_equal(run(&x), SKIPPY_E_INVALID);
    assert_string_equal(x.result.err.text, "llama-server: not prepared");
    assert_int_equal(samples(&x, 0), 0);
    assert_int_equal(samples(&x, 2), 3);
    tear_down(&x);
}

static void a_server_that_dies_is_named_with_its_last_words(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, "--die-after 2");
    assert_int_not_equal(run(&x), SKIPPY_OK);
    assert_non_null(strstr(x.result.err.text, "skippy: the server ended in the middle; its last words: fake server:"));
    assert_int_equal(samples(&x, 2), 1);
    assert_int_equal(samples(&x, 0), 3);
    tear_down(&x);
}

static void a_server_that_does_not_run_is_an_error_in_words(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    sk_host_stop(&x.hosts[0]);
    assert_int_equal(run(&x), SKIPPY_E_RUNTIME);
    assert_string_equal(x.result.err.text, "llama-server: the server does not run");
    assert_int_equal(samples(&x, 2), 3);
    tear_down(&x);
}

static void a_server_that_cannot_be_started_does_not_stop_the_others(void **state) {
    (void)state;
    table x;
    set_up(&x, false, NULL, NULL);
    x.hosts[1].launch.program = "./no-such-program";
    assert_int_equal(run(&x), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(x.result.err.text, "llama-server-tuned: cannot run './no-such-program'"));
    assert_int_equal(samples(&x, 1), 0);
    assert_int_equal(samples(&x, 2), 3);
    tear_down(&x);
}

static void the_time_limit_of_one_server_is_a_failure_and_no_timeout_of_the_part(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    script.fail_host = 1;
    script.fail_rc = SKIPPY_E_TIMEOUT;
    assert_int_equal(run(&x), SKIPPY_E_RUNTIME);
    assert_int_equal(x.result.m[0].error.code, SKIPPY_E_TIMEOUT);
    assert_int_equal(samples(&x, 2), 3);
    tear_down(&x);
}

static void a_deadline_stops_between_rounds_and_keeps_what_was_measured(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    script.stop_after = 4;
    assert_int_equal(run(&x), SKIPPY_E_TIMEOUT);
    assert_string_equal(x.result.err.text, "the time for this run is over");
    assert_int_equal(script.done, 4);
    assert_int_equal(samples(&x, 1), 2);
    assert_int_equal(x.result.m[0].error.code, SKIPPY_E_TIMEOUT);
    assert_string_equal(x.result.m[0].error.text, "stopped after 1 of 3 rounds");
    assert_false(x.result.gate[0].comparable);
    tear_down(&x);
}

static void a_deadline_that_is_over_starts_nothing(void **state) {
    (void)state;
    table x;
    set_up(&x, false, NULL, NULL);
    x.turns.deadline_ns = sk_now_ns();
    assert_int_equal(run(&x), SKIPPY_E_TIMEOUT);
    assert_int_equal(x.hosts[0].starts, 0);
    assert_int_equal(script.prepared, 0);
    tear_down(&x);
}

static void servers_with_other_numbers_of_rounds_are_compared_by_what_both_did(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    script.rounds[2] = 5;
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_int_equal(samples(&x, 0), 3);
    assert_int_equal(samples(&x, 2), 5);
    assert_true(x.result.gate[0].same_prompts);
    assert_true(x.result.gate[0].comparable);
    assert_int_equal(x.result.gate[0].answers, 4); /* the cold one, three rounds */
    assert_int_equal(x.result.m[2].n_prompts, 4);
    tear_down(&x);
}

static void a_part_without_rounds_is_complete(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    memset(script.rounds, 0, sizeof script.rounds);
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_int_equal(samples(&x, 0), 0);
    assert_true(x.result.gate[0].comparable); /* by the cold answer */
    tear_down(&x);
}

static void answers_that_differ_are_settled_by_llama_server(void **state) {
    (void)state;
    for (int together = 0; together < 2; together++) {
        table x;
        set_up(&x, together, "--word left --tie", "--word right");
        assert_int_equal(run(&x), SKIPPY_OK);
        assert_int_equal(x.result.gate[0].cold_ties, 1);
        assert_true(x.result.gate[0].comparable && x.result.gate[1].comparable);
        /* alone, it had to be started once more to be asked */
        assert_int_equal(x.hosts[0].starts, together ? 1 : 2);
        assert_int_equal(x.hosts[1].starts, 1);
        tear_down(&x);
    }
}

static void answers_that_differ_stay_different_without_a_near_tie(void **state) {
    (void)state;
    table x;
    set_up(&x, true, "--word left", "--word right");
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_int_equal(x.result.gate[0].cold_equal + x.result.gate[0].cold_ties, 0);
    assert_false(x.result.gate[0].comparable);
    tear_down(&x);
}

static void count_progress(void *ud, const char *part, const char *host, size_t round, size_t rounds) {
    assert_string_equal(part, "scripted");
    assert_non_null(host);
    assert_true(round < rounds);
    ++*(int *)ud;
}

static void every_round_is_told(void **state) {
    (void)state;
    table x;
    int told = 0;
    set_up(&x, true, NULL, NULL);
    x.turns.progress = count_progress;
    x.turns.progress_ud = &told;
    assert_int_equal(run(&x), SKIPPY_OK);
    assert_int_equal(told, 9);
    tear_down(&x);
}

static void the_record_holds_every_sample_and_the_gate(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    assert_int_equal(run(&x), SKIPPY_OK);
    json_t *root = sk_part_result_json(&x.result, &x.turns);
    const char *status, *error, *schedule, *digest;
    json_t *ms, *cache_n, *prompt_n;
    int comparable, same, prompts, cold, equal, ties, answers, first, prepared;
    assert_int_equal(
        json_unpack(root,
                    "{s:s, s:s, s:s, s:{s:{s:{}, s:{}, s:{s:o, s:o, s:o !} !} !}, s:{s:{}, s:{s:b, s:b, s:i, s:i, "
                    "s:i, s:i, s:i !} !}, s:{s:{}, s:{}, s:{s:b !} !}, s:i, s:s !}",
                    "status", &status, "error", &error, "schedule", &schedule, "series", "script", "llama-server",
                    "llama-server-tuned", "skippy", "ms", &ms, "cache_n", &cache_n, "prompt_n", &prompt_n, "gate",
                    "llama-server", "llama-server-tuned", "comparable", &comparable, "same_prompts", &same, "cold",
                    &cold, "cold_equal", &equal, "cold_ties", &ties, "answers", &answers, "first_equal", &first,
                    "extra", "llama-server", "llama-server-tuned", "skippy", "prepared", &prepared, "prompts", &prompts,
                    "prompts_blake3", &digest),
        0);
    assert_string_equal(status, "ok");
    assert_string_equal(error, "");
    assert_string_equal(schedule, "in turns");
    assert_int_equal(json_array_size(ms), 3);
    assert_true(json_real_value(json_array_get(ms, 2)) > 0.0);
    assert_int_equal(json_integer_value(json_array_get(cache_n, 2)), 2); /* its beginning, and "round" */
    assert_int_equal(json_integer_value(json_array_get(prompt_n, 2)), 1);
    assert_true(comparable && same && prepared);
    assert_int_equal(cold, 1);
    assert_int_equal(equal, 1);
    assert_int_equal(ties, 0);
    assert_int_equal(answers, 4);
    assert_int_equal(first, 4);
    assert_int_equal(prompts, 4);
    assert_int_equal(strlen(digest), 64);
    json_decref(root);
    tear_down(&x);
}

static void the_record_names_a_failure_even_if_its_text_is_no_utf8(void **state) {
    (void)state;
    const sk_turns t = {0};
    sk_part_result r = {.rc = SKIPPY_E_IO, .err = {.text = "cut in a \xc3"}};
    json_t *root = sk_part_result_json(&r, &t);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "failed");
    assert_string_equal(json_string_value(json_object_get(root, "error")), "cut in a \xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(root, "schedule")), "one after another");
    json_decref(root);
    r.rc = SKIPPY_E_TIMEOUT;
    root = sk_part_result_json(&r, &t);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "timeout");
    json_decref(root);
    r.rc = SKIPPY_E_CANCELLED;
    root = sk_part_result_json(&r, &t);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "cancelled");
    json_decref(root);
}

static void no_server_or_too_many_are_refused(void **state) {
    (void)state;
    const size_t bad[] = {0, SK_FAMILY_MAX_HOSTS + 1};
    for (size_t i = 0; i < 2; i++) {
        const sk_turns t = {.n_hosts = bad[i], .task = &task};
        sk_part_result r;
        assert_int_equal(sk_turns_run(&t, &scripted, &r), SKIPPY_E_INVALID);
        assert_non_null(strstr(r.err.text, "a part runs on 1 to 6 servers"));
        sk_part_result_free(&r);
    }
}

/* Last: this process stays interrupted. */
static void a_signal_cancels_the_part(void **state) {
    (void)state;
    table x;
    set_up(&x, true, NULL, NULL);
    sk_interrupt_install();
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(run(&x), SKIPPY_E_CANCELLED);
    assert_string_equal(x.result.err.text, "interrupted");
    assert_int_equal(script.done, 0);
    tear_down(&x);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "turns-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_server_begins_each_round),
        cmocka_unit_test(servers_that_do_not_fit_together_run_one_after_another),
        cmocka_unit_test(a_failing_server_does_not_stop_the_others),
        cmocka_unit_test(a_server_that_cannot_be_prepared_does_no_round),
        cmocka_unit_test(a_server_that_dies_is_named_with_its_last_words),
        cmocka_unit_test(a_server_that_does_not_run_is_an_error_in_words),
        cmocka_unit_test(a_server_that_cannot_be_started_does_not_stop_the_others),
        cmocka_unit_test(the_time_limit_of_one_server_is_a_failure_and_no_timeout_of_the_part),
        cmocka_unit_test(a_deadline_stops_between_rounds_and_keeps_what_was_measured),
        cmocka_unit_test(a_deadline_that_is_over_starts_nothing),
        cmocka_unit_test(servers_with_other_numbers_of_rounds_are_compared_by_what_both_did),
        cmocka_unit_test(a_part_without_rounds_is_complete),
        cmocka_unit_test(answers_that_differ_are_settled_by_llama_server),
        cmocka_unit_test(answers_that_differ_stay_different_without_a_near_tie),
        cmocka_unit_test(every_round_is_told),
        cmocka_unit_test(the_record_holds_every_sample_and_the_gate),
        cmocka_unit_test(the_record_names_a_failure_even_if_its_text_is_no_utf8),
        cmocka_unit_test(no_server_or_too_many_are_refused),
        cmocka_unit_test(a_signal_cancels_the_part),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
