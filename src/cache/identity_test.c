#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/hash.h"
#include "cache/identity_codec.h"
#include "cache/test_alloc.h"
#include "cache/test_random.h"
#include "skippy/identity.h"

static skippy_adapter adapters[2];

/* An identity with every field set to a value of its own. */
static skippy_identity full(void) {
    skippy_identity id = {
        .model_id = "demo-1.5b",
        .topology_id = "0-8,8-16",
        .stage_id = "stage-1",
        .stage_index = 1,
        .layer_start = 8,
        .layer_end = 16,
        .runtime_abi = "llama.cpp-v0.4.0;codec=1",
        .kv_type_k = "f16",
        .kv_type_v = "q8_0",
        .flash_attn = 1,
        .kv_unified = true,
        .kv_layout = "llama.cpp-unified-1",
        .n_ctx = 8192,
        .rope_freq_base = 1e6f,
        .rope_freq_scale = 0.25f,
        .yarn_ext_factor = -1.0f,
        .yarn_attn_factor = 1.0f,
        .yarn_beta_fast = 32.0f,
        .yarn_beta_slow = 1.0f,
        .yarn_orig_ctx = 4096,
        .adapters = adapters,
        .n_adapters = 2,
        .backend_device = "CPU",
        .cpu_arch = "x86_64",
        .batch_schedule = "rows=60;pad=4",
        .tenant = "tenant-a",
        .cache_namespace = "",
    };
    for (size_t i = 0; i < sizeof id.weights_digest.bytes; i++) id.weights_digest.bytes[i] = (uint8_t)i;
    memset(adapters[0].digest.bytes, 0xaa, sizeof adapters[0].digest.bytes);
    memset(adapters[1].digest.bytes, 0xbb, sizeof adapters[1].digest.bytes);
    adapters[0].scale = 0.5f;
    adapters[1].scale = -1.0f;
    return id;
}

static void buf_sink(void *ud, const void *data, size_t len) {
    sk_buf_add(ud, data, len);
}

static sk_buf encoded(const skippy_identity *id) {
    sk_buf b = {0};
    assert_int_equal(sk_identity_encode(id, buf_sink, &b), SKIPPY_OK);
    assert_false(b.failed);
    return b;
}

static int decode(const void *data, size_t len, sk_identity_copy **out) {
    return sk_identity_decode(data, len, NULL, out);
}

static void assert_key(const skippy_key *k, const char *hex) {
    char text[65];
    sk_hex(k->bytes, sizeof k->bytes, text);
    assert_string_equal(text, hex);
}

/* The expected values were computed by a second implementation (Python, with a BLAKE3 of its own) from
 * docs/formats/identity.md. They change only together with SKIPPY_IDENTITY_VERSION. */
static void keys_equal_the_golden_vectors(void **state) {
    (void)state;
    skippy_identity zero = {0}, id = full();
    skippy_key k, keys[3];
    assert_int_equal(skippy_namespace_key(&zero, &k), SKIPPY_OK);
    assert_key(&k, "f0182a621d478e2c0f8524050dd74dc2a5cb305d2a87c31cbc3130af671c326f");
    assert_int_equal(skippy_namespace_key(&id, &k), SKIPPY_OK);
    assert_key(&k, "45259666dccf17fa4832350624368c7dd40c0f40a28e258a024ccfc57536a0de");

    int32_t tokens[300];
    for (int i = 0; i < 300; i++) tokens[i] = i * 7919 % 32000;
    tokens[0] = -1;
    const size_t lengths[] = {1, 64, 300};
    assert_int_equal(skippy_prefix_keys(&k, tokens, 300, lengths, 3, keys), SKIPPY_OK);
    assert_key(&keys[0], "471129f9c7afb188750a7e78b1f4b780bf49e3b12010b80968516ad8196c4892");
    assert_key(&keys[1], "3e9ae9b9a04cb07e1a4b7029f49cf10b99a7228c7c46383b5ffd766e3f8eef8c");
    assert_key(&keys[2], "e9bed458ae801f258bc4432fb5d7ed95d724ba71e6a631017a34aad525a7a738");
}

