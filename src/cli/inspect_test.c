/* `skippy inspect` on real stores: what it lists, how it verifies, and how it fails. */
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/test_folder.h"
#include "cli/capture.h"
#include "cli/inspect.h"
#include "cli/inspect_names.h"
#include "skippy/disk_store.h"
#include "skippy/index.h"

enum { WINDOW = 4, BLOCK = 3000, LONGEST = 3 * WINDOW };

static char dir[64];
static captured output;

#define RUN(...) capture(&output, sk_cli_inspect, (const char *[]){"skippy inspect", __VA_ARGS__, NULL})

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "inspect-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    captured_free(&output);
    return test_remove_tree(dir);
}

/* ---- entries: a conversation of n windows; window i has one block, the same in every longer conversation ---- */

static void fill_block(uint8_t out[BLOCK], size_t window) {
    for (size_t i = 0; i < BLOCK; i++) out[i] = (uint8_t)(window * 31 + i % 251);
}

static int supply(void *ud, const skippy_block_ref *block, const void **data) {
    uint8_t *buf = ud;
    for (size_t w = 0; w < LONGEST / WINDOW; w++) {
        skippy_block_ref ref;
        fill_block(buf, w);
        assert_int_equal(skippy_block_digest(buf, BLOCK, &ref), SKIPPY_OK);
        if (skippy_key_equal(&ref.digest, &block->digest)) {
            *data = buf;
            return SKIPPY_OK;
        }
    }
    return SKIPPY_E_NOT_FOUND;
}

static uint64_t put(skippy_disk_store *s, size_t windows) {
    uint8_t buf[BLOCK];
    int32_t tokens[LONGEST];
    skippy_block_ref refs[LONGEST / WINDOW];
    skippy_part parts[LONGEST / WINDOW];
    uint64_t id = 0;
    for (size_t i = 0; i < windows * WINDOW; i++) tokens[i] = (int32_t)(100 + i);
    for (size_t w = 0; w < windows; w++) {
        fill_block(buf, w);
        assert_int_equal(skippy_block_digest(buf, BLOCK, &refs[w]), SKIPPY_OK);
        parts[w] = (skippy_part){SKIPPY_PART_KV, w * WINDOW, (w + 1) * WINDOW, &refs[w], 1};
    }
    skippy_manifest m = {.payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV,
                         .reach = SKIPPY_REACH_RANGE,
                         .reason = SKIPPY_REASON_DEMOTED,
                         .tokens = tokens,
                         .n_tokens = windows * WINDOW,
                         .tenant = "tenant-a",
                         .cost_ms = 12.5,
                         .created_ms = 1000,
                         .used_ms = 2000 + windows,
                         .parts = parts,
                         .n_parts = windows};
    m.ns.bytes[0] = 0xab;
    assert_int_equal(skippy_prefix_key(&m.ns, tokens, m.n_tokens, &m.prefix_key), SKIPPY_OK);
    assert_int_equal(skippy_disk_put(s, &m, supply, buf, &id, NULL), SKIPPY_OK);
    return id;
}

static bool ignore_entry(void *ud, uint64_t id, const skippy_manifest *m) {
    (void)ud, (void)id, (void)m;
    return true;
}

static skippy_disk_store *open_store(const char *name) {
    skippy_disk_store *s = NULL;
    skippy_disk_detail detail = {{0}};
    const skippy_disk_params p = {.dir = dir, .name = name};
    if (skippy_disk_open(NULL, &p, ignore_entry, NULL, NULL, &s, &detail) != SKIPPY_OK) fail_msg("%s", detail.text);
    return s;
}

/* Two entries of 4 and 12 tokens in store "main"; returns the longer one's id. */
static uint64_t make_store(void) {
    skippy_disk_store *s = open_store("main");
    put(s, 1);
    const uint64_t id = put(s, 3);
    skippy_disk_close(s);
    return id;
}

/* Flips a byte of window w's block, wherever it lies in the store's files. */
static void damage_block(size_t w) {
    uint8_t block[BLOCK];
    char pattern[128];
    glob_t files;
    bool done = false;
    fill_block(block, w);
    snprintf(pattern, sizeof pattern, "%s/main/*", dir);
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc && !done; i++) {
        struct stat st = {0};
        const int fd = open(files.gl_pathv[i], O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        uint8_t *bytes = malloc((size_t)st.st_size + 1);
        assert_non_null(bytes);
        assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
        const uint8_t *at = memmem(bytes, (size_t)st.st_size, block, BLOCK);
        if (at) {
            const uint8_t wrong = (uint8_t)(at[17] ^ 0x40);
            assert_int_equal(pwrite(fd, &wrong, 1, at - bytes + 17), 1);
            done = true;
        }
        free(bytes);
        close(fd);
    }
    globfree(&files);
    assert_true(done);
}

static json_t *parse(const char *text) {
    json_error_t e;
    json_t *root = json_loads(text, 0, &e);
    if (!root) fail_msg("line %d: %s in %s", e.line, e.text, text);
    return root;
}

