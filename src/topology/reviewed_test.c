/* The reviewed families, written down a second time from the review, so that a slip in families.json shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "topology/infer.h"
#include "topology/plan.h"
#include "topology/propose.h"

enum { RECURRENT = 1, SHARED_KV = 2, TOKENS = 4, SECOND = 8, WIRE_F32 = 16, PACKAGE = 32 };

/* q8: V validated, R rejected, U untested. Moving state: A accepted, X too large, U untested. */
static const struct reviewed {
    const char *family;
    int32_t layers, width;
    char q8, mobility;
    unsigned traits;
} reviewed[] = {
    {"qwen3_dense", 28, 1024, 'R', 'A', 0},
    {"qwen2", 24, 896, 'R', 'A', 0},
    {"llama", 16, 2048, 'V', 'A', 0},
    {"qwen2vl", 28, 1536, 'R', 'U', 0},
    {"qwen3vl", 28, 2048, 'V', 'U', 0},
    {"deepseek2", 27, 2048, 'V', 'A', 0},
    {"deepseek", 30, 4096, 'R', 'A', 0},
    {"deepseek3", 61, 7168, 'U', 'A', PACKAGE},
    {"glm47_flash", 47, 2048, 'V', 'A', 0},
    {"glm4_moe", 47, 2048, 'V', 'A', 0},
    {"glm4", 40, 4096, 'R', 'A', 0},
    {"gemma4_a4b", 30, 2816, 'R', 'A', 0},
    {"gemma4_e4b", 42, 2560, 'R', 'A', SHARED_KV | TOKENS},
    {"gemma3", 26, 1152, 'R', 'A', 0},
    {"gemma3n", 30, 2048, 'V', 'A', SHARED_KV | SECOND},
    {"gemma", 18, 640, 'R', 'A', WIRE_F32},
    {"gemma2", 26, 2304, 'V', 'A', 0},
    {"phi2", 32, 2560, 'V', 'X', 0},
    {"falcon_h1", 24, 2048, 'V', 'X', RECURRENT},
    {"olmo", 32, 4096, 'R', 'A', 0},
    {"olmo2", 32, 4096, 'V', 'A', 0},
    {"olmoe", 16, 2048, 'V', 'A', 0},
    {"minimax_m27", 62, 3072, 'R', 'A', 0},
    {"qwen3next", 48, 2048, 'R', 'X', RECURRENT},
    {"lfm2", 16, 1024, 'V', 'X', RECURRENT},
    {"jamba", 28, 2560, 'V', 'X', RECURRENT},
    {"mamba", 24, 768, 'V', 'X', RECURRENT},
    {"mamba2", 64, 2560, 'V', 'X', RECURRENT},
    {"qwen2moe", 28, 1536, 'R', 'A', 0},
    {"qwen3moe", 28, 1024, 'V', 'A', 0},
    {"rwkv6", 24, 2048, 'R', 'X', RECURRENT},
    {"rwkv7", 12, 768, 'V', 'X', RECURRENT | SECOND},
    {"arwkv7", 28, 3584, 'R', 'X', RECURRENT | SECOND},
    {"granite_hybrid", 32, 768, 'V', 'X', RECURRENT},
    {"granite_moe", 6, 64, 'V', 'A', 0},
    {"granite", 40, 2048, 'R', 'A', 0},
    {"hunyuan_dense", 32, 2048, 'V', 'A', 0},
    {"hunyuan_moe", 32, 4096, 'V', 'A', 0},
    {"hunyuan_vl", 24, 1024, 'U', 'U', 0},
    {"gptneox", 6, 512, 'V', 'A', 0},
    {"bloom", 24, 1024, 'V', 'A', 0},
    {"stablelm", 32, 2560, 'R', 'A', 0},
    {"starcoder2", 30, 3072, 'V', 'A', 0},
    {"starcoder", 20, 768, 'V', 'A', 0},
    {"mpt", 32, 4096, 'R', 'A', 0},
    {"phi", 32, 3072, 'R', 'A', 0},
    {"phimoe", 32, 4096, 'V', 'A', 0},
    {"gpt2", 12, 768, 'R', 'A', 0},
    {"mistral", 26, 3072, 'V', 'A', 0},
    {"mistral4", 36, 4096, 'U', 'U', 0},
    {"llama4", 48, 5120, 'U', 'U', 0},
    {"internlm2", 24, 2048, 'V', 'A', 0},
    {"baichuan", 32, 4096, 'V', 'A', 0},
    {"exaone", 30, 2560, 'V', 'A', 0},
    {"exaone4", 30, 2048, 'V', 'A', 0},
    {"exaone_moe", 49, 6144, 'U', 'X', 0},
    {"cohere2", 32, 4096, 'R', 'A', 0},
    {"command_r", 40, 8192, 'V', 'A', 0},
    {"falcon", 32, 4544, 'V', 'A', 0},
    {"maincoder", 32, 1536, 'R', 'A', 0},
    {"openelm", 16, 1280, 'V', 'A', 0},
    {"plamo", 40, 5120, 'V', 'A', 0},
    {"plamo2", 16, 2048, 'V', 'A', RECURRENT},
    {"plamo3", 24, 2560, 'R', 'A', 0},
    {"refact", 32, 2048, 'V', 'A', 0},
    {"smollm3", 36, 2048, 'R', 'A', 0},
    {"minicpm", 40, 2304, 'R', 'A', 0},
    {"minicpm3", 40, 2304, 'V', 'A', 0},
    {"plm", 24, 2048, 'R', 'A', 0},
    {"smallthinker", 36, 2048, 'V', 'A', 0},
    {"arcee", 36, 2560, 'R', 'A', 0},
    {"chatglm", 28, 4096, 'R', 'A', 0},
    {"codeshell", 42, 4096, 'R', 'A', 0},
    {"deci", 32, 4096, 'R', 'A', 0},
    {"qwen35", 32, 2560, 'V', 'X', RECURRENT},
    {"qwen35moe", 40, 2048, 'U', 'X', RECURRENT},
    {"xverse", 32, 4096, 'V', 'A', 0},
    {"apertus", 32, 4096, 'R', 'A', WIRE_F32},
    {"bitnet", 24, 1536, 'V', 'A', 0},
    {"llada", 6, 512, 'V', 'U', 0},
    {"llada_moe", 16, 2048, 'R', 'U', 0},
    {"dream", 28, 3584, 'V', 'U', 0},
    {"ernie4_5", 18, 1024, 'V', 'A', 0},
    {"ernie4_5_moe", 28, 2560, 'V', 'A', 0},
    {"qwen", 24, 2048, 'R', 'A', 0},
    {"jais", 14, 1088, 'R', 'A', 0},
    {"jais2", 32, 3328, 'R', 'A', 0},
    {"nemotron", 32, 4096, 'R', 'A', 0},
    {"nemotron_h", 42, 3136, 'R', 'X', RECURRENT},
    {"nemotron_h_moe", 52, 2688, 'U', 'X', RECURRENT},
    {"kimi_linear", 27, 2304, 'V', 'X', RECURRENT},
    {"lfm2moe", 24, 2048, 'V', 'A', RECURRENT},
    {"openai_moe", 24, 2880, 'R', 'A', 0},
    {"seed_oss", 64, 5120, 'U', 'U', 0},
    {"deepseek2ocr", 12, 1280, 'R', 'A', 0},
    {"qwen3vlmoe", 48, 2048, 'R', 'A', 0},
    {"inkling", 66, 6144, 'R', 'X', RECURRENT | WIRE_F32},
};
enum { N_REVIEWED = sizeof reviewed / sizeof *reviewed };

