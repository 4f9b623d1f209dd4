/* State that leaves the runtime and comes back: eviction into RAM, restart with a disk store, other flags, damage,
 * erasure, a slow disk. On tiny generated models of every memory kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "engine/engine_fixture.h"
#include "skippy/disk_store.h"

enum { N = 300, SHORT = 200, TALKS = 4, MIB = 1 << 20 };

typedef struct kind {
    const char *family;
    bool exact_boundaries, has_kv;
} kind;

static const kind kinds[] = {{"llama", false, true},    {"gemma3", true, true}, {"falcon-h1", true, true},
                             {"qwen3next", true, true}, {"lfm2", true, true},   {"mamba2", true, false},
                             {"rwkv7", true, false}};

static sk_model *model_of(const kind *k) {
    sk_model *m = fixture_model(k->family);
    if (!m) skip();
    return m;
}

/* ---- a folder for one test ---- */

static char folder[256];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "%s/skippy-tiers-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(void) {
    test_remove_tree(folder);
}

/* ---- waiting ---- */

static void pause_ms(long ms) {
    const struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

static void wait_disk_ready(sk_engine *en) {
    sk_engine_stats s;
    for (sk_engine_get_stats(en, &s); !s.tiers.disk_ready; sk_engine_get_stats(en, &s)) pause_ms(2);
    pause_ms(20); /* the engine takes the reports of what was found */
}

/* Until everything that was recorded is on disk. */
static void wait_written(sk_engine *en, uint64_t entries) {
    sk_engine_stats s;
    for (sk_engine_get_stats(en, &s); s.tiers.disk.entries < entries || s.tiers.staging_bytes;
         sk_engine_get_stats(en, &s))
        pause_ms(2);
}

static sk_engine *disk_engine(const sk_model *m, sk_engine_params p) {
    p.disk_dir = folder;
    sk_engine *en = fixture_engine(m, p);
    assert_true(sk_engine_get_facts(en)->disk_store);
    wait_disk_ready(en);
    return en;
}

static void ask(sk_engine *en, fixture_run *r, const int32_t *t, size_t n) {
    fixture_generate(en, r, t, n, 4);
    fixture_release(r);
}

/* ---- tests ---- */

static void evicted_prefix_comes_back_from_ram(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    /* two snapshots, one lane: older conversations have to leave the runtime */
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1, .cache_seqs = 2, .ram_bytes = 64 * MIB});
    int32_t t[TALKS][N];
    fixture_run first, r;
    for (int i = 0; i < TALKS; i++) {
        fixture_tokens(m, (uint32_t)i + 1, t[i], N);
        ask(en, i ? &r : &first, t[i], N);
    }
    sk_engine_stats before, after;
    fixture_settle(en, TALKS, &before);
    while (before.tiers.staging_bytes) {
        pause_ms(2);
        sk_engine_get_stats(en, &before);
    }
    assert_true(before.tiers.ram.entries > 0);
    ask(en, &r, t[0], N);
    assert_int_equal(r.stats.cache.source, SK_SRC_RAM);
    assert_true(r.stats.cache.tokens >= N - 64);
    assert_memory_equal(r.tokens, first.tokens, sizeof *r.tokens);
    sk_engine_get_stats(en, &after);
    assert_int_equal(after.hits_ram, 1);
    assert_true(after.tokens_computed - before.tokens_computed <= 64);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void what_nobody_uses_waits_in_ram(void **state) {
    (void)state;
    sk_model *m = model_of(&kinds[0]);
    sk_engine *en = fixture_engine(
        m, (sk_engine_params){.n_lanes = 2, .min_tokens = N, .ram_bytes = 64 * MIB, .idle_to_ram = true});
    int32_t mine[N], other[SHORT];
    fixture_run first, r;
    fixture_tokens(m, 1, mine, N);
    ask(en, &first, mine, N);
    sk_engine_stats s;
    for (sk_engine_get_stats(en, &s); s.tiers.ram.entries == 0; sk_engine_get_stats(en, &s)) pause_ms(2);
    uint32_t seed = 2;
    do { /* prompts too short to be kept, until so much was computed that waiting cost more than a restore */
        assert_true(seed < 10000);
        fixture_tokens(m, seed++, other, SHORT);
        ask(en, &r, other, SHORT);
        sk_engine_get_stats(en, &s);
    } while (s.evictions[SKIPPY_EVICT_IDLE] == 0);
    ask(en, &r, mine, N);
    assert_int_equal(r.stats.cache.source, SK_SRC_RAM);
    assert_true(r.stats.cache.tokens >= N - 1);
    assert_memory_equal(r.tokens, first.tokens, sizeof *r.tokens);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void conversations_survive_a_restart(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[TALKS][N + 40];
    fixture_run cold[TALKS], r;
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 4096});
    for (int i = 0; i < TALKS; i++) {
        fixture_tokens(m, (uint32_t)i + 1, t[i], N + 40);
        ask(en, &cold[i], t[i], N);
    }
    sk_engine_stop(en); /* writes what is not written yet */
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 4096});
    for (int i = 0; i < TALKS; i++) {
        ask(en, &r, t[i], N + 40); /* the conversation goes on */
        assert_int_equal(r.stats.cache.source, SK_SRC_DISK);
        assert_true(r.stats.cache.tokens >= N - 1);
    }
    ask(en, &r, t[0], N); /* and the exact repeat samples from stored logits */
    assert_true(r.stats.cache.tokens >= N - 1);
    assert_memory_equal(r.tokens, cold[0].tokens, sizeof *r.tokens);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void exact_repeat_after_a_restart_needs_no_decode(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[N];
    fixture_run cold, warm;
    fixture_tokens(m, 5, t, N);
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    fixture_generate(en, &cold, t, N, 1);
    sk_engine_stop(en);
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    fixture_generate(en, &warm, t, N, 1);
    assert_int_equal(warm.stats.cache.source, SK_SRC_DISK);
    assert_true(warm.stats.cache.terminal_logits);
    assert_memory_equal(warm.logprob, cold.logprob, sizeof *cold.logprob);
    sk_engine_stats s;
    fixture_settle(en, 1, &s);
    assert_int_equal(s.tokens_computed, 0);
    fixture_release(&cold);
    fixture_release(&warm);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

/* The strongest comparison: in bit mode an answer from disk must equal the cold one, logits included. */
static void bit_mode_answers_from_disk_equal_cold_ones(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[N + 40];
    fixture_run cold, warm, r;
    fixture_tokens(m, 6, t, N + 40);
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 2, .exact = SK_EXACT_BIT});
    fixture_prepare(&cold, t, N + 40, 8);
    cold.request.no_cache = true;
    assert_int_equal(fixture_submit(en, &cold), SKIPPY_OK);
    fixture_wait(&cold);
    ask(en, &r, t, N);
    sk_engine_stop(en);
    en = disk_engine(m, (sk_engine_params){.n_lanes = 2, .exact = SK_EXACT_BIT});
    fixture_generate(en, &warm, t, N + 40, 8);
    assert_int_equal(warm.stats.cache.source, SK_SRC_DISK);
    assert_memory_equal(warm.tokens, cold.tokens, 8 * sizeof *cold.tokens);
    assert_memory_equal(warm.logprob, cold.logprob, 8 * sizeof *cold.logprob);
    fixture_release(&cold);
    fixture_release(&warm);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void other_flags_find_nothing(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[N];
    fixture_run r;
    fixture_tokens(m, 7, t, N);
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    ask(en, &r, t, N);
    sk_engine_stop(en);
    sk_engine_params other[] = {{.n_lanes = 1, .type_k = "q8_0", .type_v = "q8_0"},
                                {.n_lanes = 1, .n_ctx = 2048},
                                {.n_lanes = 1, .rope_freq_base = 5000}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        en = disk_engine(m, other[i]);
        ask(en, &r, t, N);
        assert_int_equal(r.stats.cache.source, SK_SRC_NONE);
        sk_engine_stop(en);
    }
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    ask(en, &r, t, N);
    assert_int_equal(r.stats.cache.source, SK_SRC_DISK); /* and the first store is still there */
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void grown_conversation_exports_only_its_new_windows(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    enum { LONG = 900 };
    int32_t t[LONG + 40];
    fixture_run r;
    fixture_tokens(m, 8, t, LONG + 40);
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 4096});
    sk_engine_stats first, second;
    ask(en, &r, t, LONG);
    fixture_settle(en, 1, &first);
    wait_written(en, 2);
    sk_engine_get_stats(en, &first);
    ask(en, &r, t, LONG + 40);
    wait_written(en, 3);
    do {
        pause_ms(5);
        sk_engine_get_stats(en, &second);
    } while (second.exports < first.exports + 2 || second.tiers.staging_bytes);
    /* three whole windows of 256 are known: less than half of the state is copied again */
    if (!k->exact_boundaries) assert_true((second.export_bytes - first.export_bytes) * 2 < first.export_bytes);
    if (k->has_kv) assert_true(second.tiers.disk.block_bytes < second.tiers.disk.logical_bytes);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

