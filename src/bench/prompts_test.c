#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/prompts.h"

/* A tokenizer for tests: a first token as models put it, then `per_word` tokens for each word longer than one letter. A
 * word's token says the word, so that prefixes of texts are prefixes of ids. merge_last: the last word of a text has
 * another id. */
typedef struct toy {
    size_t per_word;
    bool merge_last;
    int fail_after; /* calls until it fails; -1 = never */
} toy;

static int toy_tokenize(void *ud, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e) {
    toy *t = ud;
    *ids = NULL;
    *n = 0;
    if (t->fail_after == 0) {
        return sk_err_set(e, SKIPPY_E_IO, "the tokenizer is gone");
    }
    t->fail_after -= t->fail_after > 0;
    int32_t *out = calloc(len * (t->per_word + 1) + 2, sizeof *out);
    assert_non_null(out);
    out[(*n)++] = 1;
    for (size_t i = 0; i < len;) {
        const size_t w = strcspn(text + i, " ");
        int32_t id = 7;
        for (size_t k = 0; k < w; k++) {
            id = id * 31 + text[i + k];
        }
        if (t->merge_last && i + w >= len) {
            id = -id;
        }
        for (size_t k = 0; k < (w > 1 ? t->per_word : 1); k++) {
            out[(*n)++] = id + (int32_t)k;
        }
        i += w + 1;
    }
    *ids = out;
    return SKIPPY_OK;
}

static void the_word_generator_is_deterministic(void **state) {
    (void)state;
    sk_words w;
    sk_buf b = {0};
    sk_words_seed(&w, 1);
    for (int i = 0; i < 8; i++) {
        sk_buf_printf(&b, "%s ", sk_words_next(&w));
    }
    /* A golden text: results of different versions are comparable only while it stays. */
    assert_string_equal(b.data, "not lake night any with the quiet for ");
    sk_buf_free(&b);
}

static void a_text_has_exactly_the_wanted_tokens(void **state) {
    (void)state;
    for (size_t per_word = 1; per_word <= 3; per_word++) {
        for (size_t n = 8; n < 300; n += 37) {
            toy t = {.per_word = per_word, .fail_after = -1};
            sk_prompts p;
            sk_buf text = {0};
            sk_err e = {0};
            int32_t *ids = NULL;
            size_t got = 0;
            sk_prompts_init(&p, toy_tokenize, &t);
            assert_int_equal(sk_prompts_text(&p, 42, n, &text, &e), SKIPPY_OK);
            assert_int_equal(toy_tokenize(&t, text.data, text.len, &ids, &got, &e), SKIPPY_OK);
            assert_int_equal(got, n);
            free(ids);
            sk_buf_free(&text);
        }
    }
}

/* One token for each byte. */
static int byte_tokenize(void *ud, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e) {
    (void)ud, (void)e;
    *ids = calloc(len + 1, sizeof **ids);
    assert_non_null(*ids);
    for (size_t i = 0; i < len; i++) {
        (*ids)[i] = (unsigned char)text[i];
    }
    *n = len;
    return SKIPPY_OK;
}

static void a_byte_tokenizer_gets_exact_sizes_too(void **state) {
    (void)state;
    for (size_t n = 8; n < 120; n++) {
        sk_prompts p;
        sk_buf base = {0};
        sk_buf text = {0};
        sk_err e = {0};
        sk_prompts_init(&p, byte_tokenize, NULL);
        assert_int_equal(sk_prompts_text(&p, 1000 + n, n, &base, &e), SKIPPY_OK);
        assert_int_equal(base.len, n);
        assert_int_equal(sk_prompts_extend(&p, n, base.data, 16, &text, &e), SKIPPY_OK);
        assert_int_equal(text.len, n + 16);
        assert_memory_equal(text.data, base.data, n);
        sk_buf_free(&base);
        sk_buf_free(&text);
    }
}

static void equal_seeds_make_equal_texts_and_digests(void **state) {
    (void)state;
    uint8_t digest[3][SK_HASH_BYTES];
    sk_buf text[3] = {{0}, {0}, {0}};
    const uint64_t seeds[] = {5, 5, 6};
    for (size_t i = 0; i < 3; i++) {
        toy t = {.per_word = 2, .fail_after = -1};
        sk_prompts p;
        sk_prompts_init(&p, toy_tokenize, &t);
        assert_int_equal(sk_prompts_text(&p, seeds[i], 64, &text[i], NULL), SKIPPY_OK);
        sk_prompts_digest(&p, digest[i]);
    }
    assert_string_equal(text[0].data, text[1].data);
    assert_memory_equal(digest[0], digest[1], SK_HASH_BYTES);
    assert_string_not_equal(text[0].data, text[2].data);
    assert_memory_not_equal(digest[0], digest[2], SK_HASH_BYTES);
    for (size_t i = 0; i < 3; i++) {
        sk_buf_free(&text[i]);
    }
}

