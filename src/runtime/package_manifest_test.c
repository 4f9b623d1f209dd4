/* The manifest's parser against what a stranger's server might send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "runtime/package_manifest.h"

/* A valid package of two layers: metadata, embedding, two layers. */
static void make(sk_package *p) {
    static const struct {
        const char *name;
        int64_t ne[2];
        uint32_t n_dims, part;
    } tensors[] = {
        {"token_embd.weight", {8, 10}, 2, 1}, {"blk.0.a.weight", {8, 1}, 1, 2}, {"blk.1.a.weight", {8, 1}, 1, 3}};
    static const enum sk_part_role roles[] = {SK_PART_METADATA, SK_PART_EMBEDDING, SK_PART_LAYER, SK_PART_LAYER};
    memset(p, 0, sizeof *p);
    p->format = SK_PACKAGE_FORMAT;
    snprintf(p->model_id, sizeof p->model_id, "A model");
    snprintf(p->arch, sizeof p->arch, "llama");
    snprintf(p->family, sizeof p->family, "llama");
    p->n_layer = p->n_stage_layer = 2;
    p->width = 8;
    p->parts = calloc(4, sizeof *p->parts);
    p->tensors = calloc(3, sizeof *p->tensors);
    assert_non_null(p->parts);
    assert_non_null(p->tensors);
    p->n_parts = 4;
    p->n_tensors = 3;
    for (size_t i = 0; i < 4; i++) {
        p->parts[i] = (sk_package_part){.role = roles[i], .layer = i < 2 ? -1 : (int32_t)i - 2, .bytes = 1000 + i};
        sk_hash(&i, sizeof i, p->parts[i].digest.bytes);
        sk_package_part_path(&p->parts[i].digest, p->parts[i].path);
    }
    for (size_t i = 0; i < 3; i++) {
        sk_tensor_desc *d = &p->tensors[i].desc;
        *d = (sk_tensor_desc){.n_dims = tensors[i].n_dims, .ne = {tensors[i].ne[0], tensors[i].ne[1], 1, 1}};
        snprintf(d->name, sizeof d->name, "%s", tensors[i].name);
        p->tensors[i].part = tensors[i].part;
        p->parts[tensors[i].part].n_tensors = 1;
        p->parts[tensors[i].part].tensor_bytes = (uint64_t)(4 * d->ne[0] * d->ne[1]);
    }
}

static char *base(void) {
    sk_package p;
    sk_buf text = {0};
    make(&p);
    sk_package_dump(&p, &text);
    assert_false(text.failed);
    sk_package_free(&p);
    return text.data;
}

/* The base with the first `from` replaced. The caller frees. */
static char *with(const char *from, const char *to) {
    char *text = base();
    const char *at = strstr(text, from);
    if (!at) fail_msg("'%s' is not in: %s", from, text);
    sk_buf out = {0};
    sk_buf_add(&out, text, (size_t)(at - text));
    sk_buf_str(&out, to);
    sk_buf_str(&out, at + strlen(from));
    free(text);
    return out.data;
}

static void refused(const char *text, size_t len, int code, const char *words) {
    sk_package p;
    sk_err e = {0};
    const int rc = sk_package_parse(text, len, &p, &e);
    if (rc != code) fail_msg("code %d instead of %d for: %s (%s)", rc, code, text, e.text);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_null(p.parts);
    assert_null(p.tensors);
}

