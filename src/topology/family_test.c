#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topology/family.h"

/* A decoder-only attention model whose file could be read. */
static sk_family_facts dense(const char *arch) {
    return (sk_family_facts){.arch = arch, .has_decoder = true, .n_tensors = 100};
}

static sk_family_policy decide(sk_family_facts f) {
    sk_family_policy p;
    memset(&p, 0xff, sizeof p);
    sk_family_decide(&f, &p);
    assert_true(p.reason[0] != 0);
    assert_true(p.reason[strlen(p.reason) - 1] == '.'); /* a whole sentence: nothing was cut off */
    return p;
}

static void assert_disabled(sk_family_facts f, const char *why) {
    sk_family_policy p = decide(f);
    assert_int_equal(p.mode, SK_CACHE_DISABLED);
    assert_false(p.exact_boundaries);
    assert_false(p.detach_window);
    if (!strstr(p.reason, why)) fail_msg("'%s' does not say '%s'", p.reason, why);
}

static void attention_only_models_reuse_any_shorter_length(void **state) {
    (void)state;
    static const char *const archs[] = {"llama", "qwen3",      "deepseek2", "glm4",
                                        "olmo",  "minimax-m2", "phi3",      "mistral3"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        sk_family_policy p = decide(dense(archs[i]));
        assert_int_equal(p.mode, SK_CACHE_RESIDENT_KV);
        assert_false(p.exact_boundaries);
        assert_false(p.detach_window);
    }
}

static void hybrid_and_recurrent_models_keep_both_parts_at_exact_boundaries(void **state) {
    (void)state;
    static const char *const hybrids[] = {"falcon-h1", "qwen3next", "qwen35",    "granitehybrid",
                                          "lfm2",      "jamba",     "nemotron_h"};
    static const char *const recurrents[] = {"mamba", "mamba2", "rwkv6", "rwkv7"};
    for (size_t i = 0; i < sizeof hybrids / sizeof hybrids[0]; i++) {
        sk_family_facts f = dense(hybrids[i]);
        f.is_hybrid = true;
        f.stateful_tensors = 42;
        sk_family_policy p = decide(f);
        assert_int_equal(p.mode, SK_CACHE_KV_RECURRENT);
        assert_true(p.exact_boundaries);
        assert_false(p.detach_window);
    }
    for (size_t i = 0; i < sizeof recurrents / sizeof recurrents[0]; i++) {
        sk_family_facts f = dense(recurrents[i]);
        f.is_recurrent = true;
        assert_int_equal(decide(f).mode, SK_CACHE_KV_RECURRENT);
    }
}

static void lfm2_is_caught_by_the_model_though_its_tensor_names_say_nothing(void **state) {
    (void)state;
    assert_false(sk_family_stateful_tensor("blk.0.shortconv.conv.weight"));
    sk_family_facts f = dense("lfm2");
    f.is_hybrid = true;
    assert_int_equal(decide(f).mode, SK_CACHE_KV_RECURRENT);
}

static void a_hybrid_model_of_a_family_listed_as_dense_is_still_treated_as_hybrid(void **state) {
    (void)state;
    sk_family_facts f = dense("llama");
    f.is_hybrid = true;
    assert_int_equal(decide(f).mode, SK_CACHE_KV_RECURRENT);
}

static void sliding_windows_reuse_recorded_boundaries_only(void **state) {
    (void)state;
    static const char *const archs[] = {"gpt-oss", "gemma3", "gemma4", "gemma3n", "gemma2", "cohere2", "exaone4"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        sk_family_facts f = dense(archs[i]);
        f.n_swa = 128;
        sk_family_policy p = decide(f);
        assert_int_equal(p.mode, SK_CACHE_WINDOW_KV);
        assert_true(p.exact_boundaries);
        assert_true(p.detach_window);
        f.swa_full = true;
        p = decide(f);
        assert_int_equal(p.mode, SK_CACHE_RESIDENT_KV);
        assert_false(p.exact_boundaries);
        assert_false(p.detach_window);
    }
}

static void a_windowed_family_without_a_window_is_plain_attention(void **state) {
    (void)state;
    assert_int_equal(decide(dense("gemma3")).mode, SK_CACHE_RESIDENT_KV);
}

