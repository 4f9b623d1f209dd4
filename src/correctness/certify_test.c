/* Certification on tiny models of every memory kind: it passes where state is exact, and it fails when state is
 * damaged. The program starts itself again for the hand-over to a fresh process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "correctness/certify.h"
#include "correctness/report.h"
#include "correctness/schema_check.h"
#include "correctness/worker.h"

enum { PREFIX = 64 };

static const char *const again[] = {"/proc/self/exe", "--restore-worker", NULL};

static bool find_model(const char *family, char *path, size_t cap) {
    const char *dir = getenv("SKIPPY_TEST_MODELS"), *build = getenv("SKIPPY_BUILD_DIR");
    if (dir)
        snprintf(path, cap, "%s/%s.gguf", dir, family);
    else
        snprintf(path, cap, "%s/tests/models/%s.gguf", build ? build : ".", family);
    if (access(path, R_OK) == 0) return true;
    printf("skipped: the test model '%s' is not there\n", path);
    return false;
}

/* One short length, one thread: a second of work. path must outlive the options. */
static sk_certify_options options(const char *path) {
    return (sk_certify_options){
        .model_path = path, .prefix = {PREFIX}, .n_prefix = 1, .n_threads = 1, .flash_attn = -1, .worker_argv = again};
}

static sk_certify_report *certify(const sk_certify_options *o) {
    sk_err e = {0};
    sk_certify_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    if (sk_certify_run(o, r, &e)) fail_msg("%s", e.text);
    assert_int_equal(r->n_lengths, 1);
    return r;
}

static void discard(sk_certify_report *r) {
    sk_certify_report_free(r);
    free(r);
}

static void assert_outcome(const sk_certify_report *r, enum sk_mode mode, enum sk_outcome expected) {
    const sk_mode_result *m = &r->length[0].mode[mode];
    if (m->outcome != expected)
        fail_msg("%s: %s instead of %s (%s)", sk_mode_name(mode), sk_outcome_name(m->outcome),
                 sk_outcome_name(expected), m->reason);
}

static void assert_passed(const sk_certify_report *r) {
    if (!r->passed) fail_msg("%s", r->verdict);
    const sk_mode_result *m = &r->length[0].mode[r->production];
    for (int t = 0; t < SK_TARGETS; t++) {
        assert_true(m->target[t].check.ran);
        assert_true(m->target[t].check.state); /* canonical bytes survive the way through the store */
        assert_int_equal(m->target[t].check.greedy_equal, SK_TRIAL_GREEDY);
    }
    assert_true(m->cost.total_bytes > 0);
    assert_int_equal(m->n_blocks, m->cost.blocks);
}

typedef struct expectation {
    const char *family;
    bool swa_full;
    enum sk_outcome outcome[SK_MODES]; /* in the order of enum sk_mode */
} expectation;

#define NONE SK_OUTCOME_NOT_APPLICABLE
#define PASS SK_OUTCOME_PASS
#define REFUSED SK_OUTCOME_REFUSED

static expectation dense = {"llama", false, {PASS, PASS, PASS, NONE, NONE, PASS, NONE}};
static expectation window = {"gemma3", false, {PASS, PASS, PASS, NONE, NONE, PASS, REFUSED}};
static expectation full_window = {"gemma3", true, {PASS, PASS, PASS, NONE, NONE, PASS, NONE}};
static expectation hybrid = {"falcon-h1", false, {PASS, NONE, PASS, REFUSED, PASS, REFUSED, REFUSED}};
static expectation recurrent = {"mamba2", false, {PASS, NONE, PASS, PASS, PASS, REFUSED, NONE}};

