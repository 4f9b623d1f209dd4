#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/fake_server.h"
#include "bench/family/part.h"
#include "bench/family/sha256.h"
#include "bench/family/turns.h"

enum { REPEATS = 4 };

static char folder[64];

static const sk_family_sizes sizes = {.seed = 1,
                                      .suffix_tokens = 8,
                                      .history_tokens = 60,
                                      .edit_tokens = 10,
                                      .restart_tokens = 24,
                                      .cache_hit_repeats = REPEATS,
                                      .llama_repeats = REPEATS - 1,
                                      .conversation_repeats = REPEATS,
                                      .restart_repeats = 2,
                                      .concurrency = {1},
                                      .n_concurrency = 1};
static const sk_family_cell full = {.kind = SK_CELL_FULL, .prefix_tokens = 32};

/* ---- one server, one part ---- */

typedef struct bench {
    sk_family_host host;
    sk_part_task task;
    sk_turns turns;
    sk_part_result result;
    char *lines; /* the prompts that the last process got, a line each */
    size_t n_lines;
} bench;

static void read_lines(bench *b) {
    char path[256];
    sk_buf text = {0};
    char part[4096];
    snprintf(path, sizeof path, "%s/%s-%zu.stdout", folder, b->host.name, b->host.starts);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) {
        sk_buf_add(&text, part, n);
    }
    fclose(f);
    b->lines = text.data;
    for (char *at = b->lines; at && (at = strchr(at, '\n')) != NULL; at++) {
        *at = '\0';
        b->n_lines++;
    }
}

static const char *line(const bench *b, size_t i) {
    const char *at = b->lines;
    assert_true(i < b->n_lines);
    while (i-- > 0) {
        at += strlen(at) + 1;
    }
    return at;
}

/* Runs the part on a fresh server. */
static int run(bench *b, const sk_part *part, const sk_family_cell *cell, const sk_family_sizes *s,
               const sk_use_case *use_case, const char *name, const char *flags) {
    *b = (bench){.host = fake_host(name, folder, flags),
                 .task = {.cell = cell, .sizes = s, .use_case = use_case},
                 .turns = {.n_hosts = 1}};
    b->turns.hosts = &b->host;
    b->turns.task = &b->task;
    const int rc = sk_turns_run(&b->turns, part, &b->result);
    read_lines(b);
    return rc;
}

static void end(bench *b) {
    sk_part_result_free(&b->result);
    sk_host_free(&b->host);
    free(b->lines);
}

static const sk_series *series(const bench *b, const char *name, size_t n) {
    const sk_series *s = sk_measurement_find(&b->result.m[0], name);
    assert_non_null(s);
    assert_int_equal(s->n, n);
    return s;
}

static size_t cold_answers(const bench *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->result.m[0].n_answers; i++) {
        n += b->result.m[0].answers[i].cold;
    }
    return n;
}

