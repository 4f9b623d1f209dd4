/* The reading of the numbers: true for whatever they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

/* A row whose best llama-server is this many times slower than ours everywhere. */
static json_t *everywhere(sk_fixture f, double exact, double suffix, double moved, double agent, double restart) {
    json_t *row = sk_fixture_exact(f, 2.0 * exact, exact, 1.0);
    sk_fixture_times(row, "suffix", "suffix", 2.0 * suffix, suffix, 1.0);
    sk_fixture_times(row, "edit", "edit", 2.0 * moved, moved, 1.0);
    sk_fixture_times(row, "edit", "edit text", 2.0 * moved, moved, 1.0);
    sk_fixture_times(row, "thinking", "thinking", 2.0 * moved, moved, 1.0);
    sk_fixture_times(row, "agent", "all conversations", 2.0 * agent, agent, 1.0);
    sk_fixture_times(row, "restart", "restart", 2.0 * restart, restart, 1.0);
    return row;
}

static const sk_fixture HYBRID = {.key = "falcon_h1", .family = "Falcon-H1", .payload = "KvRecurrent"};
static const sk_fixture DENSE = {.key = "llama", .family = "Llama"};
static const sk_fixture OTHER = {.key = "olmo", .family = "OLMo"};

static void reached_goals_are_said_to_be_reached(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, everywhere(HYBRID, 10.0, 1.0, 2.0, 2.0, 5.0));
    sk_fixture_add(&s, everywhere(DENSE, 10.0, 1.0, 1.1, 1.3, 5.0));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "Every goal was reached by every family that is shown.");
    sk_fixture_line(&out, "No measured ratio is below parity.");
    sk_fixture_line(&out, "| Recurrent and hybrid | Agent loop, total | 1 of 1 | **2.00x faster**, Falcon-H1 | **2.00x "
                          "faster**, Falcon-H1 | at least 2x | 1 of 1 |");
    sk_fixture_line(&out,
                    "| Dense attention | Agent loop, total | 1 of 1 | **1.30x faster**, Llama | **1.30x faster**, "
                    "Llama | at least 1.3x | 1 of 1 |");
    sk_fixture_line(&out,
                    "| Dense attention | Stripped thinking | 1 of 1 | **1.10x faster**, Llama | **1.10x faster**, "
                    "Llama | none | - |");
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void missed_goals_are_listed_with_number_and_goal(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, everywhere(HYBRID, 9.5, 0.99, 1.9, 1.9, 4.5));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "- Falcon-H1, Exact repeat: 9.50x; the goal is 10x.");
    sk_fixture_line(&out, "- Falcon-H1, Shared prefix, new suffix: 0.99x; the goal is 1x.");
    sk_fixture_line(&out, "- Falcon-H1, Edited message, chat: 1.90x; the goal is 2x.");
    sk_fixture_line(&out, "- Falcon-H1, Edited message, text: 1.90x; the goal is 2x.");
    sk_fixture_line(&out, "- Falcon-H1, Stripped thinking: 1.90x; the goal is 2x.");
    sk_fixture_line(&out, "- Falcon-H1, Agent loop, total: 1.90x; the goal is 2x.");
    sk_fixture_line(&out, "- Falcon-H1, After a restart: 4.50x; the goal is 5x.");
    sk_fixture_line(&out, "No measured ratio is below parity.");
    sk_fixture_absent(&out, "Every goal was reached");
    sk_buf_free(&out);
}

static void a_ratio_just_below_its_goal_does_not_read_as_the_goal(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, everywhere(DENSE, 9.997, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "- Llama, Exact repeat: 9.99x; the goal is 10x.");
    sk_buf_free(&out);
}

static void ranges_name_the_lowest_and_the_highest_family(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, everywhere(DENSE, 12.0, 0.9, 1.0, 1.3, 5.0));
    sk_fixture_add(&s, everywhere(OTHER, 8.0, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out,
                    "| Dense attention | Exact repeat | 2 of 2 | **8.00x faster**, OLMo | **12.00x faster**, Llama | "
                    "at least 10x | 1 of 2 |");
    sk_fixture_line(&out, "| Dense attention | Shared prefix, new suffix | 2 of 2 | 0.90x (slower), Llama | 1.00x "
                          "(parity), OLMo | at least 1x | 1 of 2 |");
    sk_fixture_line(&out, "Where skippy is slower than llama-server's best flags:");
    sk_fixture_line(&out, "- Llama, Shared prefix, new suffix: 0.90x (slower).");
    sk_fixture_absent(&out, "Recurrent and hybrid");
    sk_buf_free(&out);
}