static void the_encoding_has_the_documented_size(void **state) {
    (void)state;
    skippy_identity zero = {0}, id = full();
    sk_buf a = encoded(&zero), b = encoded(&id);
    assert_int_equal(a.len, 275);
    assert_int_equal(b.len, 591);
    assert_memory_equal(a.data, "\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x20\x00", 18);
    sk_buf_free(&a);
    sk_buf_free(&b);
}

/* ---- one changed field, another key ---- */

enum { MAX_VARIANTS = 128 };

typedef struct variants {
    skippy_identity list[MAX_VARIANTS];
    const char *name[MAX_VARIANTS];
    size_t n;
} variants;

static void add_variant(variants *v, const char *name, skippy_identity id) {
    assert_true(v->n < MAX_VARIANTS);
    v->list[v->n] = id;
    v->name[v->n++] = name;
}

/* A new member needs a line below (and a tag in the codec): this makes the compiler say so. */
_Static_assert(sizeof(void *) != 8 || sizeof(skippy_identity) == 216, "skippy_identity changed: extend all_variants");

#define SET(member, value)                                                                                             \
    do {                                                                                                               \
        skippy_identity changed = base;                                                                                \
        changed.member = (value);                                                                                      \
        add_variant(v, #member " = " #value, changed);                                                                 \
    } while (0)
/* Another text, no text, and the empty text. */
#define SET_TEXT(member)                                                                                               \
    do {                                                                                                               \
        SET(member, "another");                                                                                        \
        SET(member, NULL);                                                                                             \
        if (!base.member || base.member[0]) SET(member, "");                                                           \
    } while (0)

static void all_variants(variants *v, skippy_identity base) {
    static skippy_adapter swapped[2], rescaled[2], other[2];
    add_variant(v, "unchanged", base);
    SET(weights_digest.bytes[0], 99);
    SET(weights_digest.bytes[31], 99);
    SET_TEXT(model_id);
    SET_TEXT(topology_id);
    SET_TEXT(stage_id);
    SET(stage_index, 2);
    SET(layer_start, 9);
    SET(layer_end, 17);
    SET_TEXT(runtime_abi);
    SET_TEXT(kv_type_k);
    SET_TEXT(kv_type_v);
    SET(flash_attn, 0);
    SET(flash_attn, -1);
    SET(kv_unified, false);
    SET(swa_full, true);
    SET_TEXT(kv_layout);
    SET(n_ctx, 4096);
    SET(rope_freq_base, 0.0f);
    SET(rope_freq_base, -0.0f); /* bits, not values: a false miss is cheap */
    SET(rope_freq_scale, 0.5f);
    SET(yarn_ext_factor, 0.0f);
    SET(yarn_attn_factor, 2.0f);
    SET(yarn_beta_fast, 31.0f);
    SET(yarn_beta_slow, 2.0f);
    SET(yarn_orig_ctx, 0);
    SET_TEXT(backend_device);
    SET_TEXT(cpu_arch);
    SET(big_endian, true);
    SET_TEXT(batch_schedule);
    SET_TEXT(tenant);
    SET_TEXT(cache_namespace);
    SET(token_start, 1);
    SET(token_start, UINT64_C(1) << 32);
    SET(n_adapters, 0);
    SET(n_adapters, 1);
    memcpy(rescaled, base.adapters, sizeof rescaled);
    memcpy(other, base.adapters, sizeof other);
    swapped[0] = base.adapters[1];
    swapped[1] = base.adapters[0];
    rescaled[1].scale = 1.0f;
    other[0].digest.bytes[31] ^= 1;
    SET(adapters, swapped);
    SET(adapters, rescaled);
    SET(adapters, other);
    /* The same characters in another field, or cut elsewhere, are another identity. */
    skippy_identity moved = base;
    moved.kv_type_k = base.kv_type_v;
    moved.kv_type_v = base.kv_type_k;
    add_variant(v, "K and V types exchanged", moved);
    moved = base;
    moved.model_id = "demo-1.5b0";
    moved.topology_id = "-8,8-16";
    add_variant(v, "a character moved to the neighbour", moved);
}

static void each_field_alone_changes_the_key(void **state) {
    (void)state;
    static variants v;
    static skippy_key keys[MAX_VARIANTS];
    v.n = 0;
    all_variants(&v, full());
    for (size_t i = 0; i < v.n; i++) {
        assert_int_equal(skippy_namespace_key(&v.list[i], &keys[i]), SKIPPY_OK);
        for (size_t j = 0; j < i; j++) {
            if (skippy_key_equal(&keys[i], &keys[j])) fail_msg("'%s' and '%s' have one key", v.name[i], v.name[j]);
            assert_false(sk_identity_equal(&v.list[i], &v.list[j]));
        }
        assert_true(sk_identity_equal(&v.list[i], &v.list[i]));
    }
    assert_true(v.n > 60);
}

static void the_key_does_not_depend_on_where_strings_live(void **state) {
    (void)state;
    skippy_identity a = full(), b = full();
    char copy[] = "demo-1.5b";
    skippy_key x, y;
    b.model_id = copy;
    assert_int_equal(skippy_namespace_key(&a, &x), SKIPPY_OK);
    assert_int_equal(skippy_namespace_key(&b, &y), SKIPPY_OK);
    assert_true(skippy_key_equal(&x, &y));
}

/* ---- the encoding is injective ---- */

static void decoding_gives_the_same_identity_back(void **state) {
    (void)state;
    static variants v;
    v.n = 0;
    all_variants(&v, full());
    add_variant(&v, "zero", (skippy_identity){0});
    for (size_t i = 0; i < v.n; i++) {
        sk_buf b = encoded(&v.list[i]);
        sk_identity_copy *copy;
        assert_int_equal(decode(b.data, b.len, &copy), SKIPPY_OK);
        assert_true(sk_identity_equal(&copy->id, &v.list[i]));
        sk_identity_copy_free(copy);
        sk_buf_free(&b);
    }
}

/* A mutated encoding is either refused or means another identity whose encoding is exactly the mutant: no two byte
 * strings mean the same, no two identities share one. */
static void assert_mutant_is_no_alias(const skippy_identity *original, const sk_buf *mutant, const sk_buf *before) {
    sk_identity_copy *copy;
    int status = decode(mutant->data, mutant->len, &copy);
    if (status != SKIPPY_OK) {
        assert_true(status == SKIPPY_E_CORRUPT || status == SKIPPY_E_UNSUPPORTED);
        assert_null(copy);
        return;
    }
    bool same_bytes = mutant->len == before->len && memcmp(mutant->data, before->data, mutant->len) == 0;
    assert_int_equal(sk_identity_equal(&copy->id, original), same_bytes);
    sk_buf again = encoded(&copy->id);
    assert_int_equal(again.len, mutant->len);
    assert_memory_equal(again.data, mutant->data, again.len);
    sk_buf_free(&again);
    sk_identity_copy_free(copy);
}

static void every_single_bit_mutation_is_refused_or_another_identity(void **state) {
    (void)state;
    skippy_identity id = full();
    sk_buf before = encoded(&id), b = encoded(&id);
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
        assert_mutant_is_no_alias(&id, &b, &before);
        b.data[bit / 8] = before.data[bit / 8];
    }
    sk_buf_free(&b);
    sk_buf_free(&before);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    skippy_identity id = full();
    sk_buf b = encoded(&id);
    sk_identity_copy *copy;
    for (size_t len = 0; len < b.len; len++) {
        char *exact = malloc(len + 1); /* sanitizers see a read past the end */
        assert_non_null(exact);
        memcpy(exact, b.data, len);
        assert_int_equal(decode(exact, len, &copy), SKIPPY_E_CORRUPT);
        free(exact);
    }
    sk_buf_add(&b, "", 1);
    assert_int_equal(decode(b.data, b.len, &copy), SKIPPY_E_CORRUPT);
    sk_buf_free(&b);
}