/* Flips bytes in every segment of the store. */
static void damage_segments(void) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int damaged = 0;
    for (struct dirent *store; (store = readdir(d)) != NULL;) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, store->d_name);
        DIR *s = store->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent *file; s && (file = readdir(s)) != NULL;) {
            if (strncmp(file->d_name, "segment", 7) != 0) continue;
            char name[900];
            snprintf(name, sizeof name, "%s/%s", path, file->d_name);
            int fd = open(name, O_RDWR | O_CLOEXEC);
            assert_true(fd >= 0);
            off_t end = lseek(fd, 0, SEEK_END);
            for (off_t at = 200; at < end; at += 512, damaged++) {
                unsigned char byte;
                assert_int_equal(pread(fd, &byte, 1, at), 1);
                byte ^= 0x40;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            }
            close(fd);
        }
        if (s) closedir(s);
    }
    closedir(d);
    assert_true(damaged > 0);
}

static void damaged_store_is_a_miss(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[N];
    fixture_run cold, r;
    fixture_tokens(m, 9, t, N);
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    ask(en, &cold, t, N);
    sk_engine_stop(en);
    damage_segments();
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    ask(en, &r, t, N);
    assert_int_equal(r.stats.cache.source, SK_SRC_NONE);
    assert_int_equal(r.stats.cache.tokens, 0);
    assert_memory_equal(r.tokens, cold.tokens, sizeof *r.tokens);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void slow_disk_loses_against_computing(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[TALKS][N];
    fixture_run r;
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 4096});
    for (int i = 0; i < TALKS; i++) {
        fixture_tokens(m, (uint32_t)i + 1, t[i], N);
        ask(en, &r, t[i], N);
    }
    sk_engine_stop(en);
    /* one snapshot only, so that each talk must come from disk; the disk gives 50 KB a second */
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 4096, .disk_throttle = 50000});
    int32_t unknown[N];
    fixture_tokens(m, 99, unknown, N);
    ask(en, &r, unknown, N); /* measures computing */
    ask(en, &r, t[0], N);    /* measures the disk */
    assert_int_equal(r.stats.cache.source, SK_SRC_DISK);
    ask(en, &r, t[1], N);
    assert_int_equal(r.stats.cache.source, SK_SRC_NONE);
    assert_string_equal(r.stats.cache.reason, "restore-slower");
    char text[200];
    assert_non_null(strstr(sk_cache_explain(&r.stats.cache, text, sizeof text), "recompute="));
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void erased_tokens_are_gone_everywhere(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    int32_t t[2][N];
    fixture_run r;
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 2048, .ram_bytes = 64 * MIB});
    for (int i = 0; i < 2; i++) {
        fixture_tokens(m, (uint32_t)i + 20, t[i], N);
        ask(en, &r, t[i], N);
    }
    size_t n = 0;
    const skippy_erase_filter first = {.tokens = t[0], .n_tokens = 50};
    assert_int_equal(sk_engine_erase_matching(en, &first, &n), SKIPPY_OK);
    assert_true(n > 0);
    ask(en, &r, t[0], N);
    assert_int_equal(r.stats.cache.tokens, 0);
    const skippy_erase_filter mine = {.tokens = t[0], .n_tokens = 50};
    assert_int_equal(sk_engine_erase_matching(en, &mine, &n), SKIPPY_OK);
    sk_engine_stop(en);
    en = disk_engine(m, (sk_engine_params){.n_lanes = 1, .n_ctx = 2048});
    ask(en, &r, t[0], N);
    assert_int_equal(r.stats.cache.tokens, 0);
    ask(en, &r, t[1], N); /* what was not meant is still there */
    assert_int_equal(r.stats.cache.source, SK_SRC_DISK);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void second_process_serves_without_the_disk(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    make_folder();
    sk_engine *en = disk_engine(m, (sk_engine_params){.n_lanes = 1});
    sk_engine *second = fixture_engine(m, (sk_engine_params){.n_lanes = 1, .disk_dir = folder});
    sk_engine_stats s;
    for (sk_engine_get_stats(second, &s); s.tiers.disk_on; sk_engine_get_stats(second, &s)) pause_ms(2);
    int32_t t[N];
    fixture_run r;
    fixture_tokens(m, 30, t, N);
    ask(second, &r, t, N);
    ask(second, &r, t, N);
    assert_true(r.stats.cache.tokens > 0); /* its own runtime still serves repeats */
    sk_engine_stop(second);
    sk_engine_stop(en);
    remove_folder();
    sk_model_free(m);
}

