/* Flags of `skippy certify`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/certify_options.h"

enum { MAX_ARGS = 24 };

static int parse(sk_certify_cli *o, sk_err *e, const char *const *args) {
    static char words[MAX_ARGS][64]; /* outlives the call: options point into it */
    char *argv[MAX_ARGS] = {words[0]};
    int argc = 1;
    for (; args[argc - 1]; argc++) {
        assert_true(argc < MAX_ARGS);
        snprintf(words[argc], sizeof words[argc], "%s", args[argc - 1]);
        argv[argc] = words[argc];
    }
    return sk_certify_cli_parse(o, argc, argv, e);
}

#define PARSE(o, e, ...) parse(o, e, (const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(const char *words, const char *const *args) {
    sk_certify_cli o;
    sk_err e = {0};
    assert_int_equal(parse(&o, &e, args), SKIPPY_E_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
}

#define REFUSED(words, ...) assert_refused(words, (const char *const[]){__VA_ARGS__, NULL})

static void a_model_alone_is_certified_with_the_defaults_of_serve(void **state) {
    (void)state;
    sk_certify_cli o;
    sk_err e = {0};
    assert_int_equal(PARSE(&o, &e, "-m", "x.gguf"), SKIPPY_OK);
    assert_int_equal(o.run.flash_attn, -1);
    assert_int_equal(o.run.n_prefix, 0);
    assert_null(o.run.type_k);
    assert_int_equal(o.window, SK_WINDOW_BOTH);
    assert_false(o.no_receipt || o.json || o.all_synthetic);
}

static void every_flag_lands_where_it_belongs(void **state) {
    (void)state;
    sk_certify_cli o;
    sk_err e = {0};
    assert_int_equal(PARSE(&o, &e, "-m", "x.gguf", "--prefix", "64", "--prefix=1000", "-fa", "off", "-ctk", "q8_0",
                           "-ctv", "q4_0", "--repeats", "5", "-t", "2", "--json"),
                     SKIPPY_OK);
    assert_int_equal(o.run.n_prefix, 2);
    assert_int_equal(o.run.prefix[1], 1000);
    assert_int_equal(o.run.flash_attn, 0);
    assert_int_equal(o.run.repeats, 5);
    assert_string_equal(o.run.type_k, "q8_0");
    assert_string_equal(o.run.type_v, "q4_0");
    assert_int_equal(o.run.n_threads, 2);
    assert_true(o.json);
    assert_int_equal(PARSE(&o, &e, "--all-synthetic", "--window", "full", "--receipts=r", "--no-receipt", "-fa",
                           "--dir", "d", "--docs", "f", "--report-out", "o"),
                     SKIPPY_OK);
    assert_true(o.all_synthetic && o.no_receipt);
    assert_int_equal(o.window, SK_WINDOW_FULL);
    assert_int_equal(o.run.flash_attn, 1);
    assert_int_equal(PARSE(&o, &e, "-h"), SKIPPY_OK);
    assert_true(o.help);
}

static void wrong_usage_is_named(void **state) {
    (void)state;
    REFUSED("which model?", "--json");
    REFUSED("exclude each other", "-m", "x", "--all-synthetic");
    REFUSED("--docs belongs to", "-m", "x", "--docs", "f");
    REFUSED("--dir belongs to", "-m", "x", "--dir", "f");
    REFUSED("--prefix needs a whole number from 32 to 8192, not '7'", "-m", "x", "--prefix", "7");
    REFUSED("can be given 4 times", "--prefix=32", "--prefix=33", "--prefix=34", "--prefix=35", "--prefix=36");
    REFUSED("no cache type 'f7'", "-m", "x", "-ctk", "f7");
    REFUSED("--repeats needs a whole number from 3 to 16", "-m", "x", "--repeats", "2");
    REFUSED("must be one of both|sliding|full", "-m", "x", "--window", "half");
    REFUSED("unknown option '--famly'", "-m", "x", "--famly");
}

