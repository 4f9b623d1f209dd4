/* Traces are read as they were written, and what is no trace is refused with words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/evict_generate.h"
#include "bench/evict_trace.h"

enum { B = SK_EVICT_BLOCK_TOKENS };

static char file[64];

static const char *write_file(const char *text) {
    snprintf(file, sizeof file, "evict-trace-test-%d.jsonl", (int)getpid());
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return file;
}

static int remove_file(void **state) {
    (void)state;
    unlink(file);
    return 0;
}

static void prompts_that_begin_alike_share_blocks(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    assert_int_equal(sk_evict_trace_load(&t,
                                         write_file("{\"timestamp\":0,\"input_length\":1536,\"output_length\":3,"
                                                    "\"hash_ids\":[7,8,9]}\n\n"
                                                    "{\"timestamp\":5,\"input_length\":1540,\"output_length\":1,"
                                                    "\"hash_ids\":[7,8,40,41]}\n"),
                                         &e),
                     SKIPPY_OK);
    assert_int_equal(t.n_requests, 2);
    assert_int_equal(t.requests[1].time_ms, 5);
    assert_int_equal(t.requests[1].input_tokens, 1540);
    assert_int_equal(t.requests[1].n_blocks, 3); /* block 41 is not full */
    const uint32_t *a = t.path + t.requests[0].first, *b = t.path + t.requests[1].first;
    assert_int_equal(t.n_blocks, 4);
    assert_int_equal(a[0], b[0]);
    assert_int_equal(a[1], b[1]);
    assert_int_not_equal(a[2], b[2]);
    assert_int_equal(t.parent[a[0]], SK_EVICT_ROOT);
    assert_int_equal(t.parent[b[2]], b[1]);
    const sk_evict_trace_facts f = sk_evict_trace_describe(&t);
    assert_int_equal(f.input_tokens, 3076);
    assert_int_equal(f.output_tokens, 4);
    assert_int_equal(f.longest_input, 1540);
    assert_int_equal(f.span_ms, 5);
    assert_int_equal(f.block_uses, 6);
    assert_int_equal(f.unique_blocks, 4);
    sk_evict_trace_free(&t);
}

static void refused(const char *text, const char *words) {
    sk_evict_trace t = {0};
    sk_err e;
    assert_int_equal(sk_evict_trace_load(&t, write_file(text), &e), SKIPPY_E_CORRUPT);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in '%s'", words, e.text);
    assert_null(t.requests);
    assert_int_equal(t.n_requests, 0);
}

static void what_is_no_trace_is_refused_with_the_line(void **state) {
    (void)state;
    const char *good = "{\"timestamp\":9,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1]}\n";
    char text[512];
    refused("", "no request");
    refused("not json\n", "line 1: it is no JSON object");
    refused("[1]\n", "line 1: it is no JSON object");
    refused("{\"timestamp\":0,\"input_length\":-1,\"output_length\":1,\"hash_ids\":[1]}\n", "whole numbers");
    refused("{\"timestamp\":0,\"input_length\":512,\"output_length\":1}\n", "hash_ids is not an array");
    refused("{\"timestamp\":0,\"input_length\":512,\"output_length\":1,\"hash_ids\":[\"a\"]}\n", "no number");
    refused("{\"timestamp\":0,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[1]}\n", "fill 2 blocks");
    snprintf(text, sizeof text, "%s%s", good,
             "{\"timestamp\":8,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1]}\n");
    refused(text, "line 2: the time goes back");
    snprintf(text, sizeof text, "%s%s", good,
             "{\"timestamp\":9,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[2,1]}\n");
    refused(text, "line 2: block id 1 stands behind another block");
    refused("{\"timestamp\":0,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[1,1]}\n", "block id 1 stands");
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    assert_int_equal(sk_evict_trace_load(&t, "there-is-no-such.jsonl", &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "there-is-no-such.jsonl"));
}

