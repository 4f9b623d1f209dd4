/* Which servers a session has, with what flags, and when they run together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/cell_hosts.h"

#define GIB (UINT64_C(1) << 30)

static sk_family_input in;
static sk_input_model model;
static sk_session_hosts hosts;

static const sk_host_wishes ALL = {.baselines = true, .paired = true, .ours = true, .lane_ctx = 1024, .threads = 3};

static int set_up(void **state) {
    (void)state;
    in = (sk_family_input){.sizes = {.lanes = 1, .parallel = 1, .request_timeout_ms = 5000}};
    snprintf(in.native_server.path, sizeof in.native_server.path, "/opt/llama-server");
    snprintf(in.stage_server.path, sizeof in.stage_server.path, "/opt/skippy");
    model = (sk_input_model){.preset = sk_preset_find("llama")};
    model.found = (sk_found_model){.runtime_entry = "/models/llama.gguf", .layers = 8, .n_files = 1};
    model.found.file[0].bytes = GIB;
    return 0;
}

static void make(const sk_host_wishes *w, uint64_t available) {
    sk_session_hosts_make(&in, &model, w, "/out/server-logs/llama-1", available, &hosts);
}

static const sk_launch *launch(size_t i) {
    return &hosts.v[i].launch;
}

static void ours_comes_last_behind_default_and_tuned_flags(void **state) {
    (void)state;
    make(&ALL, 0);
    assert_int_equal(hosts.n, 3);
    assert_string_equal(hosts.v[0].name, SK_HOST_BASE);
    assert_string_equal(launch(0)->flags[1], "");
    assert_null(launch(0)->subcommand);
    assert_string_equal(hosts.v[1].name, SK_HOST_TUNED);
    assert_string_equal(launch(1)->flags[1], "--cache-ram -1 --ctx-checkpoints 64 --checkpoint-min-step 64");
    assert_string_equal(hosts.v[2].name, SK_HOST_OURS);
    assert_true(hosts.v[2].ours);
    assert_string_equal(launch(2)->subcommand, "serve");
    assert_string_equal(launch(2)->flags[1], "");
    assert_null(launch(2)->flags[2]);
    hosts.together = false; /* none of them runs */
    assert_int_equal(sk_session_hosts_use_disk(&hosts, NULL), SKIPPY_OK);
    assert_string_equal(launch(2)->flags[2], "--cache-disk /out/server-logs/llama-1/disk-store");
    assert_int_equal(launch(2)->threads, 3);
    assert_int_equal(launch(2)->n_ctx, 1024);
    assert_int_equal(hosts.v[2].timeout_ms, 5000);
}

static void windows_and_lanes_get_the_baselines_best_flags(void **state) {
    (void)state;
    model.preset = sk_preset_find("gemma3");
    in.sizes.parallel = 4;
    make(&ALL, 0);
    assert_non_null(strstr(launch(1)->flags[1], " --swa-full"));
    assert_non_null(strstr(launch(1)->flags[1], " --kv-unified --no-cache-idle-slots"));
    assert_int_equal(launch(1)->lanes, 4);
    assert_int_equal(launch(1)->n_ctx, 4096); /* of all lanes */
    assert_int_equal(launch(2)->n_ctx, 1024);
}

static void all_layers_on_the_device_have_another_word_in_llama_server(void **state) {
    (void)state;
    in.sizes.n_gpu_layers = -1;
    make(&ALL, 0);
    assert_string_equal(launch(0)->flags[0], "-ngl all");
    assert_string_equal(launch(2)->flags[0], "-ngl -1");
    in.sizes.n_gpu_layers = 7;
    make(&ALL, 0);
    assert_string_equal(launch(0)->flags[0], "-ngl 7");
}

static void paired_servers_stand_beside_the_others(void **state) {
    (void)state;
    snprintf(in.old_server.path, sizeof in.old_server.path, "/old/skippy-0.1");
    snprintf(in.new_server.path, sizeof in.new_server.path, "/new/llama-server");
    make(&ALL, 0);
    assert_int_equal(hosts.n, 5);
    assert_string_equal(hosts.v[2].name, "old-server");
    assert_string_equal(launch(2)->subcommand, "serve");
    assert_null(launch(3)->subcommand);
    assert_true(hosts.v[4].ours);
}

static void only_what_is_wished_for_is_there(void **state) {
    const sk_host_wishes alone = {.ours = true, .lane_ctx = 512, .threads = 1};
    (void)state;
    make(&alone, 0);
    assert_int_equal(hosts.n, 1);
    assert_true(hosts.together); /* alone there are no turns to take */
    in.native_server.path[0] = '\0';
    make(&ALL, 0);
    assert_int_equal(hosts.n, 1);
}

static void servers_run_together_when_most_of_the_memory_suffices(void **state) {
    const uint64_t one = sk_session_host_bytes(&model, 1024);
    (void)state;
    assert_true(one > GIB && one < 2 * GIB);
    make(&ALL, 3 * one * 100 / 79);
    assert_true(hosts.together);
    make(&ALL, 3 * one * 100 / 81);
    assert_false(hosts.together);
    make(&ALL, 0); /* not known */
    assert_false(hosts.together);
}

static void memory_counts_files_context_and_the_layers_that_are_there(void **state) {
    const uint64_t none = sk_session_host_bytes(&model, 0);
    (void)state;
    /* 32,768 bytes a token of 16 layers; 8 are there */
    assert_int_equal(sk_session_host_bytes(&model, 1000) - none, 16384 * 1000);
    model.found.file[0].bytes = UINT64_MAX;
    assert_true(sk_session_host_bytes(&model, 1000) == UINT64_MAX);
    model.preset = sk_preset_find("falcon_h1"); /* bytes per token unknown: K and V of full width */
    model.found.file[0].bytes = 0;
    model.found.width = 64;
    assert_int_equal(sk_session_host_bytes(&model, 10) - sk_session_host_bytes(&model, 0), 8 * 64 * 4 * 10);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(ours_comes_last_behind_default_and_tuned_flags),
        TEST(windows_and_lanes_get_the_baselines_best_flags),
        TEST(all_layers_on_the_device_have_another_word_in_llama_server),
        TEST(paired_servers_stand_beside_the_others),
        TEST(only_what_is_wished_for_is_there),
        TEST(servers_run_together_when_most_of_the_memory_suffices),
        TEST(memory_counts_files_context_and_the_layers_that_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