static void random_splices_are_refused_or_another_identity(void **state) {
    (void)state;
    test_random rnd = random_start("identity");
    skippy_identity id = full();
    sk_buf before = encoded(&id);
    for (int op = 0; op < TEST_OPERATIONS / 10; op++) {
        sk_buf b = {0};
        size_t cut = random_below(&rnd, before.len), from = random_below(&rnd, before.len);
        sk_buf_add(&b, before.data, cut);
        if (random_below(&rnd, 2)) sk_buf_add(&b, before.data + from, random_below(&rnd, before.len - from));
        sk_buf_add(&b, before.data + from, before.len - from);
        for (size_t i = random_below(&rnd, 3); i > 0; i--) b.data[random_below(&rnd, b.len)] = (char)random_u64(&rnd);
        assert_mutant_is_no_alias(&id, &b, &before);
        sk_buf_free(&b);
    }
    sk_buf_free(&before);
}

static void another_version_is_unsupported(void **state) {
    (void)state;
    skippy_identity id = full();
    sk_buf b = encoded(&id);
    sk_identity_copy *copy;
    b.data[10] = SKIPPY_IDENTITY_VERSION + 1;
    assert_int_equal(decode(b.data, b.len, &copy), SKIPPY_E_UNSUPPORTED);
    sk_buf_free(&b);
}