static void refused_with(const char *from, const char *to, const char *words) {
    char *text = with(from, to);
    refused(text, strlen(text), SKIPPY_E_INVALID, words);
    free(text);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    sk_package before, after;
    sk_buf again = {0};
    sk_err e = {0};
    char *text = base();
    make(&before);
    if (sk_package_parse(text, strlen(text), &after, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_string_equal(after.model_id, before.model_id);
    assert_string_equal(after.family, before.family);
    assert_int_equal(after.n_parts, before.n_parts);
    assert_int_equal(after.parts[3].layer, 1);
    assert_int_equal(after.tensors[0].desc.bytes, 320);
    assert_int_equal(after.tensors[0].desc.layer, -1);
    assert_int_equal(after.tensors[2].desc.layer, 1);
    sk_package_dump(&after, &again);
    assert_string_equal(again.data, text);
    skippy_key digest;
    sk_hash(text, strlen(text), digest.bytes);
    assert_memory_equal(&after.manifest_digest, &digest, sizeof digest);
    sk_buf_free(&again);
    sk_package_free(&before);
    sk_package_free(&after);
    free(text);
}

static void an_unknown_family_is_left_out(void **state) {
    (void)state;
    sk_package p;
    char *text = with(" \"family\": \"llama\",\n", "");
    assert_int_equal(sk_package_parse(text, strlen(text), &p, NULL), SKIPPY_OK);
    assert_string_equal(p.family, "");
    sk_package_free(&p);
    free(text);
}

static void a_manifest_cut_anywhere_is_refused(void **state) {
    (void)state;
    char *text = base();
    const size_t whole = strlen(text);
    for (size_t n = 0; n + 1 < whole; n++) { /* the last byte is a line's end */
        char *copy = malloc(n ? n : 1);      /* of exact size, for the sanitizer */
        assert_non_null(copy);
        memcpy(copy, text, n);
        sk_package p;
        sk_err e = {0};
        assert_int_equal(sk_package_parse(copy, n, &p, &e), SKIPPY_E_INVALID);
        assert_true(e.text[0]);
        free(copy);
    }
    free(text);
}

static void another_format_is_said_before_anything_else(void **state) {
    (void)state;
    char *text = with("\"format\": 1", "\"format\": 2, \"new\": {}");
    refused(text, strlen(text), SKIPPY_E_UNSUPPORTED, "format 2 is not known");
    free(text);
    refused_with("\"format\": 1", "\"format\": \"1\"", "'format'");
    refused_with("\"format\": 1", "\"format\": 1.0", "'format'");
    refused_with("\"format\": 1,", "", "'format'");
}

static void paths_lead_nowhere_else(void **state) {
    (void)state;
    static const char *const paths[] = {
        "../../etc/passwd", "/etc/passwd",        "parts/../x.gguf",    "parts/",      "",
        "parts\\\\x.gguf",  "http://host/x.gguf", "file:///etc/passwd", "parts/x.gguf"};
    sk_package p;
    make(&p);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) refused_with(p.parts[2].path, paths[i], "pa");
    refused_with(p.parts[2].path, p.parts[3].path, "is not parts/<blake3>.gguf of this part");
    sk_package_free(&p);
}

static void layers_are_all_there_and_once(void **state) {
    (void)state;
    refused_with("\"layer\": 1", "\"layer\": 0", "layer 0 is there twice");
    refused_with("\"layers\": 2", "\"layers\": 3", "layer 2 is missing");
    refused_with("\"layer\": 1", "\"layer\": 2", "from 0 to 1");
    refused_with("\"layer\": 1", "\"layer\": -1", "from 0 to 1");
    refused_with("\"layer\": 1, ", "", "'layer' is missing");
    refused_with("\"role\": \"embedding\"", "\"role\": \"embedding\", \"layer\": 0",
                 "only a part with the role 'layer'");
}

static void roles_are_known_and_once(void **state) {
    (void)state;
    refused_with("\"role\": \"embedding\"", "\"role\": \"metadata\"", "two parts with the role 'metadata'");
    refused_with("\"role\": \"metadata\"", "\"role\": \"shared\"", "no part with the role 'metadata'");
    refused_with("\"role\": \"metadata\"", "\"role\": \"projector\"", "role");
}

static void numbers_are_whole_and_small_enough(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "1e3", "1.5", "-1", "null", "true", "\"1000\"", "[1000]", "{}", "99999999999999999999999", "0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char to[64];
        snprintf(to, sizeof to, "\"bytes\": %s", wrong[i]);
        refused_with("\"bytes\": 1002", to, "");
    }
    refused_with("\"layers\": 2", "\"layers\": 513", "from 1 to 512");
    refused_with("\"stage_layers\": 2", "\"stage_layers\": 3", "from 1 to 2");
    refused_with("\"width\": 8", "\"width\": 0", "'width'");
    refused_with("\"width\": 8", "\"width\": 4294967304", "'width'");
    refused_with("\"width\": 8", "\"width\": NaN", "not JSON");
    refused_with("\"width\": 8", "\"width\": Infinity", "not JSON");
}

static void sums_are_those_of_the_tensors(void **state) {
    (void)state;
    refused_with("\"tensors\": 1, \"tensor_bytes\": 320", "\"tensors\": 2, \"tensor_bytes\": 320", "claims 2 tensors");
    refused_with("\"tensor_bytes\": 320", "\"tensor_bytes\": 321", "321 bytes");
    refused_with("\"tensor_bytes\": 320", "\"tensor_bytes\": 1002", "more tensor bytes than bytes");
    refused_with("\"part\": 3}", "\"part\": 2}", "'blk.1.a.weight' cannot be in part 2");
    refused_with("\"part\": 3}", "\"part\": 0}", "cannot be in part 0");
    refused_with("\"part\": 3}", "\"part\": 4}", "'part'");
}

static void tensors_have_possible_shapes(void **state) {
    (void)state;
    refused_with("[8, 10]", "[9223372036854775807, 9223372036854775807]", "do not go together");
    refused_with("[8, 10]", "[4611686018427387904, 2]", "do not go together");
    refused_with("[8, 10]", "[8, 0]", "above 0");
    refused_with("[8, 10]", "[8, -10]", "above 0");
    refused_with("[8, 10]", "[8, 10, 1]", "never 1");
    refused_with("[8, 10]", "[]", "1 to 4");
    refused_with("[8, 10]", "[8, 10, 2, 2, 2]", "1 to 4");
    refused_with("[8, 10]", "80", "1 to 4");
    refused_with("\"type\": 0", "\"type\": 2", "do not go together"); /* q4_0 has blocks of 32 */
    refused_with("\"type\": 0", "\"type\": 4", "do not go together"); /* a number that is not used any more */
    refused_with("\"type\": 0", "\"type\": 4000", "'type'");
    refused_with("\"type\": 0", "\"type\": -1", "'type'");
}

