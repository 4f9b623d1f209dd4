/* Which layers may be a stage, and what a stage file holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <gguf.h>

#include "runtime/slice_fixture.h"
#include "runtime/slice_internal.h"
#include "runtime/test_gguf.h"

static void assert_refused(const sk_tensor_source *s, int32_t start, int32_t end, const char *words) {
    sk_err e = {0};
    int rc = sk_slice_check(s, (sk_layer_range){start, end}, &e);
    if (rc != SKIPPY_E_UNSUPPORTED) fail_msg("%d..%d of %s: %d %s", start, end, s->name, rc, e.text);
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}

static void assert_allowed(const sk_tensor_source *s, int32_t start, int32_t end) {
    sk_err e = {0};
    if (sk_slice_check(s, (sk_layer_range){start, end}, &e)) fail_msg("%s", e.text);
}

static void open_source(sk_tensor_source *s, const char *family) {
    if (!sx_source(family, s)) skip();
}

/* ---- rules ---- */

static void a_range_must_be_one_of_the_model(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "llama");
    assert_int_equal(sk_slice_layers(&s), 6);
    const sk_layer_range wrong[] = {{-1, 2}, {2, 2}, {3, 2}, {0, 7}, {6, 7}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sk_slice_check(&s, wrong[i], NULL), SKIPPY_E_INVALID);
        assert_int_equal(sk_slice_bytes(&s, wrong[i]), 0);
    }
    for (int32_t a = 0; a < 6; a++)
        for (int32_t b = a + 1; b <= 6; b++) assert_allowed(&s, a, b);
    sk_tensor_source_close(&s);
}

typedef struct refusal {
    const char *family;
    int32_t start, end;
    const char *words;
} refusal;

static void families_that_cannot_be_cut_say_why(void **state) {
    const refusal *t = *state;
    sk_tensor_source s;
    open_source(&s, t->family);
    assert_refused(&s, t->start, t->end, t->words);
    assert_allowed(&s, 0, sk_slice_layers(&s));
    sk_tensor_source_close(&s);
}

static void a_refused_range_names_the_nearest_that_works(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "qwen3next");
    assert_refused(&s, 4, 7, "3..6 or 4..7 would do");
    sk_tensor_source_close(&s);
}

static void an_architecture_that_was_never_measured_is_served_whole_only(void **state) {
    (void)state;
    char path[512];
    sk_buf b = {0};
    sk_tensor_source s;
    sk_err e = {0};
    snprintf(path, sizeof path, "%s/unknown.gguf", sx_dir());
    gg_header(&b, 3, 2, 3);
    gg_pair_str(&b, "general.architecture", "qwen2");
    gg_pair_u32(&b, "qwen2.block_count", 4);
    gg_pair_u32(&b, "qwen2.embedding_length", 32);
    gg_tensor(&b, "token_embd.weight", 32, 0);
    gg_tensor(&b, "blk.3.a.weight", 32, 128);
    gg_pad(&b, 32, 256);
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &s, &e)) fail_msg("%s", e.text);
    assert_refused(&s, 0, 2, "never measured");
    assert_allowed(&s, 0, 4);
    sk_tensor_source_close(&s);
}

static void the_whole_model_is_always_a_stage_but_a_stage_is_not_cut_again(void **state) {
    (void)state;
    char path[512];
    sk_tensor_source s, stage;
    sk_err e = {0};
    open_source(&s, "llama");
    snprintf(path, sizeof path, "%s/of-a-stage.gguf", sx_dir());
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){1, 4}, path, NULL, NULL, &e), SKIPPY_OK);
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &stage, &e)) fail_msg("%s", e.text);
    assert_int_equal(stage.n_layer, 3);
    assert_refused(&stage, 0, 2, "is a stage already");
    assert_refused(&stage, 0, 3, "is a stage already");
    sk_tensor_source_close(&stage);
    sk_tensor_source_close(&s);
}

static void a_27b_gemma3_is_refused_whatever_the_cut(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "gemma3");
    sx_set(&s, "block_count", 62);
    s.n_layer = 62;
    assert_refused(&s, 0, 30, "scales attention");
    /* and another gemma3 must not get a stage that looks like one */
    sx_set(&s, "block_count", 70);
    s.n_layer = 70;
    assert_refused(&s, 0, 62, "another model");
    assert_allowed(&s, 0, 60);
    sk_tensor_source_close(&s);
}

