#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/plan.h"
#include "topology/propose.h"
#include "topology/registry.h"
#include "topology/split_rule.h"

static const sk_family_entry *family(const char *name) {
    const sk_family_entry *f = sk_registry_family(sk_registry_get(), name);
    assert_non_null(f);
    return f;
}

static sk_plan describe(const char *name, const int32_t *cuts, size_t n_cuts) {
    sk_plan_request q = {.family = family(name), .wire = SK_WIRE_F16, .cuts = cuts, .n_cuts = n_cuts};
    sk_plan p;
    sk_err e = {0};
    if (sk_plan_describe(&q, &p, &e) != SKIPPY_OK) fail_msg("%s: %s", name, e.text);
    assert_int_equal(p.n_stages, n_cuts + 1);
    return p;
}

static bool stage_allowed(const char *name, int32_t start, int32_t end) {
    const sk_family_entry *f = family(name);
    char why[160] = "";
    bool ok = sk_split_stage_allowed(f, f->reviewed.layers, (sk_layer_range){start, end}, why, sizeof why);
    assert_int_equal(ok, why[0] == 0);
    return ok;
}

static void a_dense_family_can_be_cut_anywhere(void **state) {
    (void)state;
    const sk_family_entry *f = family("llama");
    for (int32_t cut = 1; cut < f->reviewed.layers; cut++) {
        sk_plan p = describe("llama", &cut, 1);
        assert_true(p.accepted);
        assert_true(sk_signals_have(p.boundaries[0].signals, SK_SIG_ACTIVATION_ONLY_BOUNDARY));
        assert_int_equal(p.stages[0].signals, 1u << SK_SIG_ATTENTION_KV_COSTED);
        assert_int_equal(p.stages[1].range.end, f->reviewed.layers);
    }
}

static void cuts_inside_a_shared_kv_region_are_rejected(void **state) {
    (void)state;
    for (int32_t cut = 1; cut < 42; cut++) {
        bool cut_region = cut == 12 || cut == 14 || cut > 21;
        sk_plan p = describe("gemma4_e4b", &cut, 1);
        assert_int_equal(p.boundaries[0].accepted, !cut_region);
        assert_int_equal(sk_signals_have(p.signals, SK_SIG_SHARED_KV_REGION_CUT), cut_region);
        assert_false(p.accepted); /* measured: no cut of this family is exact */
    }
    for (int32_t cut = 1; cut < 30; cut++) {
        sk_plan p = describe("gemma3n", &cut, 1);
        assert_int_equal(p.accepted, cut <= 18);
        assert_true(sk_signals_have(p.boundaries[0].signals, SK_SIG_ACTIVATION_SIDEBAND_REQUIRED));
    }
}

static void recurrent_state_stays_with_its_owner_unless_moving_is_allowed_and_small(void **state) {
    (void)state;
    int32_t cut = 8;
    sk_plan p;
    sk_err e;
    sk_plan_request q = {.family = family("falcon_h1"), .cuts = &cut, .n_cuts = 1, .allow_state_transfer = true};
    assert_int_equal(sk_plan_describe(&q, &p, &e), SKIPPY_OK);
    assert_true(sk_signals_have(p.stages[0].signals, SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED)); /* too large */
    q.family = family("plamo2");
    assert_int_equal(sk_plan_describe(&q, &p, &e), SKIPPY_OK);
    assert_true(sk_signals_have(p.stages[0].signals, SK_SIG_RECURRENT_STATE_TRANSFER_ALLOWED));
    assert_true(sk_signals_have(p.stages[0].signals, SK_SIG_RECURRENT_OWNER_STICKY));
    q.allow_state_transfer = false;
    assert_int_equal(sk_plan_describe(&q, &p, &e), SKIPPY_OK);
    assert_true(sk_signals_have(p.stages[0].signals, SK_SIG_RECURRENT_STATE_TRANSFER_REJECTED));
}