static json_int_t number(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

/* ---- listing ---- */

static void an_empty_directory_holds_no_store(void **state) {
    (void)state;
    assert_int_equal(RUN(dir), 0);
    says(output.out, "holds no store");
    assert_int_equal(RUN(dir, "--json"), 0);
    json_t *root = parse(output.out);
    assert_int_equal(json_array_size(json_object_get(root, "stores")), 0);
    json_decref(root);
}

static void a_directory_that_is_not_there_is_named(void **state) {
    (void)state;
    assert_int_equal(RUN("no-such-directory"), 1);
    says(output.err, "no-such-directory: ");
    assert_string_equal(output.out, "");
    char file[96];
    snprintf(file, sizeof file, "%s/file", dir);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(RUN(file), 1);
    says(output.err, "is not a directory");
}

static void entries_are_listed_with_sizes_and_totals(void **state) {
    (void)state;
    make_store();
    assert_int_equal(RUN(dir), 0);
    says(output.out, "store main: ");
    says(output.out, "not in use");
    says(output.out, "resident-kv");
    says(output.out, "demoted");
    says(output.out, "total: 2 entries, 16 tokens, 8.8 KiB in 3 distinct blocks (11.7 KiB referred to, dedupe 1.33x)");
    assert_null(strstr(output.out, "verified"));
}

static void json_tells_the_same(void **state) {
    (void)state;
    const uint64_t id = make_store();
    assert_int_equal(RUN("--json", dir), 0);
    json_t *root = parse(output.out);
    const json_t *store = json_array_get(json_object_get(root, "stores"), 0);
    const json_t *entries = json_object_get(store, "entries"), *totals = json_object_get(store, "totals");
    assert_string_equal(json_string_value(json_object_get(store, "name")), "main");
    assert_false(json_is_true(json_object_get(store, "in_use")));
    assert_int_equal(json_array_size(entries), 2);
    const json_t *longer = json_array_get(entries, 1); /* the one that was used last */
    assert_int_equal(number(longer, "id"), id);
    assert_int_equal(number(longer, "tokens"), 12);
    assert_int_equal(number(longer, "logical_bytes"), 3 * BLOCK);
    assert_int_equal(number(longer, "own_bytes"), 2 * BLOCK);
    assert_int_equal(number(longer, "created_ms"), 1000);
    assert_string_equal(json_string_value(json_object_get(longer, "tenant")), "tenant-a");
    assert_true(json_is_null(json_object_get(longer, "cache_namespace")));
    assert_int_equal(number(totals, "logical_bytes"), 4 * BLOCK);
    assert_int_equal(number(totals, "block_bytes"), 3 * BLOCK);
    assert_int_equal(number(totals, "saved_bytes"), BLOCK);
    assert_null(json_object_get(store, "verify"));
    json_decref(root);
}

static void a_store_in_use_can_be_inspected(void **state) {
    (void)state;
    skippy_disk_store *s = open_store("main");
    put(s, 2);
    assert_int_equal(RUN(dir, "--verify"), 0);
    says(output.out, ", in use");
    says(output.out, "verified: 0 of 2 blocks are bad, in 0 entries");
    skippy_disk_close(s);
}

static void one_store_of_several_can_be_chosen(void **state) {
    (void)state;
    make_store();
    skippy_disk_close(open_store("other"));
    assert_int_equal(RUN(dir), 0);
    says(output.out, "store main");
    says(output.out, "store other");
    assert_int_equal(RUN(dir, "--store", "other"), 0);
    assert_null(strstr(output.out, "store main"));
    says(output.out, "total: 0 entries");
    assert_int_equal(RUN(dir, "--store=nothing"), 1);
    says(output.err, "there is no store 'nothing'");
}

/* ---- verification ---- */

static void good_blocks_verify(void **state) {
    (void)state;
    make_store();
    assert_int_equal(RUN(dir, "--verify"), 0);
    says(output.out, "verified: 0 of 3 blocks are bad, in 0 entries");
}

static void a_flipped_byte_is_found_and_nothing_is_changed(void **state) {
    (void)state;
    const uint64_t id = make_store();
    damage_block(2);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(RUN(dir, "--verify", "--json"), 1);
        json_t *root = parse(output.out);
        const json_t *store = json_array_get(json_object_get(root, "stores"), 0);
        const json_t *verify = json_object_get(store, "verify"), *bad = json_object_get(verify, "bad_blocks");
        assert_int_equal(number(verify, "blocks"), 3);
        assert_int_equal(number(verify, "bad_entries"), 1);
        assert_int_equal(json_array_size(bad), 1);
        const json_t *entries = json_object_get(json_array_get(bad, 0), "entries");
        assert_int_equal(json_array_size(entries), 1);
        assert_int_equal(json_integer_value(json_array_get(entries, 0)), id);
        json_decref(root);
    }
    assert_int_equal(RUN(dir, "--verify"), 1);
    says(output.out, "verified: 1 of 3 blocks are bad, in 1 entries");
    says(output.out, "  bad block ");
    says(output.out, "BAD: 1 blocks");
    assert_int_equal(RUN(dir), 0); /* without reading the blocks there is nothing to find */
}