static void unusable_folder_is_no_reason_to_stop(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1, .disk_dir = "/proc/self/no such place/really"});
    sk_engine_stats s;
    for (sk_engine_get_stats(en, &s); s.tiers.disk_on; sk_engine_get_stats(en, &s)) pause_ms(2);
    int32_t t[N];
    fixture_run r;
    fixture_tokens(m, 31, t, N);
    ask(en, &r, t, N);
    assert_int_equal(r.n_tokens, 4);
    sk_engine_stop(en);
    sk_model_free(m);
}

/* Asks twice, and waits until the second answer, a hit, has been computed again. */
static void wait_for_shadow(sk_engine *en, const int32_t *t, sk_engine_stats *s) {
    fixture_run r;
    ask(en, &r, t, N);
    ask(en, &r, t, N);
    assert_true(r.stats.cache.tokens > 0);
    for (sk_engine_get_stats(en, s); s->shadows == 0; sk_engine_get_stats(en, s)) pause_ms(2);
}

static void shadow_agrees_with_a_right_hit(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 2, .shadow_share = 1});
    int32_t t[N];
    sk_engine_stats s;
    fixture_tokens(m, 40, t, N);
    wait_for_shadow(en, t, &s);
    assert_int_equal(s.shadow_disagreements, 0);
    assert_int_equal(s.completed, 2); /* nobody sees the shadow as a request */
    assert_int_equal(s.lookups, 2);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void shadow_ends_reuse_after_a_disagreement(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 2, .shadow_share = 1, .shadow_noise = 1000});
    int32_t t[N];
    sk_engine_stats s;
    fixture_run r;
    fixture_tokens(m, 41, t, N);
    wait_for_shadow(en, t, &s);
    assert_int_equal(s.shadow_disagreements, 1);
    for (int i = 0; i < 2; i++) { /* neither what was stored nor what comes now */
        ask(en, &r, t, N);
        assert_int_equal(r.stats.cache.tokens, 0);
        assert_string_equal(r.stats.cache.reason, "shadow-disagreement");
    }
    for (int i = 0; i < 2; i++) { /* another namespace goes on */
        fixture_prepare(&r, t, N, 1);
        r.request.tenant = "other";
        assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
        fixture_wait(&r);
        assert_int_equal(r.stats.cache.tokens > 0, i);
        fixture_release(&r);
    }
    sk_engine_stop(en);
    sk_model_free(m);
}

