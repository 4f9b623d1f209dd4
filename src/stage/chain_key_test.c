/* The name of a split: every fact that both ends must share changes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stage/service.h"

static const int32_t cuts[] = {0, 6, 12, 16}, other_cuts[] = {0, 6, 11, 16}, deeper[] = {0, 6, 12, 17};

static sk_chain_facts facts(void) {
    return (sk_chain_facts){.source = "aa",
                            .cuts = cuts,
                            .n_stages = 3,
                            .width = 64,
                            .n_ctx = 512,
                            .dtype = 0,
                            .abi = "x",
                            .type_k = "f16",
                            .type_v = "q8_0",
                            .flash_attn = 1,
                            .rope_freq_base = 10000.0f,
                            .rope_freq_scale = 1.0f};
}

static skippy_key key_of(const sk_chain_facts *f) {
    skippy_key key;
    assert_int_equal(sk_chain_key(f, &key), SKIPPY_OK);
    return key;
}

static void equal_facts_have_one_key(void **state) {
    (void)state;
    int32_t copy[4];
    memcpy(copy, cuts, sizeof cuts);
    sk_chain_facts a = facts(), b = facts();
    b.cuts = copy;
    skippy_key x = key_of(&a), y = key_of(&b);
    assert_true(skippy_key_equal(&x, &y));
}

static void every_fact_changes_the_key(void **state) {
    (void)state;
    sk_chain_facts f[16];
    const size_t n = sizeof f / sizeof *f;
    for (size_t i = 0; i < n; i++) f[i] = facts();
    f[1].source = "ab";
    f[2].cuts = other_cuts;
    f[3].cuts = deeper;
    f[4].n_stages = 2;
    f[5].width = 65;
    f[6].n_ctx = 513;
    f[7].dtype = 1;
    f[8].abi = "y";
    f[9].type_k = "q8_0";
    f[10].type_v = "f16";
    f[11].flash_attn = 0;
    f[12].swa_full = true;
    f[13].rope_freq_base = 10001.0f;
    f[14].rope_freq_scale = 0.5f;
    f[15].type_k = NULL;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            skippy_key a = key_of(&f[i]), b = key_of(&f[j]);
            assert_false(skippy_key_equal(&a, &b));
        }
}

static void facts_of_no_chain_are_refused(void **state) {
    (void)state;
    static const int32_t late[] = {1, 6, 12, 16}, flat[] = {0, 6, 6, 16};
    skippy_key key;
    sk_chain_facts f[7];
    for (size_t i = 0; i < 7; i++) f[i] = facts();
    f[0].source = NULL;
    f[1].cuts = NULL;
    f[2].n_stages = 0;
    f[3].n_stages = SK_CHAIN_MAX + 1;
    f[4].dtype = 2;
    f[5].cuts = late;
    f[6].cuts = flat;
    for (size_t i = 0; i < 7; i++) assert_int_equal(sk_chain_key(&f[i], &key), SKIPPY_E_INVALID);
    sk_chain_facts good = facts();
    assert_int_equal(sk_chain_key(&good, NULL), SKIPPY_E_INVALID);
    assert_int_equal(sk_chain_key(NULL, &key), SKIPPY_E_INVALID);
}

static void a_topology_names_every_range_and_the_type(void **state) {
    (void)state;
    char text[64];
    sk_chain_topology(cuts, 3, 0, text, sizeof text);
    assert_string_equal(text, "0-6,6-12,12-16;f32");
    sk_chain_topology(cuts, 1, 1, text, sizeof text);
    assert_string_equal(text, "0-6;f16");
}

static void a_topology_that_does_not_fit_is_cut(void **state) {
    (void)state;
    char text[8];
    sk_chain_topology(cuts, 3, 0, text, sizeof text);
    assert_string_equal(text, "0-6,6-1");
    sk_chain_topology(cuts, 3, 0, text, 1);
    assert_string_equal(text, "");
    sk_chain_topology(cuts, 3, 0, text, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_facts_have_one_key),
        cmocka_unit_test(every_fact_changes_the_key),
        cmocka_unit_test(facts_of_no_chain_are_refused),
        cmocka_unit_test(a_topology_names_every_range_and_the_type),
        cmocka_unit_test(a_topology_that_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests_name("chain_key", tests, NULL, NULL);
}
