/* Files that were damaged, shortened, removed or put there by somebody else. */
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

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"

enum { BLOCK = 700, SEGMENT = 6000, CHATS = 6, TURNS = 4 };

static found_list found;
static drop_list drops;

static skippy_disk_store *open_store(const scratch *t) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    int status = scratch_open(t, NULL, 0, SEGMENT, &found, &drops, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    return s;
}

/* A closed store of CHATS conversations of TURNS turns. */
static void fill(const scratch *t) {
    skippy_disk_store *s = open_store(t);
    uint64_t id;
    for (unsigned chat = 0; chat < CHATS; chat++)
        assert_int_equal(test_put_chat(s, chat, TURNS, BLOCK, &id), SKIPPY_OK);
    skippy_disk_close(s);
}

/* Opens, checks every entry, closes. Returns how many entries there are; *n_bad says how many turned out to be bad. */
static size_t open_and_check(const scratch *t, size_t *n_bad) {
    skippy_disk_store *s = open_store(t);
    size_t n = found.n;
    *n_bad = 0;
    check_accounts(t, s);
    for (size_t i = 0; i < n; i++) {
        int status = test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK);
        if (status == SKIPPY_E_NOT_FOUND) continue; /* shares the bad block of one before it */
        assert_true(status == SKIPPY_OK || status == SKIPPY_E_CORRUPT);
        *n_bad += status == SKIPPY_E_CORRUPT;
    }
    skippy_disk_close(s);
    return n;
}

/* ---- blocks ---- */

static void a_flipped_bit_in_a_block_costs_the_entries_that_use_it(void **state) {
    scratch *t = *state;
    uint64_t first, second, other;
    skippy_disk_store *s = open_store(t);
    test_entry e;
    uint8_t buf[BLOCK];
    assert_int_equal(test_put_chat(s, 1, 2, BLOCK, &first), SKIPPY_OK);
    assert_int_equal(test_put_chat(s, 1, 3, BLOCK, &second), SKIPPY_OK);
    assert_int_equal(test_put_chat(s, 2, 2, BLOCK, &other), SKIPPY_OK);
    test_entry_make(&e, 1, 2, BLOCK);
    const sk_disk_block *b = sk_index_block_find(&s->ix, &e.refs[TEST_BLOCKS]);
    char name[SK_FILE_NAME_BYTES];
    sk_file_name(name, SK_FILE_SEGMENT, b->segment->number, false);
    file_flip(scratch_file(t, name), (size_t)b->offset + SK_BLOCK_HEADER_BYTES + b->ref.bytes / 2);

    assert_int_equal(skippy_disk_read(s, &e.refs[TEST_BLOCKS], buf), SKIPPY_E_CORRUPT);
    assert_int_equal(drops.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(drops.id[i] == first || drops.id[i] == second);
        assert_int_equal(drops.reason[i], SKIPPY_DROP_CORRUPT);
    }
    skippy_store_stats stats;
    skippy_disk_get_stats(s, &stats);
    assert_int_equal(stats.corrupt_blocks, 1);
    assert_int_equal(stats.dropped[SKIPPY_DROP_CORRUPT], 2);
    assert_int_equal(skippy_disk_read(s, &e.refs[TEST_BLOCKS], buf), SKIPPY_E_NOT_FOUND);
    assert_int_equal(test_check(s, other, 2, 2, BLOCK), SKIPPY_OK);
    /* It is computed anew and stored again. */
    assert_int_equal(test_put_chat(s, 1, 2, BLOCK, &first), SKIPPY_OK);
    assert_int_equal(test_check(s, first, 1, 2, BLOCK), SKIPPY_OK);
    test_entry_free(&e);
    skippy_disk_close(s);

    s = open_store(t);
    assert_int_equal(found.n, 2);
    skippy_disk_close(s);
}

static void a_lease_outlives_the_quarantine_of_its_entry(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    const skippy_manifest *m;
    uint8_t buf[BLOCK];
    char name[64];
    uint64_t id;
    assert_int_equal(test_put_chat(s, 1, 1, BLOCK, &id), SKIPPY_OK);
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    folder_count(t->folder, "segment", name);
    file_flip(scratch_file(t, name), SK_FILE_HEADER_BYTES + SK_BLOCK_HEADER_BYTES);
    assert_int_equal(skippy_disk_read(s, &m->parts[0].blocks[0], buf), SKIPPY_E_CORRUPT);
    assert_int_equal(m->n_tokens, TEST_TOKENS);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_E_NOT_FOUND);
    skippy_disk_close(s);
}