static void every_reviewed_model_is_in_the_registry_and_nothing_else(void **state) {
    (void)state;
    const sk_registry *reg = sk_registry_get();
    size_t n = 0, measured = 0;
    for (size_t i = 0; i < reg->n_families; i++) {
        n += reg->families[i].has_reviewed;
        measured += reg->families[i].n_measured;
    }
    assert_int_equal(n, N_REVIEWED);
    assert_int_equal(N_REVIEWED, 97);
    assert_int_equal(measured, 20);
    for (size_t i = 0; i < N_REVIEWED; i++) {
        const sk_family_entry *f = sk_registry_family(reg, reviewed[i].family);
        if (!f || !f->has_reviewed) {
            fail_msg("%s is not in the registry", reviewed[i].family);
            return; /* fail_msg does not return; the analyser cannot know */
        }
        assert_int_equal(f->reviewed.layers, reviewed[i].layers);
        assert_int_equal(f->reviewed.width, reviewed[i].width);
        assert_int_equal(f->reviewed.package_only, (reviewed[i].traits & PACKAGE) != 0);
        assert_true(strchr(f->reviewed.model, '/') != NULL);
    }
}

static void expect_signal(const char *family, sk_signals set, enum sk_signal s, bool there) {
    if (sk_signals_have(set, s) != there)
        fail_msg("%s: %s is %s", family, sk_signal_name(s), there ? "missing" : "there for no reason");
}

