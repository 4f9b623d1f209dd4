#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "topology/infer.h"

static sk_infer_match infer(sk_infer_query q) {
    sk_infer_match m;
    memset(&m, 0xff, sizeof m);
    sk_infer(sk_registry_get(), &q, &m);
    assert_true(m.reason[0] != 0 && m.reason[strlen(m.reason) - 1] == '.');
    assert_int_equal(m.family == NULL, m.basis == SK_INFER_NONE);
    return m;
}

static void expect(sk_infer_query q, enum sk_infer_basis basis, const char *family) {
    sk_infer_match m = infer(q);
    assert_int_equal(m.basis, basis);
    assert_string_equal(m.family->record.family, family);
}

static void expect_name(const char *name, const char *family) {
    expect((sk_infer_query){.name = name}, SK_INFER_NAME, family);
}

static void expect_none(sk_infer_query q, const char *words) {
    sk_infer_match m = infer(q);
    if (m.family) fail_msg("%s is taken for %s", q.name ? q.name : q.arch, m.family->record.family);
    if (!strstr(m.reason, words)) fail_msg("'%s' does not say '%s'", m.reason, words);
}

static void the_architecture_of_the_file_decides(void **state) {
    (void)state;
    expect((sk_infer_query){.arch = "llama"}, SK_INFER_ARCH, "llama");
    expect((sk_infer_query){.arch = "qwen3", .name = "Llama 3.2"}, SK_INFER_ARCH, "qwen3_dense");
    expect((sk_infer_query){.arch = "deepseek2", .layers = 60, .width = 5120}, SK_INFER_ARCH, "deepseek2");
}

static void an_unknown_architecture_has_no_family_whatever_the_name(void **state) {
    (void)state;
    expect_none((sk_infer_query){.arch = "zebra", .name = "Qwen3-8B"}, "'zebra' is unknown");
}

static void families_of_one_architecture_are_told_apart_by_shape_or_name(void **state) {
    (void)state;
    expect((sk_infer_query){.arch = "deepseek2", .layers = 61, .width = 7168}, SK_INFER_RULE, "deepseek3");
    expect((sk_infer_query){.arch = "deepseek2", .layers = 47, .width = 2048}, SK_INFER_RULE, "glm47_flash");
    expect((sk_infer_query){.arch = "deepseek2", .layers = 61, .width = 2048}, SK_INFER_ARCH, "deepseek2");
    expect((sk_infer_query){.arch = "gemma4", .layers = 42, .width = 2560}, SK_INFER_RULE, "gemma4_e4b");
    expect((sk_infer_query){.arch = "gemma4", .name = "Gemma 4 26B-A4B it"}, SK_INFER_RULE, "gemma4_a4b");
    expect((sk_infer_query){.arch = "gemma3", .layers = 18, .width = 640}, SK_INFER_RULE, "gemma");
    expect_none((sk_infer_query){.arch = "gemma4", .layers = 35, .width = 1536}, "shared layers");
}

static void the_reviewed_model_is_known_by_its_reference_in_any_case(void **state) {
    (void)state;
    expect((sk_infer_query){.name = "Qwen/Qwen3-0.6B:Q8_0"}, SK_INFER_REVIEWED, "qwen3_dense");
    expect((sk_infer_query){.name = "qwen/qwen3-0.6b"}, SK_INFER_REVIEWED, "qwen3_dense");
    expect((sk_infer_query){.name = "Qwen/Qwen3-0.6B", .arch = "qwen3"}, SK_INFER_REVIEWED, "qwen3_dense");
    /* Another quantisation of it is known by name only. */
    expect((sk_infer_query){.name = "Qwen/Qwen3-0.6B:Q4_0"}, SK_INFER_NAME, "qwen3_dense");
}

static void a_reference_does_not_outweigh_what_the_file_declares(void **state) {
    (void)state;
    expect((sk_infer_query){.name = "Qwen/Qwen3-0.6B:Q8_0", .arch = "qwen35"}, SK_INFER_ARCH, "qwen35");
    /* This review is of a file of another architecture than its family's, and says so. */
    expect((sk_infer_query){.name = "bartowski/SmallThinker-3B-Preview-GGUF:IQ2_M", .arch = "qwen2"}, SK_INFER_REVIEWED,
           "smallthinker");
}

