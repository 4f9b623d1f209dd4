/* Synthetic models: every tiny family is made, loaded by llama.cpp and decoded. Needs the llama.cpp source tree for
 * vocabularies and templates; without it the tests say so and skip. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
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
#include "gguf.h"
#include "llama.h"
#include "runtime/synth.h"
#include "runtime/synth_families.h"
#include "runtime/synth_meta.h"
#include "runtime/synth_values.h"
#include "runtime/synth_vocab.h"

#define MAX_FAMILIES 64

static char work_dir[256];
static const char *llama_src;

/* ---- helpers ---- */

static const char *in_dir(char buf[512], const char *name) {
    snprintf(buf, 512, "%s/%s", work_dir, name);
    return buf;
}

static sk_synth_params tiny(const char *family, const char *out, uint64_t seed) {
    return (sk_synth_params){.family = family, .out = out, .seed = seed, .llama_src = llama_src, .force = true};
}

static int write_model(const sk_synth_params *p, sk_synth_result *result) {
    sk_err err = {0};
    int rc = sk_synth_write(p, result, &err);
    if (rc != SKIPPY_OK) print_message("%s: %s\n", p->family, err.text);
    return rc;
}

/* The write must fail with this code, and the text must hold this word. */
static void assert_refused(const sk_synth_params *p, int code, const char *word) {
    sk_err err = {0};
    assert_int_equal(sk_synth_write(p, NULL, &err), code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, word)) fail_msg("'%s' does not mention '%s'", err.text, word);
}

static void digest_file(const char *path, uint8_t out[SK_HASH_BYTES]) {
    static char chunk[1 << 16];
    sk_hasher h;
    size_t n;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    sk_hash_init(&h);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) sk_hash_update(&h, chunk, n);
    fclose(f);
    sk_hash_final(&h, out);
}

/* Files whose name begins with `name`: the model itself and whatever was left beside it. */
static int count_files(const char *name) {
    int n = 0;
    DIR *d = opendir(work_dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += strncmp(e->d_name, name, strlen(name)) == 0;
    closedir(d);
    return n;
}

static void need_tree(void) {
    if (llama_src) return;
    print_message("skipped: no llama.cpp source tree (set LLAMA_CPP_SRC)\n");
    skip();
}

static struct llama_model *load(const char *path, bool vocab_only) {
    struct llama_model_params p = llama_model_default_params();
    p.vocab_only = vocab_only;
    p.n_gpu_layers = 0;
    struct llama_model *m = llama_model_load_from_file(path, p);
    assert_non_null(m);
    return m;
}

/* ---- each family ---- */

static void check_row(const float *row, int n) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        assert_true(isfinite(row[i]));
        sum += row[i];
        squares += (double)row[i] * row[i];
    }
    double mean = sum / n, deviation = sqrt(squares / n - mean * mean);
    if (deviation < 0.3 || deviation > 12) fail_msg("the logits have deviation %g: flat or exploding", deviation);
}

static int best_token(const float *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* Whole UTF-8 characters: chat parsers refuse anything else. */
static void assert_text(const char *piece, int n) {
    assert_true(n > 0);
    for (int i = 0; i < n;) {
        unsigned char lead = (unsigned char)piece[i];
        int len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        assert_true(lead < 0x80 || lead >= 0xc2);
        assert_true(i + len <= n);
        for (int k = 1; k < len; k++) assert_int_equal((unsigned char)piece[i + k] & 0xc0, 0x80);
        i += len;
    }
}

/* Greedy text of 32 tokens: at least 8 different ones, none of which ends the generation or has no text. */
static void check_greedy(struct llama_context *ctx, const struct llama_vocab *vocab) {
    int n_vocab = llama_vocab_n_tokens(vocab), distinct = 0;
    llama_token prompt[] = {65, 300, 400, 500}, seen[32] = {0};
    char piece[128] = {0};
    assert_int_equal(llama_decode(ctx, llama_batch_get_one(prompt, 4)), 0);
    for (int step = 0; step < 32; step++) {
        const float *row = llama_get_logits_ith(ctx, -1);
        check_row(row, n_vocab);
        llama_token t = best_token(row, n_vocab);
        assert_false(llama_vocab_is_eog(vocab, t));
        assert_false(llama_vocab_is_control(vocab, t));
        assert_text(piece, llama_token_to_piece(vocab, t, piece, sizeof piece, 0, false));
        bool is_new = true;
        for (int i = 0; i < step; i++) is_new = is_new && seen[i] != t;
        distinct += is_new;
        seen[step] = t;
        assert_int_equal(llama_decode(ctx, llama_batch_get_one(&t, 1)), 0);
    }
    if (distinct < 8) fail_msg("only %d different tokens in 32: the text is degenerate", distinct);
}

static void check_decode(struct llama_model *m) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 256;
    p.n_batch = p.n_ubatch = 64;
    p.n_threads = p.n_threads_batch = 1;
    struct llama_context *ctx = llama_init_from_model(m, p);
    assert_non_null(ctx);
    check_greedy(ctx, llama_model_get_vocab(m));
    llama_free(ctx);
}