static void a_stage_must_not_look_like_a_lite_deepseek(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "deepseek3");
    sx_set(&s, "block_count", 60);
    s.n_layer = 60;
    assert_refused(&s, 0, 26, "lite");
    assert_refused(&s, 10, 37, "lite");
    assert_allowed(&s, 0, 25);
    assert_allowed(&s, 0, 28);
    sk_tensor_source_close(&s);
    open_source(&s, "deepseek2lite"); /* has no rank that the loader could miss */
    sx_set(&s, "block_count", 60);
    s.n_layer = 60;
    assert_allowed(&s, 0, 27);
    sk_tensor_source_close(&s);
}

static void a_gemma4_stage_without_a_window_layer_is_refused(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "gemma4a4b");
    int8_t windows[12] = {1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0};
    gguf_set_arr_data(s.meta, "gemma4.attention.sliding_window_pattern", GGUF_TYPE_BOOL, windows, 12);
    assert_refused(&s, 2, 4, "sliding window");
    assert_allowed(&s, 2, 5);
    gguf_set_val_bool(s.meta, "gemma4.attention.sliding_window_pattern", true);
    assert_refused(&s, 0, 6, "does not say for each layer");
    sk_tensor_source_close(&s);
}

static void converted_glm4_may_be_cut(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "glm4");
    assert_refused(&s, 3, 6, "converted");
    assert_allowed(&s, 0, 3);
    gguf_set_arr_data(s.meta, "glm4.rope.dimension_sections", GGUF_TYPE_INT32, (int32_t[]){32, 0, 0, 0}, 4);
    assert_refused(&s, 3, 6, "converted"); /* the second section decides */
    gguf_set_arr_data(s.meta, "glm4.rope.dimension_sections", GGUF_TYPE_INT32, (int32_t[]){16, 16, 0, 0}, 4);
    assert_allowed(&s, 3, 6);
    sk_tensor_source_close(&s);
}

static void a_windowed_lfm2_was_never_measured(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "lfm2");
    assert_allowed(&s, 0, 4);
    sx_set(&s, "attention.sliding_window", 128);
    assert_refused(&s, 0, 4, "never measured");
    sk_tensor_source_close(&s);
}

static void metadata_that_no_loader_takes_is_an_error(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "llama");
    sx_set(&s, "embedding_length", 128); /* the embedding has 256 */
    assert_int_equal(sk_slice_check(&s, (sk_layer_range){0, 2}, NULL), SKIPPY_E_MODEL);
    sk_tensor_source_close(&s);
    open_source(&s, "qwen3next");
    sx_set(&s, "full_attention_interval", 0);
    assert_int_equal(sk_slice_check(&s, (sk_layer_range){0, 6}, NULL), SKIPPY_E_MODEL);
    sk_tensor_source_close(&s);
    open_source(&s, "llama");
    sx_set(&s, "block_count", 1000);
    s.n_layer = 1000;
    assert_int_equal(sk_slice_check(&s, (sk_layer_range){0, 6}, NULL), SKIPPY_E_UNSUPPORTED);
    sk_tensor_source_close(&s);
}

/* ---- metadata ---- */

static struct gguf_context *meta_of(const sk_tensor_source *s, int32_t start, int32_t end) {
    sk_slice_facts f;
    sk_err e = {0};
    if (sk_slice_facts_read(s, &f, &e)) fail_msg("%s", e.text);
    struct gguf_context *g = sk_slice_meta(&f, (sk_layer_range){start, end});
    assert_non_null(g);
    return g;
}

static int64_t number(const struct gguf_context *g, const char *key) {
    int64_t k = gguf_find_key(g, key);
    return k < 0 ? -1 : (int64_t)gguf_get_val_u32(g, k);
}