static void chunked_attention_is_refused_unless_every_cell_stays(void **state) {
    (void)state;
    sk_family_facts f = dense("llama4");
    f.n_swa = 8192;
    assert_disabled(f, "Chunked");
    f.swa_full = true;
    assert_int_equal(decide(f).mode, SK_CACHE_RESIDENT_KV);
    f = dense("llama4");
    assert_int_equal(decide(f).mode, SK_CACHE_RESIDENT_KV);
}

static void a_hybrid_with_a_sliding_window_is_refused(void **state) {
    (void)state;
    sk_family_facts f = dense("lfm2");
    f.is_hybrid = true;
    f.n_swa = 1024;
    assert_disabled(f, "sliding window");
    f.swa_full = true;
    assert_disabled(f, "sliding window");
}

static void caches_with_an_indexer_are_refused_even_when_the_model_says_hybrid(void **state) {
    (void)state;
    static const char *const archs[] = {"deepseek32", "deepseek4", "glm-dsa", "dots3note", "minimax-m3", "qwen4exp"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        assert_disabled(dense(archs[i]), "indexer");
        sk_family_facts f = dense(archs[i]);
        f.is_hybrid = true;
        assert_disabled(f, "indexer");
    }
}

static void models_that_do_not_continue_a_prefix_are_refused(void **state) {
    (void)state;
    sk_family_facts f = dense("llada");
    f.is_diffusion = true;
    assert_disabled(f, "diffusion");
    f.is_hybrid = true; /* the kind is asked before the memory */
    assert_disabled(f, "diffusion");
    assert_disabled(dense("dream"), "diffusion");
    f = dense("t5");
    f.has_encoder = true;
    assert_disabled(f, "encoder");
    assert_disabled(dense("bert"), "embedding or encoder");
    assert_disabled(dense("gemma-embedding"), "embedding or encoder");
    f = dense("llama");
    f.has_decoder = false;
    assert_disabled(f, "no decoder");
    assert_disabled(dense("gemma4-assistant"), "draft");
    assert_disabled(dense("qwen3tts"), "speech");
    assert_disabled(dense("graniteswitch"), "adapters");
}