static enum sk_certified failed_receipt(void *ud, const skippy_identity *id, char *why, size_t cap) {
    (void)id;
    ++*(int *)ud;
    snprintf(why, cap, "the receipt says that it failed");
    return SK_CERTIFIED_FAIL;
}

static void failed_receipt_overrules_the_registry(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    int calls = 0;
    sk_engine *en =
        fixture_engine(m, (sk_engine_params){.n_lanes = 1, .certified = failed_receipt, .certified_ud = &calls});
    int32_t t[N];
    fixture_run r;
    fixture_tokens(m, 42, t, N);
    ask(en, &r, t, N);
    ask(en, &r, t, N);
    assert_int_equal(calls, 1);
    assert_int_equal(r.stats.cache.tokens, 0);
    assert_string_equal(r.stats.cache.reason, "family-disabled");
    assert_non_null(strstr(sk_engine_get_facts(en)->cache_reason, "failed"));
    sk_engine_stop(en);
    sk_model_free(m);
}

#define FOR_EACH_KIND(test)                                                                                            \
    {#test " llama", test, NULL, NULL, (void *)&kinds[0]}, {#test " gemma3", test, NULL, NULL, (void *)&kinds[1]},     \
        {#test " falcon-h1", test, NULL, NULL, (void *)&kinds[2]},                                                     \
        {#test " qwen3next", test, NULL, NULL, (void *)&kinds[3]},                                                     \
        {#test " lfm2", test, NULL, NULL, (void *)&kinds[4]}, {#test " mamba2", test, NULL, NULL, (void *)&kinds[5]},  \
    {                                                                                                                  \
#test " rwkv7", test, NULL, NULL, (void *)&kinds[6]                                                            \
    }
#define FOR_ONE(test, k)                                                                                               \
    { #test, test, NULL, NULL, (void *)&kinds[k] }

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        FOR_EACH_KIND(evicted_prefix_comes_back_from_ram),
        FOR_EACH_KIND(conversations_survive_a_restart),
        FOR_EACH_KIND(exact_repeat_after_a_restart_needs_no_decode),
        FOR_EACH_KIND(grown_conversation_exports_only_its_new_windows),
        FOR_ONE(bit_mode_answers_from_disk_equal_cold_ones, 0),
        FOR_ONE(bit_mode_answers_from_disk_equal_cold_ones, 2),
        FOR_ONE(bit_mode_answers_from_disk_equal_cold_ones, 5),
        FOR_ONE(other_flags_find_nothing, 0),
        FOR_ONE(damaged_store_is_a_miss, 0),
        FOR_ONE(damaged_store_is_a_miss, 2),
        FOR_ONE(slow_disk_loses_against_computing, 0),
        FOR_ONE(erased_tokens_are_gone_everywhere, 0),
        FOR_ONE(erased_tokens_are_gone_everywhere, 2),
        FOR_ONE(second_process_serves_without_the_disk, 0),
        FOR_ONE(unusable_folder_is_no_reason_to_stop, 0),
        FOR_ONE(shadow_agrees_with_a_right_hit, 0),
        FOR_ONE(shadow_agrees_with_a_right_hit, 2),
        FOR_ONE(shadow_ends_reuse_after_a_disagreement, 0),
        FOR_ONE(failed_receipt_overrules_the_registry, 0),
        FOR_ONE(what_nobody_uses_waits_in_ram, 0),
    };
    return cmocka_run_group_tests_name("engine tiers", tests, NULL, NULL);
}