static json_int_t extra_number(const bench *b, const char *key) {
    const json_t *v = json_object_get(b->result.extra[0], key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

/* ---- which parts ---- */

static void check_parts(const sk_family_cell *cell, const char *want) {
    const sk_part *parts[SK_MAX_PARTS];
    sk_buf names = {0};
    const size_t n = sk_parts_of(cell, &sizes, parts);
    sk_buf_str(&names, "");
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(&names, "%s ", parts[i]->name);
        assert_true(!parts[i]->last || i + 1 == n);
    }
    assert_string_equal(names.len ? names.data : "", want);
    sk_buf_free(&names);
}

static void a_cell_gets_the_parts_of_its_tasks_and_the_restart_last(void **state) {
    (void)state;
    sk_family_cell cell = full;
    check_parts(&cell, "");
    cell.tasks = (sk_cell_tasks){.correctness = true,
                                 .serial_baseline = true,
                                 .serial_skippy = true,
                                 .concurrent = true,
                                 .moved_boundary = true,
                                 .agent = true,
                                 .restart = true};
    check_parts(&cell, "exact suffix edit thinking agent curve restart ");
    cell.tasks = (sk_cell_tasks){.serial_skippy = true};
    check_parts(&cell, "exact suffix ");
    cell.kind = SK_CELL_USE_CASE;
    check_parts(&cell, "exact ");
    cell.kind = SK_CELL_SWEEP;
    check_parts(&cell, "exact ");
    cell.tasks = (sk_cell_tasks){.restart = true};
    check_parts(&cell, "restart ");
}

static void a_curve_without_levels_is_no_part(void **state) {
    (void)state;
    sk_family_sizes none = sizes;
    const sk_family_cell cell = {.kind = SK_CELL_FULL, .tasks = {.concurrent = true}};
    const sk_part *parts[SK_MAX_PARTS];
    none.n_concurrency = 0;
    assert_int_equal(sk_parts_of(&cell, &none, parts), 0);
}

static size_t huge_tokens(const sk_part_task *t) {
    (void)t;
    return (size_t)1 << 40;
}

static void the_context_is_that_of_the_largest_part_in_steps(void **state) {
    (void)state;
    const sk_part_task task = {.cell = &full, .sizes = &sizes};
    const sk_part *small[] = {&sk_part_exact, &sk_part_suffix};
    const sk_part *large[] = {&sk_part_exact, &sk_part_thinking, &sk_part_edit};
    const sk_part huge = {.lane_tokens = huge_tokens};
    const sk_part *too_large[] = {&huge};
    assert_int_equal(sk_parts_context(small, 2, &task), 256);
    const size_t need = sk_part_thinking.lane_tokens(&task);
    const uint32_t ctx = sk_parts_context(large, 3, &task);
    assert_true(ctx >= need && ctx < need + 256 && ctx % 256 == 0);
    assert_int_equal(sk_parts_context(NULL, 0, &task), 0);
    assert_int_equal(sk_parts_context(too_large, 1, &task), UINT32_MAX / 256 * 256);
}

static void every_text_has_a_seed_of_its_own_and_hosts_agree(void **state) {
    (void)state;
    sk_family_cell cells[] = {full, full, full, {.kind = SK_CELL_USE_CASE, .use_case = "x", .prefix_tokens = 32}};
    sk_family_sizes other = sizes;
    cells[1].prefix_tokens = 64;
    cells[2].kind = SK_CELL_SWEEP;
    other.seed = 2;
    const sk_part_task tasks[] = {{.cell = &cells[0], .sizes = &sizes},
                                  {.cell = &cells[1], .sizes = &sizes},
                                  {.cell = &cells[2], .sizes = &sizes},
                                  {.cell = &cells[3], .sizes = &sizes},
                                  {.cell = &cells[0], .sizes = &other}};
    uint64_t seen[5 * 2 * 3 * 3];
    size_t n = 0;
    for (size_t t = 0; t < 5; t++) {
        const sk_part_host h = {.task = &tasks[t]};
        for (size_t round = 0; round < 3; round++) {
            for (size_t piece = 0; piece < 3; piece++) {
                seen[n++] = sk_part_seed(&h, "exact", round, piece);
                seen[n++] = sk_part_seed(&h, "suffix", round, piece);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(seen[i] != seen[k]);
        }
    }
    const sk_part_host again = {.task = &tasks[0]};
    assert_true(sk_part_seed(&again, "exact", 0, 0) == seen[0]);
}

/* ---- what each part asks ---- */

static void exact_repeats_one_prompt_of_one_token_more_than_the_prefix(void **state) {
    (void)state;
    bench b;
    char hex[SK_SHA256_HEX];
    assert_int_equal(run(&b, &sk_part_exact, &full, &sizes, NULL, SK_HOST_OURS, NULL), SKIPPY_OK);
    const sk_series *s = series(&b, "exact", REPEATS);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->v[i].cache_n, 32);
        assert_int_equal(s->v[i].prompt_n, 1);
    }
    assert_int_equal(b.n_lines, 1 + SK_WARM_UPS + REPEATS);
    assert_string_equal(line(&b, 0), line(&b, b.n_lines - 1));
    assert_int_equal(cold_answers(&b), 1);
    assert_true(b.result.m[0].answers[0].cold);
    assert_string_equal(b.result.m[0].answers[0].prompt, line(&b, 0));
    assert_int_equal(b.result.m[0].n_prompts, 1);
    assert_int_equal(extra_number(&b, "prompt_tokens"), 33);
    sk_sha256_text(line(&b, 0), strlen(line(&b, 0)), hex);
    assert_string_equal(json_string_value(json_object_get(b.result.extra[0], "prompt_sha256")), hex);
    assert_true(json_is_false(json_object_get(b.result.extra[0], "lengthened")));
    end(&b);
}