static void compaction_does_not_carry_damage_along(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    uint64_t id[3];
    char name[64];
    bool more = true;
    for (unsigned chat = 0; chat < 3; chat++) assert_int_equal(test_put_chat(s, chat, 1, BLOCK, &id[chat]), SKIPPY_OK);
    assert_int_equal(folder_count(t->folder, "segment", name), 1);
    test_entry e;
    test_entry_make(&e, 2, 1, BLOCK);
    const sk_disk_block *b = sk_index_block_find(&s->ix, &e.refs[1]);
    file_flip(scratch_file(t, name), (size_t)b->offset + SK_BLOCK_HEADER_BYTES);
    test_entry_free(&e);
    assert_int_equal(skippy_disk_drop(s, id[0], SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    while (more) assert_int_equal(skippy_disk_compact(s, &more, NULL), SKIPPY_OK);
    assert_int_equal(drops.n, 1);
    assert_int_equal(drops.id[0], id[2]);
    assert_int_equal(test_check(s, id[1], 1, 1, BLOCK), SKIPPY_OK);
    check_accounts(t, s);
    skippy_disk_close(s);
}

static void verification_finds_every_bad_block(void **state) {
    scratch *t = *state;
    uint64_t bad_blocks, bad_entries;
    char name[64];
    fill(t);
    skippy_disk_store *s = open_store(t);
    assert_int_equal(skippy_disk_verify(s, NULL, NULL, &bad_blocks, &bad_entries), SKIPPY_OK);
    assert_int_equal(bad_blocks, 0);
    assert_int_equal(bad_entries, 0);
    assert_true(folder_count(t->folder, "segment", name) > 1);
    skippy_disk_close(s);
    sk_file_name(name, SK_FILE_SEGMENT, 1, false);
    file_flip(scratch_file(t, name), SK_FILE_HEADER_BYTES + SK_BLOCK_HEADER_BYTES); /* the block that all share */

    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "s", note_found, &found, &s, NULL), SKIPPY_OK);
    assert_int_equal(skippy_disk_verify(s, NULL, NULL, &bad_blocks, &bad_entries), SKIPPY_OK);
    assert_int_equal(bad_blocks, 1);
    assert_int_equal(bad_entries, CHATS);
    skippy_disk_close(s);

    s = open_store(t);
    assert_int_equal(found.n, CHATS);
    assert_int_equal(skippy_disk_verify(s, NULL, NULL, &bad_blocks, &bad_entries), SKIPPY_OK);
    assert_int_equal(bad_blocks, 1);
    assert_int_equal(bad_entries, CHATS);
    assert_int_equal(drops.n, CHATS);
    skippy_disk_close(s);
}

static bool stop(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    return done < total / 2;
}

static void a_verification_can_be_cancelled(void **state) {
    scratch *t = *state;
    uint64_t bad_blocks, bad_entries;
    fill(t);
    skippy_disk_store *s = open_store(t);
    assert_int_equal(skippy_disk_verify(s, stop, NULL, &bad_blocks, &bad_entries), SKIPPY_E_CANCELLED);
    skippy_disk_close(s);
}

/* ---- segments ---- */

static void a_shortened_segment_costs_what_was_cut_off(void **state) {
    scratch *t = *state;
    char name[64];
    size_t n_bad;
    fill(t);
    folder_count(t->folder, "segment", name);
    struct stat st;
    assert_int_equal(stat(scratch_file(t, name), &st), 0);
    file_cut(scratch_file(t, name), (size_t)st.st_size - 1);
    size_t n = open_and_check(t, &n_bad);
    assert_int_equal(n, CHATS - 1);
    assert_int_equal(n_bad, 0);
    assert_int_equal(open_and_check(t, &n_bad), CHATS - 1); /* and it stays so */
    assert_int_equal(n_bad, 0);
}

