/* What the part says before any server is there; parts_live_test.c runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/family/part.h"

static void there_is_a_round_for_each_level_and_room_for_its_prompts(void **state) {
    (void)state;
    const sk_family_cell cell = {.prefix_tokens = 128};
    sk_family_sizes sizes = {.suffix_tokens = 16, .concurrent_output_tokens = 100, .n_concurrency = 3};
    const sk_part_task t = {.cell = &cell, .sizes = &sizes};
    const sk_part_host h = {.task = &t};
    assert_int_equal(sk_part_curve.rounds(&h), 3);
    assert_int_equal(sk_part_curve.lane_tokens(&t), 128 + 16 + 100 + SK_PART_SPARE_TOKENS);
    sizes.concurrent_output_tokens = 1; /* the answer that is compared between servers is longer then */
    assert_int_equal(sk_part_curve.lane_tokens(&t), 128 + 16 + SK_GATE_TOKENS + SK_PART_SPARE_TOKENS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_a_round_for_each_level_and_room_for_its_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
