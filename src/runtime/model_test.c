#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/model.h"
#include "runtime/test_gguf.h"

static char dir[300], path[400];

static int make_dir(void **state) {
    (void)state;
    if (!gg_temp_dir(dir, sizeof dir)) return -1;
    snprintf(path, sizeof path, "%s/some-model.gguf", dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void expect_refusal(const char *file, int code, const char *words) {
    sk_model *m = (sk_model *)&path; /* must be set to NULL */
    sk_err e = {0};
    int rc = sk_model_load(&(sk_model_params){.path = file}, &m, &e);
    if (rc != code) fail_msg("code %d instead of %d: %s", rc, code, e.text);
    assert_null(m);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}

static void files_that_cannot_be_models_are_refused_with_words(void **state) {
    (void)state;
    expect_refusal(NULL, SKIPPY_E_INVALID, "no model file");
    expect_refusal("", SKIPPY_E_INVALID, "no model file");
    expect_refusal(path, SKIPPY_E_NOT_FOUND, "no such file");
    expect_refusal(dir, SKIPPY_E_MODEL, "directory");
    assert_true(gg_write(path, "", 0));
    expect_refusal(path, SKIPPY_E_MODEL, "empty");
    assert_true(gg_write(path, "version https://git-lfs", 23));
    expect_refusal(path, SKIPPY_E_MODEL, "not GGUF");
    sk_buf b = {0};
    gg_header(&b, 9, 0, 0);
    assert_true(gg_write(path, b.data, b.len));
    expect_refusal(path, SKIPPY_E_UNSUPPORTED, "version 9");
    sk_buf_free(&b);
}

static void an_architecture_llama_cpp_does_not_know_is_named(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_small_file(&b, "zebra9", "output.weight");
    assert_true(gg_write(path, b.data, b.len));
    expect_refusal(path, SKIPPY_E_UNSUPPORTED, "'zebra9'");
    sk_buf_free(&b);
}

static void a_file_llama_cpp_refuses_gives_its_reason(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_small_file(&b, "llama", "output.weight"); /* none of the keys that llama needs */
    assert_true(gg_write(path, b.data, b.len));
    expect_refusal(path, SKIPPY_E_MODEL, "hyperparameters");
    sk_buf_free(&b);
}

static void a_file_without_architecture_or_weights_is_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_header(&b, 3, 0, 0);
    assert_true(gg_write(path, b.data, b.len));
    expect_refusal(path, SKIPPY_E_MODEL, "no architecture");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, 1);
    gg_pair_str(&b, "general.architecture", "llama");
    assert_true(gg_write(path, b.data, b.len));
    expect_refusal(path, SKIPPY_E_MODEL, "no weights");
    sk_buf_free(&b);
}

static void a_model_larger_than_the_memory_is_refused_with_both_numbers(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_model *m;
    sk_err e = {0};
    gg_header(&b, 3, 1, 1);
    gg_pair_str(&b, "general.architecture", "llama");
    gg_tensor(&b, "output.weight", 1 << 20, 0);
    gg_pad(&b, 32, 4 << 20);
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
    sk_model_params p = {.path = path, .memory_limit = 3 << 20};
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        p.no_mmap = no_mmap;
        assert_int_equal(sk_model_load(&p, &m, &e), SKIPPY_E_NOMEM);
        assert_non_null(strstr(e.text, "4 MiB"));
        assert_non_null(strstr(e.text, "3 MiB"));
    }
    p.memory_limit = 8 << 20; /* enough: llama.cpp is asked and refuses for its own reason */
    assert_int_equal(sk_model_load(&p, &m, &e), SKIPPY_E_MODEL);
}

