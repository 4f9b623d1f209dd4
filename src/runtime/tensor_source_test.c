/* What lies in a model file: one file, shards, damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <ggml.h>
#include <gguf.h>

#include "base/hash.h"
#include "runtime/slice_fixture.h"
#include "runtime/test_gguf.h"

static void in_dir(char *path, size_t cap, const char *name) {
    snprintf(path, cap, "%s/%s", sx_dir(), name);
}

/* A file of one architecture with two tensors; values count up, so that every float tells where it was. */
static void write_small(const char *path, const char *layer_tensor, uint16_t no, uint16_t count) {
    sk_buf b = {0};
    float values[32];
    gg_header(&b, 3, 2, count ? 4 : 2);
    gg_pair_str(&b, "general.architecture", "test");
    gg_pair_u32(&b, "test.block_count", 3);
    if (count) {
        gg_pair_u16(&b, "split.no", no);
        gg_pair_u16(&b, "split.count", count);
    }
    gg_tensor(&b, no ? "second" : "first", 32, 0);
    gg_tensor(&b, layer_tensor, 32, 128);
    gg_pad(&b, 32, 0);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 32; i++) values[i] = (float)(1000 * no + 100 * t + i);
        sk_buf_add(&b, values, sizeof values);
    }
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
}

static float read_one(const sk_tensor_source *s, size_t tensor, size_t index) {
    float v = -1;
    sk_err e = {0};
    if (s->read(s->ud, tensor, index * sizeof v, &v, sizeof v, &e)) fail_msg("%s", e.text);
    return v;
}

static void one_file_is_described_and_read(void **state) {
    (void)state;
    char path[512];
    sk_tensor_source s;
    skippy_key whole;
    sk_err e = {0};
    in_dir(path, sizeof path, "small.gguf");
    write_small(path, "blk.2.a.weight", 0, 0);
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e)) fail_msg("%s", e.text);
    assert_string_equal(s.arch, "test");
    assert_string_equal(s.name, "small.gguf"); /* it has no general.name */
    assert_int_equal(s.n_layer, 3);
    assert_int_equal(s.n_tensors, 2);
    assert_string_equal(s.tensors[1].name, "blk.2.a.weight");
    assert_int_equal(s.tensors[0].layer, -1);
    assert_int_equal(s.tensors[1].layer, 2);
    assert_int_equal(s.tensors[1].n_dims, 1);
    assert_int_equal(s.tensors[1].ne[0], 32);
    assert_int_equal(s.tensors[1].bytes, 128);
    assert_true(read_one(&s, 0, 0) == 0 && read_one(&s, 0, 31) == 31 && read_one(&s, 1, 5) == 105);
    assert_int_equal(skippy_file_digest(path, NULL, NULL, NULL, &whole, NULL), SKIPPY_OK);
    assert_true(skippy_key_equal(&whole, &s.digest));
    sk_tensor_source_close(&s);
    assert_null(s.meta);
    sk_tensor_source_close(&s); /* a closed one is zeroed */
}

static void reads_stay_inside_a_tensor(void **state) {
    (void)state;
    char path[512];
    uint8_t buf[256];
    sk_tensor_source s;
    sk_err e = {0};
    in_dir(path, sizeof path, "inside.gguf");
    write_small(path, "blk.0.a.weight", 0, 0);
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e)) fail_msg("%s", e.text);
    assert_int_equal(s.read(s.ud, 0, 0, buf, 128, &e), SKIPPY_OK);
    assert_int_equal(s.read(s.ud, 0, 0, buf, 129, &e), SKIPPY_E_INVALID);
    assert_int_equal(s.read(s.ud, 0, 129, buf, 0, &e), SKIPPY_E_INVALID);
    assert_int_equal(s.read(s.ud, 0, UINT64_MAX, buf, 1, &e), SKIPPY_E_INVALID);
    assert_int_equal(s.read(s.ud, 2, 0, buf, 1, &e), SKIPPY_E_INVALID);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(s.read(s.ud, 1, 0, buf, 128, &e), SKIPPY_E_CORRUPT);
    sk_tensor_source_close(&s);
}