static void an_unknown_architecture_is_refused_by_name(void **state) {
    (void)state;
    assert_disabled(dense("zebra-9"), "'zebra-9'");
    assert_disabled(dense(NULL), "unknown");
    assert_disabled(dense(""), "unknown");
    sk_family_facts f = dense("zebra-9");
    f.is_hybrid = true;
    assert_disabled(f, "unknown");
    /* A name that would not fit the sentence is cut, not the sentence. */
    char name[201];
    memset(name, 'z', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_disabled(dense(name), "unknown");
}

static void contradictions_between_file_and_model_are_refused(void **state) {
    (void)state;
    sk_family_facts f = dense("llama");
    f.stateful_tensors = 3;
    assert_disabled(f, "3 recurrent tensors");
    assert_disabled(dense("mamba2"), "says it is not"); /* a recurrent family whose model says dense */
}

static void an_unreadable_tensor_list_is_refused(void **state) {
    (void)state;
    sk_family_facts f = dense("llama");
    f.n_tensors = 0;
    assert_disabled(f, "could not be read");
}

static void the_five_name_patterns_match_anywhere_in_any_case(void **state) {
    (void)state;
    static const char *const hits[] = {"blk.0.ssm_in.weight", "model.ssm",     "blk.3.TIME_MIX_w0.weight",
                                       "Recurrent.gate",      "rwkv.blocks.0", "x.SSM.y"};
    static const char *const misses[] = {"blk.0.attn_q.weight", "token_embd.weight", "ssm", "", "time.mix"};
    for (size_t i = 0; i < sizeof hits / sizeof hits[0]; i++) assert_true(sk_family_stateful_tensor(hits[i]));
    for (size_t i = 0; i < sizeof misses / sizeof misses[0]; i++) assert_false(sk_family_stateful_tensor(misses[i]));
}

static void mode_names_are_the_payload_names(void **state) {
    (void)state;
    assert_string_equal(sk_cache_mode_name(SK_CACHE_RESIDENT_KV), "ResidentKv");
    assert_string_equal(sk_cache_mode_name(SK_CACHE_WINDOW_KV), "ResidentKv");
    assert_string_equal(sk_cache_mode_name(SK_CACHE_KV_RECURRENT), "KvRecurrent");
    assert_string_equal(sk_cache_mode_name(SK_CACHE_DISABLED), "disabled");
}

static void a_family_that_llama_cpp_does_not_know_is_never_reused(void **state) {
    (void)state;
    bool seen = false;
    for (size_t i = 0; sk_family_at(i); i++) {
        const sk_family_record *r = sk_family_at(i);
        if (strcmp(r->family, "inkling") != 0) continue;
        assert_string_equal(r->arch, "");
        assert_int_equal(r->mode, SK_CACHE_DISABLED);
        seen = true;
    }
    assert_true(seen);
    assert_disabled(dense("inkling"), "'inkling' is unknown");
}

/* Every row, given facts that agree with it, must be decided as the table says. */
static void every_row_of_the_registry_is_decided_as_listed(void **state) {
    (void)state;
    size_t n = 0;
    for (const sk_family_record *r; (r = sk_family_at(n)) != NULL; n++) {
        sk_family_facts f = dense(r->arch);
        f.is_recurrent = r->mode == SK_CACHE_KV_RECURRENT;
        f.n_swa = r->mode == SK_CACHE_WINDOW_KV || strcmp(r->arch, "llama4") == 0 ? 512 : 0;
        sk_family_policy p = decide(f);
        if (p.mode != r->mode) fail_msg("%s: decided %d, listed %d", r->arch, p.mode, r->mode);
        assert_true(r->family[0] && strlen(r->family) < sizeof p.family && r->example);
        for (size_t j = 0; j < n; j++) assert_string_not_equal(sk_family_at(j)->family, r->family);
    }
    assert_true(n > 100);
    assert_null(sk_family_at(n));
    assert_null(sk_family_at(SIZE_MAX));
}

static void certified_file_of_an_unknown_architecture_is_judged_by_its_memory(void **state) {
    (void)state;
    sk_family_facts f = {.arch = "never-heard-of", .has_decoder = true, .n_tensors = 10};
    sk_family_policy p;
    sk_family_decide(&f, &p);
    assert_int_equal(p.mode, SK_CACHE_DISABLED);
    f.certified = true;
    sk_family_decide(&f, &p);
    assert_int_equal(p.mode, SK_CACHE_RESIDENT_KV);
    f.is_hybrid = true;
    sk_family_decide(&f, &p);
    assert_int_equal(p.mode, SK_CACHE_KV_RECURRENT);
    f.is_diffusion = true; /* what cannot be right stays off whatever a receipt says */
    sk_family_decide(&f, &p);
    assert_int_equal(p.mode, SK_CACHE_DISABLED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certified_file_of_an_unknown_architecture_is_judged_by_its_memory),
        cmocka_unit_test(attention_only_models_reuse_any_shorter_length),
        cmocka_unit_test(hybrid_and_recurrent_models_keep_both_parts_at_exact_boundaries),
        cmocka_unit_test(lfm2_is_caught_by_the_model_though_its_tensor_names_say_nothing),
        cmocka_unit_test(a_hybrid_model_of_a_family_listed_as_dense_is_still_treated_as_hybrid),
        cmocka_unit_test(sliding_windows_reuse_recorded_boundaries_only),
        cmocka_unit_test(a_windowed_family_without_a_window_is_plain_attention),
        cmocka_unit_test(chunked_attention_is_refused_unless_every_cell_stays),
        cmocka_unit_test(a_hybrid_with_a_sliding_window_is_refused),
        cmocka_unit_test(caches_with_an_indexer_are_refused_even_when_the_model_says_hybrid),
        cmocka_unit_test(models_that_do_not_continue_a_prefix_are_refused),
        cmocka_unit_test(an_unknown_architecture_is_refused_by_name),
        cmocka_unit_test(contradictions_between_file_and_model_are_refused),
        cmocka_unit_test(an_unreadable_tensor_list_is_refused),
        cmocka_unit_test(the_five_name_patterns_match_anywhere_in_any_case),
        cmocka_unit_test(mode_names_are_the_payload_names),
        cmocka_unit_test(a_family_that_llama_cpp_does_not_know_is_never_reused),
        cmocka_unit_test(every_row_of_the_registry_is_decided_as_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