static void a_stage_carries_the_signals_of_its_own_layers(void **state) {
    (void)state;
    /* Layers 0 to 2 of Kimi Linear are recurrent, 3 has attention. */
    const int32_t cuts[] = {3, 4};
    sk_plan p = describe("kimi_linear", cuts, 2);
    assert_false(sk_signals_have(p.stages[0].signals, SK_SIG_ATTENTION_KV_COSTED));
    assert_true(sk_signals_have(p.stages[0].signals, SK_SIG_RECURRENT_OWNER_STICKY));
    assert_int_equal(p.stages[1].signals, 1u << SK_SIG_ATTENTION_KV_COSTED);
    /* A recurrent model keeps no keys and values at all. */
    int32_t cut = 30;
    assert_false(sk_signals_have(describe("mamba2", &cut, 1).signals, SK_SIG_ATTENTION_KV_COSTED));
}

static void hybrid_stages_need_both_kinds_of_layer(void **state) {
    (void)state;
    assert_true(stage_allowed("qwen3next", 0, 4)); /* layer 3 has attention */
    assert_false(stage_allowed("qwen3next", 0, 3));
    assert_false(stage_allowed("qwen3next", 3, 4));
    assert_true(stage_allowed("qwen3next", 3, 5));
    assert_true(stage_allowed("lfm2", 0, 3)); /* layer 2 has */
    assert_false(stage_allowed("lfm2", 0, 2));
    assert_true(stage_allowed("granite_hybrid", 10, 12));
    assert_false(stage_allowed("granite_hybrid", 18, 27));
    assert_true(stage_allowed("falcon_h1", 5, 6)); /* each layer is both */
}

static void window_stages_follow_what_their_file_can_say(void **state) {
    (void)state;
    /* gemma3: windows but for every sixth layer; one period from the stage's first layer must say so. */
    assert_true(stage_allowed("gemma3", 0, 6));
    assert_true(stage_allowed("gemma3", 6, 9));   /* windows only */
    assert_true(stage_allowed("gemma3", 9, 12));  /* period 3 */
    assert_true(stage_allowed("gemma3", 6, 26));  /* from a multiple of the period */
    assert_false(stage_allowed("gemma3", 9, 18)); /* two full layers, three and nine behind the start */
    assert_false(stage_allowed("gemma3", 5, 6));  /* no window at all */
    assert_false(stage_allowed("gemma3", 5, 8));  /* begins with a full layer */
    /* gemma4 A4B states each layer, but needs two layers and a window. */
    assert_true(stage_allowed("gemma4_a4b", 9, 18));
    assert_true(stage_allowed("gemma4_a4b", 5, 7));
    assert_false(stage_allowed("gemma4_a4b", 6, 7));
    /* gemma2 alternates. */
    assert_false(stage_allowed("gemma2", 13, 26));
    assert_true(stage_allowed("gemma2", 12, 26));
}

static void sizes_that_the_loader_mistakes_are_refused(void **state) {
    (void)state;
    assert_false(stage_allowed("glm47_flash", 20, 47));
    assert_false(stage_allowed("glm47_flash", 0, 26));
    assert_true(stage_allowed("glm47_flash", 0, 25));
    assert_true(stage_allowed("deepseek2", 0, 26)); /* the lite model itself has no such rule */
    const sk_family_entry *f = family("gemma3");
    char why[160];
    assert_false(sk_split_stage_allowed(f, 62, (sk_layer_range){0, 30}, why, sizeof why));
    assert_true(sk_split_stage_allowed(f, 62, (sk_layer_range){0, 62}, why, sizeof why));
    f = family("lfm2");
    assert_false(sk_split_stage_allowed(f, 24, (sk_layer_range){0, 12}, why, sizeof why));
    assert_non_null(strstr(why, "reviewed model"));
}

