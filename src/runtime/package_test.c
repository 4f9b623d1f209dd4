/* Writing and verifying packages. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <ggml.h>
#include <gguf.h>

#include "base/hash.h"
#include "base/test_folder.h"
#include "correctness/schema_check.h"
#include "runtime/package_fixture.h"
#include "runtime/package_manifest.h"
#include "runtime/test_gguf.h"

enum { PARTS = 4 + MODEL_LAYERS }; /* metadata, embedding, head, shared */

static const model_spec plain = {.name = "Plain", .seed = 1, .changed_layer = -1};

typedef struct bench {
    char dir[512], model[600], package[600];
    sk_tensor_source source; /* of the model, opened */
} bench;

static int set_up(void **state) {
    sk_err e = {0};
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_true(gg_temp_dir(b->dir, sizeof b->dir));
    snprintf(b->model, sizeof b->model, "%s/model.gguf", b->dir);
    snprintf(b->package, sizeof b->package, "%s/package", b->dir);
    fixture_model(b->model, &plain);
    if (sk_tensor_source_open_gguf(b->model, NULL, NULL, NULL, &b->source, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    sk_tensor_source_close(&b->source);
    test_remove_tree(b->dir);
    free(b);
    return 0;
}

static void writes(bench *b) {
    sk_err e = {0};
    if (sk_package_write(&b->source, b->package, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static void does_not_write(bench *b, int code, const char *words) {
    sk_err e = {0};
    char manifest[700];
    const int rc = sk_package_write(&b->source, b->package, NULL, NULL, &e);
    if (rc != code) fail_msg("code %d instead of %d: %s", rc, code, e.text);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    snprintf(manifest, sizeof manifest, "%s/" SK_PACKAGE_MANIFEST, b->package);
    assert_int_not_equal(access(manifest, F_OK), 0);
}

static void part_path(const char *package, const sk_package_part *part, char out[800]) {
    snprintf(out, 800, "%s/%s", package, part->path);
}

/* ---- writing ---- */

static void every_layer_and_role_has_its_part(void **state) {
    bench *b = *state;
    sk_package p;
    uint64_t tensor_bytes = 0, expected = 0;
    writes(b);
    fixture_manifest(b->package, &p);
    assert_int_equal(p.n_parts, PARTS);
    assert_int_equal(fixture_count_parts(b->package), PARTS);
    assert_string_equal(p.model_id, "Plain");
    assert_string_equal(p.arch, "llama");
    assert_string_equal(p.family, "llama");
    assert_int_equal(p.n_layer, MODEL_LAYERS);
    assert_int_equal(p.n_stage_layer, MODEL_LAYERS);
    assert_int_equal(p.width, MODEL_WIDTH);
    assert_memory_equal(&p.source_digest, &b->source.digest, sizeof p.source_digest);
    assert_int_equal(fixture_part(&p, SK_PART_METADATA, -1)->n_tensors, 0);
    assert_int_equal(fixture_part(&p, SK_PART_EMBEDDING, -1)->n_tensors, 1);
    assert_int_equal(fixture_part(&p, SK_PART_HEAD, -1)->n_tensors, 1);
    assert_int_equal(fixture_part(&p, SK_PART_SHARED, -1)->n_tensors, 2); /* final norm, rope_freqs */
    for (int32_t i = 0; i < MODEL_LAYERS; i++) assert_int_equal(fixture_part(&p, SK_PART_LAYER, i)->n_tensors, 3);
    for (size_t i = 0; i < p.n_parts; i++) {
        char path[800];
        struct stat st;
        part_path(b->package, &p.parts[i], path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, p.parts[i].bytes);
        tensor_bytes += p.parts[i].tensor_bytes;
    }
    for (size_t i = 0; i < b->source.n_tensors; i++) expected += b->source.tensors[i].bytes;
    assert_int_equal(tensor_bytes, expected);
    sk_package_free(&p);
}

static void the_manifest_is_what_its_schema_says(void **state) {
    bench *b = *state;
    char path[800];
    json_error_t where;
    writes(b);
    snprintf(path, sizeof path, "%s/" SK_PACKAGE_MANIFEST, b->package);
    json_t *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    assert_non_null(manifest);
    assert_matches_schema(manifest, "docs/formats/package.schema.json");
    json_decref(manifest);
}

static void the_same_model_gives_the_same_bytes(void **state) {
    bench *b = *state;
    sk_package first, second;
    char other[700];
    writes(b);
    snprintf(other, sizeof other, "%s/other/deep", b->dir);
    fixture_package(b->model, other);
    fixture_manifest(b->package, &first);
    fixture_manifest(other, &second);
    assert_memory_equal(&first.manifest_digest, &second.manifest_digest, sizeof first.manifest_digest);
    sk_package_free(&first);
    sk_package_free(&second);
}

static void shards_give_the_same_parts_as_one_file(void **state) {
    bench *b = *state;
    sk_package whole, sharded;
    char first[800], other[700];
    writes(b);
    fixture_shards(b->dir, &plain, first, sizeof first);
    snprintf(other, sizeof other, "%s/sharded", b->dir);
    fixture_package(first, other);
    fixture_manifest(b->package, &whole);
    fixture_manifest(other, &sharded);
    assert_int_equal(sharded.n_parts, whole.n_parts);
    for (size_t i = 0; i < whole.n_parts; i++) assert_string_equal(sharded.parts[i].path, whole.parts[i].path);
    assert_memory_not_equal(&whole.source_digest, &sharded.source_digest, sizeof whole.source_digest);
    sk_package_free(&whole);
    sk_package_free(&sharded);
}

static void a_part_of_two_models_is_stored_once(void **state) {
    bench *b = *state;
    char tuned[700];
    const model_spec other = {.name = "Plain", .seed = 1, .changed_layer = 1};
    snprintf(tuned, sizeof tuned, "%s/tuned.gguf", b->dir);
    fixture_model(tuned, &other);
    writes(b);
    fixture_package(tuned, b->package);
    assert_int_equal(fixture_count_parts(b->package), PARTS + 1); /* layer 1 of both */
    assert_int_equal(sk_package_verify(b->package, NULL, NULL, NULL, NULL), SKIPPY_OK);
}

static void two_quantisations_share_only_what_is_equal(void **state) {
    bench *b = *state;
    char half[700];
    const model_spec other = {.name = "Plain", .seed = 1, .half = true, .changed_layer = -1};
    snprintf(half, sizeof half, "%s/half.gguf", b->dir);
    fixture_model(half, &other);
    writes(b);
    fixture_package(half, b->package);
    /* metadata and the norms are equal in both; every part with a matrix is there twice */
    assert_int_equal(fixture_count_parts(b->package), 2 * PARTS - 2);
}

static void a_tied_model_has_no_head(void **state) {
    bench *b = *state;
    sk_package p;
    char tied[700], dir[700];
    const model_spec spec = {.name = "Tied", .seed = 3, .tied = true, .changed_layer = -1};
    snprintf(tied, sizeof tied, "%s/tied.gguf", b->dir);
    snprintf(dir, sizeof dir, "%s/tied", b->dir);
    fixture_model(tied, &spec);
    fixture_package(tied, dir);
    fixture_manifest(dir, &p);
    assert_int_equal(p.n_parts, PARTS - 1);
    for (size_t i = 0; i < p.n_parts; i++) assert_int_not_equal(p.parts[i].role, SK_PART_HEAD);
    /* its last stage reads the embedding instead; a middle one does not */
    const sk_package_part *embedding = fixture_part(&p, SK_PART_EMBEDDING, -1);
    assert_true(sk_package_stage_needs(&p, (sk_layer_range){0, 1}, embedding));
    assert_false(sk_package_stage_needs(&p, (sk_layer_range){1, 2}, embedding));
    assert_true(sk_package_stage_needs(&p, (sk_layer_range){2, 3}, embedding));
    sk_package_free(&p);
}

/* ---- interruptions ---- */

typedef struct stopper {
    uint64_t after, last, total;
} stopper;

static bool stop_after(void *ud, uint64_t done, uint64_t total) {
    stopper *s = ud;
    assert_true(done >= s->last);
    assert_true(done <= total);
    s->last = done;
    s->total = total;
    return done < s->after;
}

static void progress_ends_at_its_total(void **state) {
    bench *b = *state;
    stopper s = {.after = UINT64_MAX};
    assert_int_equal(sk_package_write(&b->source, b->package, stop_after, &s, NULL), SKIPPY_OK);
    assert_true(s.total > 0);
    assert_int_equal(s.last, s.total);
    s = (stopper){.after = UINT64_MAX};
    assert_int_equal(sk_package_write(&b->source, b->package, stop_after, &s, NULL), SKIPPY_OK); /* all there */
    assert_true(s.last > 0);
}

static void an_interrupted_run_leaves_no_package_and_is_continued(void **state) {
    bench *b = *state;
    sk_package p;
    char path[800], manifest[700];
    struct stat before, after;
    stopper all = {.after = UINT64_MAX};
    assert_int_equal(sk_package_write(&b->source, b->package, stop_after, &all, NULL), SKIPPY_OK);
    fixture_manifest(b->package, &p); /* tells what the first part will be called */
    part_path(b->package, fixture_part(&p, SK_PART_EMBEDDING, -1), path);
    assert_int_equal(test_remove_tree(b->package), 0);

    stopper half = {.after = all.total / 2};
    sk_err e = {0};
    assert_int_equal(sk_package_write(&b->source, b->package, stop_after, &half, &e), SKIPPY_E_CANCELLED);
    snprintf(manifest, sizeof manifest, "%s/" SK_PACKAGE_MANIFEST, b->package);
    assert_int_not_equal(access(manifest, F_OK), 0);
    assert_int_equal(stat(path, &before), 0);
    const size_t parts = fixture_count_parts(b->package);
    assert_in_range(parts, 1, PARTS - 1);

    writes(b);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino); /* not written again */
    assert_int_equal(fixture_count_parts(b->package), PARTS);
    assert_int_equal(sk_package_verify(b->package, NULL, NULL, NULL, NULL), SKIPPY_OK);
    sk_package_free(&p);
}

static void what_a_killed_run_left_is_overwritten(void **state) {
    bench *b = *state;
    sk_package p;
    char path[800], left[900];
    writes(b);
    fixture_manifest(b->package, &p);
    part_path(b->package, fixture_part(&p, SK_PART_LAYER, 1), path);
    snprintf(left, sizeof left, "%s.new", path);
    assert_int_equal(rename(path, left), 0);
    writes(b);
    assert_int_equal(fixture_count_parts(b->package), PARTS);
    assert_int_equal(sk_package_verify(b->package, NULL, NULL, NULL, NULL), SKIPPY_OK);
    sk_package_free(&p);
}

static void a_damaged_part_is_written_again(void **state) {
    bench *b = *state;
    sk_package p;
    char path[800];
    writes(b);
    fixture_manifest(b->package, &p);
    part_path(b->package, fixture_part(&p, SK_PART_LAYER, 2), path);
    assert_int_equal(truncate(path, 100), 0);
    writes(b);
    assert_int_equal(sk_package_verify(b->package, NULL, NULL, NULL, NULL), SKIPPY_OK);
    sk_package_free(&p);
}

static void two_writers_do_not_mix(void **state) {
    bench *b = *state;
    sk_package p;
    char path[800], left[900];
    writes(b);
    fixture_manifest(b->package, &p);
    part_path(b->package, fixture_part(&p, SK_PART_LAYER, 0), path);
    snprintf(left, sizeof left, "%s.new", path);
    assert_int_equal(test_remove_tree(b->package), 0);
    snprintf(path, sizeof path, "%s/parts", b->package);
    assert_int_equal(mkdir(b->package, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    const int fd = open(left, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    does_not_write(b, SKIPPY_E_BUSY, "another process");
    assert_int_equal(access(left, F_OK), 0); /* it is the other one's */
    close(fd);
    writes(b);
    sk_package_free(&p);
}

/* ---- what is refused ---- */

static void a_stage_file_is_refused(void **state) {
    bench *b = *state;
    gguf_set_val_u32(b->source.meta, "skippy.stage.version", 1);
    does_not_write(b, SKIPPY_E_UNSUPPORTED, "a stage");
}

static void a_model_without_width_is_refused(void **state) {
    bench *b = *state;
    gguf_remove_key(b->source.meta, "llama.embedding_length");
    does_not_write(b, SKIPPY_E_MODEL, "llama.embedding_length");
}

static void a_tensor_of_a_layer_too_many_is_refused(void **state) {
    bench *b = *state;
    b->source.tensors[b->source.n_tensors - 1].layer = MODEL_LAYERS;
    does_not_write(b, SKIPPY_E_MODEL, "layer that the model does not have");
}

static void too_many_layers_are_refused(void **state) {
    bench *b = *state;
    b->source.n_layer = SK_MAX_LAYERS + 1;
    does_not_write(b, SKIPPY_E_UNSUPPORTED, "513 layers");
}

static void a_file_in_the_way_is_refused(void **state) {
    bench *b = *state;
    assert_true(gg_write(b->package, "x", 1));
    does_not_write(b, SKIPPY_E_IO, "package");
}

static void an_odd_name_is_made_plain(void **state) {
    bench *b = *state;
    sk_package p;
    snprintf(b->source.name, sizeof b->source.name, "a\x1b[2Jb\xff\"c\\");
    writes(b);
    fixture_manifest(b->package, &p);
    assert_string_equal(p.model_id, "a?[2Jb?\"c\\");
    sk_package_free(&p);
}

static int real_reads; /* of the source under the two functions below */
static int (*real_read)(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e);

static int read_fails(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e) {
    (void)ud, (void)tensor, (void)offset, (void)buf, (void)n;
    return sk_err_set(e, SKIPPY_E_IO, "the disk is on fire");
}

static int read_changes(void *ud, size_t tensor, uint64_t offset, void *buf, size_t n, sk_err *e) {
    const int rc = real_read(ud, tensor, offset, buf, n, e);
    *(uint8_t *)buf ^= (uint8_t)real_reads++; /* other bytes each time */
    return rc;
}

static void the_source_s_words_are_passed_on(void **state) {
    bench *b = *state;
    b->source.read = read_fails;
    does_not_write(b, SKIPPY_E_IO, "the disk is on fire");
}

static void a_model_that_changes_meanwhile_is_noticed(void **state) {
    bench *b = *state;
    real_reads = 0;
    real_read = b->source.read;
    b->source.read = read_changes;
    does_not_write(b, SKIPPY_E_IO, "changed while");
}

/* ---- verifying ---- */

typedef struct found {
    size_t n;
    enum sk_part_role role;
    int32_t layer;
    char text[200];
} found;

static void note(void *ud, const sk_package_problem *p) {
    found *f = ud;
    f->n++;
    f->role = p->part->role;
    f->layer = p->part->layer;
    snprintf(f->text, sizeof f->text, "%s", p->text);
}

static void verify_finds(bench *b, enum sk_part_role role, int32_t layer, const char *words) {
    found f = {0};
    sk_err e = {0};
    assert_int_equal(sk_package_verify(b->package, NULL, &f, note, &e), SKIPPY_E_CORRUPT);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.role, role);
    assert_int_equal(f.layer, layer);
    if (!strstr(f.text, words)) fail_msg("'%s' is not in: %s", words, f.text);
}

static void a_whole_package_has_no_problem(void **state) {
    bench *b = *state;
    stopper s = {.after = UINT64_MAX};
    writes(b);
    assert_int_equal(sk_package_verify(b->package, stop_after, &s, NULL, NULL), SKIPPY_OK);
    assert_true(s.total > 0);
    assert_int_equal(s.last, s.total);
}

static void a_flipped_bit_is_found_in_every_part(void **state) {
    bench *b = *state;
    sk_package p;
    writes(b);
    fixture_manifest(b->package, &p);
    for (size_t i = 0; i < p.n_parts; i++) {
        char path[800];
        sk_buf bytes = {0};
        part_path(b->package, &p.parts[i], path);
        assert_true(gg_read(path, &bytes));
        bytes.data[bytes.len - 1 - i] ^= 4;
        assert_true(gg_write(path, bytes.data, bytes.len));
        verify_finds(b, p.parts[i].role, p.parts[i].layer, "BLAKE3");
        bytes.data[bytes.len - 1 - i] ^= 4;
        assert_true(gg_write(path, bytes.data, bytes.len));
        sk_buf_free(&bytes);
    }
    sk_package_free(&p);
}

static void a_missing_part_and_a_short_one_are_found(void **state) {
    bench *b = *state;
    sk_package p;
    char path[800];
    writes(b);
    fixture_manifest(b->package, &p);
    part_path(b->package, fixture_part(&p, SK_PART_LAYER, 1), path);
    assert_int_equal(truncate(path, 10), 0);
    verify_finds(b, SK_PART_LAYER, 1, "has 10 bytes instead of");
    assert_int_equal(unlink(path), 0);
    verify_finds(b, SK_PART_LAYER, 1, "no such file");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not make it wait */
    verify_finds(b, SK_PART_LAYER, 1, "not a regular file");
    sk_package_free(&p);
}

/* Makes the manifest agree about size and digest with a changed part. */
static void replace_part(bench *b, enum sk_part_role role, int32_t layer, const struct gguf_context *g) {
    sk_package p;
    sk_buf text = {0}, bytes = {0};
    char path[800];
    fixture_manifest(b->package, &p);
    sk_package_part *part = &p.parts[fixture_part(&p, role, layer) - p.parts];
    snprintf(path, sizeof path, "%s/new", b->package);
    assert_true(gguf_write_to_file(g, path, false));
    assert_true(gg_read(path, &bytes));
    sk_hash(bytes.data, bytes.len, part->digest.bytes);
    part->bytes = bytes.len;
    sk_package_part_path(&part->digest, part->path);
    part_path(b->package, part, path);
    assert_true(gg_write(path, bytes.data, bytes.len));
    sk_package_dump(&p, &text);
    snprintf(path, sizeof path, "%s/" SK_PACKAGE_MANIFEST, b->package);
    assert_true(gg_write(path, text.data, text.len));
    sk_buf_free(&text);
    sk_buf_free(&bytes);
    sk_package_free(&p);
}

static struct gguf_context *read_part(bench *b, enum sk_part_role role, int32_t layer, struct ggml_context **ctx) {
    sk_package p;
    char path[800];
    fixture_manifest(b->package, &p);
    part_path(b->package, fixture_part(&p, role, layer), path);
    sk_package_free(&p);
    struct gguf_context *g = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = false, .ctx = ctx});
    assert_non_null(g);
    for (int64_t i = 0; i < gguf_get_n_tensors(g); i++) { /* a header that was read does not know where the data is */
        const char *name = gguf_get_tensor_name(g, i);
        const struct ggml_tensor *t = ctx ? ggml_get_tensor(*ctx, name) : NULL;
        if (t)
            gguf_set_tensor_data(g, name, t->data);
        else
            fail_msg("the data of %s was not read", name);
    }
    return g;
}

static void an_extra_tensor_is_found(void **state) {
    bench *b = *state;
    struct ggml_context *ctx = NULL, *more = ggml_init((struct ggml_init_params){.mem_size = 65536});
    writes(b);
    struct gguf_context *g = read_part(b, SK_PART_LAYER, 0, &ctx);
    struct ggml_tensor *t = ggml_new_tensor_1d(more, GGML_TYPE_F32, 8);
    memset(t->data, 0, ggml_nbytes(t));
    ggml_set_name(t, "blk.0.surprise.weight");
    gguf_add_tensor(g, t);
    replace_part(b, SK_PART_LAYER, 0, g);
    verify_finds(b, SK_PART_LAYER, 0, "has 4 tensors instead of 3");
    gguf_free(g);
    ggml_free(ctx);
    ggml_free(more);
}

static void a_tensor_of_another_type_is_found(void **state) {
    bench *b = *state;
    struct ggml_context *ctx = NULL;
    writes(b);
    struct gguf_context *g = read_part(b, SK_PART_EMBEDDING, -1, &ctx);
    gguf_set_tensor_type(g, "token_embd.weight", GGML_TYPE_I32); /* as many bytes */
    replace_part(b, SK_PART_EMBEDDING, -1, g);
    verify_finds(b, SK_PART_EMBEDDING, -1, "another type or shape");
    gguf_free(g);
    ggml_free(ctx);
}

static void the_tensors_of_another_layer_are_found(void **state) {
    bench *b = *state;
    struct ggml_context *ctx = NULL;
    writes(b);
    struct gguf_context *g = read_part(b, SK_PART_LAYER, 1, &ctx);
    replace_part(b, SK_PART_LAYER, 0, g);
    verify_finds(b, SK_PART_LAYER, 0, "'blk.0.attn_norm.weight' is not in its part");
    gguf_free(g);
    ggml_free(ctx);
}

static void key_values_outside_the_metadata_are_found(void **state) {
    bench *b = *state;
    struct ggml_context *ctx = NULL;
    writes(b);
    struct gguf_context *g = read_part(b, SK_PART_LAYER, 1, &ctx);
    gguf_set_val_u32(g, "llama.block_count", 1);
    replace_part(b, SK_PART_LAYER, 1, g);
    verify_finds(b, SK_PART_LAYER, 1, "key-values");
    gguf_free(g);
    ggml_free(ctx);
}

static void metadata_of_another_model_is_found(void **state) {
    bench *b = *state;
    writes(b);
    struct gguf_context *g = read_part(b, SK_PART_METADATA, -1, NULL);
    gguf_set_val_u32(g, "llama.embedding_length", 64);
    replace_part(b, SK_PART_METADATA, -1, g);
    verify_finds(b, SK_PART_METADATA, -1, "the width 32");
    gguf_set_val_u32(g, "llama.block_count", 4);
    replace_part(b, SK_PART_METADATA, -1, g);
    verify_finds(b, SK_PART_METADATA, -1, "3 layers");
    gguf_set_val_str(g, "general.architecture", "qwen3");
    replace_part(b, SK_PART_METADATA, -1, g);
    verify_finds(b, SK_PART_METADATA, -1, "architecture 'llama'");
    gguf_free(g);
}

static void verifying_can_be_stopped(void **state) {
    bench *b = *state;
    stopper s = {.after = 1};
    sk_err e = {0};
    writes(b);
    assert_int_equal(sk_package_verify(b->package, stop_after, &s, NULL, &e), SKIPPY_E_CANCELLED);
}

static void a_folder_without_manifest_is_no_package(void **state) {
    bench *b = *state;
    sk_err e = {0};
    assert_int_equal(sk_package_verify(b->dir, NULL, NULL, NULL, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, SK_PACKAGE_MANIFEST));
}

#define ON_MODEL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_MODEL(every_layer_and_role_has_its_part),
        ON_MODEL(the_manifest_is_what_its_schema_says),
        ON_MODEL(the_same_model_gives_the_same_bytes),
        ON_MODEL(shards_give_the_same_parts_as_one_file),
        ON_MODEL(a_part_of_two_models_is_stored_once),
        ON_MODEL(two_quantisations_share_only_what_is_equal),
        ON_MODEL(a_tied_model_has_no_head),
        ON_MODEL(progress_ends_at_its_total),
        ON_MODEL(an_interrupted_run_leaves_no_package_and_is_continued),
        ON_MODEL(what_a_killed_run_left_is_overwritten),
        ON_MODEL(a_damaged_part_is_written_again),
        ON_MODEL(two_writers_do_not_mix),
        ON_MODEL(a_stage_file_is_refused),
        ON_MODEL(a_model_without_width_is_refused),
        ON_MODEL(a_tensor_of_a_layer_too_many_is_refused),
        ON_MODEL(too_many_layers_are_refused),
        ON_MODEL(a_file_in_the_way_is_refused),
        ON_MODEL(an_odd_name_is_made_plain),
        ON_MODEL(the_source_s_words_are_passed_on),
        ON_MODEL(a_model_that_changes_meanwhile_is_noticed),
        ON_MODEL(a_whole_package_has_no_problem),
        ON_MODEL(a_flipped_bit_is_found_in_every_part),
        ON_MODEL(a_missing_part_and_a_short_one_are_found),
        ON_MODEL(an_extra_tensor_is_found),
        ON_MODEL(a_tensor_of_another_type_is_found),
        ON_MODEL(the_tensors_of_another_layer_are_found),
        ON_MODEL(key_values_outside_the_metadata_are_found),
        ON_MODEL(metadata_of_another_model_is_found),
        ON_MODEL(verifying_can_be_stopped),
        ON_MODEL(a_folder_without_manifest_is_no_package),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
