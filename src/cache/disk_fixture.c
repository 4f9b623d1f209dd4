#include "cache/disk_fixture.h"
#include "base/test_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/disk_internal.h"
#include "cache/map.h"
#include "skippy/index.h"

test_random disk_random_start(const char *name, int rounds) {
    const char *given = getenv("SKIPPY_TEST_SEED");
    static const sk_io system = {0};
    uint64_t seed = given ? strtoull(given, NULL, 0) : sk_io_wall_ms(&system) * 1000003u + (uint64_t)getpid();
    printf("%s: %d rounds, SKIPPY_TEST_SEED=%llu\n", name, rounds, (unsigned long long)seed);
    fflush(stdout);
    return (test_random){seed ? seed : 1};
}

/* ---- files ---- */

/* In memory where there is such a place: these tests make thousands of syncs, and none of them needs a device. */
static const char *scratch_base(void) {
    const char *base = getenv("TMPDIR");
    if (base) return base;
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

void scratch_make(scratch *t) {
    snprintf(t->dir, sizeof t->dir, "%s/skippy-disk-XXXXXX", scratch_base());
    assert_non_null(mkdtemp(t->dir));
    snprintf(t->folder, sizeof t->folder, "%s/s", t->dir);
}

void scratch_remove(scratch *t) {
    test_remove_tree(t->dir);
}

int scratch_setup(void **state) {
    scratch *t = calloc(1, sizeof *t);
    assert_non_null(t);
    scratch_make(t);
    *state = t;
    return 0;
}

int scratch_teardown(void **state) {
    scratch_remove(*state);
    free(*state);
    return 0;
}

const char *scratch_file(const scratch *t, const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", t->folder, name);
    return path;
}

uint64_t folder_bytes(const char *folder, size_t *others) {
    uint64_t sum = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    *others = 0;
    for (const struct dirent *item; (item = readdir(d));) {
        struct stat st;
        uint64_t number;
        if (item->d_name[0] == '.') continue;
        assert_int_equal(fstatat(dirfd(d), item->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
        sum += (uint64_t)st.st_size;
        enum sk_file_kind kind = sk_file_parse(item->d_name, &number);
        *others += kind == SK_FILE_FOREIGN || kind == SK_FILE_TEMPORARY;
    }
    closedir(d);
    return sum;
}

size_t folder_count(const char *folder, const char *prefix, char name[64]) {
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    if (name) name[0] = '\0';
    for (const struct dirent *item; (item = readdir(d));) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0) continue;
        n++;
        if (name && strcmp(item->d_name, name) > 0) snprintf(name, 64, "%.63s", item->d_name);
    }
    closedir(d);
    return n;
}

void file_write(const char *path, const void *data, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

uint8_t *file_read(const char *path, size_t *len) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *len = (size_t)st.st_size;
    uint8_t *data = malloc(*len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    fclose(f);
    return data;
}

void file_cut(const char *path, size_t bytes) {
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

void file_flip(const char *path, size_t at) {
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* ---- entries ---- */

/* The bytes of a block follow from its seed, and so does its length. */
static size_t block_bytes(uint64_t seed, size_t max_block) {
    return 1 + (size_t)(sk_map_hash_u64(seed) % max_block);
}

static void block_fill(uint64_t seed, uint8_t *out, size_t bytes) {
    uint64_t x = sk_map_hash_u64(seed + 1);
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0) x = sk_map_hash_u64(x + 0x9e3779b97f4a7c15u);
        out[i] = (uint8_t)(x >> (8 * (i % 8)));
    }
}

static uint64_t block_seed(unsigned chat, unsigned turn, unsigned i) {
    if (turn == 0 && i == 0) return 1; /* the one that all share */
    return ((uint64_t)chat << 32 | (uint64_t)turn << 16 | i) + 2;
}

void test_entry_make(test_entry *e, unsigned chat, unsigned turns, size_t max_block) {
    memset(e, 0, sizeof *e);
    e->fail_after = -1;
    e->buffer = malloc(max_block);
    assert_non_null(e->buffer);
    for (unsigned t = 0; t < turns; t++) {
        for (unsigned i = 0; i < TEST_BLOCKS; i++) {
            size_t at = t * TEST_BLOCKS + i, bytes;
            e->seeds[at] = block_seed(chat, t, i);
            bytes = block_bytes(e->seeds[at], max_block);
            block_fill(e->seeds[at], e->buffer, bytes);
            assert_int_equal(skippy_block_digest(e->buffer, bytes, &e->refs[at]), SKIPPY_OK);
        }
        e->parts[t] = (skippy_part){.kind = SKIPPY_PART_KV,
                                    .from = t * TEST_TOKENS,
                                    .to = (t + 1) * TEST_TOKENS,
                                    .blocks = e->refs + t * TEST_BLOCKS,
                                    .n_blocks = TEST_BLOCKS};
        for (unsigned i = 0; i < TEST_TOKENS; i++)
            e->tokens[t * TEST_TOKENS + i] = (int32_t)(chat * 1000 + t * TEST_TOKENS + i);
    }
    memset(e->m.ns.bytes, 7, sizeof e->m.ns.bytes);
    memset(e->m.layout.bytes, 9, sizeof e->m.layout.bytes);
    e->m.payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV;
    e->m.reach = SKIPPY_REACH_RANGE;
    e->m.reason = SKIPPY_REASON_WRITE_BEHIND;
    e->m.tokens = e->tokens;
    e->m.n_tokens = turns * TEST_TOKENS;
    e->m.tenant = chat % 2 ? "odd" : NULL;
    e->m.cache_namespace = chat % 3 ? "three" : NULL;
    e->m.cost_ms = 10.0 * turns;
    e->m.created_ms = e->m.used_ms = 1000 + chat;
    e->m.parts = e->parts;
    e->m.n_parts = turns;
    assert_int_equal(skippy_prefix_key(&e->m.ns, e->tokens, e->m.n_tokens, &e->m.prefix_key), SKIPPY_OK);
}

void test_entry_free(test_entry *e) {
    free(e->buffer);
    e->buffer = NULL;
}

int test_entry_source(void *ud, const skippy_block_ref *block, const void **data) {
    test_entry *e = ud;
    if (e->fail_after >= 0 && e->supplied >= (size_t)e->fail_after) return SKIPPY_E_RUNTIME;
    for (size_t i = 0; i < TEST_TURNS * TEST_BLOCKS; i++) {
        if (!skippy_key_equal(&e->refs[i].digest, &block->digest)) continue;
        block_fill(e->seeds[i], e->buffer, block->bytes);
        e->supplied++;
        *data = e->buffer;
        return SKIPPY_OK;
    }
    fail_msg("the store asked for a block that the entry does not have");
    return SKIPPY_E_INVALID;
}

int test_put(skippy_disk_store *s, test_entry *e, uint64_t *id) {
    skippy_disk_detail detail = {{0}};
    int status = skippy_disk_put(s, &e->m, test_entry_source, e, id, &detail);
    if (status != SKIPPY_OK && status != SKIPPY_E_EXISTS) assert_true(detail.text[0] != '\0');
    return status;
}

int test_put_chat(skippy_disk_store *s, unsigned chat, unsigned turns, size_t max_block, uint64_t *id) {
    test_entry e;
    test_entry_make(&e, chat, turns, max_block);
    int status = test_put(s, &e, id);
    test_entry_free(&e);
    return status;
}

static void same_text(const char *a, const char *b) {
    assert_int_equal(a == NULL, b == NULL);
    if (a) assert_string_equal(a, b);
}

static void same_manifest(const skippy_manifest *a, const skippy_manifest *b) {
    assert_true(skippy_key_equal(&a->ns, &b->ns));
    assert_true(skippy_key_equal(&a->prefix_key, &b->prefix_key));
    assert_true(skippy_key_equal(&a->layout, &b->layout));
    assert_int_equal(a->payload_kind, b->payload_kind);
    assert_int_equal(a->reach, b->reach);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    same_text(a->tenant, b->tenant);
    same_text(a->cache_namespace, b->cache_namespace);
    assert_true(a->cost_ms >= b->cost_ms && a->cost_ms <= b->cost_ms);
    assert_int_equal(a->created_ms, b->created_ms);
    assert_int_equal(a->n_parts, b->n_parts);
    for (size_t i = 0; i < a->n_parts; i++) {
        assert_int_equal(a->parts[i].kind, b->parts[i].kind);
        assert_int_equal(a->parts[i].from, b->parts[i].from);
        assert_int_equal(a->parts[i].to, b->parts[i].to);
        assert_int_equal(a->parts[i].n_blocks, b->parts[i].n_blocks);
        for (size_t j = 0; j < a->parts[i].n_blocks; j++) {
            assert_int_equal(a->parts[i].blocks[j].bytes, b->parts[i].blocks[j].bytes);
            assert_true(skippy_key_equal(&a->parts[i].blocks[j].digest, &b->parts[i].blocks[j].digest));
        }
    }
}

static int check_blocks(skippy_disk_store *s, test_entry *e, size_t max_block) {
    uint8_t *got = malloc(max_block);
    assert_non_null(got);
    int status = SKIPPY_OK;
    for (size_t i = 0; status == SKIPPY_OK && i < e->m.n_parts * TEST_BLOCKS; i++) {
        memset(got, 0xee, max_block);
        status = skippy_disk_read(s, &e->refs[i], got);
        if (status != SKIPPY_OK) break;
        block_fill(e->seeds[i], e->buffer, e->refs[i].bytes);
        assert_memory_equal(got, e->buffer, e->refs[i].bytes);
    }
    free(got);
    return status;
}

int test_check(skippy_disk_store *s, uint64_t id, unsigned chat, unsigned turns, size_t max_block) {
    test_entry e;
    const skippy_manifest *m;
    int status = skippy_disk_lease(s, id, &m);
    if (status != SKIPPY_OK) return status;
    test_entry_make(&e, chat, turns, max_block);
    same_manifest(m, &e.m);
    status = check_blocks(s, &e, max_block);
    test_entry_free(&e);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    return status;
}

void test_entry_which(const skippy_manifest *m, unsigned *chat, unsigned *turns) {
    *chat = (unsigned)m->tokens[0] / 1000;
    *turns = (unsigned)m->n_parts;
}

/* ---- faults ---- */

void faults_clear(faults *f) {
    memset(f->error, 0, sizeof f->error);
    memset(f->skip, 0, sizeof f->skip);
    memset(f->times, 0, sizeof f->times);
    memset(f->calls, 0, sizeof f->calls);
}

static int faults_before(void *ud, sk_io_call *call) {
    faults *f = ud;
    f->calls[call->op]++;
    if (!f->error[call->op]) return 0;
    if (f->skip[call->op] > 0) {
        f->skip[call->op]--;
        return 0;
    }
    int error = f->error[call->op];
    if (f->times[call->op] > 0 && --f->times[call->op] == 0) f->error[call->op] = 0;
    return error;
}

static uint64_t faults_wall_ms(void *ud) {
    const faults *f = ud;
    static const sk_io system = {0};
    return f->use_clocks ? f->wall_ms : sk_io_wall_ms(&system);
}

static uint64_t faults_mono_ns(void *ud) {
    const faults *f = ud;
    static const sk_io system = {0};
    return f->use_clocks ? f->mono_ns : sk_io_mono_ns(&system);
}

sk_io faults_io(faults *f) {
    return (sk_io){faults_before, faults_wall_ms, faults_mono_ns, f};
}

/* ---- opening ---- */

bool note_found(void *ud, uint64_t id, const skippy_manifest *m) {
    found_list *l = ud;
    assert_true(l->n < sizeof l->id / sizeof *l->id);
    l->id[l->n] = id;
    l->used_ms[l->n] = m->used_ms;
    l->hits[l->n] = m->hits;
    test_entry_which(m, &l->chat[l->n], &l->turns[l->n]);
    l->n++;
    return true;
}

void note_drop(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    drop_list *l = ud;
    assert_true(l->n < sizeof l->id / sizeof *l->id);
    l->id[l->n] = id;
    l->reason[l->n] = reason;
    l->n++;
}

int scratch_open(const scratch *t, const sk_io *io, uint64_t max_bytes, uint64_t segment_bytes, found_list *found,
                 drop_list *drops, skippy_disk_store **s, skippy_disk_detail *detail) {
    skippy_disk_params p = {.dir = t->dir,
                            .name = "s",
                            .max_bytes = max_bytes,
                            .segment_bytes = segment_bytes,
                            .on_drop = drops ? note_drop : NULL,
                            .ud = drops};
    if (found) found->n = 0;
    if (drops) drops->n = 0;
    return sk_disk_open(NULL, io, &p, found ? note_found : NULL, NULL, found, s, detail);
}

void check_accounts(const scratch *t, skippy_disk_store *s) {
    skippy_store_stats stats;
    size_t others;
    uint64_t bytes = folder_bytes(t->folder, &others);
    skippy_disk_get_stats(s, &stats);
    assert_int_equal(stats.physical_bytes, bytes);
    assert_int_equal(others, 0);
}