static void a_segment_removed_between_two_opens_costs_its_entries(void **state) {
    scratch *t = *state;
    char name[64];
    size_t n_bad;
    fill(t);
    folder_count(t->folder, "segment", name);
    assert_int_equal(unlink(scratch_file(t, name)), 0);
    size_t n = open_and_check(t, &n_bad);
    assert_true(n > 0 && n < CHATS);
    assert_int_equal(n_bad, 0);
}

static void a_segment_removed_while_the_store_is_open_is_noticed(void **state) {
    scratch *t = *state;
    char name[64];
    size_t n = 0;
    fill(t);
    skippy_disk_store *s = open_store(t);
    sk_file_name(name, SK_FILE_SEGMENT, 1, false);
    assert_int_equal(unlink(scratch_file(t, name)), 0);
    for (size_t i = 0; i < found.n; i++) {
        int status = test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK);
        assert_true(status == SKIPPY_E_CORRUPT || status == SKIPPY_E_NOT_FOUND); /* all use the block that all share */
        n += status == SKIPPY_E_CORRUPT;
    }
    assert_int_equal(n, 1);
    assert_int_equal(drops.n, CHATS);
    uint64_t id;
    assert_int_equal(test_put_chat(s, 1, TURNS, BLOCK, &id), SKIPPY_OK); /* the store goes on */
    assert_int_equal(test_check(s, id, 1, TURNS, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
    assert_int_equal(open_and_check(t, &n), 1);
}

static void a_damaged_segment_header_costs_the_segment(void **state) {
    scratch *t = *state;
    char name[64];
    size_t n_bad;
    fill(t);
    folder_count(t->folder, "segment", name);
    file_flip(scratch_file(t, name), 20);
    size_t n = open_and_check(t, &n_bad);
    assert_true(n > 0 && n < CHATS);
    assert_int_equal(n_bad, 0);
    assert_int_not_equal(access(scratch_file(t, name), F_OK), 0);
}

static void swapped_segments_are_noticed(void **state) {
    scratch *t = *state;
    char first[400], second[SK_FILE_NAME_BYTES], name[SK_FILE_NAME_BYTES];
    size_t n_bad;
    fill(t);
    sk_file_name(name, SK_FILE_SEGMENT, 1, false);
    snprintf(first, sizeof first, "%s", scratch_file(t, name));
    sk_file_name(second, SK_FILE_SEGMENT, 2, false);
    assert_int_equal(rename(first, scratch_file(t, "x")), 0);
    assert_int_equal(rename(scratch_file(t, second), first), 0);
    char other[400];
    snprintf(other, sizeof other, "%s", scratch_file(t, second));
    assert_int_equal(rename(scratch_file(t, "x"), other), 0);
    assert_int_equal(open_and_check(t, &n_bad), 0); /* the block that all share is in the first */
}

/* ---- journal ---- */

static void a_journal_is_believed_up_to_the_first_damage(void **state) {
    scratch *t = *state;
    char name[64];
    size_t len, n_bad, last = 0;
    fill(t);
    folder_count(t->folder, "journal", name);
    uint8_t *whole = file_read(scratch_file(t, name), &len);
    for (size_t at = SK_FILE_HEADER_BYTES; at < len; at += 7) {
        /* A store of its own for each place: a copy of this one. */
        scratch copy;
        scratch_make(&copy);
        fill(&copy);
        file_flip(scratch_file(&copy, name), at);
        size_t n = open_and_check(&copy, &n_bad);
        assert_int_equal(n_bad, 0);
        assert_true(n < CHATS && n >= last); /* the later the damage, the more is left */
        last = n;
        assert_int_equal(open_and_check(&copy, &n_bad), n);
        scratch_remove(&copy);
    }
    assert_int_equal(last, CHATS - 1);
    free(whole);
}

static void a_shortened_journal_is_believed_up_to_its_last_whole_record(void **state) {
    scratch *t = *state;
    char name[64];
    size_t len, n_bad, last = 0;
    fill(t);
    folder_count(t->folder, "journal", name);
    uint8_t *whole = file_read(scratch_file(t, name), &len);
    for (size_t keep = SK_FILE_HEADER_BYTES; keep < len; keep += 11) {
        scratch copy;
        scratch_make(&copy);
        fill(&copy);
        file_cut(scratch_file(&copy, name), keep);
        size_t n = open_and_check(&copy, &n_bad);
        assert_int_equal(n_bad, 0);
        assert_true(n < CHATS && n >= last);
        last = n;
        scratch_remove(&copy);
    }
    assert_int_equal(last, CHATS - 1);
    free(whole);
}

static void bytes_behind_the_journal_are_cut_off(void **state) {
    scratch *t = *state;
    char name[64];
    size_t len;
    fill(t);
    folder_count(t->folder, "journal", name);
    uint8_t *whole = file_read(scratch_file(t, name), &len);
    /* A whole record, and valid where it was: behind another record it is not. */
    uint8_t *longer = malloc(2 * len);
    assert_non_null(longer);
    memcpy(longer, whole, len);
    memcpy(longer + len, whole + SK_FILE_HEADER_BYTES, len - SK_FILE_HEADER_BYTES);
    file_write(scratch_file(t, name), longer, 2 * len - SK_FILE_HEADER_BYTES);
    skippy_disk_store *s = open_store(t);
    assert_int_equal(found.n, CHATS);
    check_accounts(t, s);
    skippy_disk_close(s);
    size_t len_after;
    uint8_t *again = file_read(scratch_file(t, name), &len_after);
    assert_int_equal(len_after, len);
    assert_memory_equal(again, whole, len);
    free(again);
    free(longer);
    free(whole);
}

static void a_journal_without_a_header_leaves_an_empty_store(void **state) {
    scratch *t = *state;
    char name[64];
    size_t n_bad;
    fill(t);
    folder_count(t->folder, "journal", name);
    file_flip(scratch_file(t, name), 3);
    assert_int_equal(open_and_check(t, &n_bad), 0);
    assert_int_equal(folder_count(t->folder, "segment", NULL), 0);
    fill(t);
    assert_int_equal(open_and_check(t, &n_bad), CHATS);
}

static void the_newest_journal_with_a_good_header_counts(void **state) {
    scratch *t = *state;
    char name[64], newer[64];
    size_t n_bad;
    fill(t);
    folder_count(t->folder, "journal", name);
    sk_file_name(newer, SK_FILE_JOURNAL, 77, false);
    file_write(scratch_file(t, newer), "nothing", 7);
    assert_int_equal(open_and_check(t, &n_bad), CHATS);
    assert_int_equal(folder_count(t->folder, "journal", newer), 1);
    assert_string_equal(newer, name);
}

/* ---- what does not belong to the store ---- */

static void leftovers_are_removed_and_foreign_files_are_not(void **state) {
    scratch *t = *state;
    size_t others;
    static const char *foreign[] = {"README", "segment-1.sks", "journal-x.skj", "segment-0000000001.sks.bak",
                                    "lock.old"};
    static const char *leftover[] = {"segment-0000000900.sks", "journal-0000000900.skj.tmp",
                                     "segment-0000000901.sks.tmp"};
    fill(t);
    for (size_t i = 0; i < 5; i++) file_write(scratch_file(t, foreign[i]), "mine", 4);
    for (size_t i = 0; i < 3; i++) file_write(scratch_file(t, leftover[i]), "left", 4);
    assert_int_equal(mkdir(scratch_file(t, "segment-0000000950.sks"), 0700), 0); /* the name is taken: no file */
    skippy_disk_store *s = open_store(t);
    assert_int_equal(found.n, CHATS);
    uint64_t id;
    for (unsigned chat = 20; chat < 30; chat++) assert_int_equal(test_put_chat(s, chat, TURNS, BLOCK, &id), SKIPPY_OK);
    for (size_t i = 0; i < 5; i++) assert_int_equal(access(scratch_file(t, foreign[i]), F_OK), 0);
    for (size_t i = 0; i < 3; i++) assert_int_not_equal(access(scratch_file(t, leftover[i]), F_OK), 0);
    assert_int_equal(access(scratch_file(t, "segment-0000000951.sks"), F_OK), 0);
    folder_bytes(t->folder, &others);
    assert_int_equal(others, 5);
    skippy_disk_close(s);
}

static void another_version_is_refused_and_not_touched(void **state) {
    scratch *t = *state;
    uint8_t header[SK_FILE_HEADER_BYTES], digest[32];
    char name[64];
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    size_t len, others;
    fill(t);
    folder_count(t->folder, "journal", name);
    uint8_t *journal = file_read(scratch_file(t, name), &len);
    memcpy(header, journal, sizeof header);
    sk_put_u32(header + 8, 2);
    skippy_block_ref ref;
    assert_int_equal(skippy_block_digest(header, SK_FILE_HEADER_BYTES - SK_CHECK_BYTES, &ref), SKIPPY_OK);
    memcpy(digest, ref.digest.bytes, sizeof digest);
    memcpy(header + SK_FILE_HEADER_BYTES - SK_CHECK_BYTES, digest, SK_CHECK_BYTES);
    memcpy(journal, header, sizeof header);
    file_write(scratch_file(t, name), journal, len);
    file_write(scratch_file(t, "segment-0000000900.sks.tmp"), "left", 4);
    uint64_t before = folder_bytes(t->folder, &others);
    assert_int_equal(scratch_open(t, NULL, 0, SEGMENT, NULL, NULL, &s, &detail), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(detail.text, "version 2"));
    assert_int_equal(folder_bytes(t->folder, &others), before);
    assert_int_equal(others, 1);
    size_t len_after;
    uint8_t *after = file_read(scratch_file(t, name), &len_after);
    assert_int_equal(len_after, len);
    assert_memory_equal(after, journal, len);
    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "s", NULL, NULL, &s, &detail), SKIPPY_E_UNSUPPORTED);
    free(after);
    free(journal);
}