static void stages_are_certified_by_number_or_by_cuts(void **state) {
    (void)state;
    sk_certify_cli o;
    sk_err e = {0};
    assert_int_equal(PARSE(&o, &e, "-m", "x.gguf", "--stages", "3", "-t", "2", "-ctk", "q8_0"), SKIPPY_OK);
    assert_int_equal(o.stages, 3);
    assert_int_equal(PARSE(&o, &e, "-m", "x.gguf", "--cuts", "2,4"), SKIPPY_OK);
    assert_string_equal(o.cuts, "2,4");
    REFUSED("--cuts does not go with --stages", "-m", "x", "--stages", "3", "--cuts", "2");
    REFUSED("--prefix does not go with --stages", "-m", "x", "--stages", "3", "--prefix", "64");
    REFUSED("--report-out does not go with --cuts", "-m", "x", "--cuts", "3", "--report-out", "r");
    REFUSED("--stages needs a whole number from 2", "-m", "x", "--stages", "1");
    REFUSED("which model?", "--stages", "2");
}

static void a_stage_alone_is_named_by_its_layers(void **state) {
    (void)state;
    sk_certify_cli o;
    sk_err e = {0};
    assert_int_equal(PARSE(&o, &e, "--package", "P", "--stage", "1", "--layers", "3..4", "--producer", "0..2",
                           "--prompt", "text", "--package-ca", "ca", "--stage-cache", "d"),
                     SKIPPY_OK);
    assert_string_equal(o.split.package, "P");
    assert_string_equal(o.split.package_ca, "ca");
    assert_string_equal(o.split.stage_dir, "d");
    assert_true(o.split.has_layers && o.has_stage && o.has_producer);
    assert_int_equal(o.split.layers.start, 3);
    assert_int_equal(o.split.layers.end, 5);
    assert_int_equal(o.producer.end, 3);
    assert_int_equal(o.run.stage_index, 1);
    assert_int_equal(PARSE(&o, &e, "-m", "x.gguf", "--layers", "0..2", "--prompt", "text"), SKIPPY_OK);
    REFUSED("--package needs --layers", "--package", "P");
    REFUSED("--producer needs --layers", "-m", "x", "--producer", "0..2");
    REFUSED("which model?", "--layers", "3..4");
    REFUSED("-m and --package exclude each other", "-m", "x", "--package", "P", "--layers", "3..4");
    REFUSED("does not go with --all-synthetic", "--all-synthetic", "--layers", "3..4");
    REFUSED("--layers does not go with --stages", "-m", "x", "--stages", "2", "--layers", "3..4");
    REFUSED("layers are written as 3..4", "--package", "P", "--layers", "3-4");
    REFUSED("end before they begin", "--package", "P", "--layers", "4..3");
}

static void a_producer_with_a_gap_and_other_nonsense_is_named(void **state) {
    (void)state;
    REFUSED("without a gap, so give 0..2", "--package", "P", "--layers", "3..4", "--producer", "0..1");
    REFUSED("without a gap, so give 0..2", "--package", "P", "--layers", "3..4", "--producer", "1..2");
    REFUSED("begins with layer 0 and takes tokens", "--package", "P", "--layers", "0..4", "--producer", "0..1");
    REFUSED("--stage 0 cannot begin with layer 3", "--package", "P", "--layers", "3..4", "--stage", "0");
    REFUSED("--stage 1 cannot begin with layer 0", "--package", "P", "--layers", "0..4", "--stage", "1");
    REFUSED("add --producer 0..2", "--package", "P", "--layers", "3..4", "--prompt", "text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_alone_is_certified_with_the_defaults_of_serve),
        cmocka_unit_test(every_flag_lands_where_it_belongs),
        cmocka_unit_test(wrong_usage_is_named),
        cmocka_unit_test(stages_are_certified_by_number_or_by_cuts),
        cmocka_unit_test(a_stage_alone_is_named_by_its_layers),
        cmocka_unit_test(a_producer_with_a_gap_and_other_nonsense_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