static void each_memory_kind_passes_and_refuses_what_it_must(void **state) {
    const expectation *x = *state;
    char path[1024];
    if (!find_model(x->family, path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.swa_full = x->swa_full;
    sk_certify_report *r = certify(&o);
    assert_passed(r);
    for (int m = 0; m < SK_MODES; m++) assert_outcome(r, (enum sk_mode)m, x->outcome[m]);
    discard(r);
}

static void keys_and_values_alone_are_shown_to_be_wrong(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("falcon-h1", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    sk_certify_report *r = certify(&o);
    const sk_mode_result *m = &r->length[0].mode[SK_MODE_KV_ONLY];
    assert_true(m->was_forced);
    assert_true(m->forced.rel_l2 > 0.1);
    discard(r);
}

/* The reports of damaged runs must say fail, and blame the payload and not the snapshot. */
static void assert_damage_is_seen(const char *family, enum sk_fault fault) {
    char path[1024];
    if (!find_model(family, path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.fault = fault;
    sk_certify_report *r = certify(&o);
    assert_false(r->passed);
    assert_outcome(r, SK_MODE_RESIDENT, SK_OUTCOME_PASS);
    assert_outcome(r, r->production, SK_OUTCOME_FAIL);
    json_t *report = sk_certify_report_json(r, "test");
    assert_string_equal(json_string_value(json_object_get(report, "status")), "fail");
    assert_true(json_is_false(json_object_get(report, "matches")));
    json_decref(report);
    discard(r);
}

static void a_flipped_bit_of_the_payload_fails_dense(void **state) {
    (void)state;
    assert_damage_is_seen("llama", SK_FAULT_FLIP_BYTE);
}

static void a_flipped_bit_of_the_payload_fails_hybrid(void **state) {
    (void)state;
    assert_damage_is_seen("falcon-h1", SK_FAULT_FLIP_BYTE);
}

static void a_flipped_bit_of_the_payload_fails_recurrent(void **state) {
    (void)state;
    assert_damage_is_seen("mamba2", SK_FAULT_FLIP_BYTE);
}

static void a_lost_recurrent_part_fails(void **state) {
    (void)state;
    assert_damage_is_seen("falcon-h1", SK_FAULT_DROP_STATE);
}

static void a_lost_window_fails(void **state) {
    (void)state;
    assert_damage_is_seen("gemma3", SK_FAULT_DROP_STATE);
}

static void without_a_row_class_values_are_compared(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("llama", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.flash_attn = 0;
    sk_certify_report *r = certify(&o);
    assert_passed(r);
    assert_false(r->length[0].criterion.bit);
    assert_true(r->length[0].criterion.tolerance > 0.0);
    discard(r);
}

static void damage_is_seen_by_values_too(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("llama", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.flash_attn = 0;
    o.fault = SK_FAULT_FLIP_BYTE;
    sk_certify_report *r = certify(&o);
    assert_outcome(r, SK_MODE_RESIDENT_KV, SK_OUTCOME_FAIL);
    discard(r);
}

static void quantised_keys_and_values_pass(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("llama", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.type_k = o.type_v = "q8_0";
    sk_certify_report *r = certify(&o);
    assert_passed(r);
    assert_string_equal(r->identity.type_k, "q8_0");
    discard(r);
}

static void a_text_can_be_the_prompt(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("qwen3", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.prompt = "Tell me";
    sk_certify_report *r = certify(&o);
    assert_passed(r);
    discard(r);
}

static void a_fresh_process_that_does_not_answer_fails_the_payload(void **state) {
    static const char *const ends[] = {"/bin/false", NULL}, *const hangs[] = {"/bin/sh", "-c", "sleep 60", NULL},
                             *const missing[] = {"/no/such/program", NULL};
    const struct {
        const char *const *argv;
        const char *words;
    } cases[] = {{ends, "ended with code 1"}, {hangs, "did not answer"}, {missing, "ended with code 127"}};
    char path[1024];
    (void)state;
    if (!find_model("llama", path, sizeof path)) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sk_certify_options o = options(path);
        o.worker_argv = cases[i].argv;
        o.worker_timeout_ms = 100;
        sk_certify_report *r = certify(&o);
        assert_false(r->passed);
        const sk_mode_result *m = &r->length[0].mode[SK_MODE_RESIDENT_KV];
        assert_int_equal(m->outcome, SK_OUTCOME_FAIL);
        assert_non_null(strstr(m->target[SK_TARGET_PROCESS].error, cases[i].words));
        discard(r);
    }
}

static void assert_refused(const sk_certify_options *o, int code, const char *words) {
    sk_err e = {0};
    sk_certify_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(sk_certify_run(o, r, &e), code);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    free(r);
}

static bool stop_at_once(void *ud, const char *what) {
    (void)ud, (void)what;
    return false;
}

static void wrong_options_are_refused_in_words(void **state) {
    char path[1024];
    (void)state;
    if (!find_model("llama", path, sizeof path)) skip();
    sk_certify_options o = options(path);
    o.worker_argv = NULL;
    assert_refused(&o, SKIPPY_E_INVALID, "fresh process");
    o = options(path);
    o.repeats = SK_TRIAL_MAX_REPEATS + 1;
    assert_refused(&o, SKIPPY_E_INVALID, "repeated hits");
    o = options(path);
    o.prefix[0] = 7;
    assert_refused(&o, SKIPPY_E_INVALID, "a prefix of 7 tokens");
    o = options(path);
    o.prefix[0] = 8000;
    assert_refused(&o, SKIPPY_E_INVALID, "needs a context of");
    o = options(path);
    o.type_k = "f7";
    assert_refused(&o, SKIPPY_E_INVALID, "f7");
    o = options(path);
    o.progress = stop_at_once;
    assert_refused(&o, SKIPPY_E_CANCELLED, "stopped");
    o = options("there-is-no-such.gguf");
    assert_refused(&o, SKIPPY_E_NOT_FOUND, "there-is-no-such.gguf");
}

static void a_damaged_request_is_answered_with_an_error(void **state) {
    (void)state;
    char name[] = "worker-test-XXXXXX", fds[32];
    int in = mkstemp(name);
    assert_true(in >= 0);
    unlink(name);
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(write(in, "not a container", 15), 15);
    snprintf(fds, sizeof fds, "%d:%d", in, fileno(out));
    assert_int_equal(sk_worker_main(fds), 0);
    assert_int_equal(sk_worker_main("seven"), 2);
    assert_true(lseek(fileno(out), 0, SEEK_END) > 0);
    close(in);
    fclose(out);
}

static void the_report_has_every_field_of_its_schema(void **state) {
    static const char *const families[] = {"llama", "falcon-h1"};
    char path[1024];
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (!find_model(families[i], path, sizeof path)) skip();
        sk_certify_options o = options(path);
        sk_certify_report *r = certify(&o);
        json_t *report = sk_certify_report_json(r, "test");
        assert_matches_schema(report, "docs/formats/certification-report.schema.json");
        assert_true(json_is_true(json_object_get(report, "matches")));
        json_decref(report);
        discard(r);
    }
}

#define KIND(x)                                                                                                        \
    {                                                                                                                  \
        .name = #x ": each_memory_kind_passes_and_refuses_what_it_must",                                               \
        .test_func = each_memory_kind_passes_and_refuses_what_it_must, .initial_state = &(x)                           \
    }

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--restore-worker") == 0) return sk_worker_main(argv[2]);
    const struct CMUnitTest tests[] = {
        KIND(dense),
        KIND(window),
        KIND(full_window),
        KIND(hybrid),
        KIND(recurrent),
        cmocka_unit_test(keys_and_values_alone_are_shown_to_be_wrong),
        cmocka_unit_test(a_flipped_bit_of_the_payload_fails_dense),
        cmocka_unit_test(a_flipped_bit_of_the_payload_fails_hybrid),
        cmocka_unit_test(a_flipped_bit_of_the_payload_fails_recurrent),
        cmocka_unit_test(a_lost_recurrent_part_fails),
        cmocka_unit_test(a_lost_window_fails),
        cmocka_unit_test(without_a_row_class_values_are_compared),
        cmocka_unit_test(damage_is_seen_by_values_too),
        cmocka_unit_test(quantised_keys_and_values_pass),
        cmocka_unit_test(a_text_can_be_the_prompt),
        cmocka_unit_test(a_fresh_process_that_does_not_answer_fails_the_payload),
        cmocka_unit_test(wrong_options_are_refused_in_words),
        cmocka_unit_test(a_damaged_request_is_answered_with_an_error),
        cmocka_unit_test(the_report_has_every_field_of_its_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