static void check_round_trip(const struct llama_vocab *vocab, const char *text) {
    llama_token tokens[256];
    char back[1024];
    int len = (int)strlen(text);
    int n = llama_tokenize(vocab, text, len, tokens, 256, false, false);
    assert_true(n > 0);
    int bytes = llama_detokenize(vocab, tokens, n, back, sizeof back, false, false);
    assert_int_equal(bytes, len);
    assert_memory_equal(back, text, (size_t)len);
}

static void check_tokenizer(const struct llama_model *m, const sk_synth_family *family) {
    const struct llama_vocab *vocab = llama_model_get_vocab(m);
    llama_token tokens[16];
    check_round_trip(vocab,
                     "Hello, world! The quick brown fox jumps over 13 lazy dogs;\n\tint main(void) { return 0; }");
    check_round_trip(
        vocab,
        "Gr\xc3\xbc\xc3\x9f"
        "e aus M\xc3\xbcnchen \xe2\x80\x94 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x98\x80 \xd0\xbf\xd1\x80\xd0\xb8");
    /* Special tokens are one token each when they are parsed, and the template's end of turn ends the generation. */
    for (const char *const *s = family->specials->control; *s; s++)
        assert_int_equal(llama_tokenize(vocab, *s, (int)strlen(*s), tokens, 16, false, true), 1);
    assert_true(llama_vocab_is_eog(vocab, llama_vocab_eos(vocab)));
    assert_true(llama_vocab_is_eog(vocab, llama_vocab_eot(vocab)));
    assert_int_equal(llama_vocab_get_add_bos(vocab), family->specials->add_bos);
}

static void check_metadata(const struct llama_model *m) {
    char text[256];
    assert_true(llama_model_meta_val_str(m, "general.name", text, sizeof text) > 0);
    assert_non_null(strstr(text, "random weights, seed 1"));
    assert_non_null(strstr(text, "synthetic"));
    assert_true(llama_model_meta_val_str(m, "general.description", text, sizeof text) > 0);
    assert_non_null(llama_model_chat_template(m, NULL));
}

static void tiny_model_loads_decodes_and_is_reproducible(void **state) {
    need_tree();
    const sk_synth_family *family = *state;
    char a[512], b[512];
    uint8_t first[SK_HASH_BYTES], again[SK_HASH_BYTES], other[SK_HASH_BYTES];
    sk_synth_result result;
    sk_synth_params p = tiny(family->name, in_dir(a, "a.gguf"), 1);
    assert_int_equal(write_model(&p, &result), SKIPPY_OK);
    struct llama_model *m = load(a, false);
    assert_int_equal(llama_model_n_params(m), result.parameters);
    assert_int_equal(llama_vocab_n_tokens(llama_model_get_vocab(m)), result.vocab);
    check_metadata(m);
    check_tokenizer(m, family);
    check_decode(m);
    llama_model_free(m);

    digest_file(a, first);
    p.out = in_dir(b, "b.gguf");
    assert_int_equal(write_model(&p, NULL), SKIPPY_OK);
    digest_file(b, again);
    assert_memory_equal(first, again, SK_HASH_BYTES);
    p.seed = 2;
    assert_int_equal(write_model(&p, NULL), SKIPPY_OK);
    digest_file(b, other);
    assert_memory_not_equal(first, other, SK_HASH_BYTES);
    unlink(a);
    unlink(b);
}

/* ---- options ---- */