static void each_kind_of_server_has_its_own_number_of_repeats(void **state) {
    (void)state;
    bench b;
    assert_int_equal(run(&b, &sk_part_exact, &full, &sizes, NULL, SK_HOST_BASE, NULL), SKIPPY_OK);
    series(&b, "exact", REPEATS - 1);
    end(&b);
}

static void a_use_case_is_cut_to_the_length_of_the_cell(void **state) {
    (void)state;
    static char prompt[] =
        "Please fix the tests of this program: they fail since the last change of the parser, it seems.";
    const sk_use_case use_case = {.key = "issue_fixing", .prompt = prompt};
    const sk_family_cell cell = {.kind = SK_CELL_USE_CASE, .use_case = "issue_fixing", .prefix_tokens = 6};
    bench b;
    assert_int_equal(run(&b, &sk_part_exact, &cell, &sizes, &use_case, SK_HOST_OURS, NULL), SKIPPY_OK);
    assert_string_equal(line(&b, 0), "Please fix the tests of this ");
    assert_true(json_is_false(json_object_get(b.result.extra[0], "lengthened")));
    assert_int_equal(extra_number(&b, "prompt_tokens"), 7);
    end(&b);
}

static void a_short_use_case_is_lengthened_with_words(void **state) {
    (void)state;
    static char prompt[] = "Hello there, friend.";
    const sk_use_case use_case = {.key = "open_chat", .prompt = prompt};
    const sk_family_cell cell = {.kind = SK_CELL_USE_CASE, .use_case = "open_chat", .prefix_tokens = 32};
    bench b;
    assert_int_equal(run(&b, &sk_part_exact, &cell, &sizes, &use_case, SK_HOST_OURS, NULL), SKIPPY_OK);
    assert_memory_equal(line(&b, 0), prompt, strlen(prompt));
    assert_int_equal(series(&b, "exact", REPEATS)->v[0].cache_n, 32);
    assert_true(json_is_true(json_object_get(b.result.extra[0], "lengthened")));
    end(&b);
}

static void a_use_case_that_the_corpus_does_not_have_is_an_error(void **state) {
    (void)state;
    const sk_family_cell cell = {.kind = SK_CELL_USE_CASE, .use_case = "juggling", .prefix_tokens = 32};
    bench b;
    assert_int_equal(run(&b, &sk_part_exact, &cell, &sizes, NULL, SK_HOST_OURS, NULL), SKIPPY_E_INVALID);
    assert_string_equal(b.result.err.text, "skippy: the corpus has no use case 'juggling'");
    end(&b);
}

static void suffix_puts_other_tokens_behind_the_prefix_each_time(void **state) {
    (void)state;
    bench b;
    assert_int_equal(run(&b, &sk_part_suffix, &full, &sizes, NULL, SK_HOST_OURS, NULL), SKIPPY_OK);
    const sk_series *s = series(&b, "suffix", REPEATS);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->v[i].cache_n + s->v[i].prompt_n, 32 + 8);
        assert_in_range(s->v[i].cache_n, 32, 34); /* chance may give two suffixes the same first word */
    }
    for (size_t i = 1; i < b.n_lines; i++) {
        assert_memory_equal(line(&b, i), line(&b, 0), strlen(line(&b, 0)));
        assert_string_not_equal(line(&b, i), line(&b, i - 1));
    }
    assert_int_equal(cold_answers(&b), 1);
    end(&b);
}