static void expect_family_signals(const struct reviewed *r, sk_signals set) {
    expect_signal(r->family, set, SK_SIG_DEFAULT_WIRE_DTYPE_F16, !(r->traits & WIRE_F32));
    expect_signal(r->family, set, SK_SIG_DEFAULT_WIRE_DTYPE_F32, (r->traits & WIRE_F32) != 0);
    expect_signal(r->family, set, SK_SIG_Q8_WIRE_VALIDATED, r->q8 == 'V');
    expect_signal(r->family, set, SK_SIG_Q8_WIRE_REJECTED, r->q8 == 'R');
    expect_signal(r->family, set, SK_SIG_Q8_WIRE_UNTESTED, r->q8 == 'U');
    expect_signal(r->family, set, SK_SIG_EXACT_STATE_MOBILITY_ACCEPTED, r->mobility == 'A');
    expect_signal(r->family, set, SK_SIG_EXACT_STATE_MOBILITY_REJECTED, r->mobility == 'X');
    expect_signal(r->family, set, SK_SIG_EXACT_STATE_MOBILITY_UNTESTED, r->mobility == 'U');
}

static void expect_boundary_signals(const struct reviewed *r, const sk_plan_boundary *b) {
    bool alone = (r->traits & (TOKENS | SECOND)) == 0;
    assert_true(b->accepted);
    expect_signal(r->family, b->signals, SK_SIG_TOKEN_SIDEBAND_REQUIRED, (r->traits & TOKENS) != 0);
    expect_signal(r->family, b->signals, SK_SIG_ACTIVATION_SIDEBAND_REQUIRED, (r->traits & SECOND) != 0);
    expect_signal(r->family, b->signals, SK_SIG_ACTIVATION_ONLY_BOUNDARY, alone);
    expect_signal(r->family, b->signals, SK_SIG_SHARED_KV_REGION_CUT, false);
    assert_int_equal(b->reason == NULL, alone);
}

/* The reviewed model itself, by the name it is known by, and by what its file declares. */
static const sk_family_entry *infer_both_ways(const struct reviewed *r) {
    const sk_registry *reg = sk_registry_get();
    const sk_family_entry *f = sk_registry_family(reg, r->family);
    const char *arch = f->reviewed.file_arch ? f->reviewed.file_arch : f->record.arch;
    sk_infer_query q = {.name = f->reviewed.model, .layers = r->layers, .width = r->width};
    sk_infer_match m;
    sk_infer(reg, &q, &m);
    assert_int_equal(m.basis, SK_INFER_REVIEWED);
    assert_ptr_equal(m.family, f);
    q.arch = arch;
    sk_infer(reg, &q, &m);
    assert_ptr_equal(m.family, f);
    return f;
}

