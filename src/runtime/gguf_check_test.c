#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "runtime/gguf_check.h"
#include "runtime/test_gguf.h"

static void expect(const sk_buf *b, int code, const char *words) {
    sk_gguf_facts facts;
    sk_err e = {0};
    /* A copy of exact size, so that a read past the end is seen by the sanitizer. */
    uint8_t *copy = malloc(b->len ? b->len : 1);
    assert_non_null(copy);
    if (b->len) memcpy(copy, b->data, b->len);
    int rc = sk_gguf_check_bytes(copy, b->len, &facts, &e);
    free(copy);
    if (rc != code) fail_msg("code %d instead of %d: %s", rc, code, e.text);
    if (code != SKIPPY_OK && !strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}

static void a_whole_file_gives_its_facts(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_gguf_facts f;
    sk_err e = {0};
    gg_small_file(&b, "mamba2", "blk.0.ssm_in.weight");
    assert_int_equal(sk_gguf_check_bytes((uint8_t *)b.data, b.len, &f, &e), SKIPPY_OK);
    assert_string_equal(f.arch, "mamba2");
    assert_int_equal(f.version, 3);
    assert_int_equal(f.n_tensors, 2);
    assert_int_equal(f.stateful_tensors, 1);
    assert_int_equal(f.file_bytes, b.len);
    assert_int_equal(f.split_count, 0);
    sk_buf_free(&b);
}

static void truncated_data_names_the_tensor_and_both_numbers(void **state) {
    (void)state;
    sk_buf b = {0};
    char words[120];
    gg_small_file(&b, "llama", "blk.3.ffn_up.weight");
    snprintf(words, sizeof words, "tensor 'blk.3.ffn_up.weight' ends at byte %zu but the file has %zu bytes", b.len,
             b.len - 1);
    b.len--;
    expect(&b, SKIPPY_E_MODEL, words);
    sk_buf_free(&b);
}

static void a_file_cut_anywhere_in_its_header_is_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_small_file(&b, "llama", "output.weight");
    size_t whole = b.len;
    for (size_t n = 4; n < whole; n++) {
        b.len = n;
        expect(&b, SKIPPY_E_MODEL, "truncated");
    }
    sk_buf_free(&b);
}

static void other_formats_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    expect(&b, SKIPPY_E_MODEL, "empty");
    sk_buf_str(&b, "GG");
    expect(&b, SKIPPY_E_MODEL, "truncated");
    sk_buf_clear(&b);
    sk_buf_str(&b, "{\"metadata\": {}}");
    expect(&b, SKIPPY_E_MODEL, "not GGUF");
    sk_buf_clear(&b);
    sk_buf_str(&b, "x");
    expect(&b, SKIPPY_E_MODEL, "not GGUF");
    sk_buf_free(&b);
}

static void versions_and_byte_order_are_named(void **state) {
    (void)state;
    static const uint32_t bad[] = {0, 1, 4, 0xffff};
    for (size_t i = 0; i < 4; i++) {
        sk_buf b = {0};
        gg_header(&b, bad[i], 0, 0);
        expect(&b, SKIPPY_E_UNSUPPORTED, "version");
        sk_buf_free(&b);
    }
    sk_buf b = {0};
    gg_header(&b, 0x03000000, 0, 0);
    expect(&b, SKIPPY_E_UNSUPPORTED, "byte order");
    sk_buf_free(&b);
}

static void absurd_counts_and_lengths_are_refused_without_allocating(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_header(&b, 3, UINT64_MAX, 0);
    expect(&b, SKIPPY_E_MODEL, "claims");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, UINT64_MAX);
    expect(&b, SKIPPY_E_MODEL, "claims");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, 1);
    gg_u64(&b, UINT64_MAX); /* length of the key */
    expect(&b, SKIPPY_E_MODEL, "truncated");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, 1); /* a list whose byte count overflows */
    gg_str(&b, "k");
    gg_u32(&b, 9);
    gg_u32(&b, 10);
    gg_u64(&b, UINT64_MAX / 4);
    expect(&b, SKIPPY_E_MODEL, "truncated");
    sk_buf_free(&b);
}