/* A prompt that is refused half-way leaves no blocks behind. */
static void a_refused_prompt_changes_nothing(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    assert_int_equal(sk_evict_trace_add(&t, 0, 3 * B, 1, (const uint64_t[]){1, 2, 3}, 3, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_trace_add(&t, 0, 3 * B, 1, (const uint64_t[]){1, 50, 3}, 3, &e), SKIPPY_E_INVALID);
    assert_int_equal(t.n_blocks, 3);
    assert_int_equal(t.n_requests, 1);
    assert_int_equal(t.n_path, 3);
    assert_int_equal(sk_evict_trace_add(&t, 0, 3 * B, 1, (const uint64_t[]){1, 2, 50}, 3, &e), SKIPPY_OK);
    assert_int_equal(t.n_blocks, 4);
    sk_evict_trace_free(&t);
}

/* More ids than the first tables hold. */
static void many_blocks_keep_their_numbers(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 5000; i++) {
            const uint64_t id = i * 4096 + 1;
            assert_int_equal(sk_evict_trace_add(&t, 0, B, 1, &id, 1, &e), SKIPPY_OK);
            assert_int_equal(t.path[t.n_path - 1], i);
        }
    assert_int_equal(t.n_blocks, 5000);
    sk_evict_trace_free(&t);
}

/* ---- the generated workload ---- */

static sk_evict_workload small_workload(uint64_t seed) {
    sk_evict_workload w = sk_evict_workload_default();
    w.seed = seed;
    w.requests = 600;
    w.agents = 6;
    return w;
}

static void a_seed_gives_one_trace(void **state) {
    (void)state;
    sk_evict_trace a = {0}, b = {0}, c = {0};
    sk_err e;
    const sk_evict_workload one = small_workload(1), two = small_workload(2);
    assert_int_equal(sk_evict_generate(&one, &a, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_generate(&one, &b, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_generate(&two, &c, &e), SKIPPY_OK);
    assert_int_equal(a.n_requests, 600);
    assert_int_equal(a.n_path, b.n_path);
    assert_memory_equal(a.path, b.path, a.n_path * sizeof *a.path);
    assert_int_not_equal(a.n_path, c.n_path);
    sk_evict_trace_free(&a);
    sk_evict_trace_free(&b);
    sk_evict_trace_free(&c);
}

static size_t shared_with_earlier(const sk_evict_trace *t, size_t request) {
    size_t most = 0;
    const uint32_t *path = t->path + t->requests[request].first;
    for (size_t i = 0; i < request; i++) {
        const uint32_t *other = t->path + t->requests[i].first;
        size_t n = 0;
        while (n < t->requests[request].n_blocks && n < t->requests[i].n_blocks && path[n] == other[n]) n++;
        most = n > most ? n : most;
    }
    return most;
}

/* What the workload promises: most of a prompt was there before, some of it is new, no prompt is too long. */
static void generated_conversations_grow(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    size_t shared = 0;
    const sk_evict_workload w = small_workload(3);
    assert_int_equal(sk_evict_generate(&w, &t, &e), SKIPPY_OK);
    for (size_t i = 0; i < t.n_requests; i++) shared += shared_with_earlier(&t, i);
    assert_true(shared > t.n_path * 3 / 4);
    assert_true(t.n_blocks > t.n_path / 50);
    assert_true(sk_evict_trace_describe(&t).longest_input <= w.context_tokens + w.message_tokens.to);
    sk_evict_trace_free(&t);
}

static void a_senseless_workload_is_refused(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    sk_evict_workload w = small_workload(1);
    w.agents = 0;
    assert_int_equal(sk_evict_generate(&w, &t, &e), SKIPPY_E_INVALID);
    w = small_workload(1);
    w.tool_tokens = (sk_evict_range){5, 4};
    assert_int_equal(sk_evict_generate(&w, &t, &e), SKIPPY_E_INVALID);
    w = small_workload(1);
    w.side_share = 100;
    assert_int_equal(sk_evict_generate(&w, &t, &e), SKIPPY_E_INVALID);
    assert_null(t.requests);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_that_begin_alike_share_blocks),
        cmocka_unit_test(what_is_no_trace_is_refused_with_the_line),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_refused_prompt_changes_nothing),
        cmocka_unit_test(many_blocks_keep_their_numbers),
        cmocka_unit_test(a_seed_gives_one_trace),
        cmocka_unit_test(generated_conversations_grow),
        cmocka_unit_test(a_senseless_workload_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
