/* Row classes: what the probe finds holds for other cuttings too, and what is remembered is believed only when it is
 * this context's own. */
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

#include "base/record.h"
#include "runtime/rowclass.h"
#include "runtime/test_models.h"

enum { N_CTX = 512, N_BATCH = 128, LANE = 0, SCRATCH = 2, N_SEQ = SCRATCH + SK_ROW_CLASS_SCRATCH, PROMPT = 90 };

static sk_model *load_model(const char *family) {
    const char *path = test_model_path(family);
    if (!path) return NULL;
    sk_model *m = NULL;
    sk_err e = {0};
    if (sk_model_load(&(sk_model_params){.path = path}, &m, &e)) fail_msg("%s", e.text);
    return m;
}

static sk_context *open_context(const sk_model *m, int32_t n_threads, uint32_t n_ctx, uint32_t n_batch,
                                const char *type_k) {
    sk_context_params p = {.n_ctx = n_ctx,
                           .n_batch = n_batch,
                           .n_ubatch = n_batch,
                           .n_seq_max = N_SEQ,
                           .n_threads = n_threads,
                           .n_threads_batch = n_threads,
                           .flash_attn = 1,
                           .type_k = type_k,
                           .swa_full = true};
    sk_context *c = NULL;
    sk_err e = {0};
    if (sk_context_create(m, &p, &c, &e)) fail_msg("%s", e.text);
    return c;
}

