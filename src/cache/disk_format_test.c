/* The bytes of the files: names, headers, records, and a store that was written by version 1.
 *
 * testdata/disk-v1/ holds that store. It was made by this program: SKIPPY_WRITE_GOLDEN=DIR disk_format_test writes the
 * same store to DIR/s (conversations with two decimal digits of tokens, see write_golden). It is never made again: when
 * the format changes, a new store is added beside it and both must open, or the old one must be refused. */
#include <dirent.h>
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

#include "base/hash.h"
#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"
#include "cache/disk_replay.h"
#include "cache/mem.h"

enum { BLOCK = 300, SEGMENT = 2500 };

static found_list found;

/* ---- names ---- */

static void names_are_recognised_only_in_their_one_form(void **state) {
    uint64_t number;
    char name[SK_FILE_NAME_BYTES];
    (void)state;
    assert_int_equal(sk_file_parse("lock", &number), SK_FILE_LOCK);
    assert_int_equal(sk_file_parse("journal-0000000007.skj", &number), SK_FILE_JOURNAL);
    assert_int_equal(number, 7);
    assert_int_equal(sk_file_parse("segment-18446744073709551615.sks", &number), SK_FILE_FOREIGN);
    assert_int_equal(sk_file_parse("segment-12345678901.sks.tmp", &number), SK_FILE_TEMPORARY);
    assert_int_equal(number, 12345678901u);
    static const char *foreign[] = {"",
                                    "journal",
                                    "journal-0000000007.sks",
                                    "journal-7.skj",
                                    "journal-00000000007.skj",
                                    "journal-0000000000.skj",
                                    "segment-99999999999999999999999.sks",
                                    "segment-0000000007.sks~",
                                    "segment--000000007.sks",
                                    "segment-0000000007.skj.tmp",
                                    "Lock"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_int_equal(sk_file_parse(foreign[i], &number), SK_FILE_FOREIGN);
    for (uint64_t n = 1; n < UINT64_MAX / 40; n *= 3) {
        sk_file_name(name, SK_FILE_SEGMENT, n, false);
        assert_int_equal(sk_file_parse(name, &number), SK_FILE_SEGMENT);
        assert_int_equal(number, n);
    }
}

/* ---- headers ---- */

static void assert_hex(const uint8_t *bytes, size_t n, const char *expected) {
    char hex[2 * 64 + 1];
    sk_hex(bytes, n, hex);
    assert_string_equal(hex, expected);
}

static void headers_have_the_documented_bytes(void **state) {
    uint8_t header[SK_FILE_HEADER_BYTES], block[SK_BLOCK_HEADER_BYTES];
    skippy_block_ref ref;
    (void)state;
    sk_file_header_encode(header, SK_FILE_JOURNAL, 5);
    assert_hex(header, sizeof header,
               "534b495050594a0a010000004000000005000000000000000000000000000000"
               "0000000000000000000000000000000044080d32b25ae2ddf48d21ddf3fa9d55");
    sk_file_header_encode(header, SK_FILE_SEGMENT, 0x1122334455667788);
    assert_hex(header, sizeof header,
               "534b49505059530a010000004000000088776655443322110000000000000000"
               "000000000000000000000000000000008a5b28046b02f7e906b4e2be3b9a3111");
    assert_int_equal(skippy_block_digest("skippy", 6, &ref), SKIPPY_OK);
    sk_block_header_encode(block, &ref);
    assert_hex(block, sizeof block,
               "534b420a060000004d9493dba8bef304e6cc1792a1d07ea37342687db5a9e7dd"
               "579c71639f52b8d96c9b9a410b4b60e0");
}

static void every_flipped_bit_of_a_header_is_noticed(void **state) {
    uint8_t header[SK_FILE_HEADER_BYTES], block[SK_BLOCK_HEADER_BYTES];
    skippy_block_ref ref;
    uint32_t version;
    (void)state;
    sk_file_header_encode(header, SK_FILE_SEGMENT, 5);
    assert_int_equal(sk_file_header_check(header, SK_FILE_SEGMENT, 5, &version), SK_HEADER_OK);
    assert_int_equal(version, 1);
    assert_int_equal(sk_file_header_check(header, SK_FILE_SEGMENT, 6, &version), SK_HEADER_DAMAGED);
    assert_int_equal(sk_file_header_check(header, SK_FILE_JOURNAL, 5, &version), SK_HEADER_DAMAGED);
    for (size_t bit = 0; bit < 8 * sizeof header; bit++) {
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sk_file_header_check(header, SK_FILE_SEGMENT, 5, &version), SK_HEADER_DAMAGED);
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(skippy_block_digest("skippy", 6, &ref), SKIPPY_OK);
    sk_block_header_encode(block, &ref);
    for (size_t bit = 0; bit < 8 * sizeof block; bit++) {
        assert_true(sk_block_header_matches(block, &ref));
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(sk_block_header_matches(block, &ref));
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* ---- records ---- */

/* Tables with one entry of three turns. */
static void make_index(sk_disk_index *ix, const skippy_allocator *a) {
    test_entry t;
    assert_true(sk_index_init(ix, a));
    test_entry_make(&t, 1, 3, BLOCK);
    sk_disk_entry *e = sk_disk_entry_new(a, &t.m);
    sk_segment *g = sk_index_segment_add(ix, 9);
    assert_true(e && g);
    for (size_t i = 0; i < e->n_blocks; i++) {
        e->blocks[i] = sk_index_block_add(ix, &t.refs[i], 100 + i);
        assert_non_null(e->blocks[i]);
        sk_index_block_place(ix, e->blocks[i], g, 64 + 1000 * i);
    }
    e->id = 42;
    e->used_ms = 77;
    e->hits = 3;
    assert_int_equal(skippy_manifest_check(&e->m, &e->logical_bytes), SKIPPY_OK);
    e->record_bytes = sk_record_put_bytes(&e->m, e->n_blocks);
    sk_index_entry_add(ix, e);
    for (size_t i = 0; i < e->n_blocks; i++) sk_index_block_unhold(ix, e->blocks[i]);
    test_entry_free(&t);
}

static void an_entry_reads_back_as_it_was_written(void **state) {
    skippy_allocator a = sk_mem_hooks(NULL);
    sk_disk_index ix, copy;
    sk_bytes bytes = {.alloc = &a}, again = {.alloc = &a};
    uint8_t header[SK_FILE_HEADER_BYTES];
    sk_chain c, first;
    sk_replay r = {.ix = &copy};
    size_t len;
    uint32_t type;
    (void)state;
    make_index(&ix, &a);
    assert_true(sk_index_init(&copy, &a));
    sk_file_header_encode(header, SK_FILE_JOURNAL, 1);
    sk_chain_start(&c, header);
    first = c;
    sk_record_add_put(&bytes, &c, ix.first, sk_index_next_mark(&ix), false);
    assert_false(bytes.failed);
    assert_int_equal(bytes.len, ix.first->record_bytes + SK_DEFINITION_BYTES * ix.first->n_blocks);

    sk_chain check = first;
    assert_true(sk_record_header(bytes.data, &check, bytes.len - SK_RECORD_HEADER_BYTES, &len, &type));
    assert_int_equal(type, SK_RECORD_PUT);
    assert_true(sk_record_verify(bytes.data, bytes.data + SK_RECORD_HEADER_BYTES, len, &check));
    assert_memory_equal(&check, &c, sizeof c);
    assert_int_equal(sk_replay_record(&r, type, bytes.data + SK_RECORD_HEADER_BYTES, len), SKIPPY_OK);
    assert_int_equal(copy.n_entries, 1);
    assert_int_equal(copy.first->id, 42);
    assert_int_equal(copy.first->used_ms, 77);
    assert_int_equal(copy.next_id, 43);
    assert_int_equal(copy.next_block, 100 + 3 * TEST_BLOCKS);
    assert_int_equal(copy.next_segment, 10);
    check = first;
    sk_record_add_put(&again, &check, copy.first, sk_index_next_mark(&copy), false);
    assert_int_equal(again.len, bytes.len);
    assert_memory_equal(again.data, bytes.data, bytes.len);
    sk_index_free(&ix);
    sk_index_free(&copy);
    sk_bytes_free(&bytes);
    sk_bytes_free(&again);
}

/* One changed byte anywhere in a payload whose check was made anew: never a crash, and what is accepted is whole. */
static void a_payload_that_contradicts_itself_is_refused(void **state) {
    skippy_allocator a = sk_mem_hooks(NULL);
    sk_disk_index ix;
    sk_bytes bytes = {.alloc = &a};
    sk_chain c = {.sequence = 1};
    size_t refused = 0;
    (void)state;
    make_index(&ix, &a);
    sk_record_add_put(&bytes, &c, ix.first, sk_index_next_mark(&ix), false);
    size_t len = bytes.len - SK_RECORD_FRAME_BYTES;
    uint8_t *payload = bytes.data + SK_RECORD_HEADER_BYTES;
    for (size_t at = 0; at < len; at++) {
        for (unsigned flip = 1; flip < 256; flip *= 4) {
            sk_disk_index copy;
            sk_replay r = {.ix = &copy};
            assert_true(sk_index_init(&copy, &a));
            payload[at] ^= (uint8_t)flip;
            int status = sk_replay_record(&r, SK_RECORD_PUT, payload, len);
            payload[at] ^= (uint8_t)flip;
            assert_true(status == SKIPPY_OK || status == SKIPPY_E_CORRUPT);
            assert_int_equal(copy.n_entries, status == SKIPPY_OK);
            if (status != SKIPPY_OK) assert_int_equal(copy.numbers.count, 0); /* its blocks are gone again */
            refused += status != SKIPPY_OK;
            sk_index_free(&copy);
        }
    }
    assert_true(refused > 100);
    for (size_t cut = 0; cut < len; cut++) {
        sk_disk_index copy;
        sk_replay r = {.ix = &copy};
        assert_true(sk_index_init(&copy, &a));
        assert_int_equal(sk_replay_record(&r, SK_RECORD_PUT, payload, cut), SKIPPY_E_CORRUPT);
        sk_index_free(&copy);
    }
    sk_index_free(&ix);
    sk_bytes_free(&bytes);
}

static void unknown_record_types_end_the_scan(void **state) {
    skippy_allocator a = sk_mem_hooks(NULL);
    sk_disk_index ix;
    sk_replay r = {.ix = &ix};
    uint8_t zeros[64] = {0};
    (void)state;
    assert_true(sk_index_init(&ix, &a));
    assert_int_equal(sk_replay_record(&r, 0, zeros, 0), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, 6, zeros, 24), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_BEGIN, zeros, SK_BEGIN_BYTES), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_BEGIN, zeros, 8), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_DROP, zeros, 11), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_TOUCH, zeros, 25), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_MOVE, zeros, SK_MOVE_BYTES), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_replay_record(&r, SK_RECORD_DROP, zeros, SK_DROP_BYTES), SKIPPY_OK); /* nobody has that id */
    sk_index_free(&ix);
}