static void arrays_with_a_value_per_layer_are_sliced_and_others_are_not(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "llama");
    uint32_t heads[6] = {1, 2, 3, 4, 5, 6}, longer[7] = {0};
    int32_t sections[6] = {1, 1, 1, 1, 1, 1};
    gguf_set_arr_data(s.meta, "llama.attention.head_count_kv", GGUF_TYPE_UINT32, heads, 6);
    gguf_set_arr_data(s.meta, "llama.other", GGUF_TYPE_UINT32, longer, 7);
    gguf_set_arr_data(s.meta, "llama.rope.dimension_sections", GGUF_TYPE_INT32, sections, 6); /* as long, by chance */
    struct gguf_context *g = meta_of(&s, 2, 5);
    int64_t k = gguf_find_key(g, "llama.attention.head_count_kv");
    assert_int_equal(gguf_get_arr_n(g, k), 3);
    assert_memory_equal(gguf_get_arr_data(g, k), heads + 2, 3 * sizeof *heads);
    assert_int_equal(gguf_get_arr_n(g, gguf_find_key(g, "llama.other")), 7);
    assert_int_equal(gguf_get_arr_n(g, gguf_find_key(g, "llama.rope.dimension_sections")), 6);
    assert_int_equal(number(g, "llama.block_count"), 3);
    gguf_free(g);
    sk_tensor_source_close(&s);
}

static void the_tokenizer_stays_in_the_first_stage(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "llama");
    struct gguf_context *first = meta_of(&s, 0, 2), *middle = meta_of(&s, 2, 4), *last = meta_of(&s, 4, 6);
    assert_true(gguf_find_key(first, "tokenizer.ggml.tokens") >= 0);
    assert_true(gguf_find_key(first, "tokenizer.chat_template") >= 0);
    for (int i = 0; i < 2; i++) {
        const struct gguf_context *g = i ? last : middle;
        for (int64_t k = 0; k < gguf_get_n_kv(g); k++)
            if (strncmp(gguf_get_key(g, k), "tokenizer.", 10) == 0)
                assert_string_equal(gguf_get_key(g, k), "tokenizer.ggml.model");
        assert_string_equal(gguf_get_val_str(g, gguf_find_key(g, "tokenizer.ggml.model")), "none");
        assert_true(gguf_find_key(g, "general.name") >= 0);
    }
    assert_int_equal(number(middle, "llama.vocab_size"), 1);
    assert_int_equal(number(last, "llama.vocab_size"),
                     gguf_get_arr_n(s.meta, gguf_find_key(s.meta, "tokenizer.ggml.tokens")));
    gguf_free(first);
    gguf_free(middle);
    gguf_free(last);
    sk_tensor_source_close(&s);
}

static void defaults_that_depend_on_the_number_of_layers_are_spelled_out(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "deepseek3"); /* three dense layers, then experts */
    struct gguf_context *g = meta_of(&s, 2, 5);
    assert_int_equal(number(g, "deepseek2.leading_dense_block_count"), 1);
    assert_int_equal(number(g, "deepseek2.attention.q_lora_rank"), 192);
    assert_int_equal(number(g, "deepseek2.expert_gating_func"), 2);
    gguf_free(g);
    g = meta_of(&s, 4, 7);
    assert_int_equal(number(g, "deepseek2.leading_dense_block_count"), 0);
    gguf_free(g);
    /* GLM-4.7 Flash is known to the loader by 47 layers and its vocabulary */
    gguf_remove_key(s.meta, "deepseek2.expert_gating_func");
    s.n_layer = 47;
    for (size_t i = 0; i < s.n_tensors; i++)
        if (strcmp(s.tensors[i].name, "token_embd.weight") == 0) s.tensors[i].ne[1] = 154880;
    g = meta_of(&s, 0, 20);
    assert_int_equal(number(g, "deepseek2.expert_gating_func"), 2);
    gguf_free(g);
    s.n_layer = 46;
    g = meta_of(&s, 0, 20);
    assert_int_equal(number(g, "deepseek2.expert_gating_func"), 1);
    gguf_free(g);
    sk_tensor_source_close(&s);
}

