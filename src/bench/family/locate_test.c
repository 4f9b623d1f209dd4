#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/locate.h"
#include "bench/family/tiny_gguf.h"
#include "bench/family/tiny_package.h"

#define SHARD "MiniMax-M2.7-UD-Q2_K_XL-%05d-of-%05d.gguf"

static char folder[96], root[128];

static int make_root(void **state) {
    (void)state;
    if (!gg_temp_dir(folder, sizeof folder)) return -1;
    snprintf(root, sizeof root, "%s/root", folder);
    return mkdir(root, 0755);
}

static int drop_root(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

/* Path below the cache root, with the folders above it. The next call but three overwrites it. */
static char *at(const char *relative) {
    static char paths[4][700];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, relative);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0755);
        *p = '/';
    }
    return path;
}

static void put(const char *relative, tiny_gguf t) {
    assert_true(tiny_gguf_write(at(relative), &t));
}

static sk_found_model look_for(const char *key) {
    sk_found_model m;
    sk_err e = {0};
    const int rc = sk_locate_model(root, sk_preset_find(key), &m, &e);
    assert_string_equal(e.text, "");
    assert_int_equal(rc, SKIPPY_OK);
    return m;
}

static void assert_refused(const char *key, const char *words) {
    const sk_found_model m = look_for(key);
    assert_string_equal(sk_found_status_name(m.status), "refused");
    if (!strstr(m.why, words)) fail_msg("'%s' does not say '%s'", m.why, words);
    assert_string_equal(m.runtime_entry, "");
    assert_int_equal(m.n_files, 0);
    assert_string_equal(m.arch, "");
    assert_string_equal(m.quant, "");
    assert_int_equal(m.layers, 0);
}

static void assert_entry(const char *key, const char *relative) {
    const sk_found_model m = look_for(key);
    if (m.status != SK_FOUND_PRESENT) fail_msg("%s: %s", sk_found_status_name(m.status), m.why);
    assert_string_equal(m.runtime_entry, at(relative));
}

static void a_missing_model_says_where_was_looked(void **state) {
    (void)state;
    const sk_found_model m = look_for("llama");
    assert_int_equal(m.status, SK_FOUND_MISSING);
    assert_string_equal(sk_found_status_name(m.status), "missing-model");
    assert_string_equal(m.requested, at("llama.gguf"));
    assert_string_equal(m.kind, "single-gguf");
    assert_non_null(strstr(m.why, "llama.gguf"));
    assert_non_null(strstr(m.why, "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF"));
}

static void facts_come_from_the_header(void **state) {
    (void)state;
    put("llama.gguf", (tiny_gguf){.name = "Synthetic stand-in", .file_type = 15});
    const sk_found_model m = look_for("llama");
    assert_int_equal(m.status, SK_FOUND_PRESENT);
    assert_string_equal(m.arch, "llama");
    assert_int_equal(m.layers, 1);
    assert_int_equal(m.width, TINY_WIDTH);
    assert_true(m.synthetic);
    assert_string_equal(m.quant, "Q4_K_M");
    assert_int_equal(m.n_files, 1);
    assert_true(m.file[0].bytes > 0);
    assert_string_equal(m.file[0].sha256, "");
}

static void trained_weights_are_not_called_synthetic(void **state) {
    (void)state;
    put("llama.gguf", (tiny_gguf){.name = "Llama 3.2 1B Instruct"});
    assert_false(look_for("llama").synthetic);
}