static uint32_t next(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* ---- the probe ---- */

/* The lane's logits after `n` tokens in pieces of at most `largest` rows; random sizes when seed is given. */
static void run_prompt(sk_context *c, const sk_row_class *rc, uint32_t n, uint32_t *seed, float *out, size_t n_vocab) {
    const bool recurrent = sk_context_get_info(c)->recurrent;
    sk_row rows[N_BATCH];
    sk_err e = {0};
    uint32_t tokens = 77, padded = 0;
    sk_context_seq_clear(c, LANE);
    for (uint32_t at = 0; at < n;) {
        uint32_t k = seed ? 1 + next(seed) % rc->max_rows : rc->max_rows;
        if (k > n - at) k = n - at;
        if (recurrent) {
            uint32_t whole = (rc->aligned ? n - at : k) / rc->multiple * rc->multiple;
            k = k / rc->multiple * rc->multiple;
            if (k == 0) k = whole ? rc->multiple : 1;
        }
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (sk_row){.token = (int32_t)(next(&tokens) % 200 + 5), .seq = LANE, .output = at + i + 1 == n};
        if (sk_row_class_decode(c, rc, rows, k, SCRATCH + 1, &padded, NULL, &e)) fail_msg("%s", e.text);
        at += k;
        if (at == n) memcpy(out, sk_context_logits(c, k - 1), n_vocab * sizeof *out);
    }
    sk_context_seq_clear(c, LANE);
}

/* Not only the probe's own prompt: another prompt of other lengths, cut at random. */
static void check_class(const sk_model *m, sk_context *c, const sk_row_class *rc, uint32_t seed) {
    size_t n_vocab = (size_t)sk_model_get_info(m)->n_vocab;
    float *one = malloc(n_vocab * sizeof *one), *cut = malloc(n_vocab * sizeof *cut);
    assert_non_null(one);
    assert_non_null(cut);
    for (int round = 0; round < 6; round++) {
        uint32_t n = PROMPT - next(&seed) % 40;
        run_prompt(c, rc, n, NULL, one, n_vocab);
        run_prompt(c, rc, n, &seed, cut, n_vocab);
        assert_memory_equal(one, cut, n_vocab * sizeof *one);
    }
    free(one);
    free(cut);
}

static void check_family(const char *family) {
    sk_model *m = load_model(family);
    if (!m) skip();
    sk_context *c = open_context(m, 2, N_CTX, N_BATCH, NULL);
    sk_row_class rc = {0};
    sk_err e = {0};
    const char *given = getenv("SKIPPY_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : 4711;
    if (sk_row_class_probe(c, m, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, &rc, &e)) fail_msg("%s: %s", family, e.text);
    print_message("%s: multiples of %u, at most %u%s; seed %u\n", family, rc.multiple, rc.max_rows,
                  rc.aligned ? ", aligned" : "", seed);
    for (uint32_t s = 0; s < N_SEQ; s++) assert_int_equal(sk_context_seq_len(c, s), 0);
    assert_int_equal(rc.max_rows % rc.multiple, 0);
    assert_true(!rc.aligned || sk_context_get_info(c)->recurrent);
    check_class(m, c, &rc, seed);
    sk_context_free(c);
    sk_model_free(m);
}

static void the_class_of_a_dense_model_holds_for_any_cut(void **state) {
    (void)state;
    check_family("llama");
}

static void the_class_of_a_window_model_holds_for_any_cut(void **state) {
    (void)state;
    check_family("gemma3");
}

static void the_class_of_a_hybrid_model_holds_for_any_cut(void **state) {
    (void)state;
    check_family("falcon-h1");
}

static void the_class_of_a_delta_net_model_holds_for_aligned_cuts(void **state) {
    (void)state;
    check_family("qwen3next");
}

static void the_class_of_a_recurrent_model_holds_for_any_cut(void **state) {
    (void)state;
    check_family("mamba2");
}

/* ---- one small model and a place for records ---- */

typedef struct fixture {
    sk_model *m;
    sk_context *c;
    char dir[200], cache[256], path[512];
    uint8_t identity[SK_HASH_BYTES], key[SK_HASH_BYTES];
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    f->m = load_model("llama");
    if (!f->m) return 0;
    const char *base = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/skippy-rows-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->cache, sizeof f->cache, "%s/cache", f->dir);
    f->c = open_context(f->m, 1, N_CTX, N_BATCH, NULL);
    memset(f->identity, 0x5a, sizeof f->identity);
    sk_row_class_key(f->identity, f->c, 2, 2, f->key);
    assert_true(sk_record_path(f->path, sizeof f->path, f->cache, f->key, ".rows"));
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (f->m) {
        (void)unlink(f->path);
        (void)rmdir(f->cache);
        assert_int_equal(rmdir(f->dir), 0); /* nothing else was left behind */
        sk_context_free(f->c);
        sk_model_free(f->m);
    }
    free(f);
    return 0;
}

static fixture *need_model(void **state) {
    fixture *f = *state;
    if (!f->m) skip();
    return f;
}

/* Returns whether the class came from a record. */
static bool get(const fixture *f, sk_row_class *rc) {
    bool remembered = false;
    sk_err e = {0};
    *rc = (sk_row_class){0};
    if (sk_row_class_get(f->c, f->m, f->cache, f->key, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, rc, &remembered, &e))
        fail_msg("%s", e.text);
    return remembered;
}

static void read_record(const fixture *f, uint8_t bytes[SK_ROW_CLASS_RECORD_BYTES]) {
    assert_true(sk_record_load(f->path, bytes, SK_ROW_CLASS_RECORD_BYTES));
}

static void write_record(const fixture *f, const uint8_t bytes[SK_ROW_CLASS_RECORD_BYTES]) {
    assert_true(sk_record_save(f->cache, f->path, bytes, SK_ROW_CLASS_RECORD_BYTES));
}

/* Changes one number of a good record and makes its checksum right again. */
static void forge(const fixture *f, size_t at, uint32_t value) {
    uint8_t bytes[SK_ROW_CLASS_RECORD_BYTES];
    read_record(f, bytes);
    sk_put_u32(bytes + at, value);
    sk_hash(bytes, SK_ROW_CLASS_RECORD_BYTES - SK_HASH_BYTES, bytes + SK_ROW_CLASS_RECORD_BYTES - SK_HASH_BYTES);
    write_record(f, bytes);
}

static void a_class_is_measured_once(void **state) {
    fixture *f = need_model(state);
    sk_row_class measured, again;
    assert_false(get(f, &measured));
    assert_true(get(f, &again));
    assert_int_equal(again.multiple, measured.multiple);
    assert_int_equal(again.max_rows, measured.max_rows);
    assert_int_equal(again.aligned, measured.aligned);
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, SK_ROW_CLASS_RECORD_BYTES);
}