static void an_edit_follows_the_version_before_it_in_both_forms(void **state) {
    (void)state;
    bench b;
    assert_int_equal(run(&b, &sk_part_edit, &full, &sizes, NULL, SK_HOST_OURS, NULL), SKIPPY_OK);
    const size_t chat_history = strlen("<system> ");
    series(&b, "edit", REPEATS);
    series(&b, "edit text", REPEATS);
    assert_int_equal(cold_answers(&b), 2);
    /* cold: chat, text; then for each edit: chat before, chat after, text before, text after */
    assert_int_equal(b.n_lines, 2 + 4 * (1 + REPEATS));
    for (size_t i = 2; i < b.n_lines; i += 4) {
        assert_string_equal(line(&b, i), line(&b, i == 2 ? 0 : i - 3));
        assert_string_equal(line(&b, i + 2), line(&b, i == 2 ? 1 : i - 1));
        assert_string_not_equal(line(&b, i + 1), line(&b, i));
        assert_memory_equal(line(&b, i), "<system> ", chat_history);
        assert_non_null(strstr(line(&b, i), "<assistant>"));
        assert_null(strchr(line(&b, i + 2), '<'));
    }
    for (size_t i = 0; i < REPEATS; i++) { /* the whole history is known, the message is not */
        const sk_sample *text = &series(&b, "edit text", REPEATS)->v[i];
        assert_true(text->cache_n >= 5 * (12 - 1) && text->prompt_n >= 1);
        assert_true(text->prompt_n <= 10);
    }
    end(&b);
}

static void thinking_leaves_the_history_with_the_next_turn(void **state) {
    (void)state;
    bench b;
    assert_int_equal(run(&b, &sk_part_thinking, &full, &sizes, NULL, SK_HOST_OURS, "--word think"), SKIPPY_OK);
    series(&b, "thinking", REPEATS);
    assert_int_equal(cold_answers(&b), 1);
    /* each turn asks for one token, then for the answer */
    assert_int_equal(b.n_lines, 2 * (1 + REPEATS));
    assert_string_equal(line(&b, 2), line(&b, 3));
    /* 24 words are an answer; half of its bytes stay: 11 whole words and "hink" */
    const char *second = strstr(line(&b, 2), "<assistant> ");
    assert_non_null(second);
    size_t words = 0;
    for (const char *at = second; (at = strstr(at, "hink")) != NULL; at++) {
        words++;
    }
    assert_int_equal(words, 12);
    end(&b);
}

static void a_long_conversation_is_followed_by_another_one(void **state) {
    (void)state;
    sk_family_sizes many = sizes;
    const sk_part_task task = {.cell = &full, .sizes = &many};
    bench b;
    many.conversation_repeats = 13;
    assert_int_equal(run(&b, &sk_part_thinking, &full, &many, NULL, SK_HOST_OURS, NULL), SKIPPY_OK);
    const sk_series *s = series(&b, "thinking", 13);
    assert_int_equal(cold_answers(&b), 2);
    for (size_t i = 0; i < s->n; i++) {
        assert_true(s->v[i].cache_n + s->v[i].prompt_n + 24 <= sk_part_thinking.lane_tokens(&task));
    }
    /* turn 12 of the first conversation, then turn 2 of the second one */
    assert_true(s->v[10].cache_n + s->v[10].prompt_n > s->v[11].cache_n + s->v[11].prompt_n);
    end(&b);
}

static void restart_asks_a_new_process_what_the_old_one_knew(void **state) {
    (void)state;
    bench b;
    assert_int_equal(run(&b, &sk_part_restart, &full, &sizes, NULL, SK_HOST_OURS, NULL), SKIPPY_OK);
    const sk_series *s = series(&b, "restart", 2);
    assert_int_equal(s->v[0].cache_n, 0); /* this server keeps nothing */
    assert_int_equal(s->v[0].prompt_n, 24);
    assert_true(series(&b, "ready", 2)->v[1].ms > 0.0);
    assert_int_equal(b.host.starts, 3);
    assert_int_equal(json_array_size(b.host.receipts), 3);
    assert_int_equal(extra_number(&b, "restarts"), 2);
    assert_int_equal(extra_number(&b, "same_answer"), 2);
    assert_true(json_is_false(json_object_get(b.result.extra[0], "disk_store")));
    assert_int_equal(cold_answers(&b), 3);
    end(&b);
}