static void a_link_or_a_file_is_not_taken_for_a_store(void **state) {
    scratch *t = *state;
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    char elsewhere[400];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", t->dir);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, t->folder), 0);
    assert_int_equal(scratch_open(t, NULL, 0, SEGMENT, NULL, NULL, &s, &detail), SKIPPY_E_IO);
    assert_non_null(strstr(detail.text, "not a folder"));
    size_t others;
    assert_int_equal(folder_bytes(elsewhere, &others), 0);
    assert_int_equal(unlink(t->folder), 0);
    file_write(t->folder, "a file", 6);
    assert_int_equal(scratch_open(t, NULL, 0, SEGMENT, NULL, NULL, &s, &detail), SKIPPY_E_IO);
    assert_non_null(strstr(detail.text, "not a folder"));
}

static void a_link_in_place_of_a_file_is_not_followed(void **state) {
    scratch *t = *state;
    char name[64], target[400];
    size_t len;
    fill(t);
    folder_count(t->folder, "segment", name);
    snprintf(target, sizeof target, "%s/target", t->dir);
    assert_int_equal(rename(scratch_file(t, name), target), 0);
    assert_int_equal(symlink(target, scratch_file(t, name)), 0);
    uint8_t *before = file_read(target, &len);
    skippy_disk_store *s = open_store(t);
    assert_true(found.n < CHATS);
    for (size_t i = 0; i < found.n; i++)
        assert_int_equal(test_check(s, found.id[i], found.chat[i], TURNS, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
    size_t len_after;
    uint8_t *after = file_read(target, &len_after);
    assert_int_equal(len_after, len);
    assert_memory_equal(after, before, len);
    free(before);
    free(after);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(a_flipped_bit_in_a_block_costs_the_entries_that_use_it),
        scratch_test(a_lease_outlives_the_quarantine_of_its_entry),
        scratch_test(compaction_does_not_carry_damage_along),
        scratch_test(verification_finds_every_bad_block),
        scratch_test(a_verification_can_be_cancelled),
        scratch_test(a_shortened_segment_costs_what_was_cut_off),
        scratch_test(a_segment_removed_between_two_opens_costs_its_entries),
        scratch_test(a_segment_removed_while_the_store_is_open_is_noticed),
        scratch_test(a_damaged_segment_header_costs_the_segment),
        scratch_test(swapped_segments_are_noticed),
        scratch_test(a_journal_is_believed_up_to_the_first_damage),
        scratch_test(a_shortened_journal_is_believed_up_to_its_last_whole_record),
        scratch_test(bytes_behind_the_journal_are_cut_off),
        scratch_test(a_journal_without_a_header_leaves_an_empty_store),
        scratch_test(the_newest_journal_with_a_good_header_counts),
        scratch_test(leftovers_are_removed_and_foreign_files_are_not),
        scratch_test(another_version_is_refused_and_not_touched),
        scratch_test(a_link_or_a_file_is_not_taken_for_a_store),
        scratch_test(a_link_in_place_of_a_file_is_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