static void half_and_quantised_files_load_and_are_smaller(void **state) {
    (void)state;
    need_tree();
    char path[512];
    static const enum sk_synth_quant quants[] = {SK_SYNTH_F32, SK_SYNTH_F16, SK_SYNTH_Q8_0, SK_SYNTH_Q4_K_M};
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < 4; i++) {
        sk_synth_result result;
        sk_synth_params p = tiny("llama", in_dir(path, "quant.gguf"), 1);
        p.quant = quants[i];
        assert_int_equal(write_model(&p, &result), SKIPPY_OK);
        assert_int_equal(result.quant, quants[i]);
        assert_true(result.file_bytes < last);
        last = result.file_bytes;
        struct llama_model *m = load(path, false);
        check_decode(m);
        llama_model_free(m);
        assert_int_equal(count_files("quant.gguf"), 1);
    }
    unlink(path);
}

static void layers_option_cuts_and_repeats_per_layer_arrays(void **state) {
    (void)state;
    need_tree();
    char path[512];
    for (uint32_t layers = 3; layers <= 12; layers += 9) {
        sk_synth_result result;
        sk_synth_params p = tiny("lfm2", in_dir(path, "layers.gguf"), 1);
        p.layers = layers;
        assert_int_equal(write_model(&p, &result), SKIPPY_OK);
        assert_int_equal(result.layers, layers);
        struct llama_model *m = load(path, false);
        assert_int_equal(llama_model_n_layer(m), (int)layers);
        check_decode(m);
        llama_model_free(m);
    }
    unlink(path);
}

static void shape_has_the_real_width_and_full_vocabulary(void **state) {
    (void)state;
    need_tree();
    char path[512], value[32];
    sk_synth_result result;
    sk_synth_params p = tiny("rwkv7", in_dir(path, "shape.gguf"), 1);
    p.size = SK_SYNTH_SHAPE;
    p.quant = SK_SYNTH_F16;
    p.layers = 1;
    assert_int_equal(write_model(&p, &result), SKIPPY_OK);
    struct llama_model *m = load(path, true);
    assert_int_equal(llama_vocab_n_tokens(llama_model_get_vocab(m)), 65536);
    assert_true(llama_model_meta_val_str(m, "rwkv7.embedding_length", value, sizeof value) > 0);
    assert_string_equal(value, "768");
    check_round_trip(llama_model_get_vocab(m), "Full vocabularies take any text too: \xe6\x97\xa5 \xf0\x9f\x98\x80.");
    llama_model_free(m);
    unlink(path);
}

/* The embedding matrix of a shape must have the real number of rows, whatever the stand-in vocabulary holds. */
static void full_vocabulary_has_the_real_size_and_all_special_tokens(void **state) {
    need_tree();
    const sk_synth_family *family = *state;
    char path[512];
    sk_err err = {0};
    sk_synth_vocab v;
    struct gguf_context *g = gguf_init_empty();
    assert_int_equal(sk_synth_meta_apply(g, family->arch, family->shape, &err), SKIPPY_OK);
    uint32_t wanted = sk_synth_meta_u32(g, family->arch, "vocab_size", 0);
    assert_true(wanted > 0);
    snprintf(path, sizeof path, "%s/models/ggml-vocab-%s.gguf", llama_src, family->vocab);
    assert_int_equal(sk_synth_vocab_full(path, family->specials, wanted, &v, &err), SKIPPY_OK);
    assert_int_equal(v.n, wanted);
    for (const char *const *s = family->specials->control; *s; s++) {
        size_t at = 0;
        while (at < v.n && strcmp(v.tokens[at], *s) != 0) at++;
        assert_true(at < v.n);
        assert_true(sk_synth_vocab_is_silent(&v, at));
    }
    assert_int_equal(sk_synth_vocab_store(&v, family->specials, family->pre, g, &err), SKIPPY_OK);
    assert_int_equal(gguf_get_arr_n(g, gguf_find_key(g, "tokenizer.ggml.tokens")), wanted);
    assert_true(gguf_find_key(g, "tokenizer.ggml.eos_token_id") >= 0);
    gguf_free(g);
    sk_synth_vocab_free(&v);
}