static void damaged_metadata_is_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    gg_header(&b, 3, 0, 1);
    gg_str(&b, "some.key");
    gg_u32(&b, 99);
    gg_u64(&b, 0);
    expect(&b, SKIPPY_E_MODEL, "'some.key' has the unknown type 99");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, 1);
    gg_str(&b, "nested");
    gg_u32(&b, 9);
    gg_u32(&b, 9); /* a list of lists */
    gg_u64(&b, 1);
    expect(&b, SKIPPY_E_MODEL, "list of the unknown type");
    sk_buf_clear(&b);
    gg_header(&b, 3, 0, 1);
    gg_pair_u32(&b, "general.alignment", 48);
    expect(&b, SKIPPY_E_MODEL, "power of two");
    sk_buf_free(&b);
}

static void metadata_of_every_type_is_stepped_over(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        size_t size;
    } types[] = {{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}, {6, 4}, {7, 1}, {10, 8}, {11, 8}, {12, 8}};
    sk_buf b = {0};
    gg_header(&b, 3, 0, 24);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        gg_str(&b, "one");
        gg_u32(&b, types[i].type);
        sk_buf_add(&b, "\0\0\0\0\0\0\0", types[i].size);
        gg_str(&b, "list");
        gg_u32(&b, 9);
        gg_u32(&b, types[i].type);
        gg_u64(&b, 1);
        sk_buf_add(&b, "\0\0\0\0\0\0\0", types[i].size);
    }
    gg_str(&b, "words");
    gg_u32(&b, 9);
    gg_u32(&b, 8);
    gg_u64(&b, 2);
    gg_str(&b, "a");
    gg_str(&b, "bc");
    gg_pair_str(&b, "general.architecture", "llama");
    expect(&b, SKIPPY_OK, "");
    sk_buf_free(&b);
}

static void damaged_tensor_entries_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t n_dims;
        uint64_t ne0, ne1;
        uint32_t type;
        uint64_t offset;
        int code;
        const char *words;
    } cases[] = {
        {5, 1, 1, 0, 0, SKIPPY_E_MODEL, "four dimensions"},
        {2, 1, 1, 9999, 0, SKIPPY_E_UNSUPPORTED, "type 9999"},
        {2, 1, 1, 4, 0, SKIPPY_E_UNSUPPORTED, "type 4"},                   /* a type that was removed */
        {2, 31, 1, 8, 0, SKIPPY_E_MODEL, "whole blocks"},                  /* Q8_0 has blocks of 32 */
        {2, UINT64_C(1) << 62, 1, 0, 0, SKIPPY_E_MODEL, "impossible dim"}, /* bytes overflow in the row */
        {2, UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0, SKIPPY_E_MODEL, "impossible dim"},
        {2, 1, 1, 0, UINT64_MAX, SKIPPY_E_MODEL, "impossible offset"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sk_buf b = {0};
        gg_header(&b, 3, 1, 0);
        gg_str(&b, "t");
        gg_u32(&b, cases[i].n_dims);
        gg_u64(&b, cases[i].ne0);
        gg_u64(&b, cases[i].ne1);
        gg_u32(&b, cases[i].type);
        gg_u64(&b, cases[i].offset);
        expect(&b, cases[i].code, cases[i].words);
        sk_buf_free(&b);
    }
    sk_buf b = {0};
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    gg_header(&b, 3, 1, 0);
    gg_tensor(&b, name, 1, 0);
    expect(&b, SKIPPY_E_MODEL, "too long");
    sk_buf_free(&b);
}

static void random_damage_never_breaks_the_check(void **state) {
    (void)state;
    uint64_t seed = 20240607, x = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    sk_buf whole = {0};
    gg_small_file(&whole, "llama", "output.weight");
    for (int round = 0; round < 20000; round++) {
        uint8_t *copy = malloc(whole.len);
        assert_non_null(copy);
        memcpy(copy, whole.data, whole.len);
        for (int k = 0; k < 3; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            copy[(x >> 33) % 160] = (uint8_t)(x >> 20);
        }
        sk_gguf_facts facts;
        sk_err e = {0};
        int rc = sk_gguf_check_bytes(copy, whole.len, &facts, &e);
        assert_true(rc == SKIPPY_OK || e.text[0] != 0);
        free(copy);
    }
    sk_buf_free(&whole);
}

