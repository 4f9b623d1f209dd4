/* A package as a source of tensors: from a folder and over HTTP, compared with the model that it was made of. */
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
#include <gguf.h>

#include "base/test_folder.h"
#include "runtime/file_server.h"
#include "runtime/package_fixture.h"
#include "runtime/test_gguf.h"
#include "runtime/test_models.h"

typedef struct bench {
    char dir[512], model[600], package[600], part_dir[600];
    file_server *server; /* of dir, so a package is at /package */
    sk_tensor_source original, source;
} bench;

static int set_up(void **state) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_true(gg_temp_dir(b->dir, sizeof b->dir));
    snprintf(b->model, sizeof b->model, "%s/model.gguf", b->dir);
    snprintf(b->package, sizeof b->package, "%s/package", b->dir);
    snprintf(b->part_dir, sizeof b->part_dir, "%s/fetched/parts", b->dir);
    b->server = file_server_start(b->dir);
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    sk_tensor_source_close(&b->original);
    sk_tensor_source_close(&b->source);
    file_server_stop(b->server);
    test_remove_tree(b->dir);
    free(b);
    return 0;
}

static void open_original(bench *b, const char *model) {
    sk_err e = {0};
    sk_tensor_source_close(&b->original);
    if (sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &b->original, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static sk_package_access over_http(bench *b, const char *path) {
    return (sk_package_access){.location = file_server_url(b->server, path), .part_dir = b->part_dir};
}

static void opens(bench *b, sk_package_access a) {
    sk_err e = {0};
    sk_tensor_source_close(&b->source);
    if (sk_tensor_source_open_package(&a, &b->source, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static void does_not_open(bench *b, sk_package_access a, int code, const char *words) {
    sk_err e = {0};
    const int rc = sk_tensor_source_open_package(&a, &b->source, &e);
    if (rc != code) fail_msg("code %d instead of %d: %s", rc, code, e.text);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_null(b->source.meta);
}

static void make_small(bench *b) {
    const model_spec spec = {.name = "Small", .seed = 5, .changed_layer = -1};
    fixture_model(b->model, &spec);
    fixture_package(b->model, b->package);
}

static size_t index_of(const sk_tensor_source *s, const char *name) {
    for (size_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return i;
    fail_msg("there is no tensor '%s'", name);
    return 0;
}

static int read_one(bench *b, const char *name, sk_err *e) {
    uint8_t byte;
    return b->source.read(b->source.ud, index_of(&b->source, name), 0, &byte, 1, e);
}

/* ---- the same as the model ---- */

static void a_package_reads_as_its_model(void **state) {
    bench *b = *state;
    static const model_spec specs[] = {{.name = "A", .seed = 1, .changed_layer = -1},
                                       {.name = "B", .seed = 2, .tied = true, .changed_layer = -1},
                                       {.name = "C", .seed = 3, .half = true, .changed_layer = 1}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fixture_model(b->model, &specs[i]);
        snprintf(b->package, sizeof b->package, "%s/package-%zu", b->dir, i);
        fixture_package(b->model, b->package);
        open_original(b, b->model);
        opens(b, (sk_package_access){.location = b->package});
        assert_same_source(&b->original, &b->source);
    }
}

static void a_package_of_shards_reads_as_its_model(void **state) {
    bench *b = *state;
    const model_spec spec = {.name = "Sharded", .seed = 9, .changed_layer = -1};
    fixture_shards(b->dir, &spec, b->model, sizeof b->model);
    fixture_package(b->model, b->package);
    open_original(b, b->model);
    opens(b, (sk_package_access){.location = b->package});
    assert_same_source(&b->original, &b->source);
    assert_true(gguf_find_key(b->source.meta, "split.count") < 0); /* it is whole now */
}

static void the_manifest_names_the_source(void **state) {
    bench *b = *state;
    sk_package p;
    make_small(b);
    opens(b, (sk_package_access){.location = b->package});
    fixture_manifest(b->package, &p);
    assert_memory_equal(&b->source.digest, &p.manifest_digest, sizeof p.manifest_digest);
    sk_package_free(&p);
}

/* Stage files say which source they are of, and a package is another one than the file; all else must be equal. */
static void assert_same_stage(bench *b, sk_layer_range r) {
    char left[700], right[700];
    sk_err e = {0};
    sk_buf x = {0}, y = {0};
    snprintf(left, sizeof left, "%s/left.gguf", b->dir);
    snprintf(right, sizeof right, "%s/right.gguf", b->dir);
    if (sk_slice_write(&b->original, r, left, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    if (sk_slice_write(&b->source, r, right, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_true(gg_read(left, &x));
    assert_true(gg_read(right, &y));
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    sk_buf_free(&x);
    sk_buf_free(&y);
}

/* The first cut that makes two stages. */
static int32_t find_cut(sk_tensor_source *s) {
    const int32_t n = sk_slice_layers(s);
    for (int32_t cut = 1; cut < n; cut++) {
        if (sk_slice_check(s, (sk_layer_range){0, cut}, NULL) == SKIPPY_OK &&
            sk_slice_check(s, (sk_layer_range){cut, n}, NULL) == SKIPPY_OK)
            return cut;
    }
    fail_msg("%s cannot be cut", s->arch);
    return 0;
}

static void stage_files_of_package_and_model_are_the_same(void **state) {
    bench *b = *state;
    /* plain, hybrid, tied embedding with a norm of its own name, tied with windows, both again with experts */
    static const char *const families[] = {"llama", "falcon-h1", "lfm2", "gemma3", "qwen3next", "gemma4a4b"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *model = test_model_path(families[i]);
        if (!model) continue;
        snprintf(b->package, sizeof b->package, "%s/%s", b->dir, families[i]);
        open_original(b, model);
        fixture_package(model, b->package);
        opens(b, (sk_package_access){.location = b->package});
        assert_same_source(&b->original, &b->source);
        b->source.digest = b->original.digest;
        const int32_t cut = find_cut(&b->original);
        assert_same_stage(b, (sk_layer_range){0, cut});
        assert_same_stage(b, (sk_layer_range){cut, sk_slice_layers(&b->original)});
        test_remove_tree(b->package);
        n++;
    }
    if (n == 0) skip();
}

/* ---- over the network ---- */

static void only_what_is_needed_is_fetched(void **state) {
    bench *b = *state;
    sk_err e = {0};
    make_small(b);
    opens(b, over_http(b, "/package"));
    assert_int_equal(file_server_count(b->server, ""), 2); /* manifest and metadata */
    assert_int_equal(b->source.prepare(b->source.ud, 1, &e), SKIPPY_OK);
    assert_int_equal(file_server_count(b->server, ""), 3);
    assert_int_equal(b->source.prepare(b->source.ud, 1, &e), SKIPPY_OK); /* it is there */
    assert_int_equal(read_one(b, "blk.1.attn_q.weight", &e), SKIPPY_OK);
    assert_int_equal(file_server_count(b->server, ""), 3);
    assert_int_equal(b->source.prepare(b->source.ud, -1, &e), SKIPPY_OK); /* what every stage has */
    assert_int_equal(read_one(b, "rope_freqs.weight", &e), SKIPPY_OK);
    assert_int_equal(file_server_count(b->server, ""), 4);
    assert_int_equal(read_one(b, "token_embd.weight", &e), SKIPPY_OK);
    assert_int_equal(file_server_count(b->server, ""), 5);
}

static void the_whole_model_comes_over_the_network(void **state) {
    bench *b = *state;
    make_small(b);
    open_original(b, b->model);
    opens(b, over_http(b, "/package/model-package.json"));
    assert_same_source(&b->original, &b->source);
}

/* Writes the stage from the network and compares which parts came with what the package says about the stage. */
static void assert_fetches(bench *b, sk_layer_range r) {
    sk_package p;
    sk_err e = {0};
    char out[700];
    snprintf(out, sizeof out, "%s/stage.gguf", b->dir);
    fixture_manifest(b->package, &p);
    file_server_forget(b->server);
    opens(b, over_http(b, "/package"));
    if (sk_slice_write(&b->source, r, out, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < p.n_parts; i++) {
        const size_t expected = sk_package_stage_needs(&p, r, &p.parts[i]);
        if (file_server_count(b->server, p.parts[i].path) != expected)
            fail_msg("stage %d..%d: part %s %d came %zu times instead of %zu", (int)r.start, (int)r.end - 1,
                     sk_part_role_names[p.parts[i].role], (int)p.parts[i].layer,
                     file_server_count(b->server, p.parts[i].path), expected);
    }
    sk_package_free(&p);
}

static void a_stage_fetches_its_parts_and_no_others(void **state) {
    bench *b = *state;
    static const char *const families[] = {"llama", "lfm2"}; /* with an output of its own, and tied */
    size_t n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *model = test_model_path(families[i]);
        if (!model) continue;
        fixture_package(model, b->package);
        open_original(b, model);
        const int32_t layers = sk_slice_layers(&b->original), cut = find_cut(&b->original);
        assert_fetches(b, (sk_layer_range){0, cut});
        assert_fetches(b, (sk_layer_range){cut, layers});
        if (sk_slice_check(&b->original, (sk_layer_range){cut, layers - 1}, NULL) == SKIPPY_OK)
            assert_fetches(b, (sk_layer_range){cut, layers - 1});
        n++;
    }
    if (n == 0) skip();
}

static void fetched_parts_go_when_the_source_is_closed(void **state) {
    bench *b = *state;
    make_small(b);
    opens(b, over_http(b, "/package"));
    sk_err e = {0};
    assert_int_equal(b->source.prepare(b->source.ud, 0, &e), SKIPPY_OK);
    char folder[700];
    snprintf(folder, sizeof folder, "%s/fetched", b->dir);
    assert_int_equal(fixture_count_parts(folder), 2);
    sk_tensor_source_close(&b->source);
    assert_int_equal(fixture_count_parts(folder), 0);
}

static void kept_parts_are_used_again(void **state) {
    bench *b = *state;
    sk_err e = {0};
    make_small(b);
    for (int round = 0; round < 2; round++) {
        sk_package_access a = over_http(b, "/package");
        a.keep_parts = round == 0;
        file_server_forget(b->server);
        opens(b, a);
        assert_int_equal(b->source.prepare(b->source.ud, 2, &e), SKIPPY_OK);
        assert_int_equal(file_server_count(b->server, ""), round == 0 ? 3 : 1); /* then the manifest alone */
        sk_tensor_source_close(&b->source);
    }
    char folder[700];
    snprintf(folder, sizeof folder, "%s/fetched", b->dir);
    assert_int_equal(fixture_count_parts(folder), 2); /* who did not fetch them does not remove them */
}

static void a_token_in_the_url_goes_with_every_file(void **state) {
    bench *b = *state;
    sk_err e = {0};
    make_small(b);
    opens(b, over_http(b, "/package/?token=7"));
    assert_int_equal(b->source.prepare(b->source.ud, 0, &e), SKIPPY_OK);
    assert_int_equal(file_server_count(b->server, ""), 3);
    assert_int_equal(file_server_count(b->server, "?token=7"), 3);
    assert_int_equal(file_server_count(b->server, "/package/parts/"), 2);
}

typedef struct seen {
    uint64_t last, total;
    bool go_on;
} seen;

static bool watch(void *ud, uint64_t done, uint64_t total) {
    seen *s = ud;
    s->last = done;
    s->total = total;
    return s->go_on;
}

static void progress_is_of_the_current_part_and_can_stop_it(void **state) {
    bench *b = *state;
    sk_err e = {0};
    sk_package p;
    seen s = {.go_on = true};
    make_small(b);
    fixture_manifest(b->package, &p);
    sk_package_access a = over_http(b, "/package");
    a.progress = watch;
    a.progress_ud = &s;
    opens(b, a);
    assert_int_equal(b->source.prepare(b->source.ud, 0, &e), SKIPPY_OK);
    assert_int_equal(s.total, fixture_part(&p, SK_PART_LAYER, 0)->bytes);
    assert_int_equal(s.last, s.total);
    s.go_on = false;
    assert_int_equal(b->source.prepare(b->source.ud, 1, &e), SKIPPY_E_CANCELLED);
    s.go_on = true;
    assert_int_equal(b->source.prepare(b->source.ud, 1, &e), SKIPPY_OK);
    sk_package_free(&p);
}

/* ---- what is refused ---- */

static void damage_part(bench *b, enum sk_part_role role, int32_t layer) {
    sk_package p;
    char path[800];
    sk_buf bytes = {0};
    fixture_manifest(b->package, &p);
    snprintf(path, sizeof path, "%s/%s", b->package, fixture_part(&p, role, layer)->path);
    if (!gg_read(path, &bytes) || !bytes.data) {
        fail_msg("nothing to damage in %s", path);
        return;
    }
    bytes.data[bytes.len / 2] ^= 1;
    assert_true(gg_write(path, bytes.data, bytes.len));
    sk_buf_free(&bytes);
    sk_package_free(&p);
}

static void a_damaged_part_is_never_used(void **state) {
    bench *b = *state;
    make_small(b);
    damage_part(b, SK_PART_LAYER, 1);
    const sk_package_access accesses[] = {{.location = b->package}, over_http(b, "/package")};
    for (size_t i = 0; i < 2; i++) {
        sk_err e = {0};
        opens(b, accesses[i]);
        assert_int_equal(b->source.prepare(b->source.ud, 0, &e), SKIPPY_OK);
        assert_int_equal(b->source.prepare(b->source.ud, 1, &e), SKIPPY_E_CORRUPT);
        assert_true(e.text[0]);
        assert_int_equal(read_one(b, "blk.1.attn_q.weight", &e), SKIPPY_E_CORRUPT);
        assert_int_equal(read_one(b, "blk.2.attn_q.weight", &e), SKIPPY_OK);
    }
}

static void damaged_metadata_keeps_the_package_closed(void **state) {
    bench *b = *state;
    make_small(b);
    damage_part(b, SK_PART_METADATA, -1);
    does_not_open(b, (sk_package_access){.location = b->package}, SKIPPY_E_CORRUPT, "BLAKE3");
    does_not_open(b, over_http(b, "/package"), SKIPPY_E_CORRUPT, "manifest");
}

static void what_is_not_there_is_said(void **state) {
    bench *b = *state;
    make_small(b);
    does_not_open(b, (sk_package_access){.location = b->dir}, SKIPPY_E_NOT_FOUND, "model-package.json");
    does_not_open(b, over_http(b, "/nothing"), SKIPPY_E_NOT_FOUND, "HTTP 404");
}

static void a_place_that_is_none_is_refused(void **state) {
    bench *b = *state;
    char url[700];
    make_small(b);
    snprintf(url, sizeof url, "file://%s", b->package);
    does_not_open(b, (sk_package_access){.location = url, .part_dir = b->part_dir}, SKIPPY_E_INVALID, "http://");
    does_not_open(b, (sk_package_access){.location = "ftp://host/x", .part_dir = b->part_dir}, SKIPPY_E_INVALID,
                  "http://");
    sk_package_access homeless = over_http(b, "/package");
    homeless.part_dir = NULL;
    does_not_open(b, homeless, SKIPPY_E_INVALID, "needs a folder");
    homeless.part_dir = b->model; /* a file */
    does_not_open(b, homeless, SKIPPY_E_IO, "not a folder");
    homeless = over_http(b, "/package");
    homeless.ca_file = "/nowhere/ca.pem";
    does_not_open(b, homeless, SKIPPY_E_IO, "ca.pem");
}

static void reading_outside_is_refused(void **state) {
    bench *b = *state;
    uint8_t byte;
    sk_err e = {0};
    make_small(b);
    opens(b, (sk_package_access){.location = b->package});
    const size_t last = b->source.n_tensors - 1;
    const uint64_t bytes = b->source.tensors[last].bytes;
    assert_int_equal(b->source.read(b->source.ud, last + 1, 0, &byte, 1, &e), SKIPPY_E_INVALID);
    assert_int_equal(b->source.read(b->source.ud, last, bytes, &byte, 1, &e), SKIPPY_E_INVALID);
    assert_int_equal(b->source.read(b->source.ud, last, UINT64_MAX, &byte, 1, &e), SKIPPY_E_INVALID);
    assert_int_equal(b->source.read(b->source.ud, last, bytes - 1, &byte, 1, &e), SKIPPY_OK);
    assert_int_equal(b->source.prepare(b->source.ud, MODEL_LAYERS, &e), SKIPPY_E_INVALID);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_SERVER(a_package_reads_as_its_model),
        WITH_SERVER(a_package_of_shards_reads_as_its_model),
        WITH_SERVER(the_manifest_names_the_source),
        WITH_SERVER(stage_files_of_package_and_model_are_the_same),
        WITH_SERVER(only_what_is_needed_is_fetched),
        WITH_SERVER(the_whole_model_comes_over_the_network),
        WITH_SERVER(a_stage_fetches_its_parts_and_no_others),
        WITH_SERVER(fetched_parts_go_when_the_source_is_closed),
        WITH_SERVER(kept_parts_are_used_again),
        WITH_SERVER(a_token_in_the_url_goes_with_every_file),
        WITH_SERVER(progress_is_of_the_current_part_and_can_stop_it),
        WITH_SERVER(a_damaged_part_is_never_used),
        WITH_SERVER(damaged_metadata_keeps_the_package_closed),
        WITH_SERVER(what_is_not_there_is_said),
        WITH_SERVER(a_place_that_is_none_is_refused),
        WITH_SERVER(reading_outside_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