static void own_template_and_vocabulary_are_used(void **state) {
    (void)state;
    need_tree();
    char path[512], tmpl[512], vocab[512];
    FILE *f = fopen(in_dir(tmpl, "own.jinja"), "w");
    assert_non_null(f);
    fputs("{{ messages[0]['content'] }}", f);
    fclose(f);
    snprintf(vocab, sizeof vocab, "%s/models/ggml-vocab-gpt-2.gguf", llama_src);
    sk_synth_params p = tiny("llama", in_dir(path, "own.gguf"), 1);
    p.template_file = tmpl;
    p.vocab_file = vocab;
    assert_int_equal(write_model(&p, NULL), SKIPPY_OK);
    char pre[64];
    struct llama_model *m = load(path, true);
    assert_string_equal(llama_model_chat_template(m, NULL), "{{ messages[0]['content'] }}");
    assert_true(llama_model_meta_val_str(m, "tokenizer.ggml.pre", pre, sizeof pre) > 0);
    assert_string_equal(pre, "gpt-2");
    llama_model_free(m);
    unlink(path);
    unlink(tmpl);
}

/* ---- refusals ---- */

static void wrong_parameters_are_refused_in_words(void **state) {
    (void)state;
    char path[512];
    sk_synth_params p = tiny("no-such-family", in_dir(path, "bad.gguf"), 1);
    assert_refused(&p, SKIPPY_E_INVALID, "no-such-family");
    p = tiny(NULL, path, 1);
    assert_refused(&p, SKIPPY_E_INVALID, "family");
    p = tiny("llama", "", 1);
    assert_refused(&p, SKIPPY_E_INVALID, "output");
    enum sk_synth_quant quant = SK_SYNTH_F16;
    assert_false(sk_synth_quant_parse("q5_9", &quant));
    assert_int_equal(quant, SK_SYNTH_F16);
    assert_true(sk_synth_quant_parse("q4_k_m", &quant));
    assert_int_equal(quant, SK_SYNTH_Q4_K_M);
}

static void missing_files_are_refused_in_words(void **state) {
    (void)state;
    need_tree();
    char path[512], text[512];
    sk_synth_params p = tiny("llama", in_dir(path, "missing.gguf"), 1);
    p.llama_src = "/nonexistent/tree";
    assert_refused(&p, SKIPPY_E_NOT_FOUND, "/nonexistent/tree/models/ggml-vocab-llama-bpe.gguf");
    p = tiny("llama", path, 1);
    p.template_file = "/nonexistent/x.jinja";
    assert_refused(&p, SKIPPY_E_NOT_FOUND, "/nonexistent/x.jinja");
    FILE *f = fopen(in_dir(text, "empty.jinja"), "w");
    assert_non_null(f);
    fclose(f);
    p.template_file = text;
    assert_refused(&p, SKIPPY_E_INVALID, "not a chat template");
    p = tiny("llama", path, 1);
    p.vocab_file = text; /* not a GGUF file */
    assert_refused(&p, SKIPPY_E_NOT_FOUND, "not a GGUF");
    snprintf(text, sizeof text, "%s/models/ggml-vocab-llama-spm.gguf", llama_src);
    assert_refused(&p, SKIPPY_E_UNSUPPORTED, "byte-level");
    assert_int_equal(count_files("missing.gguf"), 0);
    unlink(in_dir(text, "empty.jinja"));
}

static void existing_file_is_kept_without_force(void **state) {
    (void)state;
    need_tree();
    char path[512], line[16] = "";
    FILE *f = fopen(in_dir(path, "kept.gguf"), "w");
    assert_non_null(f);
    fputs("precious", f);
    fclose(f);
    sk_synth_params p = tiny("llama", path, 1);
    p.force = false;
    assert_refused(&p, SKIPPY_E_EXISTS, "--force");
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    assert_string_equal(line, "precious");
    p.force = true;
    assert_int_equal(write_model(&p, NULL), SKIPPY_OK);
    llama_model_free(load(path, true));
    p.out = work_dir;
    assert_refused(&p, SKIPPY_E_EXISTS, "directory");
    unlink(path);
}

static void unwritable_directory_is_refused_in_words(void **state) {
    (void)state;
    need_tree();
    sk_synth_params p = tiny("llama", "/nonexistent/dir/model.gguf", 1);
    assert_refused(&p, SKIPPY_E_IO, "/nonexistent/dir");
    p.out = "/proc/model.gguf"; /* exists, takes no files, not even root's */
    assert_refused(&p, SKIPPY_E_IO, "/proc");
}