static void a_disk_store_gets_time_to_write_and_to_open(void **state) {
    (void)state;
    sk_family_sizes once = sizes;
    bench b;
    once.restart_repeats = 1;
    assert_int_equal(run(&b, &sk_part_restart, &full, &once, NULL, SK_HOST_OURS, "--cache-disk somewhere --disk 1"),
                     SKIPPY_OK);
    assert_true(json_is_true(json_object_get(b.result.extra[0], "disk_store")));
    series(&b, "restart", 1);
    end(&b);
}

static void a_server_that_dies_anywhere_is_an_error_and_leaves_nothing_behind(void **state) {
    (void)state;
    static const sk_part *const parts[] = {&sk_part_exact, &sk_part_suffix, &sk_part_edit, &sk_part_thinking,
                                           &sk_part_restart};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (int after = 0; after < 6; after += after ? 2 : 1) {
            char flags[32];
            bench b;
            snprintf(flags, sizeof flags, "--die-after %d", after);
            const int rc = run(&b, parts[i], &full, &sizes, NULL, SK_HOST_OURS, flags);
            if (parts[i] == &sk_part_restart && after >= 2) { /* each process gets two prompts, and lives */
                assert_int_equal(rc, SKIPPY_OK);
            } else {
                assert_int_not_equal(rc, SKIPPY_OK);
                assert_non_null(strstr(b.result.err.text, "the server ended in the middle"));
            }
            end(&b);
        }
    }
}

static void sizes_that_no_prompt_can_have_are_errors(void **state) {
    (void)state;
    sk_family_sizes none = sizes;
    const sk_family_cell cell = {.kind = SK_CELL_FULL, .prefix_tokens = 2};
    bench b;
    none.edit_tokens = none.restart_tokens = 1;
    static const sk_part *const parts[] = {&sk_part_exact, &sk_part_suffix, &sk_part_edit, &sk_part_thinking,
                                           &sk_part_restart};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_int_equal(run(&b, parts[i], &cell, &none, NULL, SK_HOST_OURS, NULL), SKIPPY_E_INVALID);
        assert_non_null(strstr(b.result.err.text, "a prompt needs at least 8 tokens"));
        end(&b);
    }
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "part-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_gets_the_parts_of_its_tasks_and_the_restart_last),
        cmocka_unit_test(a_curve_without_levels_is_no_part),
        cmocka_unit_test(the_context_is_that_of_the_largest_part_in_steps),
        cmocka_unit_test(every_text_has_a_seed_of_its_own_and_hosts_agree),
        cmocka_unit_test(exact_repeats_one_prompt_of_one_token_more_than_the_prefix),
        cmocka_unit_test(each_kind_of_server_has_its_own_number_of_repeats),
        cmocka_unit_test(a_use_case_is_cut_to_the_length_of_the_cell),
        cmocka_unit_test(a_short_use_case_is_lengthened_with_words),
        cmocka_unit_test(a_use_case_that_the_corpus_does_not_have_is_an_error),
        cmocka_unit_test(suffix_puts_other_tokens_behind_the_prefix_each_time),
        cmocka_unit_test(an_edit_follows_the_version_before_it_in_both_forms),
        cmocka_unit_test(thinking_leaves_the_history_with_the_next_turn),
        cmocka_unit_test(a_long_conversation_is_followed_by_another_one),
        cmocka_unit_test(restart_asks_a_new_process_what_the_old_one_knew),
        cmocka_unit_test(a_disk_store_gets_time_to_write_and_to_open),
        cmocka_unit_test(a_server_that_dies_anywhere_is_an_error_and_leaves_nothing_behind),
        cmocka_unit_test(sizes_that_no_prompt_can_have_are_errors),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