static void a_start_inside_an_interval_is_written_layer_by_layer(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "qwen3next");
    struct gguf_context *g = meta_of(&s, 6, 12);
    int64_t k = gguf_find_key(g, "qwen3next.attention.recurrent_layers");
    const int8_t want[6] = {1, 0, 1, 1, 1, 0};
    assert_int_equal(gguf_get_arr_n(g, k), 6);
    assert_memory_equal(gguf_get_arr_data(g, k), want, sizeof want);
    assert_int_equal(number(g, "qwen3next.full_attention_interval"), -1);
    gguf_free(g);
    g = meta_of(&s, 4, 12);
    assert_int_equal(number(g, "qwen3next.full_attention_interval"), 4);
    assert_true(gguf_find_key(g, "qwen3next.attention.recurrent_layers") < 0);
    gguf_free(g);
    sk_tensor_source_close(&s);
}

static void the_period_counts_from_the_stages_first_layer(void **state) {
    (void)state;
    const struct {
        int32_t start, end;
        int64_t period;
    } want[] = {{0, 6, 6}, {6, 12, 6}, {6, 9, 6}, {9, 12, 3}, {4, 6, 2}, {7, 10, 0}};
    sk_tensor_source s;
    open_source(&s, "gemma3");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_allowed(&s, want[i].start, want[i].end);
        struct gguf_context *g = meta_of(&s, want[i].start, want[i].end);
        assert_int_equal(number(g, "gemma3.attention.sliding_window_pattern"), want[i].period);
        gguf_free(g);
    }
    assert_refused(&s, 3, 9, "period");
    assert_refused(&s, 5, 6, "sliding window");
    sk_tensor_source_close(&s);
}

static void later_stages_do_not_scale_their_input(void **state) {
    (void)state;
    sk_tensor_source s;
    open_source(&s, "granitehybrid");
    struct gguf_context *first = meta_of(&s, 0, 4), *second = meta_of(&s, 4, 9);
    assert_true(gguf_find_key(first, "granitehybrid.embedding_scale") >= 0);
    assert_true(gguf_find_key(second, "granitehybrid.embedding_scale") < 0);
    assert_true(gguf_find_key(second, "granitehybrid.residual_scale") >= 0);
    gguf_free(first);
    gguf_free(second);
    sk_tensor_source_close(&s);
}

/* ---- tensors ---- */

static bool holds(const sk_slice_list *l, const char *name, uint64_t rows, bool blank) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->t[i].name, name) == 0)
            return (uint64_t)l->t[i].ne[1] == rows && (l->t[i].source == SIZE_MAX) == blank;
    return false;
}

static size_t count_prefix(const sk_slice_list *l, const char *prefix) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += strncmp(l->t[i].name, prefix, strlen(prefix)) == 0;
    return n;
}

/* The source's tensor behind a name; SIZE_MAX when there is none. */
static size_t source_of(const sk_slice_list *l, const char *name) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->t[i].name, name) == 0) return l->t[i].source;
    return SIZE_MAX;
}

static sk_slice_facts list_of(const sk_tensor_source *s, int32_t start, int32_t end, sk_slice_list *l) {
    sk_slice_facts f = {0};
    sk_err e = {0};
    *l = (sk_slice_list){0};
    if (sk_slice_facts_read(s, &f, &e) || sk_slice_tensors(&f, (sk_layer_range){start, end}, l, &e))
        fail_msg("%s", e.text);
    return f;
}

static void a_tied_model_has_its_embedding_at_both_ends(void **state) {
    (void)state;
    sk_tensor_source s;
    sk_slice_list first, middle, last;
    open_source(&s, "llama");
    uint64_t vocab = (uint64_t)list_of(&s, 0, 2, &first).vocab;
    list_of(&s, 2, 4, &middle);
    list_of(&s, 4, 6, &last);
    assert_true(holds(&first, "token_embd.weight", vocab, false));
    assert_true(holds(&middle, "token_embd.weight", 1, true));
    assert_true(holds(&last, "token_embd.weight", vocab, false));
    assert_int_equal(count_prefix(&middle, "blk.0."), count_prefix(&middle, "blk.1."));
    assert_int_equal(count_prefix(&middle, "blk.2."), 0);
    assert_int_equal(count_prefix(&middle, "output."), 0);
    assert_int_equal(count_prefix(&middle, "rope_freqs."), 1);
    free(first.t);
    free(middle.t);
    free(last.t);
    sk_tensor_source_close(&s);
}

/* An output of its own stands where the loader looks for a tied one, instead of beside an embedding that nobody reads.
 */