static void too_few_layers_are_refused_in_words(void **state) {
    (void)state;
    need_tree();
    char path[512];
    sk_synth_params p = tiny("qwen3next", in_dir(path, "few.gguf"), 1);
    p.layers = 3;
    assert_refused(&p, SKIPPY_E_INVALID, "4 to");
    p = tiny("granitehybrid", path, 1);
    p.size = SK_SYNTH_SHAPE;
    p.layers = 10; /* the first attention layer is number 10 */
    assert_refused(&p, SKIPPY_E_INVALID, "kinds of layers");
    assert_int_equal(count_files("few.gguf"), 0);
}

static void model_beyond_memory_is_refused_before_writing(void **state) {
    (void)state;
    need_tree();
    char path[512];
    sk_synth_params p = tiny("deepseek3", in_dir(path, "huge.gguf"), 1); /* 671 G parameters */
    p.size = SK_SYNTH_SHAPE;
    assert_refused(&p, SKIPPY_E_TOO_LARGE, "--layers");
    assert_int_equal(count_files("huge.gguf"), 0);
}

static bool stop_at_once(void *ud, enum sk_synth_phase phase, uint64_t done, uint64_t total) {
    (void)phase;
    (void)done;
    *(uint64_t *)ud = total;
    return false;
}

/* 512 experts in each of 4 layers: 7.2 G weights, of which llama.cpp is asked for less than one. */
static void experts_are_written_in_full_though_few_are_listed(void **state) {
    (void)state;
    need_tree();
    char path[512];
    uint64_t bytes = 0;
    sk_synth_params p = tiny("qwen3next", in_dir(path, "experts.gguf"), 1);
    p.size = SK_SYNTH_SHAPE;
    p.quant = SK_SYNTH_F16;
    p.layers = 4;
    p.progress = stop_at_once;
    p.progress_ud = &bytes;
    sk_err err = {0};
    int rc = sk_synth_write(&p, NULL, &err);
    assert_int_equal(count_files("experts.gguf"), 0);
    if (rc == SKIPPY_E_TOO_LARGE && strstr(err.text, "free")) skip(); /* the disk has no room for 14 GB */
    assert_int_equal(rc, SKIPPY_E_CANCELLED);
    assert_in_range(bytes, UINT64_C(2) * 7200000000, UINT64_C(2) * 7300000000);
}

static bool stop_at_half(void *ud, enum sk_synth_phase phase, uint64_t done, uint64_t total) {
    assert_int_equal(phase, SK_SYNTH_WRITE);
    assert_true(done <= total);
    ++*(int *)ud;
    return done < total / 2;
}

static void cancelled_write_leaves_nothing_behind(void **state) {
    (void)state;
    need_tree();
    char path[512];
    int calls = 0;
    sk_synth_params p = tiny("llama", in_dir(path, "cancel.gguf"), 1);
    p.progress = stop_at_half;
    p.progress_ud = &calls;
    assert_refused(&p, SKIPPY_E_CANCELLED, "stopped");
    assert_true(calls > 1);
    assert_int_equal(count_files("cancel.gguf"), 0);
}

/* ---- parts ---- */

static void metadata_text_fills_typed_keys(void **state) {
    (void)state;
    sk_err err = {0};
    struct gguf_context *g = gguf_init_empty();
    assert_int_equal(sk_synth_meta_apply(g, "x", "n=u:7 f=f:1e6 y=b:1 s=s:yarn a=a:(1,2)x2,9 i=i:-3,4 B=B:1,0", &err),
                     SKIPPY_OK);
    assert_int_equal(sk_synth_meta_u32(g, "x", "n", 0), 7);
    assert_int_equal(sk_synth_meta_u32(g, "x", "absent", 5), 5);
    assert_float_equal(gguf_get_val_f32(g, gguf_find_key(g, "x.f")), 1e6f, 0);
    assert_true(gguf_get_val_bool(g, gguf_find_key(g, "x.y")));
    assert_string_equal(gguf_get_val_str(g, gguf_find_key(g, "x.s")), "yarn");
    int64_t a = gguf_find_key(g, "x.a");
    static const uint32_t expected[] = {1, 2, 1, 2, 9};
    assert_int_equal(gguf_get_arr_n(g, a), 5);
    assert_memory_equal(gguf_get_arr_data(g, a), expected, sizeof expected);
    assert_int_equal(((const int32_t *)gguf_get_arr_data(g, gguf_find_key(g, "x.i")))[0], -3);
    assert_int_equal(gguf_get_arr_type(g, gguf_find_key(g, "x.B")), GGUF_TYPE_BOOL);
    gguf_free(g);
}