/* Loads stories260K when it is there. */
static sk_model *load_stories(sk_model_params *p) {
    static char file[500];
    sk_model *m;
    sk_err e = {0};
    if (!gg_model_path("stories260K-f32.gguf", file, sizeof file)) {
        print_message("skipped: stories260K-f32.gguf was not found (set SKIPPY_TEST_MODELS)\n");
        skip();
    }
    p->path = file;
    if (sk_model_load(p, &m, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    return m;
}

static void a_truncated_copy_of_a_real_model_is_refused(void **state) {
    (void)state;
    char file[500];
    sk_buf b = {0};
    if (!gg_model_path("stories260K-f32.gguf", file, sizeof file)) {
        print_message("skipped: stories260K-f32.gguf was not found (set SKIPPY_TEST_MODELS)\n");
        skip();
    }
    assert_true(gg_read(file, &b));
    assert_true(gg_write(path, b.data, b.len - 1000));
    expect_refusal(path, SKIPPY_E_MODEL, "truncated");
    assert_true(gg_write(path, b.data, 300));
    expect_refusal(path, SKIPPY_E_MODEL, "truncated");
    sk_buf_free(&b);
}

static void a_model_tells_its_facts(void **state) {
    (void)state;
    sk_model *m = load_stories(&(sk_model_params){.memory_limit = UINT64_C(1) << 30});
    const sk_model_info *i = sk_model_get_info(m);
    assert_string_equal(i->arch, "llama");
    assert_ptr_equal(i->facts.arch, i->arch);
    assert_int_equal(i->n_vocab, 512);
    assert_int_equal(i->n_embd, 64);
    assert_int_equal(i->n_layer, 5);
    assert_int_equal(i->n_swa, 0);
    assert_true(i->n_params > 200000 && i->size_bytes > 4 * 200000);
    assert_true(i->facts.n_tensors > 40);
    assert_int_equal(i->facts.stateful_tensors, 0);
    assert_false(i->facts.is_hybrid || i->facts.is_recurrent || i->facts.is_diffusion || i->facts.has_encoder);
    assert_true(i->facts.has_decoder && i->id[0] && i->desc[0]);
    sk_family_policy policy;
    sk_family_decide(&i->facts, &policy);
    assert_int_equal(policy.mode, SK_CACHE_RESIDENT_KV);
    sk_model_free(m);
}

static void a_hybrid_file_is_seen_by_the_model_and_by_its_tensor_names(void **state) {
    (void)state;
    char file[500];
    sk_model *m;
    sk_err e = {0};
    if (!gg_model_path("stories260K-granitehybrid-f32.gguf", file, sizeof file)) {
        print_message("skipped: stories260K-granitehybrid-f32.gguf was not found (set SKIPPY_TEST_MODELS)\n");
        skip();
    }
    assert_int_equal(sk_model_load(&(sk_model_params){.path = file}, &m, &e), SKIPPY_OK);
    const sk_family_facts *f = &sk_model_get_info(m)->facts;
    assert_true(f->is_hybrid);
    assert_true(f->stateful_tensors > 0);
    sk_model_free(m);
}

static void facts_can_be_read_without_the_weights(void **state) {
    (void)state;
    sk_model *whole = load_stories(&(sk_model_params){0});
    sk_model *m = load_stories(&(sk_model_params){.facts_only = true, .memory_limit = 1}); /* holds no weights */
    const sk_model_info *a = sk_model_get_info(whole), *b = sk_model_get_info(m);
    assert_string_equal(b->arch, a->arch);
    assert_int_equal(b->n_layer, a->n_layer);
    assert_int_equal(b->n_embd, a->n_embd);
    assert_int_equal(b->n_swa, a->n_swa);
    assert_int_equal(b->facts.n_tensors, a->facts.n_tensors);
    assert_true(b->facts.has_decoder);
    sk_model_free(m);
    sk_model_free(whole);
}

static bool count_calls(void *ud, float fraction) {
    int *left = ud;
    assert_true(fraction >= 0 && fraction <= 1);
    return (*left)-- > 0;
}

static void loading_can_be_watched_and_stopped(void **state) {
    (void)state;
    int left = 1000000;
    sk_model_params p = {.progress = count_calls, .progress_ud = &left};
    sk_model *m = load_stories(&p);
    assert_true(left < 1000000);
    sk_model_free(m);
    left = 0;
    sk_err e = {0};
    assert_int_equal(sk_model_load(&p, &m, &e), SKIPPY_E_CANCELLED);
    assert_null(m);
}

static void the_id_is_the_alias_else_the_name_else_the_file(void **state) {
    (void)state;
    char file[500];
    sk_buf b = {0};
    sk_model *m = load_stories(&(sk_model_params){.alias = "tiny"});
    assert_string_equal(sk_model_get_info(m)->id, "tiny");
    sk_model_free(m);
    m = load_stories(&(sk_model_params){.alias = NULL});
    char name[128];
    bool has_name = sk_model_meta(m, "general.name", name, sizeof name);
    assert_string_equal(sk_model_get_info(m)->id, has_name ? name : "stories260K-f32");
    sk_model_free(m);
    /* The same model whose name key is called something else. */
    assert_true(gg_model_path("stories260K-f32.gguf", file, sizeof file) && gg_read(file, &b));
    char *key = !b.data ? NULL : memmem(b.data, b.len, "general.name", 12);
    if (key) memcpy(key, "general.nome", 12);
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
    sk_err e = {0};
    assert_int_equal(sk_model_load(&(sk_model_params){.path = path, .vocab_only = true}, &m, &e), SKIPPY_OK);
    assert_string_equal(sk_model_get_info(m)->id, "some-model");
    sk_model_free(m);
}

static void assert_round_trip(const sk_model *m, const char *text, size_t len) {
    int32_t *tokens;
    char *back;
    size_t n, n_back;
    assert_int_equal(sk_model_tokenize(m, text, len, false, false, &tokens, &n), SKIPPY_OK);
    assert_int_equal(sk_model_detokenize(m, tokens, n, false, &back, &n_back), SKIPPY_OK);
    if (n_back != len || memcmp(back, text, len) != 0) fail_msg("'%s' came back as '%s'", text, back);
    assert_int_equal(back[n_back], 0);
    free(tokens);
    free(back);
}

static sk_model *load_vocab(void) {
    char file[500];
    sk_model *m;
    sk_err e = {0};
    if (!gg_vocab_path("ggml-vocab-llama-bpe.gguf", file, sizeof file)) {
        print_message("skipped: ggml-vocab-llama-bpe.gguf was not found (set LLAMA_CPP_SRC)\n");
        skip();
    }
    if (sk_model_load(&(sk_model_params){.path = file, .vocab_only = true}, &m, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
    return m;
}

static void text_survives_tokens(void **state) {
    (void)state;
    static const char zero[] = "a\0b", unicode[] = "h\xc3\xa9llo \xf0\x9f\x8c\x8d\n\t x";
    sk_model *m = load_vocab();
    assert_round_trip(m, "", 0);
    assert_round_trip(m, "Hello, world!", 13);
    assert_round_trip(m, zero, sizeof zero - 1);
    assert_round_trip(m, unicode, sizeof unicode - 1);
    sk_model_free(m);
}

/* The tokenizer's first guess is a token per two bytes; here there are more. */
static void text_of_many_tokens_survives_too(void **state) {
    (void)state;
    char text[3001];
    int32_t *tokens;
    size_t n;
    sk_model *m = load_vocab();
    for (size_t i = 0; i < 3000; i++) text[i] = i % 2 ? '\x01' : '\x02';
    text[3000] = 0;
    assert_int_equal(sk_model_tokenize(m, text, 3000, false, false, &tokens, &n), SKIPPY_OK);
    assert_true(n > 3000 / 2 + 32);
    free(tokens);
    assert_round_trip(m, text, 3000);
    sk_model_free(m);
}

static void invalid_utf8_does_not_stop_the_tokenizer(void **state) {
    (void)state;
    sk_model *m = load_vocab();
    int32_t *tokens;
    size_t n;
    assert_int_equal(sk_model_tokenize(m, "a\xff\xfe\xc3(\xed\xa0\x80z", 9, true, true, &tokens, &n), SKIPPY_OK);
    assert_true(n > 0);
    free(tokens);
    sk_model_free(m);
}

static void special_tokens_are_parsed_only_when_asked(void **state) {
    (void)state;
    sk_model *m = load_vocab();
    int32_t *tokens;
    size_t n;
    assert_int_equal(sk_model_tokenize(m, "<|eot_id|>", 10, true, true, &tokens, &n), SKIPPY_OK);
    assert_int_equal(n, 2);
    assert_int_equal(tokens[0], sk_model_bos(m));
    assert_true(sk_model_is_eog(m, tokens[1]));
    char piece[32];
    assert_int_equal(sk_model_piece(m, tokens[1], false, piece, sizeof piece), 0);
    assert_int_equal(sk_model_piece(m, tokens[1], true, piece, sizeof piece), 10);
    assert_memory_equal(piece, "<|eot_id|>", 10);
    assert_int_equal(sk_model_piece(m, tokens[1], true, piece, 4), 4); /* cut to the buffer */
    assert_memory_equal(piece, "<|eo", 4);
    assert_int_equal(sk_model_piece(m, tokens[1], true, piece, 0), 0);
    char *text;
    size_t len;
    assert_int_equal(sk_model_detokenize(m, tokens, n, false, &text, &len), SKIPPY_OK);
    assert_string_equal(text, "");
    free(text);
    free(tokens);
    assert_int_equal(sk_model_tokenize(m, "<|eot_id|>", 10, false, false, &tokens, &n), SKIPPY_OK);
    assert_true(n > 1);
    for (size_t i = 0; i < n; i++) assert_false(sk_model_is_eog(m, tokens[i]));
    free(tokens);
    sk_model_free(m);
}

static void tokens_outside_the_vocabulary_are_refused(void **state) {
    (void)state;
    sk_model *m = load_vocab();
    char *text, piece[8];
    size_t len, n_eog;
    int32_t n_vocab = sk_model_get_info(m)->n_vocab;
    const int32_t bad[] = {-1, INT32_MIN, n_vocab, INT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        assert_false(sk_model_valid_token(m, bad[i]));
        assert_false(sk_model_is_eog(m, bad[i]));
        assert_int_equal(sk_model_piece(m, bad[i], true, piece, sizeof piece), 0);
        assert_int_equal(sk_model_detokenize(m, &bad[i], 1, true, &text, &len), SKIPPY_E_INVALID);
        assert_null(text);
    }
    assert_true(sk_model_valid_token(m, n_vocab - 1));
    const int32_t *eog = sk_model_eog_tokens(m, &n_eog);
    assert_true(n_eog >= 2);
    for (size_t i = 0; i < n_eog; i++) assert_true(sk_model_is_eog(m, eog[i]));
    sk_model_free(m);
}

static void text_longer_than_the_tokenizer_can_take_is_refused(void **state) {
    (void)state;
    sk_model *m = load_vocab();
    int32_t *tokens;
    size_t n;
    /* Refused by its length: the text is not read. */
    assert_int_equal(sk_model_tokenize(m, "x", (size_t)INT32_MAX + 1, false, false, &tokens, &n), SKIPPY_E_INVALID);
    assert_null(tokens);
    sk_model_free(m);
}

/* A llama file whose tokenizer says "no_vocab", as the later stages of a split model have it. */
static void a_file_without_tokenizer_answers_instead_of_aborting(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_model *m;
    sk_err e = {0};
    gg_header(&b, 3, 0, 8);
    gg_pair_str(&b, "general.architecture", "llama");
    gg_pair_str(&b, "tokenizer.ggml.model", "no_vocab");
    gg_pair_u32(&b, "llama.vocab_size", 1);
    gg_pair_u32(&b, "llama.context_length", 64);
    gg_pair_u32(&b, "llama.embedding_length", 32);
    gg_pair_u32(&b, "llama.block_count", 1);
    gg_pair_u32(&b, "llama.feed_forward_length", 32);
    gg_pair_u32(&b, "llama.attention.head_count", 1);
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
    if (sk_model_load(&(sk_model_params){.path = path, .vocab_only = true}, &m, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
    int32_t *tokens, zero = 0;
    char *text, piece[8];
    size_t n;
    assert_int_equal(sk_model_tokenize(m, "x", 1, true, true, &tokens, &n), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(sk_model_detokenize(m, &zero, 1, true, &text, &n), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(sk_model_piece(m, 0, true, piece, sizeof piece), 0);
    assert_false(sk_model_is_eog(m, 0));
    assert_null(sk_model_eog_tokens(m, &n));
    assert_int_equal(n, 0);
    sk_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_that_cannot_be_models_are_refused_with_words, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_architecture_llama_cpp_does_not_know_is_named, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_file_llama_cpp_refuses_gives_its_reason, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_file_without_architecture_or_weights_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_model_larger_than_the_memory_is_refused_with_both_numbers, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_truncated_copy_of_a_real_model_is_refused, make_dir, remove_dir),
        cmocka_unit_test(a_model_tells_its_facts),
        cmocka_unit_test(facts_can_be_read_without_the_weights),
        cmocka_unit_test(a_hybrid_file_is_seen_by_the_model_and_by_its_tensor_names),
        cmocka_unit_test(loading_can_be_watched_and_stopped),
        cmocka_unit_test_setup_teardown(the_id_is_the_alias_else_the_name_else_the_file, make_dir, remove_dir),
        cmocka_unit_test(text_survives_tokens),
        cmocka_unit_test(text_of_many_tokens_survives_too),
        cmocka_unit_test(invalid_utf8_does_not_stop_the_tokenizer),
        cmocka_unit_test(special_tokens_are_parsed_only_when_asked),
        cmocka_unit_test(tokens_outside_the_vocabulary_are_refused),
        cmocka_unit_test(text_longer_than_the_tokenizer_can_take_is_refused),
        cmocka_unit_test_setup_teardown(a_file_without_tokenizer_answers_instead_of_aborting, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
