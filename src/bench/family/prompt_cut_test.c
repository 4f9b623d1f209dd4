#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/prompt_cut.h"

/* A tokenizer for tests: a first token, then one for each word; a word of more than five letters is two tokens, and one
 * that begins with '#' is three, so that some numbers cannot be hit inside of it. */
typedef struct toy {
    int fail_after;        /* calls until it fails; -1 = never */
    bool broken_character; /* some text ended inside of one */
} toy;

static size_t tokens_of(const char *word, size_t len) {
    return word[0] == '#' ? 3 : len > 5 ? 2 : 1;
}

static int toy_tokenize(void *ud, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e) {
    toy *t = ud;
    *ids = NULL;
    *n = 0;
    if (t->fail_after == 0) {
        return sk_err_set(e, SKIPPY_E_IO, "the tokenizer is gone");
    }
    t->fail_after -= t->fail_after > 0;
    t->broken_character = t->broken_character || (len > 0 && ((unsigned char)text[len - 1] & 0xC0u) == 0xC0u);
    int32_t *out = calloc(3 * len + 1, sizeof *out);
    assert_non_null(out);
    out[(*n)++] = 1;
    for (size_t i = 0; i < len;) {
        const size_t w = strcspn(text + i, " ") < len - i ? strcspn(text + i, " ") : len - i;
        uint32_t id = 7;
        for (size_t k = 0; k < w; k++) {
            id = id * 31 + (unsigned char)text[i + k];
        }
        for (size_t k = 0; w > 0 && k < tokens_of(text + i, w); k++) {
            out[(*n)++] = (int32_t)(id % 1000000u) + (int32_t)k;
        }
        i += w + 1;
    }
    *ids = out;
    return SKIPPY_OK;
}

typedef struct cut {
    sk_buf text;
    bool lengthened;
    uint8_t digest[SK_HASH_BYTES];
    size_t made, tokens;
    sk_err err;
    int rc;
} cut;

static cut cut_to(toy *t, const char *text, size_t n) {
    cut c = {0};
    sk_prompts p;
    int32_t *ids = NULL;
    sk_prompts_init(&p, toy_tokenize, t);
    c.rc = sk_prompt_cut(&p, 1, text, n, &c.text, &c.lengthened, &c.err);
    sk_prompts_digest(&p, c.digest);
    c.made = p.made;
    t->fail_after = -1;
    if (c.rc == SKIPPY_OK) {
        assert_int_equal(toy_tokenize(t, c.text.data, c.text.len, &ids, &c.tokens, NULL), SKIPPY_OK);
    }
    free(ids);
    return c;
}

static void the_longest_beginning_with_that_many_tokens_is_taken(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut c = cut_to(&t, "one two tree four five six seven eight nine", 5);
    assert_int_equal(c.rc, SKIPPY_OK);
    assert_string_equal(c.text.data, "one two tree four ");
    assert_int_equal(c.tokens, 5);
    assert_false(c.lengthened);
    assert_int_equal(c.made, 1);
    sk_buf_free(&c.text);
}

static void a_text_of_that_size_stays_as_it_is(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut c = cut_to(&t, "one two tree", 4);
    assert_string_equal(c.text.data, "one two tree");
    assert_false(c.lengthened);
    sk_buf_free(&c.text);
}

static void every_size_of_a_long_text_is_met(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    sk_buf text = {0};
    for (int i = 0; i < 200; i++) {
        sk_buf_printf(&text, "%sw%d", i ? " " : "", i * i * i);
    }
    for (size_t n = 10; n < 200; n += 7) {
        cut c = cut_to(&t, text.data, n);
        assert_int_equal(c.rc, SKIPPY_OK);
        assert_int_equal(c.tokens, n);
        assert_false(c.lengthened);
        assert_memory_equal(c.text.data, text.data, c.text.len);
        sk_buf_free(&c.text);
    }
    sk_buf_free(&text);
}

static void a_short_text_is_lengthened_and_says_so(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut c = cut_to(&t, "one two", 20);
    assert_int_equal(c.rc, SKIPPY_OK);
    assert_true(c.lengthened);
    assert_int_equal(c.tokens, 20);
    assert_memory_equal(c.text.data, "one two ", 8);
    assert_int_equal(c.made, 1);
    sk_buf_free(&c.text);
}

static void a_size_that_no_beginning_has_is_filled_up_with_words(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut c = cut_to(&t, "one two #x tree four", 4); /* 3 tokens up to "two", 6 with "#" */
    assert_int_equal(c.rc, SKIPPY_OK);
    assert_true(c.lengthened);
    assert_int_equal(c.tokens, 4);
    assert_memory_equal(c.text.data, "one two ", 8);
    sk_buf_free(&c.text);
}

static void characters_are_not_cut_apart(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut c = cut_to(&t, "\xc3\xa4\xc3\xb6 \xe2\x82\xac\xe2\x82\xac \xc3\xbc \xc3\x9f \xc3\xa4 \xc3\xb6", 4);
    assert_int_equal(c.rc, SKIPPY_OK);
    assert_int_equal(c.tokens, 4);
    assert_false(t.broken_character);
    assert_int_equal(sk_utf8_floor("a\xe2\x82\xac", 3), 1);
    assert_int_equal(sk_utf8_floor("a\xe2\x82\xac", 4), 4);
    assert_int_equal(sk_utf8_floor("", 0), 0);
    sk_buf_free(&c.text);
}

static void equal_work_has_equal_digests(void **state) {
    (void)state;
    toy t = {.fail_after = -1};
    cut a = cut_to(&t, "one two tree four five", 4);
    cut b = cut_to(&t, "one two tree four five", 4);
    cut c = cut_to(&t, "one two tree four five", 3);
    assert_memory_equal(a.digest, b.digest, sizeof a.digest);
    assert_memory_not_equal(a.digest, c.digest, sizeof a.digest);
    sk_buf_free(&a.text);
    sk_buf_free(&b.text);
    sk_buf_free(&c.text);
}

static void a_failing_tokenizer_is_an_error_wherever_it_fails(void **state) {
    (void)state;
    int failures = 0;
    for (int after = 0; after < 200; after++) {
        toy t = {.fail_after = after};
        cut c = cut_to(&t, "one two tree four five six seven #x eight nine ten", 9);
        sk_buf_free(&c.text);
        if (c.rc == SKIPPY_OK) {
            break;
        }
        failures++;
        assert_int_equal(c.rc, SKIPPY_E_IO);
        assert_string_equal(c.err.text, "the tokenizer is gone");
    }
    assert_in_range(failures, 10, 199);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_beginning_with_that_many_tokens_is_taken),
        cmocka_unit_test(a_text_of_that_size_stays_as_it_is),
        cmocka_unit_test(every_size_of_a_long_text_is_met),
        cmocka_unit_test(a_short_text_is_lengthened_and_says_so),
        cmocka_unit_test(a_size_that_no_beginning_has_is_filled_up_with_words),
        cmocka_unit_test(characters_are_not_cut_apart),
        cmocka_unit_test(equal_work_has_equal_digests),
        cmocka_unit_test(a_failing_tokenizer_is_an_error_wherever_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