static void what_was_not_measured_is_short_of_its_goal(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact(DENSE, 300, 250, 25));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "| Dense attention | After a restart | 0 of 1 | n/a | n/a | at least 5x | 0 of 1 |");
    sk_fixture_line(&out, "- Llama, After a restart: not measured; the goal is 5x.");
    sk_fixture_absent(&out, "Llama, Stripped thinking"); /* dense families have no such goal */
    sk_buf_free(&out);
}

static void different_answers_prove_nothing(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = everywhere(DENSE, 12.0, 1.0, 1.0, 1.3, 5.0);
    sk_fixture_incomparable(row, "exact", "llama-server-tuned");
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "| Dense attention | Exact repeat | 0 of 1 | n/a | n/a | at least 10x | 0 of 1 |");
    sk_fixture_line(&out,
                    "- Llama, Exact repeat: 12.00x, but the servers' answers differ, so it proves nothing; the goal "
                    "is 10x.");
    sk_buf_free(&out);
}

static void families_that_did_not_pass_are_named_and_not_counted(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture failed = OTHER;
    failed.status = "fail";
    sk_fixture_add(&s, everywhere(DENSE, 12.0, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_add(&s, everywhere(failed, 1.0, 0.1, 0.1, 0.1, 0.1));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "Not counted here, since correctness did not pass or nothing was run: OLMo.");
    sk_fixture_line(&out, "No measured ratio is below parity.");
    sk_fixture_line(&out, "Every goal was reached by every family that is shown.");
    sk_buf_free(&out);
}

static void without_a_baseline_nothing_is_called_good(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_exact(DENSE, 0, 0, 25));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "No ratio was measured.");
    sk_fixture_absent(&out, "below parity");
    sk_fixture_absent(&out, "Every goal");
    sk_buf_free(&out);
}

static void use_cases_have_a_range_and_their_slow_cells_are_named(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture chat = DENSE, tools = DENSE;
    chat.use_case = "open_chat";
    tools.use_case = "tool_calling";
    sk_fixture_add(&s, everywhere(DENSE, 12.0, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_add(&s, sk_fixture_exact(chat, 9, 9, 10));
    sk_fixture_add(&s, sk_fixture_exact(tools, 20, 20, 10));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_line(&out, "| Dense attention | Use cases, exact repeat | 2 of 2 | 0.90x (slower), Llama, open_chat | "
                          "**2.00x faster**, Llama, tool_calling | none | - |");
    sk_fixture_line(&out, "- Llama, open_chat: 0.90x (slower).");
    sk_buf_free(&out);
}

static void synthetic_rows_are_read_apart(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture random = OTHER;
    random.synthetic = true;
    sk_fixture_add(&s, everywhere(random, 1.0, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_add(&s, everywhere(DENSE, 12.0, 1.0, 1.0, 1.3, 5.0));
    sk_fixture_write(&s, sk_table_read, &out);
    sk_fixture_order(&out, "Exact repeat | 1 of 1 | **12.00x faster**, Llama", "(synthetic weights)");
    sk_fixture_order(&out, "(synthetic weights)", "Exact repeat | 1 of 1 | 1.00x (parity), OLMo");
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reached_goals_are_said_to_be_reached),
        cmocka_unit_test(missed_goals_are_listed_with_number_and_goal),
        cmocka_unit_test(a_ratio_just_below_its_goal_does_not_read_as_the_goal),
        cmocka_unit_test(ranges_name_the_lowest_and_the_highest_family),
        cmocka_unit_test(what_was_not_measured_is_short_of_its_goal),
        cmocka_unit_test(different_answers_prove_nothing),
        cmocka_unit_test(families_that_did_not_pass_are_named_and_not_counted),
        cmocka_unit_test(without_a_baseline_nothing_is_called_good),
        cmocka_unit_test(use_cases_have_a_range_and_their_slow_cells_are_named),
        cmocka_unit_test(synthetic_rows_are_read_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