static void an_untied_last_stage_holds_its_output_once(void **state) {
    (void)state;
    sk_tensor_source s;
    sk_slice_list last;
    open_source(&s, "falcon-h1");
    sk_slice_facts f = list_of(&s, 4, 6, &last);
    assert_true(f.output != SIZE_MAX);
    assert_true(holds(&last, "token_embd.weight", (uint64_t)f.vocab, false));
    assert_int_equal(count_prefix(&last, "output.weight"), 0);
    assert_int_equal(source_of(&last, "token_embd.weight"), f.output);
    free(last.t);
    sk_tensor_source_close(&s);
}

static void a_loader_that_wants_an_output_gets_one(void **state) {
    (void)state;
    sk_tensor_source s;
    sk_slice_list l;
    open_source(&s, "minimax-m2");
    uint64_t vocab = (uint64_t)list_of(&s, 0, 2, &l).vocab;
    assert_true(holds(&l, "output.weight", vocab, true));
    free(l.t);
    list_of(&s, 2, 4, &l);
    assert_true(holds(&l, "output.weight", 1, true));
    free(l.t);
    list_of(&s, 4, 6, &l);
    assert_true(holds(&l, "output.weight", vocab, false));
    assert_true(holds(&l, "token_embd.weight", vocab, true));
    free(l.t);
    sk_tensor_source_close(&s);
}

static void rotary_factors_go_with_full_attention_in_gemma4(void **state) {
    (void)state;
    sk_tensor_source s;
    sk_slice_list l;
    open_source(&s, "gemma4a4b"); /* layers 5 and 11 have full attention */
    list_of(&s, 0, 4, &l);
    assert_int_equal(count_prefix(&l, "rope_freqs."), 0);
    free(l.t);
    list_of(&s, 4, 8, &l);
    assert_int_equal(count_prefix(&l, "rope_freqs."), 1);
    free(l.t);
    sk_tensor_source_close(&s);
}

/* ---- files ---- */

static void digest_of(const char *path, skippy_key *key) {
    assert_int_equal(skippy_file_digest(path, NULL, NULL, NULL, key, NULL), SKIPPY_OK);
}

static void the_same_stage_has_the_same_bytes(void **state) {
    (void)state;
    char path[2][512];
    skippy_key key[2], told;
    uint64_t size, planned;
    sk_tensor_source s;
    sk_err e = {0};
    open_source(&s, "gemma3");
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/same-%d.gguf", sx_dir(), i);
        if (sk_slice_write_file(&s, (sk_layer_range){6, 12}, path[i], NULL, NULL, &told, &size, &e))
            fail_msg("%s", e.text);
        digest_of(path[i], &key[i]);
        assert_true(skippy_key_equal(&told, &key[i]));
    }
    assert_true(skippy_key_equal(&key[0], &key[1]));
    assert_int_equal(sk_slice_file_size(&s, (sk_layer_range){6, 12}, &planned, &e), SKIPPY_OK);
    assert_int_equal(planned, size);
    assert_true(size > sk_slice_bytes(&s, (sk_layer_range){6, 12}));
    sk_tensor_source_close(&s);
}

static bool stop_at_half(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    return done < total / 2;
}

static void a_stopped_write_leaves_nothing(void **state) {
    (void)state;
    char path[512], temp[600];
    sk_tensor_source s;
    sk_err e = {0};
    open_source(&s, "gemma3");
    snprintf(path, sizeof path, "%s/stopped.gguf", sx_dir());
    snprintf(temp, sizeof temp, "%s" SK_SLICE_SUFFIX_TEMP, path);
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){0, 6}, path, stop_at_half, NULL, &e), SKIPPY_E_CANCELLED);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(temp, F_OK), 0);
    sk_tensor_source_close(&s);
}

static void a_file_that_cannot_be_made_is_an_error(void **state) {
    (void)state;
    char path[512];
    sk_tensor_source s;
    sk_err e = {0};
    open_source(&s, "llama");
    snprintf(path, sizeof path, "%s/no-such-folder/stage.gguf", sx_dir());
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){0, 2}, path, NULL, NULL, &e), SKIPPY_E_IO);
    snprintf(path, sizeof path, "%s/a-folder", sx_dir());
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){0, 2}, path, NULL, NULL, &e), SKIPPY_E_IO);
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){0, 0}, path, NULL, NULL, &e), SKIPPY_E_INVALID);
    sk_tensor_source_close(&s);
}