static void places_are_searched_in_the_promised_order(void **state) {
    (void)state;
    static const char *const places[] = {
        "hub/models--Qwen--Qwen3-0.6B-GGUF/snapshots/0aaa/Qwen3-0.6B-Q8_0.gguf",
        "hub/models--Qwen--Qwen3-0.6B-GGUF/snapshots/23749fefcc/Qwen3-0.6B-Q8_0.gguf",
        "models--Qwen--Qwen3-0.6B-GGUF/snapshots/bbb/Qwen3-0.6B-Q8_0.gguf",
        "models--Qwen--Qwen3-0.6B-GGUF/snapshots/aaa/Qwen3-0.6B-Q8_0.gguf",
        "models--Qwen--Qwen3-0.6B-GGUF/snapshots/23749fefcc/Qwen3-0.6B-Q8_0.gguf",
        "Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf",
        "Qwen3-0.6B-Q8_0.gguf",
        "qwen3_dense.gguf",
    };
    /* From the last choice to the first: each new file wins over all earlier ones. */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        put(places[i], (tiny_gguf){.arch = "llama"});
        const sk_found_model m = look_for("qwen3_dense");
        assert_int_equal(m.status, SK_FOUND_REFUSED); /* a llama is no qwen3, but the path shows in the words */
        char expected[400];
        snprintf(expected, sizeof expected, "'%.60s", at(places[i]));
        assert_non_null(strstr(m.why, "of the architecture 'llama'"));
        assert_memory_equal(m.why, expected, strlen(expected));
    }
}

static void a_hugging_face_link_stays_the_entry_and_its_blob_is_the_file(void **state) {
    (void)state;
    const char *entry = "models--hugging-quants--Llama-3.2-1B-Instruct-Q4_K_M-GGUF/snapshots/7d1f70022f/"
                        "llama-3.2-1b-instruct-q4_k_m.gguf";
    put("models--hugging-quants--Llama-3.2-1B-Instruct-Q4_K_M-GGUF/blobs/abcd", (tiny_gguf){.file_type = 15});
    assert_int_equal(symlink("../../blobs/abcd", at(entry)), 0);
    assert_entry("llama", entry);
    const sk_found_model m = look_for("llama");
    assert_non_null(strstr(m.file[0].path, "/blobs/abcd"));
    assert_string_equal(m.quant, "Q4_K_M");
}

static void a_link_out_of_the_root_is_refused(void **state) {
    (void)state;
    char outside[200];
    snprintf(outside, sizeof outside, "%s/outside.gguf", folder);
    assert_true(tiny_gguf_write(outside, &(tiny_gguf){0}));
    assert_int_equal(symlink(outside, at("llama.gguf")), 0);
    assert_refused("llama", "leads out of the cache root");
}

/* "/x/rootother" begins with the letters of "/x/root" and is another folder all the same. */
static void a_neighbour_with_a_longer_name_is_outside(void **state) {
    (void)state;
    char neighbour[200], outside[220];
    snprintf(neighbour, sizeof neighbour, "%sother", root);
    snprintf(outside, sizeof outside, "%s/a.gguf", neighbour);
    assert_int_equal(mkdir(neighbour, 0755), 0);
    assert_true(tiny_gguf_write(outside, &(tiny_gguf){0}));
    assert_int_equal(symlink(outside, at("llama.gguf")), 0);
    assert_refused("llama", "leads out of the cache root");
}

static void a_root_that_is_a_link_itself_works(void **state) {
    (void)state;
    char link[200];
    sk_found_model m;
    put("llama.gguf", (tiny_gguf){0});
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(root, link), 0);
    assert_int_equal(sk_locate_model(link, sk_preset_find("llama"), &m, NULL), SKIPPY_OK);
    assert_int_equal(m.status, SK_FOUND_PRESENT);
}

static void a_link_that_leads_nowhere_is_refused(void **state) {
    (void)state;
    assert_int_equal(symlink("gone", at("llama.gguf")), 0);
    assert_refused("llama", "leads nowhere");
}

static void things_that_are_no_model_are_refused_in_words(void **state) {
    (void)state;
    mkdir(at("llama.gguf"), 0755);
    assert_refused("llama", "is a folder, not a GGUF file");
    assert_int_equal(mkfifo(at("glm4.gguf"), 0600), 0);
    assert_refused("glm4", "is not a regular file");
    assert_true(gg_write(at("gemma2.gguf"), "hello", 5));
    assert_refused("gemma2", "not GGUF");
    assert_true(gg_write(at("gemma3.gguf"), "GGUF\3\0\0\0", 8));
    assert_refused("gemma3", "truncated");
    put("olmo.gguf", (tiny_gguf){.stage = true, .arch = "llama"});
    assert_refused("olmo", "layers 3..4 of another model");
}