static void plan_f16(const sk_family_entry *f, sk_plan *plan) {
    int32_t cuts[1];
    sk_err e = {0};
    if (sk_propose_balanced(f, f->reviewed.layers, 2, cuts, &e) != SKIPPY_OK)
        fail_msg("%s: %s", f->record.family, e.text);
    sk_plan_request q = {.family = f, .wire = SK_WIRE_F16, .cuts = cuts, .n_cuts = 1};
    if (sk_plan_describe(&q, plan, &e) != SKIPPY_OK) fail_msg("%s: %s", f->record.family, e.text);
}

static void reviewed_supported_families_smoke(void **state) {
    (void)state;
    for (size_t i = 0; i < N_REVIEWED; i++) {
        const struct reviewed *r = &reviewed[i];
        const sk_family_entry *f = infer_both_ways(r);
        sk_plan plan;
        plan_f16(f, &plan);
        expect_family_signals(r, plan.family_signals);
        expect_boundary_signals(r, &plan.boundaries[0]);
        assert_int_equal(f->reviewed.has_shared_kv, (r->traits & SHARED_KV) != 0);
        for (size_t s = 0; s < plan.n_stages; s++) {
            bool sticky = (r->traits & RECURRENT) != 0;
            expect_signal(r->family, plan.stages[s].signals, SK_SIG_RECURRENT_OWNER_STICKY, sticky);
            expect_signal(r->family, plan.stages[s].signals, SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED, sticky);
            expect_signal(r->family, plan.stages[s].signals, SK_SIG_RECURRENT_STATE_TRANSFER_ALLOWED, false);
        }
        /* Where stages were measured to be exact, the proposal keeps every rule. */
        bool refused = f->has_split && f->split.result == SK_FOUND_REFUSED;
        assert_int_equal(plan.accepted, !refused);
    }
}

static void q8_wire_is_planned_where_it_was_validated_and_refused_elsewhere(void **state) {
    (void)state;
    for (size_t i = 0; i < N_REVIEWED; i++) {
        sk_plan_request q = {.family = sk_registry_family(sk_registry_get(), reviewed[i].family), .wire = SK_WIRE_Q8};
        sk_plan plan;
        sk_err e = {0};
        int rc = sk_plan_describe(&q, &plan, &e);
        assert_int_equal(rc, reviewed[i].q8 == 'V' ? SKIPPY_OK : SKIPPY_E_UNSUPPORTED);
        if (rc != SKIPPY_OK) assert_non_null(strstr(e.text, "use f16"));
    }
}

/* A name rule may fail to know a reviewed model, but it must never take it for one with another kind of state. */
static void name_rules_never_give_a_reviewed_model_another_policy(void **state) {
    (void)state;
    sk_registry rules = *sk_registry_get();
    size_t known = 0;
    for (size_t i = 0; i < N_REVIEWED; i++) {
        const sk_family_entry *f = sk_registry_family(&rules, reviewed[i].family);
        char name[200]; /* with something behind it, so that it is not the reviewed reference */
        snprintf(name, sizeof name, "%.*s-copy", (int)strcspn(f->reviewed.model, ":"), f->reviewed.model);
        sk_infer_match m;
        sk_infer(&rules, &(sk_infer_query){.name = name}, &m);
        assert_int_not_equal(m.basis, SK_INFER_REVIEWED);
        if (!m.family) continue;
        known++;
        if (m.family->record.mode != f->record.mode)
            fail_msg("%s is taken for %s: %s", name, m.family->record.family, m.reason);
    }
    assert_true(known > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reviewed_model_is_in_the_registry_and_nothing_else),
        cmocka_unit_test(reviewed_supported_families_smoke),
        cmocka_unit_test(q8_wire_is_planned_where_it_was_validated_and_refused_elsewhere),
        cmocka_unit_test(name_rules_never_give_a_reviewed_model_another_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