/* A source that shrinks while it is read: the stage file must not appear. */
static void a_source_cut_while_in_use_gives_no_stage(void **state) {
    (void)state;
    char copy[512], path[512];
    char model[1024];
    sk_buf b = {0};
    sk_tensor_source s;
    sk_err e = {0};
    if (!sx_model("llama", model, sizeof model)) skip();
    snprintf(copy, sizeof copy, "%s/cut.gguf", sx_dir());
    snprintf(path, sizeof path, "%s/of-cut.gguf", sx_dir());
    assert_true(gg_read(model, &b) && gg_write(copy, b.data, b.len));
    if (sk_tensor_source_open_gguf(copy, NULL, NULL, NULL, &s, &e)) fail_msg("%s", e.text);
    assert_int_equal(truncate(copy, (off_t)b.len / 2), 0);
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){0, 6}, path, NULL, NULL, &e), SKIPPY_E_CORRUPT);
    assert_int_not_equal(access(path, F_OK), 0);
    sk_tensor_source_close(&s);
    sk_buf_free(&b);
}

#define REFUSED(family, a, b, words)                                                                                   \
    {                                                                                                                  \
        family " " #a ".." #b, families_that_cannot_be_cut_say_why, NULL, NULL, &(refusal) {                           \
            family, a, b, words                                                                                        \
        }                                                                                                              \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_must_be_one_of_the_model),
        REFUSED("gemma2", 0, 2, "sqrt(width)"),
        REFUSED("rwkv7", 0, 3, "layer 0"),
        REFUSED("gemma4e4b", 0, 6, "token ids"),
        REFUSED("glm4", 2, 6, "converted"),
        REFUSED("qwen3next", 0, 3, "attention layer"),
        REFUSED("qwen35", 8, 11, "attention layer"),
        REFUSED("lfm2", 2, 3, "recurrent layer"),
        REFUSED("granitehybrid", 0, 2, "attention layer"),
        REFUSED("gemma3", 3, 10, "period"),
        REFUSED("gemma4a4b", 4, 5, "so few layers"),
        cmocka_unit_test(a_refused_range_names_the_nearest_that_works),
        cmocka_unit_test(an_architecture_that_was_never_measured_is_served_whole_only),
        cmocka_unit_test(the_whole_model_is_always_a_stage_but_a_stage_is_not_cut_again),
        cmocka_unit_test(a_27b_gemma3_is_refused_whatever_the_cut),
        cmocka_unit_test(a_stage_must_not_look_like_a_lite_deepseek),
        cmocka_unit_test(a_gemma4_stage_without_a_window_layer_is_refused),
        cmocka_unit_test(converted_glm4_may_be_cut),
        cmocka_unit_test(a_windowed_lfm2_was_never_measured),
        cmocka_unit_test(metadata_that_no_loader_takes_is_an_error),
        cmocka_unit_test(arrays_with_a_value_per_layer_are_sliced_and_others_are_not),
        cmocka_unit_test(the_tokenizer_stays_in_the_first_stage),
        cmocka_unit_test(defaults_that_depend_on_the_number_of_layers_are_spelled_out),
        cmocka_unit_test(a_start_inside_an_interval_is_written_layer_by_layer),
        cmocka_unit_test(the_period_counts_from_the_stages_first_layer),
        cmocka_unit_test(later_stages_do_not_scale_their_input),
        cmocka_unit_test(a_tied_model_has_its_embedding_at_both_ends),
        cmocka_unit_test(an_untied_last_stage_holds_its_output_once),
        cmocka_unit_test(a_loader_that_wants_an_output_gets_one),
        cmocka_unit_test(rotary_factors_go_with_full_attention_in_gemma4),
        cmocka_unit_test(the_same_stage_has_the_same_bytes),
        cmocka_unit_test(a_stopped_write_leaves_nothing),
        cmocka_unit_test(a_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(a_source_cut_while_in_use_gives_no_stage),
    };
    return cmocka_run_group_tests_name("slice", tests, sx_setup, sx_teardown);
}
