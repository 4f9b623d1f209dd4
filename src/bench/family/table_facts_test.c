/* Machine, versions, flags, digests, commands and notes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/table_fixture.h"
#include "bench/family/tables.h"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void machine_and_versions_are_said_once_for_all_inputs(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *machine = json_pack("{s:s, s:i, s:i, s:f, s:b, s:[]}", "cpu", "A|B", "cores", 2, "memory_kib", 24641536,
                                "ghz", 2.5, "idle", 1, "deeper");
    s.sources = json_pack("[{s:s, s:s, s:s, s:O, s:{s:s}}, {s:s, s:O}]", "path", "/long/way/run/rows.json", "sha256",
                          "ab", "status", "completed", "machine", machine, "versions", "skippy", "1.2", "path",
                          "rows.json", "machine", machine);
    assert_non_null(s.sources);
    json_decref(machine);
    sk_fixture_write(&s, sk_table_facts, &out);
    sk_fixture_line(&out, "- machine: cpu A/B, cores 2, memory 23.5 GiB, ghz 2.5, idle yes");
    sk_fixture_line(&out, "- versions: skippy 1.2");
    sk_fixture_line(&out, "- rows: `run/rows.json`, SHA-256 ab, run completed");
    sk_fixture_line(&out, "- rows: `rows.json`");
    const char *first = strstr(out.data, "- machine");
    assert_null(strstr(first + 1, "- machine"));
    sk_buf_free(&out);
}

static void a_runs_receipt_is_summed_up(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *programs =
        json_pack("{s:{s:s, s:s}, s:n}", "stage_server", "path", "/a/b/bin/skippy", "sha256", "cd", "old_server");
    s.sources = json_pack("[{s:s, s:s, s:{s:s}, s:O}, {s:s, s:O}]", "path", "a", "started", "2026-01-02", "input",
                          "sha256", "ef", "programs", programs, "path", "b", "programs", programs);
    assert_non_null(s.sources);
    json_decref(programs);
    sk_fixture_write(&s, sk_table_facts, &out);
    sk_fixture_line(&out, "- rows: `a`, begun 2026-01-02, its input's SHA-256 ef");
    sk_fixture_line(&out, "- program stage_server: `bin/skippy`, SHA-256 cd");
    const char *first = strstr(out.data, "- program");
    assert_null(strstr(first + 1, "- program"));
    sk_buf_free(&out);
}

static void servers_are_named_once_with_their_flags(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){0}));
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.key = "olmo", .family = "OLMo"}));
    json_t *row = sk_fixture_row(&(sk_fixture){.key = "gemma3", .family = "Gemma3"});
    json_t *tuned = json_array_get(json_object_get(row, "hosts"), 1);
    assert_int_equal(json_object_set_new(tuned, "flags", json_string("--swa-full")), 0);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_facts, &out);
    sk_fixture_line(&out, "| llama-server | version 9 (abc) | defaults | 1 |");
    sk_fixture_line(&out, "| llama-server-tuned | version 9 (abc) | `--cache-ram -1` | 1 |");
    sk_fixture_line(&out, "| llama-server-tuned | version 9 (abc) | `--swa-full` | 1 |");
    const char *first = strstr(out.data, "| skippy |");
    assert_non_null(first);
    assert_null(strstr(first + 1, "| skippy |"));
    sk_fixture_even(&out);
    sk_buf_free(&out);
}

static void models_are_listed_with_digest_and_without_folders(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.synthetic = true}));
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.use_case = "open_chat", .synthetic = true}));
    sk_fixture_write(&s, sk_table_commands, &out);
    sk_fixture_line(&out, "| Llama (8 of 16 layers) | `model.gguf` | 3.0 MiB | " DIGEST " | random |");
    const char *first = strstr(out.data, DIGEST);
    assert_null(strstr(first + 1, DIGEST));
    sk_fixture_absent(&out, "/models");
    sk_buf_free(&out);
}

static void command_is(const char *command, const char *want) {
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_row(&(sk_fixture){0});
    json_t *host = json_array_get(json_object_get(row, "hosts"), 0);
    assert_int_equal(json_object_set_new(host, "command", json_string(command)), 0);
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_commands, &out);
    sk_fixture_line(&out, want);
    sk_buf_free(&out);
}

static void commands_are_shown_without_the_machines_folders(void **state) {
    (void)state;
    command_is("/a/b/llama-server -m /models/x.gguf --port 1 ",
               "- Llama, llama-server: `llama-server -m x.gguf --port 1`");
    command_is("bin/x --cache=/var/cache/  --ratio=1/2 /",
               "- Llama, llama-server: `bin/x --cache=cache --ratio=1/2 /`");
    command_is("x `y` | z", "- Llama, llama-server: `x 'y' / z`");
}

static void a_command_that_is_the_same_in_all_cells_is_shown_once(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){0}));
    sk_fixture_add(&s, sk_fixture_row(&(sk_fixture){.use_case = "open_chat"}));
    sk_fixture_write(&s, sk_table_commands, &out);
    const char *first = strstr(out.data, "- Llama, skippy: `skippy`");
    assert_non_null(first);
    assert_null(strstr(first + 1, "- Llama, skippy"));
    sk_buf_free(&out);
}

static void parts_that_did_not_end_and_notes_are_told(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_buf out = {0};
    json_t *row = sk_fixture_exact((sk_fixture){.synthetic = true}, 3, 2, 1);
    sk_fixture_status(row, "restart", "timeout", "no answer in 60 s");
    sk_fixture_status(row, "curve", "cancelled", "");
    json_t *notes = json_object_get(row, "notes");
    json_t *parts = json_object_get(row, "parts");
    assert_int_equal(json_object_set_new(json_object_get(parts, "exact"), "schedule", json_string("one after another")),
                     0);
    assert_int_equal(json_object_set_new(json_object_get(parts, "curve"), "schedule", json_string("one after another")),
                     0);
    assert_int_equal(json_array_append_new(notes, json_string("a | note")), 0);
    assert_int_equal(json_array_append_new(notes, json_integer(5)), 0); /* damaged, and left out */
    sk_fixture_add(&s, json_deep_copy(row));
    sk_fixture_add(&s, row);
    sk_fixture_write(&s, sk_table_notes, &out);
    sk_fixture_line(&out, "- Llama (full, prefix of 128 tokens) was measured more than once: the last one is shown.");
    sk_fixture_line(&out, "- Llama (synthetic weights, full, 128 tokens): part restart is not complete (timeout): no "
                          "answer in 60 s");
    sk_fixture_line(&out, "- Llama (synthetic weights, full, 128 tokens): part curve is not complete (cancelled)");
    sk_fixture_line(&out, "- Llama (synthetic weights, full, 128 tokens): a / note");
    sk_fixture_absent(&out, "part exact");
    const char *schedule = strstr(out.data, "one after another");
    assert_non_null(schedule);
    assert_null(strstr(schedule + 1, "one after another")); /* once a row */
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_and_versions_are_said_once_for_all_inputs),
        cmocka_unit_test(a_runs_receipt_is_summed_up),
        cmocka_unit_test(servers_are_named_once_with_their_flags),
        cmocka_unit_test(models_are_listed_with_digest_and_without_folders),
        cmocka_unit_test(commands_are_shown_without_the_machines_folders),
        cmocka_unit_test(a_command_that_is_the_same_in_all_cells_is_shown_once),
        cmocka_unit_test(parts_that_did_not_end_and_notes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