static void an_unknown_qwen3_point_release_is_not_taken_for_qwen3(void **state) {
    (void)state;
    expect_name("Qwen/Qwen3-8B-GGUF", "qwen3_dense");
    expect_name("unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "qwen3moe");
    expect_name("Qwen3.5-4B", "qwen35");
    expect_name("Qwen3.6-35B-A3B", "qwen35moe");
    expect_name("Qwen3-Coder-Next", "qwen3next");
    expect_name("Qwen3-Next-80B-A3B", "qwen3next");
    expect_name("Qwen3-VL-8B", "qwen3vl");
    expect_name("Qwen3-VL-30B-A3B", "qwen3vlmoe");
    expect_none((sk_infer_query){.name = "Qwen/Qwen3.7-9B-GGUF"}, "point release");
    expect_none((sk_infer_query){.name = "Qwen3.1-8B"}, "point release");
    expect_none((sk_infer_query){.name = "qwen_3.9 8b"}, "point release");
    expect_none((sk_infer_query){.name = "Qwen35-9B"}, "not one of its known models");
    expect_none((sk_infer_query){.name = "Qwen3-Omni-7B"}, "not one of its known models");
    expect_none((sk_infer_query){.name = "Qwen4-8B"}, "Unknown Qwen generation");
}

static void names_that_do_not_tell_the_kind_of_state_have_no_family(void **state) {
    (void)state;
    expect_none((sk_infer_query){.name = "Qwen3-Embedding-0.6B"}, "embedding");
    expect_none((sk_infer_query){.name = "DeepSeek-R1-Distill-Llama-8B"}, "teacher");
    expect_none((sk_infer_query){.name = "Llama-3.1-Nemotron-70B"}, "several architectures");
    expect_none((sk_infer_query){.name = "granite-4.0-micro"}, "hybrid or dense");
    expect_none((sk_infer_query){.name = "DeepSeek-V3.2-Exp"}, "indexer");
    expect_none((sk_infer_query){.name = "some model"}, "No known family");
    expect_none((sk_infer_query){.name = ""}, "No known family");
    expect_none((sk_infer_query){0}, "No known family");
    char name[5001];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    expect_none((sk_infer_query){.name = name}, "No known family");
    expect_none((sk_infer_query){.arch = name}, "is unknown");
}

static void the_more_special_name_comes_first(void **state) {
    (void)state;
    expect_name("GLM-4.7-Flash", "glm47_flash");
    expect_name("GLM-4.6", "glm4_moe");
    expect_name("GLM-4-32B-0414", "glm4");
    expect_name("gemma-3n-E4B-it", "gemma3n");
    expect_name("gemma-3-27b-it", "gemma3");
    expect_name("LFM2-8B-A1B", "lfm2moe");
    expect_name("LFM2-1.2B", "lfm2");
    expect_name("Falcon-H1-7B", "falcon_h1");
    expect_name("falcon-7b-instruct", "falcon");
    expect_name("Llama-4-Maverick", "llama4");
    expect_name("Phi-3.5-MoE-instruct", "phimoe");
    expect_name("Granite-4.0-H-Tiny", "granite_hybrid");
}

/* A rule behind one that is always true before it would be dead text. */
static void no_name_rule_is_hidden_by_an_earlier_one(void **state) {
    (void)state;
    const sk_registry *r = sk_registry_get();
    for (size_t i = 0; i < r->n_by_name; i++) {
        const sk_infer_rule *rule = &r->by_name[i];
        const char *const *parts = rule->name_parts;
        char name[256];
        snprintf(name, sizeof name, "%s %s %s", parts[0], rule->n_name_parts > 1 ? parts[1] : "",
                 rule->n_name_parts > 2 ? parts[2] : "");
        sk_infer_match m = infer((sk_infer_query){.name = name});
        if (m.family != rule->family)
            fail_msg("rule %zu (%s) gives %s", i, name, m.family ? m.family->record.family : m.reason);
    }
}

static void names_are_compared_without_case_and_separators(void **state) {
    (void)state;
    char out[8];
    sk_infer_normalise("Qw_en-3 /X.y", out, sizeof out);
    assert_string_equal(out, "qwen3x.");
    sk_infer_normalise("", out, sizeof out);
    assert_string_equal(out, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_architecture_of_the_file_decides),
        cmocka_unit_test(an_unknown_architecture_has_no_family_whatever_the_name),
        cmocka_unit_test(families_of_one_architecture_are_told_apart_by_shape_or_name),
        cmocka_unit_test(the_reviewed_model_is_known_by_its_reference_in_any_case),
        cmocka_unit_test(a_reference_does_not_outweigh_what_the_file_declares),
        cmocka_unit_test(an_unknown_qwen3_point_release_is_not_taken_for_qwen3),
        cmocka_unit_test(names_that_do_not_tell_the_kind_of_state_have_no_family),
        cmocka_unit_test(the_more_special_name_comes_first),
        cmocka_unit_test(no_name_rule_is_hidden_by_an_earlier_one),
        cmocka_unit_test(names_are_compared_without_case_and_separators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
