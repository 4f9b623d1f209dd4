/* What the tests of the disk store share: a scratch directory, entries whose bytes can be made again, faults. */
#ifndef SKIPPY_CACHE_DISK_FIXTURE_H
#define SKIPPY_CACHE_DISK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/disk_io.h"
#include "cache/test_random.h"
#include "skippy/disk_store.h"

/* Seeded as random_start does it, with another count in the words. */
test_random disk_random_start(const char *name, int rounds);

/* ---- scratch directory ---- */

typedef struct scratch {
    char dir[256];    /* the directory of stores; exists */
    char folder[300]; /* of the store "s" */
} scratch;

void scratch_make(scratch *t);
void scratch_remove(scratch *t);
/* A test whose state is a scratch directory. */
int scratch_setup(void **state);
int scratch_teardown(void **state);
#define scratch_test(function) cmocka_unit_test_setup_teardown(function, scratch_setup, scratch_teardown)
/* "FOLDER/name" in a static buffer. */
const char *scratch_file(const scratch *t, const char *name);
/* Sizes of all files in a folder, and how many of them are not the lock, a journal or a segment. */
uint64_t folder_bytes(const char *folder, size_t *others);
/* The files whose names begin with `prefix`; the last one in order of names is copied to `name` when it is not NULL. */
size_t folder_count(const char *folder, const char *prefix, char name[64]);
void file_write(const char *path, const void *data, size_t len);
/* Whole file; the caller frees. */
uint8_t *file_read(const char *path, size_t *len);
void file_cut(const char *path, size_t bytes);
void file_flip(const char *path, size_t at);

/* ---- entries: conversation `chat` after `turns` turns. Every turn adds one window of blocks, and shares those of the
 * turns before; all conversations share one block. ---- */

enum { TEST_TURNS = 12, TEST_BLOCKS = 3, TEST_TOKENS = 5 };

typedef struct test_entry {
    skippy_manifest m;
    int32_t tokens[TEST_TURNS * TEST_TOKENS];
    skippy_part parts[TEST_TURNS];
    skippy_block_ref refs[TEST_TURNS * TEST_BLOCKS];
    uint64_t seeds[TEST_TURNS * TEST_BLOCKS];
    uint8_t *buffer; /* of the block that was supplied last */
    size_t supplied; /* blocks that a put asked for */
    int fail_after;  /* the source fails after this many blocks; -1 = never */
} test_entry;

/* Blocks have 1 .. max_block bytes. */
void test_entry_make(test_entry *e, unsigned chat, unsigned turns, size_t max_block);
void test_entry_free(test_entry *e);
/* A skippy_block_source; ud is the test_entry. */
int test_entry_source(void *ud, const skippy_block_ref *block, const void **data);
int test_put(skippy_disk_store *s, test_entry *e, uint64_t *id);
/* make, put, free. */
int test_put_chat(skippy_disk_store *s, unsigned chat, unsigned turns, size_t max_block, uint64_t *id);
/* Leases the entry and compares manifest and every block with what test_entry_make gives. Returns the first status that
 * is not SKIPPY_OK; wrong bytes or fields fail the test. */
int test_check(skippy_disk_store *s, uint64_t id, unsigned chat, unsigned turns, size_t max_block);
/* Chat and turns of a manifest, read from its tokens. */
void test_entry_which(const skippy_manifest *m, unsigned *chat, unsigned *turns);

/* ---- faults ---- */

typedef struct faults {
    int error[SK_IO_OPS]; /* errno value that calls of this kind fail with; 0 = none */
    int skip[SK_IO_OPS];  /* so many calls of this kind go through first */
    int times[SK_IO_OPS]; /* 0 = for ever, else so many fail */
    size_t calls[SK_IO_OPS];
    uint64_t wall_ms, mono_ns; /* the clocks, when use_clocks */
    bool use_clocks;
} faults;

void faults_clear(faults *f);
/* Hooks that use *f, which must outlive the store. Not thread-safe. */
sk_io faults_io(faults *f);

/* ---- opening the store "s" of a scratch directory ---- */

typedef struct found_list {
    uint64_t id[4096];
    unsigned chat[4096], turns[4096];
    uint64_t used_ms[4096], hits[4096];
    size_t n;
} found_list;

typedef struct drop_list {
    uint64_t id[4096];
    enum skippy_drop_reason reason[4096];
    size_t n;
} drop_list;

bool note_found(void *ud, uint64_t id, const skippy_manifest *m);
void note_drop(void *ud, uint64_t id, enum skippy_drop_reason reason);
/* io, found and drops may be NULL. */
int scratch_open(const scratch *t, const sk_io *io, uint64_t max_bytes, uint64_t segment_bytes, found_list *found,
                 drop_list *drops, skippy_disk_store **s, skippy_disk_detail *detail);
/* Physical bytes of the statistics are the sizes of the files, and nothing else lies in the folder. */
void check_accounts(const scratch *t, skippy_disk_store *s);

#endif