static void another_tokenization_of_the_same_text_changes_the_digest(void **state) {
    (void)state;
    uint8_t digest[2][SK_HASH_BYTES];
    sk_buf base[2] = {{0}, {0}};
    for (size_t i = 0; i < 2; i++) {
        toy t = {.per_word = 1, .merge_last = i == 1, .fail_after = -1};
        sk_prompts p;
        sk_prompts_init(&p, toy_tokenize, &t);
        assert_int_equal(sk_prompts_text(&p, 9, 32, &base[i], NULL), SKIPPY_OK);
        sk_prompts_digest(&p, digest[i]);
    }
    assert_string_equal(base[0].data, base[1].data);
    assert_memory_not_equal(digest[0], digest[1], SK_HASH_BYTES);
    sk_buf_free(&base[0]);
    sk_buf_free(&base[1]);
}

static void an_extension_keeps_the_tokens_of_its_base(void **state) {
    (void)state;
    toy t = {.per_word = 2, .fail_after = -1};
    sk_prompts p;
    sk_buf base = {0};
    sk_buf longer = {0};
    int32_t *a = NULL;
    int32_t *b = NULL;
    size_t na = 0;
    size_t nb = 0;
    sk_prompts_init(&p, toy_tokenize, &t);
    assert_int_equal(sk_prompts_text(&p, 1, 40, &base, NULL), SKIPPY_OK);
    assert_int_equal(sk_prompts_extend(&p, 2, base.data, 16, &longer, NULL), SKIPPY_OK);
    assert_int_equal(toy_tokenize(&t, base.data, base.len, &a, &na, NULL), SKIPPY_OK);
    assert_int_equal(toy_tokenize(&t, longer.data, longer.len, &b, &nb, NULL), SKIPPY_OK);
    assert_int_equal(nb, na + 16);
    assert_memory_equal(a, b, na * sizeof *a);
    assert_int_equal(p.made, 2);
    free(a);
    free(b);
    sk_buf_free(&base);
    sk_buf_free(&longer);
}

static void a_tokenizer_that_merges_over_the_end_is_refused_in_words(void **state) {
    (void)state;
    toy t = {.per_word = 1, .merge_last = true, .fail_after = -1};
    sk_prompts p;
    sk_buf longer = {0};
    sk_err e = {0};
    sk_prompts_init(&p, toy_tokenize, &t);
    assert_int_equal(sk_prompts_extend(&p, 2, "some base text", 8, &longer, &e), SKIPPY_E_UNSUPPORTED);
    assert_string_equal(e.text, "the tokenizer merges every continuation into the end of a prompt");
    sk_buf_free(&longer);
}

static void a_failing_tokenizer_ends_the_prompt(void **state) {
    (void)state;
    for (int calls = 0; calls < 4; calls++) {
        toy t = {.per_word = 1, .fail_after = calls};
        sk_prompts p;
        sk_buf text = {0};
        sk_err e = {0};
        sk_prompts_init(&p, toy_tokenize, &t);
        assert_int_equal(sk_prompts_text(&p, 2, 64, &text, &e), SKIPPY_E_IO);
        assert_string_equal(e.text, "the tokenizer is gone");
        assert_int_equal(p.made, 0);
        sk_buf_free(&text);
    }
}

static void a_prompt_of_too_few_tokens_is_refused(void **state) {
    (void)state;
    toy t = {.per_word = 1, .fail_after = -1};
    sk_prompts p;
    sk_buf text = {0};
    sk_prompts_init(&p, toy_tokenize, &t);
    assert_int_equal(sk_prompts_text(&p, 2, 7, &text, NULL), SKIPPY_E_INVALID);
    sk_buf_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_generator_is_deterministic),
        cmocka_unit_test(a_text_has_exactly_the_wanted_tokens),
        cmocka_unit_test(a_byte_tokenizer_gets_exact_sizes_too),
        cmocka_unit_test(equal_seeds_make_equal_texts_and_digests),
        cmocka_unit_test(another_tokenization_of_the_same_text_changes_the_digest),
        cmocka_unit_test(an_extension_keeps_the_tokens_of_its_base),
        cmocka_unit_test(a_tokenizer_that_merges_over_the_end_is_refused_in_words),
        cmocka_unit_test(a_failing_tokenizer_ends_the_prompt),
        cmocka_unit_test(a_prompt_of_too_few_tokens_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