/* ---- the store of version 1 ---- */

/* What the golden store holds: every record type, several segments, dead bytes, a namespace with and without names. */
static const struct { unsigned chat, turns; } golden[] = {{1, 3}, {1, 5}, {2, 2}, {4, 6}};
enum { N_GOLDEN = sizeof golden / sizeof *golden, DROPPED_CHAT = 3 };

static void write_golden(const char *dir) {
    faults f = {.use_clocks = true, .wall_ms = 1700000000000};
    sk_io io = faults_io(&f);
    scratch t;
    skippy_disk_store *s;
    const skippy_manifest *m;
    uint64_t id, dropped;
    bool more = true;
    snprintf(t.dir, sizeof t.dir, "%s", dir);
    assert_int_equal(scratch_open(&t, &io, 0, SEGMENT, NULL, NULL, &s, NULL), SKIPPY_OK);
    assert_int_equal(test_put_chat(s, DROPPED_CHAT, 4, BLOCK, &dropped), SKIPPY_OK);
    for (size_t i = 0; i < N_GOLDEN; i++)
        assert_int_equal(test_put_chat(s, golden[i].chat, golden[i].turns, BLOCK, &id), SKIPPY_OK);
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(skippy_disk_drop(s, dropped, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    while (more) assert_int_equal(skippy_disk_compact(s, &more, NULL), SKIPPY_OK);
    skippy_disk_close(s);
}

static void copy_folder(const char *from, const char *to) {
    char path[1024];
    assert_int_equal(mkdir(to, 0700), 0);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (const struct dirent *item; (item = readdir(d));) {
        size_t len;
        if (item->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.250s", from, item->d_name);
        uint8_t *data = file_read(path, &len);
        snprintf(path, sizeof path, "%s/%.250s", to, item->d_name);
        file_write(path, data, len);
        free(data);
    }
    closedir(d);
}

static unsigned record_types(const scratch *t) {
    char name[64];
    size_t len, at = SK_FILE_HEADER_BYTES;
    unsigned types = 0;
    assert_int_equal(folder_count(t->folder, "journal", name), 1);
    uint8_t *data = file_read(scratch_file(t, name), &len);
    while (at + SK_RECORD_FRAME_BYTES <= len) {
        types |= 1u << sk_get_u32(data + at + 4);
        at += SK_RECORD_FRAME_BYTES + sk_get_u32(data + at);
    }
    assert_int_equal(at, len);
    free(data);
    return types;
}

static void a_store_of_version_1_is_read(void **state) {
    scratch *t = *state;
    char from[600];
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    assert_non_null(source);
    snprintf(from, sizeof from, "%s/src/cache/testdata/disk-v1", source);
    copy_folder(from, t->folder);
    assert_int_equal(record_types(t), 1u << SK_RECORD_BEGIN | 1u << SK_RECORD_PUT | 1u << SK_RECORD_DROP |
                                          1u << SK_RECORD_TOUCH | 1u << SK_RECORD_MOVE);
    int status = scratch_open(t, NULL, 0, SEGMENT, &found, NULL, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    check_accounts(t, s);
    assert_int_equal(found.n, N_GOLDEN);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const size_t at = N_GOLDEN - 1 - i; /* newest first */
        assert_int_equal(found.chat[at], golden[i].chat);
        assert_int_equal(found.turns[at], golden[i].turns);
        assert_int_equal(found.hits[at], i == N_GOLDEN - 1);
        if (i == N_GOLDEN - 1) assert_int_equal(found.used_ms[at], 1700000000000);
        assert_int_equal(test_check(s, found.id[at], golden[i].chat, golden[i].turns, BLOCK), SKIPPY_OK);
    }
    /* And it can be written on. */
    uint64_t id;
    assert_int_equal(test_put_chat(s, 4, 7, BLOCK, &id), SKIPPY_OK);
    assert_int_equal(test_check(s, id, 4, 7, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

int main(void) {
    const char *write_to = getenv("SKIPPY_WRITE_GOLDEN");
    if (write_to) {
        write_golden(write_to);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_recognised_only_in_their_one_form),
        cmocka_unit_test(headers_have_the_documented_bytes),
        cmocka_unit_test(every_flipped_bit_of_a_header_is_noticed),
        cmocka_unit_test(an_entry_reads_back_as_it_was_written),
        cmocka_unit_test(a_payload_that_contradicts_itself_is_refused),
        cmocka_unit_test(unknown_record_types_end_the_scan),
        scratch_test(a_store_of_version_1_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