static void a_shared_bad_block_condemns_every_entry_that_has_it(void **state) {
    (void)state;
    make_store();
    damage_block(0);
    assert_int_equal(RUN(dir, "--verify"), 1);
    says(output.out, "verified: 1 of 3 blocks are bad, in 2 entries");
}

/* ---- one entry ---- */

static void one_entry_is_shown_whole(void **state) {
    (void)state;
    char id[24], expected[128], hex[HEX_CHARS];
    uint8_t block[BLOCK];
    skippy_block_ref ref;
    snprintf(id, sizeof id, "%llu", (unsigned long long)make_store());
    fill_block(block, 1);
    assert_int_equal(skippy_block_digest(block, BLOCK, &ref), SKIPPY_OK);
    assert_int_equal(RUN(dir, "--entry", id, "--verify"), 0);
    snprintf(expected, sizeof expected, "%s    3000 bytes, verified", hex_of(&ref.digest, hex));
    says(output.out, expected);
    says(output.out, "tokens           12:\n  100 101 102 103 104 105 106 107 108 109 110 111\n");
    says(output.out, "part kv [8, 12), 1 blocks");
    says(output.out, "namespace key    ab00");
    says(output.out, "reach range, reason demoted");
    says(output.out, "tenant           tenant-a");
    says(output.out, "cache namespace  (none)");
    says(output.out, ", shared by 2 entries");
}

static void one_entry_as_json(void **state) {
    (void)state;
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)make_store());
    damage_block(1);
    assert_int_equal(RUN(dir, "--entry", id, "--json", "--verify"), 1);
    json_t *root = parse(output.out);
    const json_t *entry = json_array_get(json_object_get(root, "entries"), 0);
    const json_t *parts = json_object_get(entry, "part_list");
    assert_int_equal(json_array_size(json_object_get(entry, "token_ids")), 12);
    assert_int_equal(json_array_size(parts), 3);
    const json_t *good = json_array_get(json_object_get(json_array_get(parts, 0), "blocks"), 0);
    const json_t *bad = json_array_get(json_object_get(json_array_get(parts, 1), "blocks"), 0);
    assert_true(json_is_true(json_object_get(good, "good")));
    assert_int_equal(number(good, "entries"), 2);
    assert_true(json_is_false(json_object_get(bad, "good")));
    json_decref(root);
}

static void an_entry_that_is_not_there_ends_with_code_1(void **state) {
    (void)state;
    make_store();
    assert_int_equal(RUN(dir, "--entry", "999"), 1);
    says(output.err, "there is no entry 999 in ");
}

/* ---- words ---- */

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("--json"), 2);
    says(output.err, "skippy inspect: which directory? Try 'skippy inspect --help'.");
    assert_int_equal(RUN(dir, "--entry", "0"), 2);
    assert_int_equal(RUN(dir, "--entry"), 2);
    assert_int_equal(RUN(dir, "another"), 2);
    assert_int_equal(RUN(dir, "--verfy"), 2);
    says(output.err, "unknown option '--verfy'");
    assert_int_equal(RUN("--help"), 0);
    says(output.out, "Usage: skippy inspect DIR");
    says(output.out, "Exit codes:");
}

static void sizes_and_ages_are_words_for_people(void **state) {
    (void)state;
    char buf[SIZE_CHARS];
    assert_string_equal(size_of(0, buf), "0 B");
    assert_string_equal(size_of(1023, buf), "1023 B");
    assert_string_equal(size_of(1024, buf), "1.0 KiB");
    assert_string_equal(size_of((uint64_t)3 << 30, buf), "3.0 GiB");
    assert_string_equal(size_of((uint64_t)5000 << 40, buf), "5000.0 TiB");
    assert_string_equal(age_of(1, 90001, buf), "90 s");
    assert_string_equal(age_of(1, 1 + 600000, buf), "10 min");
    assert_string_equal(age_of(1, 1 + 3 * 3600000, buf), "3 h");
    assert_string_equal(age_of(1, 1 + (uint64_t)5 * 86400000, buf), "5 d");
    assert_string_equal(age_of(2, 1, buf), "-");
    assert_string_equal(age_of(0, 1, buf), "-");
    assert_string_equal(payload_name(2), "kv-recurrent");
    assert_string_equal(payload_name(99), "unknown");
    assert_string_equal(part_name(4), "logits");
    assert_string_equal(reason_name(3), "shutdown");
    assert_string_equal(reach_name(9), "unknown");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_directory_holds_no_store),
        TEST(a_directory_that_is_not_there_is_named),
        TEST(entries_are_listed_with_sizes_and_totals),
        TEST(json_tells_the_same),
        TEST(a_store_in_use_can_be_inspected),
        TEST(one_store_of_several_can_be_chosen),
        TEST(good_blocks_verify),
        TEST(a_flipped_byte_is_found_and_nothing_is_changed),
        TEST(a_shared_bad_block_condemns_every_entry_that_has_it),
        TEST(one_entry_is_shown_whole),
        TEST(one_entry_as_json),
        TEST(an_entry_that_is_not_there_ends_with_code_1),
        TEST(wrong_usage_ends_with_code_2_and_words),
        TEST(sizes_and_ages_are_words_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