static void requests_that_make_no_sense_are_refused_with_words(void **state) {
    (void)state;
    static const struct {
        const char *family;
        int32_t layers, cuts[2];
        size_t n_cuts;
        enum sk_wire wire;
        int code;
        const char *words;
    } bad[] = {
        {"grok", 0, {4}, 1, SK_WIRE_F16, SKIPPY_E_INVALID, "number of layers must be given"},
        {"llama", 513, {4}, 1, SK_WIRE_F16, SKIPPY_E_INVALID, "513 layers"},
        {"llama", 0, {0}, 1, SK_WIRE_F16, SKIPPY_E_INVALID, "must ascend from 1 to 15"},
        {"llama", 0, {16}, 1, SK_WIRE_F16, SKIPPY_E_INVALID, "layer 16"},
        {"llama", 0, {5, 5}, 2, SK_WIRE_F16, SKIPPY_E_INVALID, "must ascend"},
        {"qwen3_dense", 0, {5}, 1, SK_WIRE_Q8, SKIPPY_E_UNSUPPORTED, "rejected for 'qwen3_dense'; use f16"},
        {"seed_oss", 0, {5}, 1, SK_WIRE_Q8, SKIPPY_E_UNSUPPORTED, "untested"},
        {"grok", 8, {5}, 1, SK_WIRE_Q8, SKIPPY_E_UNSUPPORTED, "never tested"},
        {"gemma3n", 35, {5}, 1, SK_WIRE_F16, SKIPPY_E_UNSUPPORTED, "known for 30 layers, not 35"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sk_plan_request q = {.family = family(bad[i].family),
                             .layers = bad[i].layers,
                             .wire = bad[i].wire,
                             .cuts = bad[i].cuts,
                             .n_cuts = bad[i].n_cuts};
        sk_plan p;
        sk_err e = {0};
        assert_int_equal(sk_plan_describe(&q, &p, &e), bad[i].code);
        if (!strstr(e.text, bad[i].words)) fail_msg("'%s' does not say '%s'", e.text, bad[i].words);
    }
    sk_plan_request many = {.family = family("llama"), .n_cuts = SK_MAX_STAGES};
    sk_plan p;
    sk_err e = {0};
    assert_int_equal(sk_plan_describe(&many, &p, &e), SKIPPY_E_INVALID);
}

static void every_signal_has_a_name_of_its_own(void **state) {
    (void)state;
    for (unsigned i = 0; i < SK_SIG_COUNT; i++) {
        assert_non_null(sk_signal_name((enum sk_signal)i));
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(sk_signal_name((enum sk_signal)i), sk_signal_name((enum sk_signal)j));
    }
    assert_string_equal(sk_signal_name(SK_SIG_COUNT), "unknown");
}

static void even_stages_differ_by_a_layer_at_most(void **state) {
    (void)state;
    for (int32_t layers = 1; layers <= 130; layers++) {
        for (size_t n = 1; n <= (size_t)layers && n <= SK_MAX_STAGES; n++) {
            int32_t cuts[SK_MAX_STAGES], last = 0;
            assert_int_equal(sk_propose_even(layers, n, cuts, NULL), SKIPPY_OK);
            cuts[n - 1] = layers;
            for (size_t i = 0; i < n; last = cuts[i++]) {
                assert_true(cuts[i] - last >= layers / (int32_t)n);
                assert_true(cuts[i] - last <= layers / (int32_t)n + 1);
            }
        }
    }
}

static void weighted_stages_follow_the_weights_and_are_never_empty(void **state) {
    (void)state;
    int32_t cuts[3];
    const uint64_t w[] = {24, 12, 12};
    assert_int_equal(sk_propose_weighted(32, w, 3, cuts, NULL), SKIPPY_OK);
    assert_int_equal(cuts[0], 16);
    assert_int_equal(cuts[1], 24);
    const uint64_t none[] = {0, 9, 0};
    assert_int_equal(sk_propose_weighted(8, none, 3, cuts, NULL), SKIPPY_OK);
    assert_int_equal(cuts[0], 1);
    assert_int_equal(cuts[1], 7);
    const uint64_t zero[] = {0, 0}, huge[] = {UINT64_MAX, 1};
    assert_int_equal(sk_propose_weighted(8, zero, 2, cuts, NULL), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_weighted(8, huge, 2, cuts, NULL), SKIPPY_E_INVALID);
}

static void proposals_need_a_layer_for_each_stage(void **state) {
    (void)state;
    int32_t cuts[SK_MAX_STAGES];
    sk_err e = {0};
    const uint64_t w[] = {1, 1, 1};
    assert_int_equal(sk_propose_even(2, 3, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_even(2, 0, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_even(200, SK_MAX_STAGES + 1, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_weighted(2, w, 3, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_balanced(family("llama"), 2, 3, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_balanced(family("llama"), SK_MAX_LAYERS + 1, 2, cuts, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_propose_balanced(family("llama"), 16, 1, cuts, &e), SKIPPY_OK); /* no cut at all */
}

/* The cheapest accepted cuts by trying all of them, the first in order among equals. -1: none is accepted. */
static int64_t try_all(const sk_family_entry *f, int32_t layers, int32_t n, int32_t *cuts, int32_t *best, int32_t at) {
    static int64_t least;
    if (at == 0) least = -1;
    if (at < n - 1) {
        for (cuts[at] = (at ? cuts[at - 1] : 0) + 1; cuts[at] < layers; cuts[at]++)
            try_all(f, layers, n, cuts, best, at + 1);
        return least;
    }
    sk_plan_request q = {.family = f, .layers = layers, .wire = SK_WIRE_F16, .cuts = cuts, .n_cuts = (size_t)(n - 1)};
    sk_plan p;
    if (sk_plan_describe(&q, &p, NULL) != SKIPPY_OK || !p.accepted) return least;
    int64_t cost = 0;
    for (int32_t i = 0; i < n - 1; i++) cost += llabs((long long)cuts[i] * n - (long long)(i + 1) * layers);
    if (least < 0 || cost < least) {
        least = cost;
        memcpy(best, cuts, (size_t)(n - 1) * sizeof *cuts);
    }
    return least;
}

static void balanced_cuts_are_the_best_accepted_ones(void **state) {
    (void)state;
    static const struct {
        const char *family;
        int32_t layers;
    } models[] = {{"llama", 16},       {"gemma3", 26},  {"gemma4_a4b", 30},  {"qwen3next", 20},
                  {"lfm2", 16},        {"gemma3n", 30}, {"kimi_linear", 27}, {"granite_hybrid", 32},
                  {"glm47_flash", 30}, {"gemma2", 12},  {"mamba2", 9}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        for (int32_t n = 2; n <= 4; n++) {
            const sk_family_entry *f = family(models[i].family);
            int32_t cuts[3], tried[3], best[3] = {0};
            sk_err e = {0};
            int64_t least = try_all(f, models[i].layers, n, tried, best, 0);
            int rc = sk_propose_balanced(f, models[i].layers, (size_t)n, cuts, &e);
            assert_int_equal(rc, least < 0 ? SKIPPY_E_NOT_FOUND : SKIPPY_OK);
            for (int32_t k = 0; k < n - 1 && least >= 0; k++)
                if (cuts[k] != best[k])
                    fail_msg("%s in %d: cut %d is %d, not %d", models[i].family, n, k, cuts[k], best[k]);
        }
    }
}

static void no_accepted_cut_is_an_answer(void **state) {
    (void)state;
    int32_t cuts[SK_MAX_STAGES];
    sk_err e = {0};
    assert_int_equal(sk_propose_balanced(family("granite_hybrid"), 32, 5, cuts, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "no accepted cuts"));
    assert_int_equal(sk_propose_balanced(family("gemma3"), 62, 2, cuts, &e), SKIPPY_E_NOT_FOUND);
    /* A family that is refused as a whole still shows its boundaries. */
    assert_int_equal(sk_propose_balanced(family("rwkv7"), 12, 2, cuts, &e), SKIPPY_OK);
    assert_int_equal(cuts[0], 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_family_can_be_cut_anywhere),
        cmocka_unit_test(cuts_inside_a_shared_kv_region_are_rejected),
        cmocka_unit_test(recurrent_state_stays_with_its_owner_unless_moving_is_allowed_and_small),
        cmocka_unit_test(a_stage_carries_the_signals_of_its_own_layers),
        cmocka_unit_test(hybrid_stages_need_both_kinds_of_layer),
        cmocka_unit_test(window_stages_follow_what_their_file_can_say),
        cmocka_unit_test(sizes_that_the_loader_mistakes_are_refused),
        cmocka_unit_test(requests_that_make_no_sense_are_refused_with_words),
        cmocka_unit_test(every_signal_has_a_name_of_its_own),
        cmocka_unit_test(even_stages_differ_by_a_layer_at_most),
        cmocka_unit_test(weighted_stages_follow_the_weights_and_are_never_empty),
        cmocka_unit_test(proposals_need_a_layer_for_each_stage),
        cmocka_unit_test(balanced_cuts_are_the_best_accepted_ones),
        cmocka_unit_test(no_accepted_cut_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