static void names_are_plain_and_once(void **state) {
    (void)state;
    refused_with("blk.1.a.weight", "blk.0.a.weight", "");
    refused_with("\"tensors\": [\n",
                 "\"tensors\": [\n  {\"name\": \"blk.0.a.weight\", \"type\": 0, \"ne\": [8], \"part\": 2},\n", "");
    refused_with("A model", "A\\u001b[2Jmodel", "control character");
    refused_with("A model", "A\\u0000model", "not JSON");
    refused_with("A model", "", "not empty");
    refused_with("\"A model\"", "7", "'model_id'");
    char long_name[80], to[100];
    memset(long_name, 'x', 64);
    long_name[64] = '\0';
    snprintf(to, sizeof to, "%s", long_name);
    refused_with("token_embd.weight", to, "at most 63");
}

static void digests_have_64_small_digits(void **state) {
    (void)state;
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    char shorter[65], large[65], longer[66];
    snprintf(shorter, sizeof shorter, "%.63s", zeros);
    snprintf(longer, sizeof longer, "%s0", zeros);
    snprintf(large, sizeof large, "%.63sA", zeros);
    refused_with(zeros, shorter, "64 digits");
    refused_with(zeros, longer, "64 digits");
    refused_with(zeros, large, "64 digits");
}

static void fields_are_known_and_once(void **state) {
    (void)state;
    refused_with("\"width\": 8", "\"width\": 8, \"wide\": 8", "no key 'wide'");
    refused_with("\"width\": 8", "\"width\": 8, \"width\": 8", "not JSON");
    refused_with("\"role\": \"metadata\"", "\"role\": \"metadata\", \"url\": \"x\"", "no key 'url'");
    refused_with("\"type\": 0", "\"type\": 0, \"offset\": 0", "no key 'offset'");
    refused_with(" \"width\": 8,\n", "", "'width' is missing");
    refused_with("\"parts\": [", "\"other\": [], \"parts\": [", "no key 'other'");
}

static void other_shapes_of_json_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "null", "[]", "1", "\"\"", "{}", "{\"format\": 1}", "{\"format\": 1, \"parts\": []}", "{\"format\": 1} x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) refused(texts[i], strlen(texts[i]), SKIPPY_E_INVALID, "");
    refused_with("\"parts\": [", "\"parts\": [], \"x\": [", "");
    refused_with("\"tensors\": [\n", "\"tensors\": [[],\n", "object is needed");
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    sk_buf text = {0};
    sk_buf_str(&text, "{\"format\": ");
    for (int i = 0; i < DEEP; i++) sk_buf_str(&text, "[");
    refused(text.data, text.len, SKIPPY_E_INVALID, "not JSON");
    sk_buf_free(&text);
}

static void a_manifest_of_absurd_size_is_refused_unread(void **state) {
    (void)state;
    refused("{}", SK_PACKAGE_MANIFEST_MAX + 1, SKIPPY_E_INVALID, "none has more"); /* the bytes are not looked at */
}

static void a_layer_is_read_from_a_name(void **state) {
    (void)state;
    assert_int_equal(sk_package_tensor_layer("blk.0.a"), 0);
    assert_int_equal(sk_package_tensor_layer("blk.61.ffn_up.weight"), 61);
    assert_int_equal(sk_package_tensor_layer("blk.2147483647.a"), INT32_MAX);
    assert_int_equal(sk_package_tensor_layer("blk.2147483648.a"), -1);
    assert_int_equal(sk_package_tensor_layer("blk.99999999999999999999.a"), -1);
    assert_int_equal(sk_package_tensor_layer("blk..a"), -1);
    assert_int_equal(sk_package_tensor_layer("blk.-1.a"), -1);
    assert_int_equal(sk_package_tensor_layer("blk.1"), -1);
    assert_int_equal(sk_package_tensor_layer("output.weight"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(an_unknown_family_is_left_out),
        cmocka_unit_test(a_manifest_cut_anywhere_is_refused),
        cmocka_unit_test(another_format_is_said_before_anything_else),
        cmocka_unit_test(paths_lead_nowhere_else),
        cmocka_unit_test(layers_are_all_there_and_once),
        cmocka_unit_test(roles_are_known_and_once),
        cmocka_unit_test(numbers_are_whole_and_small_enough),
        cmocka_unit_test(sums_are_those_of_the_tensors),
        cmocka_unit_test(tensors_have_possible_shapes),
        cmocka_unit_test(names_are_plain_and_once),
        cmocka_unit_test(digests_have_64_small_digits),
        cmocka_unit_test(fields_are_known_and_once),
        cmocka_unit_test(other_shapes_of_json_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_manifest_of_absurd_size_is_refused_unread),
        cmocka_unit_test(a_layer_is_read_from_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