/* Writes shard `no` of `count` as it would be named; claims may differ from the name. */
static void write_shard(const char *dir, int no, int count, uint16_t claimed_no, uint16_t claimed_count, char *path,
                        size_t cap) {
    sk_buf b = {0};
    gg_header(&b, 3, 1, 3);
    gg_pair_str(&b, "general.architecture", "llama");
    gg_pair_u16(&b, "split.no", claimed_no);
    gg_pair_u16(&b, "split.count", claimed_count);
    gg_tensor(&b, no == 1 ? "a.weight" : "b.ssm_x", 8, 0);
    gg_pad(&b, 32, 32);
    snprintf(path, cap, "%s/m-%05d-of-%05d.gguf", dir, no, count);
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
}

static void shards_are_checked_together(void **state) {
    (void)state;
    char dir[300], first[400], second[400], odd[400];
    sk_gguf_facts f;
    sk_err e = {0};
    assert_true(gg_temp_dir(dir, sizeof dir));
    write_shard(dir, 1, 2, 0, 2, first, sizeof first);
    assert_int_equal(sk_gguf_check_file(first, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "shard 2 of 2 is missing"));
    write_shard(dir, 2, 2, 1, 2, second, sizeof second);
    assert_int_equal(sk_gguf_check_file(first, &f, &e), SKIPPY_OK);
    assert_int_equal(f.n_tensors, 2);
    assert_int_equal(f.stateful_tensors, 1);
    assert_int_equal(sk_gguf_check_file(second, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "name the first shard"));
    write_shard(dir, 2, 2, 2, 3, second, sizeof second);
    assert_int_equal(sk_gguf_check_file(first, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "is not shard 2 of 2"));
    snprintf(odd, sizeof odd, "%s/renamed.gguf", dir);
    assert_int_equal(rename(first, odd), 0);
    assert_int_equal(sk_gguf_check_file(odd, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "must end in -00001-of-00002.gguf"));
    unlink(odd);
    unlink(second);
    rmdir(dir);
}

static void paths_that_are_not_files_are_refused(void **state) {
    (void)state;
    char dir[300], path[400];
    sk_gguf_facts f;
    sk_err e = {0};
    assert_true(gg_temp_dir(dir, sizeof dir));
    assert_int_equal(sk_gguf_check_file(dir, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "directory"));
    snprintf(path, sizeof path, "%s/none.gguf", dir);
    assert_int_equal(sk_gguf_check_file(path, &f, &e), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_gguf_check_file("/dev/null", &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "not a regular file"));
    assert_true(gg_write(path, "", 0));
    assert_int_equal(sk_gguf_check_file(path, &f, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "empty"));
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(path, 0), 0);
        assert_int_equal(sk_gguf_check_file(path, &f, &e), SKIPPY_E_MODEL);
        assert_non_null(strstr(e.text, "cannot be read"));
    }
    unlink(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file_gives_its_facts),
        cmocka_unit_test(truncated_data_names_the_tensor_and_both_numbers),
        cmocka_unit_test(a_file_cut_anywhere_in_its_header_is_refused),
        cmocka_unit_test(other_formats_are_refused),
        cmocka_unit_test(versions_and_byte_order_are_named),
        cmocka_unit_test(absurd_counts_and_lengths_are_refused_without_allocating),
        cmocka_unit_test(damaged_metadata_is_refused),
        cmocka_unit_test(metadata_of_every_type_is_stepped_over),
        cmocka_unit_test(damaged_tensor_entries_are_refused),
        cmocka_unit_test(random_damage_never_breaks_the_check),
        cmocka_unit_test(shards_are_checked_together),
        cmocka_unit_test(paths_that_are_not_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