static void shards_are_one_model(void **state) {
    (void)state;
    char path[2][512];
    skippy_key key[2], all;
    sk_tensor_source s;
    sk_err e = {0};
    in_dir(path[0], sizeof path[0], "two-00001-of-00002.gguf");
    in_dir(path[1], sizeof path[1], "two-00002-of-00002.gguf");
    write_small(path[0], "blk.0.a.weight", 0, 2);
    write_small(path[1], "blk.1.a.weight", 1, 2);
    if (sk_tensor_source_open_gguf(path[0], NULL, NULL, NULL, &s, &e)) fail_msg("%s", e.text);
    assert_int_equal(s.n_tensors, 4);
    assert_string_equal(s.tensors[3].name, "blk.1.a.weight");
    assert_true(read_one(&s, 1, 7) == 107 && read_one(&s, 2, 7) == 1007 && read_one(&s, 3, 31) == 1131);
    for (int i = 0; i < 2; i++) assert_int_equal(skippy_file_digest(path[i], NULL, NULL, NULL, &key[i], NULL), 0);
    sk_hash(key, sizeof key, all.bytes);
    assert_true(skippy_key_equal(&all, &s.digest));
    sk_tensor_source_close(&s);
    assert_int_equal(sk_tensor_source_open_gguf(path[1], NULL, NULL, NULL, &s, &e), SKIPPY_E_MODEL); /* not the first */
    assert_int_equal(unlink(path[1]), 0);
    assert_int_equal(sk_tensor_source_open_gguf(path[0], NULL, NULL, NULL, &s, &e), SKIPPY_E_MODEL);
}

static void numbers_are_found_with_and_without_the_architecture(void **state) {
    (void)state;
    int64_t v = 0;
    sk_tensor_source s;
    if (!sx_source("llama", &s)) skip();
    assert_true(sk_tensor_source_int(&s, "block_count", &v) && v == 6);
    assert_true(sk_tensor_source_int(&s, "llama.block_count", &v) && v == 6);
    assert_false(sk_tensor_source_int(&s, "no_such_key", &v));
    assert_false(sk_tensor_source_int(&s, "general.name", &v));
    assert_false(sk_tensor_source_int(&s, "rope.freq_base", &v)); /* a float */
    gguf_set_val_bool(s.meta, "llama.flag", true);
    assert_true(sk_tensor_source_int(&s, "flag", &v) && v == 1);
    gguf_set_val_i8(s.meta, "llama.small", -3);
    assert_true(sk_tensor_source_int(&s, "small", &v) && v == -3);
    gguf_set_val_u64(s.meta, "llama.large", UINT64_MAX);
    assert_false(sk_tensor_source_int(&s, "large", &v));
    sk_tensor_source_close(&s);
}

static bool never(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    (void)done;
    (void)total;
    return false;
}

static void what_is_no_model_is_refused_in_words(void **state) {
    (void)state;
    char path[512], model[1024];
    sk_buf b = {0};
    sk_tensor_source s;
    sk_err e = {0};
    in_dir(path, sizeof path, "broken.gguf");
    assert_int_equal(sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e), SKIPPY_E_NOT_FOUND);
    gg_small_file(&b, "test", "other"); /* says nothing about its layers */
    assert_true(gg_write(path, b.data, b.len));
    assert_int_equal(sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "block_count"));
    sk_buf_free(&b);
    b = (sk_buf){0};
    if (!sx_model("llama", model, sizeof model)) skip();
    assert_int_equal(sk_tensor_source_open_gguf(model, NULL, never, NULL, &s, &e), SKIPPY_E_CANCELLED);
    assert_true(gg_read(model, &b) && gg_write(path, b.data, b.len - 4096)); /* truncated */
    assert_int_equal(sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "truncated"));
    assert_null(s.meta);
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_is_described_and_read),
        cmocka_unit_test(reads_stay_inside_a_tensor),
        cmocka_unit_test(shards_are_one_model),
        cmocka_unit_test(numbers_are_found_with_and_without_the_architecture),
        cmocka_unit_test(what_is_no_model_is_refused_in_words),
    };
    return cmocka_run_group_tests_name("tensor_source", tests, sx_setup, sx_teardown);
}
