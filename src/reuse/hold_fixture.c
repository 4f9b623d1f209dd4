#include "reuse/hold_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/test_models.h"

const char *const bed_families[BED_FAMILIES] = {"llama", "gemma3", "falcon-h1", "qwen3next", "mamba2"};

static bool make_room(void *ud, uint32_t cells) {
    const bed *b = ud;
    return !b->no_room && sk_context_cells_free(b->ctx) >= cells;
}

static bool evict_any(void *ud) {
    bed *b = ud;
    return !b->no_room && sk_reuse_evict_one(&b->h.reuse, SKIPPY_EVICT_CELLS);
}

static void wake(void *ud) {
    sem_post(&((bed *)ud)->events);
}

static void erased(void *ud, size_t count, int rc) {
    bed *b = ud;
    b->n_erased += count;
    b->erased_rc = rc;
    b->erased_calls++;
}

static void fill_prompt(bed *b) {
    for (int32_t i = 0; i < PROMPT; i++) b->tokens[i] = i * 7 % 200 + 5;
    b->prompt = (sk_prefix){.ns = {{1}}, .tokens = b->tokens, .n_tokens = PROMPT, .tenant = "a"};
}

/* Decodes the first n tokens of the prompt into the empty lane. */
void bed_compute(bed *b, uint32_t n) {
    sk_row rows[BATCH];
    sk_err e = {0};
    for (uint32_t at = 0, k; at < n; at += k) {
        k = n - at < BATCH ? n - at : BATCH;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (sk_row){.token = b->tokens[at + i], .seq = LANE, .output = i == k - 1};
        if (sk_context_decode(b->ctx, rows, k, NULL, &e)) fail_msg("%s", e.text);
    }
}

/* Canonical bytes of a sequence. */
sk_blob bed_state_of(const bed *b, uint32_t seq) {
    sk_blob blob;
    sk_err e = {0};
    if (sk_state_export_whole(b->ctx, &b->h.caps, seq, &blob, &e)) fail_msg("%s", e.text);
    return blob;
}

void bed_assert_same_state(sk_blob x, sk_blob y) {
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    sk_blob_free(&x);
    sk_blob_free(&y);
}

sk_prefix bed_beginning(const bed *b, size_t n) {
    sk_prefix p = b->prompt;
    p.n_tokens = n;
    return p;
}

int bed_try_open(bed *b, sk_hold_params p, uint64_t logits_bytes, sk_err *e) {
    const sk_reuse_params r = {.ctx = b->ctx,
                               .policy = &b->policy,
                               .first_seq = CACHE_SEQ,
                               .n_seqs = CACHE_SEQS,
                               .cost = {.state = 1, .cell = 1},
                               .logits_bytes = logits_bytes,
                               .n_vocab = (size_t)sk_model_get_info(b->model)->n_vocab,
                               .min_tokens = 16,
                               .align = 1};
    p.store_name = "test";
    p.scratch = SCRATCH;
    p.mode = b->policy.mode;
    p.make_room = make_room;
    p.evict_any = evict_any;
    p.wake = wake;
    p.erased = erased;
    p.ud = b;
    return sk_hold_open(&b->h, &r, &p, e);
}

void bed_open(bed *b, sk_hold_params p) {
    sk_err e = {0};
    if (bed_try_open(b, p, MIB, &e)) fail_msg("%s", e.text);
}

/* Skips the test without models. */
bed *bed_new(const char *family) {
    const char *path = test_model_path(family);
    if (!path) skip();
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    sk_err e = {0};
    if (sk_model_load(&(sk_model_params){.path = path}, &b->model, &e)) fail_msg("%s", e.text);
    const sk_context_params p = {.n_ctx = 640,
                                 .n_batch = BATCH,
                                 .n_ubatch = BATCH,
                                 .n_seq_max = SEQS,
                                 .n_threads = 1,
                                 .n_threads_batch = 1,
                                 .flash_attn = 1};
    if (sk_context_create(b->model, &p, &b->ctx, &e)) fail_msg("%s", e.text);
    sem_init(&b->events, 0, 0);
    sk_family_decide(&sk_model_get_info(b->model)->facts, &b->policy);
    assert_int_not_equal(b->policy.mode, SK_CACHE_DISABLED);
    fill_prompt(b);
    return b;
}

void bed_free(bed *b) {
    sk_hold_close(&b->h);
    sk_context_free(b->ctx);
    sk_model_free(b->model);
    sem_destroy(&b->events);
    free(b);
}

/* Takes one report more: what follows it is asked again by the caller. */
void bed_next_report(bed *b) {
    while (sem_wait(&b->events) != 0) {
    }
    sk_hold_take_events(&b->h);
}

/* Computes the stored beginning in the lane and records it. */
void bed_keep(bed *b) {
    const sk_prefix p = bed_beginning(b, KEPT);
    sk_lineage *lineage = sk_lineage_new();
    bed_compute(b, KEPT);
    assert_int_equal(sk_reuse_record(&b->h.reuse, &p, LANE, lineage, 0), SKIPPY_OK);
    assert_int_equal(b->h.reuse.n_entries, 1);
    sk_lineage_release(lineage);
}

sk_reuse_hit bed_find(bed *b) {
    sk_reuse_hit hit;
    sk_reuse_find(&b->h.reuse, &b->prompt.ns, b->tokens, PROMPT, &hit);
    return hit;
}

/* Evicts the entry and waits until it is found in the RAM store. */
sk_reuse_hit bed_demote(bed *b) {
    assert_true(sk_reuse_evict_one(&b->h.reuse, SKIPPY_EVICT_CELLS));
    sk_reuse_hit hit;
    for (hit = bed_find(b); !hit.tier[SKIPPY_TIER_RAM].length; hit = bed_find(b)) bed_next_report(b);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, KEPT);
    return hit;
}

enum sk_promotion bed_ask(bed *b, sk_recall *r, const sk_prefix *prompt, const sk_reuse_hit *hit, bool gate) {
    enum sk_promotion p;
    while ((p = sk_hold_promote(&b->h, r, prompt, hit, 0, gate)) == SK_PROMOTE_WAIT) bed_next_report(b);
    return p;
}

void bed_import(bed *b, sk_recall *r, sk_lineage **lineage) {
    sk_err e = {0};
    if (sk_hold_import(&b->h, r, &b->prompt, OTHER_LANE, lineage, &e)) fail_msg("%s", e.text);
    assert_int_equal(sk_context_seq_len(b->ctx, OTHER_LANE), KEPT);
}

/* A model with a prefix in the RAM store and nowhere else but in its lane. */
bed *bed_demoted(const char *family, sk_reuse_hit *hit) {
    bed *b = bed_new(family);
    bed_open(b, (sk_hold_params){.ram_bytes = 64 * MIB});
    bed_keep(b);
    *hit = bed_demote(b);
    return b;
}