static void damaged_metadata_text_is_refused_with_the_item(void **state) {
    (void)state;
    static const char *const bad[] = {
        "n",       "n=7",  "=u:7",   "n=u:",   "n=u:7x",    "n=u:-1",   "n=u:4294967296", "n=q:7",     "y=b:2",
        "f=f:one", "s=s:", "a=a:1,", "a=a:(1", "a=a:(1)x0", "a=a:()x2", "a=a:(1)x600",    "a=a:(1,2)3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sk_err err = {0};
        struct gguf_context *g = gguf_init_empty();
        int rc = sk_synth_meta_apply(g, "x", bad[i], &err);
        gguf_free(g);
        if (rc != SKIPPY_E_INVALID) fail_msg("'%s' was accepted", bad[i]);
        assert_non_null(strstr(err.text, bad[i]));
    }
}

/* A value must not depend on how a tensor is cut into chunks. */
static void values_do_not_depend_on_chunks(void **state) {
    (void)state;
    enum { N = 1000 };
    float whole[N], pieces[N];
    sk_synth_rule rules[] = {{SK_SYNTH_NORMAL, 1, 2},
                             {SK_SYNTH_UNIFORM, -1, 3},
                             {SK_SYNTH_ROPE_LLAMA3, 500000, 0},
                             {SK_SYNTH_ROPE_QUARTER, 0, 0}};
    uint64_t key = sk_synth_key(7, "blk.0.attn_q.weight");
    for (size_t r = 0; r < 4; r++) {
        sk_synth_fill(&rules[r], key, 0, N, N, whole);
        for (size_t at = 0, n = 1; at < N; at += n, n = n * 2 + 1)
            sk_synth_fill(&rules[r], key, at, n < N - at ? n : N - at, N, pieces + at);
        assert_memory_equal(whole, pieces, sizeof whole);
    }
}

/* Golden values: a change would change every synthetic model, and so every stored result that names a seed. */
static void generator_values_are_stable(void **state) {
    (void)state;
    float v[3];
    sk_synth_rule rule = {SK_SYNTH_NORMAL, 0, 1};
    assert_true(sk_synth_key(1, "token_embd.weight") == 0x91d4ddb4c257ab15u);
    sk_synth_fill(&rule, 42, 0, 3, 3, v);
    assert_true(v[0] == -0x1.893068p-1f && v[1] == 0x1.30101ap+0f && v[2] == -0x1.13509ep+0f);
}

static void normal_values_have_mean_and_deviation(void **state) {
    (void)state;
    enum { N = 200000 };
    float *v = malloc(N * sizeof *v);
    assert_non_null(v);
    double sum = 0, squares = 0;
    sk_synth_rule rule = {SK_SYNTH_NORMAL, 0.5f, 2};
    sk_synth_fill(&rule, sk_synth_key(1, "x"), 0, N, N, v);
    for (size_t i = 0; i < N; i++) {
        sum += v[i];
        squares += (double)v[i] * v[i];
    }
    free(v);
    double mean = sum / N, deviation = sqrt(squares / N - mean * mean);
    assert_true(fabs(mean - 0.5) < 0.02);
    assert_true(fabs(deviation - 2) < 0.02);
}

static void llama3_rope_factors_follow_the_wavelength(void **state) {
    (void)state;
    float f[32];
    sk_synth_rule rule = {SK_SYNTH_ROPE_LLAMA3, 500000, 0};
    sk_synth_fill(&rule, 0, 0, 32, 32, f);
    assert_float_equal(f[0], 1, 0);
    assert_float_equal(f[31], 32, 0);
    for (int i = 1; i < 32; i++) assert_true(f[i] >= f[i - 1]);
}

static void same_tensor_name_in_other_layers_gets_other_values(void **state) {
    (void)state;
    assert_true(sk_synth_key(1, "blk.0.attn_q.weight") != sk_synth_key(1, "blk.1.attn_q.weight"));
    assert_true(sk_synth_key(1, "blk.0.attn_q.weight") != sk_synth_key(2, "blk.0.attn_q.weight"));
    assert_string_equal(sk_synth_base_name("blk.12.attn_q.weight"), "attn_q.weight");
    assert_string_equal(sk_synth_base_name("output.weight"), "output.weight");
}