static void a_model_of_another_family_is_refused(void **state) {
    (void)state;
    put("gemma3.gguf", (tiny_gguf){0});
    assert_refused("gemma3", "architecture 'llama', Gemma3 is 'gemma3'");
}

static void put_shard(int number, int count, tiny_gguf t) {
    char name[200];
    snprintf(name, sizeof name, "UD-Q2_K_XL/" SHARD, number, count);
    put(name, t);
}

static void every_shard_is_found_and_the_first_is_the_entry(void **state) {
    (void)state;
    /* The family check would refuse llama's tensors; the shards are looked at before it. */
    for (int i = 1; i <= 3; i++) put_shard(i, 3, (tiny_gguf){.shard = (uint16_t)(i - 1), .shards = 3});
    assert_refused("minimax_m27", "architecture 'llama'");
    assert_int_equal(unlink(at("UD-Q2_K_XL/MiniMax-M2.7-UD-Q2_K_XL-00002-of-00003.gguf")), 0);
    assert_refused("minimax_m27", "00002-of-00003.gguf' leads nowhere");
}

static void split_models_list_all_their_files(void **state) {
    (void)state;
    sk_preset p = *sk_preset_find("llama");
    sk_found_model m;
    p.artifact = SK_ARTIFACT_SHARDS;
    p.file = "m-Q8_0-00001-of-00002.gguf";
    put("m-Q8_0-00001-of-00002.gguf", (tiny_gguf){.shard = 0, .shards = 2});
    put("m-Q8_0-00002-of-00002.gguf", (tiny_gguf){.shard = 1, .shards = 2});
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_string_equal(m.why, "");
    assert_int_equal(m.status, SK_FOUND_PRESENT);
    assert_int_equal(m.n_files, 2);
    assert_string_equal(m.kind, "split-gguf-first-shard");
    assert_string_equal(m.runtime_entry, at(p.file));
    assert_non_null(strstr(m.file[1].path, "00002-of-00002"));
    assert_string_equal(m.quant, "Q8_0");
    assert_int_equal(m.layers, 1);
    p.file = "m-Q8_0-00002-of-00002.gguf";
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_int_equal(m.status, SK_FOUND_REFUSED);
    assert_non_null(strstr(m.why, "not the first"));
}

static void names_and_headers_of_shards_must_agree(void **state) {
    (void)state;
    sk_preset p = *sk_preset_find("llama");
    sk_found_model m;
    p.file = "m-00001-of-00002.gguf";
    put("m-00001-of-00002.gguf", (tiny_gguf){0});
    put("m-00002-of-00002.gguf", (tiny_gguf){0});
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_int_equal(m.status, SK_FOUND_REFUSED);
    assert_non_null(strstr(m.why, "says that it has 1 parts, its name stands for 2"));
    p.file = "m-00001-of-00009.gguf";
    put("m-00001-of-00009.gguf", (tiny_gguf){.shards = 9});
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_non_null(strstr(m.why, "at most 3"));
}

static void a_shard_outside_of_the_root_is_refused(void **state) {
    (void)state;
    char outside[200];
    sk_preset p = *sk_preset_find("llama");
    sk_found_model m;
    p.file = "m-00001-of-00002.gguf";
    put("m-00001-of-00002.gguf", (tiny_gguf){.shard = 0, .shards = 2});
    snprintf(outside, sizeof outside, "%s/m-00002-of-00002.gguf", folder);
    assert_true(tiny_gguf_write(outside, &(tiny_gguf){.shard = 1, .shards = 2}));
    assert_int_equal(symlink(outside, at("m-00002-of-00002.gguf")), 0);
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_int_equal(m.status, SK_FOUND_REFUSED);
    assert_non_null(strstr(m.why, "leads out of the cache root"));
}

static void a_package_needs_a_readable_manifest(void **state) {
    (void)state;
    assert_int_equal(look_for("deepseek3").status, SK_FOUND_MISSING);
    mkdir(at("deepseek3"), 0755);
    assert_refused("deepseek3", "model-package.json' leads nowhere");
    assert_true(gg_write(at("deepseek3/model-package.json"), "{}", 2));
    assert_refused("deepseek3", "format");
    assert_int_equal(test_remove_tree(at("deepseek3")), 0);
    assert_true(gg_write(at("deepseek3"), "x", 1));
    assert_refused("deepseek3", "is not a folder");
}

