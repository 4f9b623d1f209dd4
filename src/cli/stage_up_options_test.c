/* How `skippy stage up` deals out options, cores and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/stage_up_options.h"

static sk_up_options o;
static sk_err e;

static int clean(void **state) {
    (void)state;
    unsetenv("SKIPPY_API_KEY");
    sk_log_set_level(SK_LOG_ERROR);
    return 0;
}

static int release(void **state) {
    (void)state;
    sk_up_options_free(&o);
    return 0;
}

#define PARSE(...)                                                                                                     \
    ({                                                                                                                 \
        char *argv_[] = {"skippy stage", __VA_ARGS__};                                                                 \
        sk_up_options_free(&o);                                                                                        \
        sk_up_options_parse(&o, (int)(sizeof argv_ / sizeof *argv_), argv_, &e);                                       \
    })

/* The arguments of stage i of a plan with three stages, as one text. */
static const char *arguments(size_t i) {
    static char text[4096];
    const sk_cut_plan plan = {.n_layer = 16, .n_stages = 3, .stage = {{0, 6}, {6, 11}, {11, 16}}};
    const sk_up_shares s = sk_up_shares_make(&o, 4096, 8);
    sk_arg_list words = {0};
    size_t at = 0;
    sk_up_arguments(&o, &s, &plan, i, "/run/x", &words);
    assert_false(words.failed);
    for (size_t k = 0; k < words.n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", k == 0 ? "" : " ", words.v[k]);
    sk_arg_list_free(&words);
    return text;
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

static void assert_lacks(const char *text, const char *part) {
    if (strstr(text, part)) fail_msg("'%s' is in: %s", part, text);
}

static void the_head_gets_every_option_and_the_stages_what_they_share(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x.gguf", "--stages", "3", "--port", "9000", "-np", "2", "-fa", "--api-key", "secret",
                           "--wire=f16", "-cram", "30"),
                     SKIPPY_OK);
    assert_int_equal(o.n_stages, 3);
    assert_string_equal(arguments(0), "serve -m x.gguf --port 9000 -np 2 -fa --api-key secret --wire=f16 -cram 30 "
                                      "--layers 0..5 -c 4096 -t 2 --stages unix:/run/x/1.sock,unix:/run/x/2.sock");
    assert_string_equal(arguments(2), "stage -m x.gguf -np 2 -fa --wire=f16 -cram 30 --layers 11..15 -c 4096 -t 2 "
                                      "--listen unix:/run/x/2.sock --json");
}

static void what_is_said_is_not_derived(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "-t", "5", "-c", "512", "--cache-ram", "0"), SKIPPY_OK);
    assert_lacks(arguments(1), "-t 4");
    assert_lacks(arguments(1), "-c 4096");
    assert_has(arguments(1), "-t 5 -c 512 --cache-ram 0 --layers 6..10 --listen");
    assert_int_equal(PARSE("-m", "x", "-c", "0", "--cache-ram", "0"), SKIPPY_OK);
    assert_lacks(arguments(1), "-c 4096");
}

static void cores_context_and_memory_are_shared(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--stages", "4"), SKIPPY_OK);
    sk_up_shares s = sk_up_shares_make(&o, 100000, 3);
    assert_int_equal(s.n_threads, 1);
    assert_int_equal(s.n_ctx, 16384);
    assert_true(s.ram_bytes < UINT64_MAX);
    assert_int_equal(sk_up_shares_make(&o, 0, 64).n_threads, 16);
    assert_int_equal(PARSE("-m", "x", "--cache", "off"), SKIPPY_OK);
    assert_true(sk_up_shares_make(&o, 0, 1).ram_bytes == UINT64_MAX);
}

static void each_process_has_its_own_folder_and_part_of_the_disk(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--stages", "3", "--cache-disk", "d", "--cache-disk-max", "300"), SKIPPY_OK);
    assert_has(arguments(0), "--cache-disk d/stage-0 --cache-disk-max 100");
    assert_has(arguments(2), "--cache-disk d/stage-2 --cache-disk-max 100");
    assert_int_equal(PARSE("-m", "x", "--stages", "3", "--cache-disk", "d", "--cache-disk-max", "0"), SKIPPY_OK);
    assert_lacks(arguments(2), "stage-2 --cache-disk-max");
}

static void receipts_are_looked_up_by_all(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--receipts", "r"), SKIPPY_OK);
    assert_has(arguments(0), "--receipts r");
    assert_has(arguments(1), "--receipts r");
}

static void what_a_split_cannot_do_is_refused_before_anything_starts(void **state) {
    (void)state;
    static const struct {
        char *words[4];
        const char *text;
    } cases[] = {
        {{"--exact", "bit"}, "--exact bit and --stages exclude each other"},
        {{"--shadow-recompute", "1%"}, "--shadow-recompute and --stages exclude each other"},
        {{"--lora", "a"}, "--lora and --stages exclude each other"},
        {{"--stages", "1"}, "--stages needs a whole number from 2"},
        {{"--layers", "0..3"}, "unknown option '--layers'"},
        {{"--tls-ca", "x"}, "unknown option '--tls-ca'"},
        {{"--port", "x"}, "--port needs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE("-m", "x", cases[i].words[0], cases[i].words[1]), SKIPPY_E_INVALID);
        assert_has(e.text, cases[i].text);
    }
    assert_int_equal(PARSE("--stages", "3"), SKIPPY_E_INVALID);
    assert_has(e.text, "which model?");
}

static void help_needs_no_model(void **state) {
    (void)state;
    assert_int_equal(PARSE("--help"), SKIPPY_OK);
    assert_true(o.serve.run.help);
}

#define ON_CLEAN(test) cmocka_unit_test_setup_teardown(test, clean, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_CLEAN(the_head_gets_every_option_and_the_stages_what_they_share),
        ON_CLEAN(what_is_said_is_not_derived),
        ON_CLEAN(cores_context_and_memory_are_shared),
        ON_CLEAN(each_process_has_its_own_folder_and_part_of_the_disk),
        ON_CLEAN(receipts_are_looked_up_by_all),
        ON_CLEAN(what_a_split_cannot_do_is_refused_before_anything_starts),
        ON_CLEAN(help_needs_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