static void scratch_paths_fit_or_say_so(void **state) {
    (void)state;
    char buf[32];
    assert_int_equal(sk_synth_scratch_path("m.gguf", 0, buf, sizeof buf), SKIPPY_OK);
    assert_string_equal(buf, "m.gguf.partial");
    assert_int_equal(sk_synth_scratch_path("m.gguf", 1, buf, 8), SKIPPY_E_TOO_SMALL);
}

static void quiet(enum ggml_log_level level, const char *text, void *ud) {
    (void)level;
    (void)text;
    (void)ud;
}

/* The tree that the program was built with, or the environment's. */
static const char *find_tree(void) {
    const char *env = getenv("LLAMA_CPP_SRC");
#ifdef SKIPPY_LLAMA_SRC
    return env && *env ? env : SKIPPY_LLAMA_SRC;
#else
    return env && *env ? env : NULL;
#endif
}

/* Adds two tests per family, named after it. */
static size_t add_family_tests(struct CMUnitTest *tests) {
    static char names[2 * MAX_FAMILIES][96];
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } each[] = {
        {"tiny_model_loads_decodes_and_is_reproducible", tiny_model_loads_decodes_and_is_reproducible},
        {"full_vocabulary_has_the_real_size_and_all_special_tokens",
         full_vocabulary_has_the_real_size_and_all_special_tokens},
    };
    size_t n = 0;
    for (size_t i = 0; i < MAX_FAMILIES && sk_synth_family_get(i); i++) {
        for (size_t t = 0; t < 2; t++, n++) {
            snprintf(names[n], sizeof names[n], "%s: %s", each[t].name, sk_synth_family_get(i)->name);
            tests[n] = (struct CMUnitTest){.name = names[n], .test_func = each[t].run};
            tests[n].initial_state = (void *)sk_synth_family_get(i);
        }
    }
    return n;
}

int main(void) {
    const struct CMUnitTest parts[] = {
        cmocka_unit_test(metadata_text_fills_typed_keys),
        cmocka_unit_test(damaged_metadata_text_is_refused_with_the_item),
        cmocka_unit_test(values_do_not_depend_on_chunks),
        cmocka_unit_test(generator_values_are_stable),
        cmocka_unit_test(normal_values_have_mean_and_deviation),
        cmocka_unit_test(llama3_rope_factors_follow_the_wavelength),
        cmocka_unit_test(same_tensor_name_in_other_layers_gets_other_values),
        cmocka_unit_test(scratch_paths_fit_or_say_so),
        cmocka_unit_test(wrong_parameters_are_refused_in_words),
        cmocka_unit_test(missing_files_are_refused_in_words),
        cmocka_unit_test(existing_file_is_kept_without_force),
        cmocka_unit_test(unwritable_directory_is_refused_in_words),
        cmocka_unit_test(too_few_layers_are_refused_in_words),
        cmocka_unit_test(model_beyond_memory_is_refused_before_writing),
        cmocka_unit_test(experts_are_written_in_full_though_few_are_listed),
        cmocka_unit_test(cancelled_write_leaves_nothing_behind),
        cmocka_unit_test(half_and_quantised_files_load_and_are_smaller),
        cmocka_unit_test(layers_option_cuts_and_repeats_per_layer_arrays),
        cmocka_unit_test(shape_has_the_real_width_and_full_vocabulary),
        cmocka_unit_test(own_template_and_vocabulary_are_used),
    };
    struct CMUnitTest families[2 * MAX_FAMILIES] = {0};
    const char *tmp = getenv("TMPDIR");
    snprintf(work_dir, sizeof work_dir, "%s/skippy-synth-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(work_dir)) {
        fprintf(stderr, "cannot make a directory for the test: %s\n", strerror(errno));
        return 1;
    }
    llama_src = find_tree();
    llama_log_set(quiet, NULL);
    size_t n_families = add_family_tests(families);
    int failed = cmocka_run_group_tests_name("synth", parts, NULL, NULL);
    failed += _cmocka_run_group_tests("synth families", families, n_families, NULL, NULL);
    if (rmdir(work_dir) != 0) {
        fprintf(stderr, "the test left files in %s\n", work_dir);
        failed++;
    }
    return failed;
}