static void decoding_without_memory_leaks_nothing(void **state) {
    (void)state;
    skippy_identity id = full();
    sk_buf b = encoded(&id);
    test_heap heap = {.fail_at = 1};
    skippy_allocator hooks = test_heap_hooks(&heap);
    sk_identity_copy *copy;
    assert_int_equal(sk_identity_decode((uint8_t *)b.data, b.len, &hooks, &copy), SKIPPY_E_NOMEM);
    assert_int_equal(sk_identity_decode((uint8_t *)b.data, b.len - 1, &hooks, &copy), SKIPPY_E_CORRUPT);
    assert_int_equal(heap.live, 0);
    sk_buf_free(&b);
}

/* ---- prefix keys ---- */

static void one_pass_gives_the_keys_of_each_length_alone(void **state) {
    (void)state;
    enum { N = 3000 };
    static int32_t tokens[N];
    static size_t lengths[N];
    static skippy_key all[N];
    const skippy_key ns = {{7}};
    for (size_t i = 0; i < N; i++) {
        tokens[i] = (int32_t)(i * 2654435761u);
        lengths[i] = i + 1;
    }
    assert_int_equal(skippy_prefix_keys(&ns, tokens, N, lengths, N, all), SKIPPY_OK);
    for (size_t i = 0; i < N; i += 37) {
        skippy_key alone;
        assert_int_equal(skippy_prefix_key(&ns, tokens, i + 1, &alone), SKIPPY_OK);
        assert_true(skippy_key_equal(&alone, &all[i]));
        if (i) assert_false(skippy_key_equal(&all[i], &all[i - 1]));
    }
}

static void a_prefix_key_depends_on_namespace_and_every_token(void **state) {
    (void)state;
    const skippy_key ns = {{7}}, other_ns = {{8}};
    int32_t tokens[100] = {0};
    skippy_key before, after;
    assert_int_equal(skippy_prefix_key(&ns, tokens, 100, &before), SKIPPY_OK);
    assert_int_equal(skippy_prefix_key(&other_ns, tokens, 100, &after), SKIPPY_OK);
    assert_false(skippy_key_equal(&before, &after));
    for (size_t i = 0; i < 100; i++) {
        tokens[i] = INT32_MIN;
        assert_int_equal(skippy_prefix_key(&ns, tokens, 100, &after), SKIPPY_OK);
        assert_false(skippy_key_equal(&before, &after));
        tokens[i] = 0;
    }
}