static void a_remembered_class_is_not_measured_again(void **state) {
    fixture *f = need_model(state);
    sk_row_class rc;
    get(f, &rc);
    forge(f, 40, 8);
    forge(f, 44, 56);
    assert_true(get(f, &rc)); /* what the record says, though the probe would say something else */
    assert_int_equal(rc.multiple, 8);
    assert_int_equal(rc.max_rows, 56);
}

static void without_a_directory_it_is_measured_each_time(void **state) {
    fixture *f = need_model(state);
    static const char *const none[] = {NULL, ""};
    for (size_t i = 0; i < 4; i++) {
        sk_row_class rc = {0};
        bool remembered = true;
        sk_err e = {0};
        assert_int_equal(sk_row_class_get(f->c, f->m, none[i % 2], f->key, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, &rc,
                                          &remembered, &e),
                         SKIPPY_OK);
        assert_false(remembered);
        assert_true(rc.multiple > 0);
    }
}

static void damage_in_any_field_of_a_record_is_noticed(void **state) {
    fixture *f = need_model(state);
    uint8_t good[SK_ROW_CLASS_RECORD_BYTES], bad[SK_ROW_CLASS_RECORD_BYTES], now[SK_ROW_CLASS_RECORD_BYTES];
    sk_row_class rc;
    get(f, &rc);
    read_record(f, good);
    static const size_t fields[] = {0, 8, 39, 40, 44, 48, 52, SK_ROW_CLASS_RECORD_BYTES - 1};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        memcpy(bad, good, sizeof good);
        bad[fields[i]] ^= 0x04;
        write_record(f, bad);
        assert_false(get(f, &rc)); /* ignored, and rewritten */
        read_record(f, now);
        assert_memory_equal(now, good, sizeof good);
    }
    assert_true(get(f, &rc));
}