static void a_package_is_found_in_a_folder_or_a_snapshot(void **state) {
    (void)state;
    static const char *const places[] = {"hub/models--o--n/snapshots/zz", "o/n", "pack"};
    sk_preset p = *sk_preset_find("deepseek3");
    sk_found_model m;
    p.key = "pack";
    p.repo = "o/n";
    p.synth = "llama";
    p.layer_start = 0;
    p.layer_end = 1;
    put("source.gguf", (tiny_gguf){.name = "synthetic"});
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_true(tiny_package_write(at("source.gguf"), at(places[i])));
        assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
        assert_string_equal(m.why, "");
        assert_int_equal(m.status, SK_FOUND_PRESENT);
        assert_string_equal(m.runtime_entry, at(places[i]));
        assert_int_equal(m.n_files, 1);
        assert_non_null(strstr(m.file[0].path, "/model-package.json"));
        assert_string_equal(m.kind, "layer-package-tree");
        assert_int_equal(m.layers, 1);
        assert_true(m.synthetic);
    }
    p.synth = "qwen3";
    assert_int_equal(sk_locate_model(root, &p, &m, NULL), SKIPPY_OK);
    assert_int_equal(m.status, SK_FOUND_REFUSED);
}

static void a_bad_root_is_an_error(void **state) {
    (void)state;
    sk_found_model m;
    sk_err e = {0};
    const sk_preset *p = sk_preset_find("llama");
    assert_int_equal(sk_locate_model("models", p, &m, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "not an absolute path"));
    assert_int_equal(sk_locate_model(at("none"), p, &m, &e), SKIPPY_E_NOT_FOUND);
    put("file", (tiny_gguf){0});
    assert_int_equal(sk_locate_model(at("file"), p, &m, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "is not a folder"));
}

static int count_calls(void *ud, uint64_t done) {
    uint64_t *last = ud;
    assert_true(done > *last);
    *last = done;
    return 1;
}

static void digests_are_those_of_the_bytes_and_progress_grows_over_all_files(void **state) {
    (void)state;
    sk_found_model m = {.n_files = 2};
    uint64_t last = 0;
    const sk_sha256_watch w = {count_calls, &last};
    assert_true(gg_write(at("a"), "abc", 3) && gg_write(at("b"), "abcd", 4));
    snprintf(m.file[0].path, sizeof m.file[0].path, "%s", at("a"));
    snprintf(m.file[1].path, sizeof m.file[1].path, "%s", at("b"));
    assert_int_equal(sk_found_digest(&m, &w, NULL), SKIPPY_OK);
    assert_string_equal(m.file[0].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(m.file[1].bytes, 4);
    assert_int_equal(last, 7);
    assert_int_equal(unlink(at("b")), 0);
    assert_int_equal(sk_found_digest(&m, NULL, NULL), SKIPPY_E_NOT_FOUND);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_missing_model_says_where_was_looked),
        T(facts_come_from_the_header),
        T(trained_weights_are_not_called_synthetic),
        T(places_are_searched_in_the_promised_order),
        T(a_hugging_face_link_stays_the_entry_and_its_blob_is_the_file),
        T(a_link_out_of_the_root_is_refused),
        T(a_neighbour_with_a_longer_name_is_outside),
        T(a_root_that_is_a_link_itself_works),
        T(a_link_that_leads_nowhere_is_refused),
        T(things_that_are_no_model_are_refused_in_words),
        T(a_model_of_another_family_is_refused),
        T(every_shard_is_found_and_the_first_is_the_entry),
        T(split_models_list_all_their_files),
        T(names_and_headers_of_shards_must_agree),
        T(a_shard_outside_of_the_root_is_refused),
        T(a_package_needs_a_readable_manifest),
        T(a_package_is_found_in_a_folder_or_a_snapshot),
        T(a_bad_root_is_an_error),
        T(digests_are_those_of_the_bytes_and_progress_grows_over_all_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