static void bad_lengths_are_refused(void **state) {
    (void)state;
    const skippy_key ns = {{7}};
    const int32_t tokens[4] = {1, 2, 3, 4};
    const size_t zero[] = {0}, equal[] = {2, 2}, falling[] = {3, 2}, beyond[] = {5};
    skippy_key out[2];
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, zero, 1, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, equal, 2, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, falling, 2, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, beyond, 1, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(NULL, tokens, 4, beyond, 1, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, NULL, 4, equal, 1, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, NULL, 1, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_keys(&ns, tokens, 4, NULL, 0, NULL), SKIPPY_OK);
    assert_int_equal(skippy_prefix_key(&ns, tokens, 0, out), SKIPPY_E_INVALID);
    assert_int_equal(skippy_prefix_key(&ns, tokens, 4, NULL), SKIPPY_E_INVALID);
}

static void a_namespace_key_needs_its_arguments(void **state) {
    (void)state;
    skippy_identity id = {.n_adapters = 1};
    skippy_key k;
    assert_int_equal(skippy_namespace_key(&id, &k), SKIPPY_E_INVALID);
    assert_int_equal(skippy_namespace_key(NULL, &k), SKIPPY_E_INVALID);
    assert_int_equal(skippy_namespace_key(&id, NULL), SKIPPY_E_INVALID);
}

/* ---- ids for people ---- */

static void page_and_activation_ids_have_the_documented_form(void **state) {
    (void)state;
    const skippy_key k = {{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xff}};
    char page[64], act[80];
    assert_int_equal(skippy_page_id(page, sizeof page, "stage-0", 0, 2048, 8, &k), SKIPPY_OK);
    assert_string_equal(page, "stage-0:0:2048:8:0123456789abcdef");
    assert_int_equal(skippy_activation_id(act, sizeof act, page, 4096), SKIPPY_OK);
    assert_string_equal(act, "act:stage-0:0:2048:8:0123456789abcdef:w4096");
}

static void ids_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const skippy_key k = {{0}};
    char page[64], small[64];
    assert_int_equal(skippy_page_id(page, sizeof page, "s", 0, 1, 0, &k), SKIPPY_OK);
    size_t len = strlen(page);
    memset(small, 'x', sizeof small);
    assert_int_equal(skippy_page_id(small, len, "s", 0, 1, 0, &k), SKIPPY_E_TOO_SMALL);
    assert_int_equal(small[len], 'x');
    assert_int_equal(skippy_page_id(small, len + 1, "s", 0, 1, 0, &k), SKIPPY_OK);
    assert_int_equal(skippy_activation_id(small, 5, page, 1), SKIPPY_E_TOO_SMALL);
    assert_int_equal(skippy_page_id(NULL, 5, "s", 0, 1, 0, &k), SKIPPY_E_INVALID);
    assert_int_equal(skippy_page_id(page, 0, "s", 0, 1, 0, &k), SKIPPY_E_INVALID);
    assert_int_equal(skippy_page_id(page, 5, NULL, 0, 1, 0, &k), SKIPPY_E_INVALID);
    assert_int_equal(skippy_page_id(page, 5, "s", 0, 1, 0, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_id(small, 5, NULL, 1), SKIPPY_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_equal_the_golden_vectors),
        cmocka_unit_test(the_encoding_has_the_documented_size),
        cmocka_unit_test(each_field_alone_changes_the_key),
        cmocka_unit_test(the_key_does_not_depend_on_where_strings_live),
        cmocka_unit_test(decoding_gives_the_same_identity_back),
        cmocka_unit_test(every_single_bit_mutation_is_refused_or_another_identity),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(random_splices_are_refused_or_another_identity),
        cmocka_unit_test(another_version_is_unsupported),
        cmocka_unit_test(decoding_without_memory_leaks_nothing),
        cmocka_unit_test(one_pass_gives_the_keys_of_each_length_alone),
        cmocka_unit_test(a_prefix_key_depends_on_namespace_and_every_token),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(a_namespace_key_needs_its_arguments),
        cmocka_unit_test(page_and_activation_ids_have_the_documented_form),
        cmocka_unit_test(ids_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
