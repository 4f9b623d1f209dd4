#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "openai/boundaries.h"
#include "openai/fake_model.h"
#include "openai/prompt.h"

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Appends one turn of random length, with control tokens and pieces of control tokens. */
static size_t add_turn(char *text, size_t len, size_t cap, uint64_t *s) {
    static const char *const parts[] = {"<|im_start|>user\n", "<|im_end|>\n", "hello ", "<|im", "_start|>", "<s>", "x"};
    size_t n = 1 + next_random(s) % 40;
    for (size_t i = 0; i < n; i++) {
        const char *part = parts[next_random(s) % 7];
        if (len + strlen(part) >= cap) break;
        memcpy(text + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

static void remembered_prompts_have_the_tokens_of_a_fresh_tokenisation(void **state) {
    (void)state;
    uint64_t seed = 0x5eed1234;
    print_message("seed %llx\n", (unsigned long long)seed);
    sk_prompt_memo *memo = sk_prompt_memo_create(fake_model());
    char text[8192];
    size_t len = 0;
    assert_non_null(memo);
    for (size_t round = 0; round < 2000; round++) {
        size_t keep = next_random(&seed) % 4;
        if (keep == 0) len = len ? next_random(&seed) % len : 0; /* an edit somewhere */
        if (keep != 1 && len < 6000) len = add_turn(text, len, sizeof text, &seed);
        if (len >= 6000) len = 0;
        int32_t *fresh = NULL, *memoised = NULL;
        size_t n_fresh, n_memoised;
        assert_int_equal(sk_model_tokenize(fake_model(), text, len, true, true, &fresh, &n_fresh), SKIPPY_OK);
        assert_int_equal(sk_prompt_memo_tokenize(memo, text, len, &memoised, &n_memoised), SKIPPY_OK);
        if (n_fresh != n_memoised || memcmp(fresh, memoised, n_fresh * sizeof *fresh) != 0)
            fail_msg("round %zu differs", round);
        free(fresh);
        free(memoised);
    }
    sk_prompt_memo_destroy(memo);
}

/* The added begin-of-text token must not be taken for one that stands in the text. */
static void a_text_that_begins_with_begin_of_text_is_remembered_right(void **state) {
    (void)state;
    static const char *const begins[] = {"", "<s>", "<s><s>", "<s><s><s>", "<s><|im_start|><s>"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        sk_prompt_memo *memo = sk_prompt_memo_create(fake_model());
        char text[1024];
        assert_non_null(memo);
        size_t len = (size_t)snprintf(text, sizeof text, "%s<|im_start|>%0300d", begins[i], 1);
        for (int round = 0; round < 3; round++) {
            int32_t *fresh = NULL, *memoised = NULL;
            size_t n_fresh, n_memoised;
            assert_int_equal(sk_model_tokenize(fake_model(), text, len, true, true, &fresh, &n_fresh), SKIPPY_OK);
            assert_int_equal(sk_prompt_memo_tokenize(memo, text, len, &memoised, &n_memoised), SKIPPY_OK);
            assert_int_equal(n_memoised, n_fresh);
            assert_memory_equal(memoised, fresh, n_fresh * sizeof *fresh);
            free(fresh);
            free(memoised);
            text[len++] = 'y';
        }
        sk_prompt_memo_destroy(memo);
    }
}

typedef struct grower {
    sk_prompt_memo *memo;
    uint64_t seed;
    bool same; /* every result equalled a fresh tokenisation */
} grower;

static void *grow_and_compare(void *ud) {
    grower *g = ud;
    char text[4096];
    size_t len = 0;
    g->same = true;
    for (int round = 0; round < 300; round++) {
        len = len > 3000 ? 0 : add_turn(text, len, sizeof text, &g->seed);
        int32_t *fresh = NULL, *memoised = NULL;
        size_t n_fresh = 0, n_memoised = 0;
        int rc = sk_model_tokenize(fake_model(), text, len, true, true, &fresh, &n_fresh);
        if (!rc) rc = sk_prompt_memo_tokenize(g->memo, text, len, &memoised, &n_memoised);
        g->same = g->same && !rc && n_fresh == n_memoised && !memcmp(fresh, memoised, n_fresh * sizeof *fresh);
        free(fresh);
        free(memoised);
    }
    return NULL;
}

static void several_threads_may_share_a_memo(void **state) {
    (void)state;
    enum { THREADS = 3 };
    grower g[THREADS];
    pthread_t threads[THREADS];
    sk_prompt_memo *memo = sk_prompt_memo_create(fake_model());
    assert_non_null(memo);
    for (size_t i = 0; i < THREADS; i++) {
        /* Two threads grow the same conversation, one another. */
        g[i] = (grower){.memo = memo, .seed = i == 2 ? 7 : 0x5eed};
        assert_int_equal(pthread_create(&threads[i], NULL, grow_and_compare, &g[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(g[i].same);
    }
    sk_prompt_memo_destroy(memo);
}

static sk_prompt text_prompt(const char *text) {
    sk_prompt p;
    sk_api_error err;
    sk_prompt_memo *memo = sk_prompt_memo_create(fake_model());
    assert_int_equal(sk_prompt_from_text(memo, strdup(text), strlen(text), &p, &err), 0);
    sk_prompt_memo_destroy(memo);
    return p;
}

static void boundaries_of_a_chat_are_user_turns_and_the_end_of_the_conversation(void **state) {
    (void)state;
    json_t *messages = json_loads("[{\"role\":\"system\",\"content\":\"You say one. You are a helpful assistant\"},"
                                  "{\"role\":\"user\",\"content\":\" one \"},"
                                  "{\"role\":\"assistant\",\"content\":\"Sure, a long answer\"},"
                                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"two\"}]}]",
                                  0, NULL);
    const char *text =
        "<|im_start|>system\nYou say one. You are a helpful assistant<|im_end|>\n<|im_start|>user\none<|im_end|>\n"
        "<|im_start|>assistant\nSure, a long answer<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n";
    sk_prompt p = text_prompt(text);
    sk_boundaries_of_chat(fake_model(), messages, strlen("<|im_start|>assistant\n"), &p);
    assert_int_equal(p.n_boundaries, 2); /* "two" lies within 8 tokens of the end of the conversation */
    char *prefix = NULL;
    size_t len = 0;
    sk_model_detokenize(fake_model(), p.tokens, p.boundaries[0], true, &prefix, &len);
    assert_string_equal(
        prefix, "<s><|im_start|>system\nYou say one. You are a helpful assistant<|im_end|>\n<|im_start|>user\n");
    free(prefix);
    sk_model_detokenize(fake_model(), p.tokens, p.boundaries[1], true, &prefix, &len);
    assert_memory_equal(prefix + len - 14, "two<|im_end|>\n", 14);
    free(prefix);
    sk_prompt_clear(&p);
    json_decref(messages);
}

static void content_that_is_not_found_gives_no_boundary(void **state) {
    (void)state;
    json_t *messages = json_loads("[{\"role\":\"user\",\"content\":\"absent\"}]", 0, NULL);
    size_t offsets[SK_MAX_CHAT_OFFSETS];
    assert_int_equal(sk_chat_offsets(messages, "some text", 9, 0, offsets), 0);
    json_decref(messages);
}

static void pruning_keeps_the_later_of_two_neighbours_and_drops_the_ends(void **state) {
    (void)state;
    size_t positions[] = {3, 15, 16, 20, 40, 100, 120};
    assert_int_equal(sk_boundaries_prune(positions, 7, 120), 3);
    assert_int_equal(positions[0], 20);
    assert_int_equal(positions[1], 40);
    assert_int_equal(positions[2], 100);
}

static void offsets_inside_a_token_belong_to_the_boundary_before_it(void **state) {
    (void)state;
    sk_prompt p = text_prompt("ab<|im_start|>cd");
    const size_t offsets[] = {1, 2, 5, 14, 16};
    size_t out[5];
    assert_int_equal(
        sk_boundaries_from_offsets(fake_model(), p.text, p.text_len, p.tokens, p.n_tokens, offsets, 5, out), 5);
    const size_t expected[] = {2, 3, 3, 4,
                               6}; /* the first token is the begin-of-text token, which is not in the text */
    assert_memory_equal(out, expected, sizeof expected);
    sk_prompt_clear(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remembered_prompts_have_the_tokens_of_a_fresh_tokenisation),
        cmocka_unit_test(a_text_that_begins_with_begin_of_text_is_remembered_right),
        cmocka_unit_test(several_threads_may_share_a_memo),
        cmocka_unit_test(boundaries_of_a_chat_are_user_turns_and_the_end_of_the_conversation),
        cmocka_unit_test(content_that_is_not_found_gives_no_boundary),
        cmocka_unit_test(pruning_keeps_the_later_of_two_neighbours_and_drops_the_ends),
        cmocka_unit_test(offsets_inside_a_token_belong_to_the_boundary_before_it),
    };
    return cmocka_run_group_tests_name("prompt", tests, NULL, NULL);
}