static void an_impossible_class_is_ignored(void **state) {
    fixture *f = need_model(state);
    const struct {
        size_t at;
        uint32_t value;
    } cases[] = {{40, 0}, {40, 3}, {40, 16}, {44, 0}, {44, 57}, {44, N_BATCH + 8}, {48, 1}, {48, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sk_row_class rc;
        get(f, &rc);
        forge(f, cases[i].at, cases[i].value);
        assert_false(get(f, &rc));
        assert_true(get(f, &rc));
    }
}

static void a_record_of_another_key_is_ignored(void **state) {
    fixture *f = need_model(state);
    sk_row_class rc;
    get(f, &rc);
    f->identity[0] ^= 1;
    sk_row_class_key(f->identity, f->c, 2, 2, f->key);
    char other[512];
    assert_true(sk_record_path(other, sizeof other, f->cache, f->key, ".rows"));
    assert_int_equal(rename(f->path, other), 0);
    memcpy(f->path, other, sizeof other);
    assert_false(get(f, &rc));
    assert_true(get(f, &rc));
}

static void a_record_of_another_length_is_ignored(void **state) {
    fixture *f = need_model(state);
    static const off_t lengths[] = {0, SK_ROW_CLASS_RECORD_BYTES - 1, SK_ROW_CLASS_RECORD_BYTES + 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sk_row_class rc;
        get(f, &rc);
        assert_int_equal(truncate(f->path, lengths[i]), 0);
        assert_false(get(f, &rc));
    }
}

static void a_record_that_others_can_write_is_ignored(void **state) {
    fixture *f = need_model(state);
    sk_row_class rc;
    get(f, &rc);
    assert_int_equal(chmod(f->path, 0622), 0);
    assert_false(get(f, &rc));
    assert_true(get(f, &rc)); /* the rewritten record is private again */
}

static void a_directory_that_cannot_be_used_costs_only_time(void **state) {
    fixture *f = need_model(state);
    static const char *const unusable[] = {"/dev/null", "/proc/skippy/rows"};
    for (size_t i = 0; i < sizeof unusable / sizeof *unusable; i++) {
        sk_row_class rc = {0};
        bool remembered = true;
        sk_err e = {0};
        assert_int_equal(sk_row_class_get(f->c, f->m, unusable[i], f->key, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, &rc,
                                          &remembered, &e),
                         SKIPPY_OK);
        assert_false(remembered);
    }
}

static void each_input_of_a_key_changes_it(void **state) {
    fixture *f = need_model(state);
    uint8_t keys[8][SK_HASH_BYTES];
    size_t n = 0;
    sk_row_class_key(f->identity, f->c, 2, 2, keys[n++]);
    sk_row_class_key(f->identity, f->c, 3, 2, keys[n++]);
    sk_row_class_key(f->identity, f->c, 2, 3, keys[n++]);
    f->identity[31] ^= 1;
    sk_row_class_key(f->identity, f->c, 2, 2, keys[n++]);
    f->identity[31] ^= 1;
    const struct {
        uint32_t n_ctx, n_batch;
        const char *type_k;
    } others[] = {{2 * N_CTX, N_BATCH, NULL}, {N_CTX, N_BATCH / 2, NULL}, {N_CTX, N_BATCH, "q8_0"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sk_context *c = open_context(f->m, 1, others[i].n_ctx, others[i].n_batch, others[i].type_k);
        sk_row_class_key(f->identity, c, 2, 2, keys[n++]);
        sk_context_free(c);
    }
    sk_context *same = open_context(f->m, 1, N_CTX, N_BATCH, NULL);
    sk_row_class_key(f->identity, same, 2, 2, keys[n]);
    sk_context_free(same);
    assert_memory_equal(keys[n], keys[0], SK_HASH_BYTES);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(keys[i], keys[k], SK_HASH_BYTES);
}

static void a_small_batch_gets_a_smaller_class(void **state) {
    fixture *f = need_model(state);
    sk_context *c = open_context(f->m, 1, N_CTX, 32, NULL);
    sk_row_class rc = {0};
    sk_err e = {0};
    if (sk_row_class_probe(c, f->m, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, &rc, &e)) fail_msg("%s", e.text);
    assert_int_equal(rc.max_rows, 32);
    sk_context_free(c);
}

static void what_cannot_be_probed_is_refused_in_words(void **state) {
    fixture *f = need_model(state);
    sk_context *c = open_context(f->m, 1, N_CTX, 16, NULL);
    sk_row_class rc = {0};
    sk_err e = {0};
    assert_int_equal(sk_row_class_get(c, f->m, f->cache, f->key, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH, &rc, NULL, &e),
                     SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "batches of 16 rows are too small"));
    assert_int_equal(access(f->path, F_OK), -1); /* a refusal is not remembered */
    assert_int_equal(sk_row_class_probe(f->c, f->m, LANE, SCRATCH, SK_ROW_CLASS_SCRATCH - 1, &rc, &e),
                     SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "sequences"));
    sk_context_free(c);
}

#define WITH_MODEL(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_class_of_a_dense_model_holds_for_any_cut),
        cmocka_unit_test(the_class_of_a_window_model_holds_for_any_cut),
        cmocka_unit_test(the_class_of_a_hybrid_model_holds_for_any_cut),
        cmocka_unit_test(the_class_of_a_delta_net_model_holds_for_aligned_cuts),
        cmocka_unit_test(the_class_of_a_recurrent_model_holds_for_any_cut),
        WITH_MODEL(a_class_is_measured_once),
        WITH_MODEL(a_remembered_class_is_not_measured_again),
        WITH_MODEL(without_a_directory_it_is_measured_each_time),
        WITH_MODEL(damage_in_any_field_of_a_record_is_noticed),
        WITH_MODEL(an_impossible_class_is_ignored),
        WITH_MODEL(a_record_of_another_key_is_ignored),
        WITH_MODEL(a_record_of_another_length_is_ignored),
        WITH_MODEL(a_record_that_others_can_write_is_ignored),
        WITH_MODEL(a_directory_that_cannot_be_used_costs_only_time),
        WITH_MODEL(each_input_of_a_key_changes_it),
        WITH_MODEL(a_small_batch_gets_a_smaller_class),
        WITH_MODEL(what_cannot_be_probed_is_refused_in_words),
    };
    return cmocka_run_group_tests_name("rowclass", tests, NULL, NULL);
}
