#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>

#include "base/test_folder.h"
#include "bench/family/package_facts.h"
#include "bench/family/tiny_gguf.h"
#include "bench/family/tiny_package.h"

static char root[PATH_MAX], folder[PATH_MAX + 16];

static int make_package(void **state) {
    char temp[96], model[PATH_MAX + 16];
    (void)state;
    if (!gg_temp_dir(temp, sizeof temp) || !realpath(temp, root)) return -1;
    snprintf(model, sizeof model, "%s/m.gguf", root);
    snprintf(folder, sizeof folder, "%s/package", root);
    const tiny_gguf t = {.name = "a synthetic model", .file_type = 0};
    return tiny_gguf_write(model, &t) && tiny_package_write(model, folder) ? 0 : -1;
}

static int drop_package(void **state) {
    (void)state;
    return test_remove_tree(root);
}

static int read_range(const char *real_root, int32_t end, sk_package_facts *f, sk_err *e) {
    return sk_package_facts_read(real_root, folder, 0, end, f, e);
}

static void facts_are_those_of_the_manifest(void **state) {
    (void)state;
    sk_package_facts f;
    sk_err e = {0};
    const int rc = read_range(root, 1, &f, &e);
    assert_string_equal(e.text, "");
    assert_int_equal(rc, SKIPPY_OK);
    assert_string_equal(f.arch, "llama");
    assert_int_equal(f.layers, 1);
    assert_int_equal(f.width, TINY_WIDTH);
    assert_true(f.synthetic);
    assert_non_null(strstr(f.manifest, "/package/model-package.json"));
}

static void a_range_beyond_the_model_is_refused(void **state) {
    (void)state;
    sk_package_facts f;
    sk_err e = {0};
    assert_int_equal(read_range(root, 4, &f, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "has 1 layers, but layer 3 is to be measured"));
}

/* Calls f with the path of the largest part: the stage of all layers reads every part. */
static void spoil_one_part(int (*f)(const char *path)) {
    char parts[PATH_MAX + 32], path[PATH_MAX + 320];
    snprintf(parts, sizeof parts, "%s/parts", folder);
    DIR *d = opendir(parts);
    assert_non_null(d);
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", parts, entry->d_name);
        assert_int_equal(f(path), 0);
        break;
    }
    closedir(d);
}

static int cut(const char *path) {
    return truncate(path, 7);
}

static int point_outside(const char *path) {
    return unlink(path) == 0 ? symlink("/dev/null", path) : -1;
}

static void parts_must_be_there_whole_and_inside(void **state) {
    (void)state;
    sk_package_facts f;
    sk_err e = {0};
    spoil_one_part(cut);
    assert_int_equal(read_range(root, 1, &f, &e), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(e.text, "fetch the package again"));
    spoil_one_part(point_outside);
    assert_int_equal(read_range(root, 1, &f, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "leads out of the cache root"));
    spoil_one_part(unlink);
    assert_int_equal(read_range(root, 1, &f, &e), SKIPPY_E_NOT_FOUND);
}

static void what_is_no_package_is_refused(void **state) {
    (void)state;
    char other[PATH_MAX + 32];
    sk_package_facts f;
    sk_err e = {0};
    snprintf(other, sizeof other, "%s/m.gguf", root);
    assert_int_equal(sk_package_facts_read(root, other, 0, 1, &f, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "is not a folder"));
    snprintf(other, sizeof other, "%s/package/parts", root);
    assert_int_equal(sk_package_facts_read(root, other, 0, 1, &f, &e), SKIPPY_E_NOT_FOUND);
    assert_int_equal(read_range(other, 1, &f, &e), SKIPPY_E_INVALID); /* the package lies outside of this root */
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_package, drop_package)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(facts_are_those_of_the_manifest),
        T(a_range_beyond_the_model_is_refused),
        T(parts_must_be_there_whole_and_inside),
        T(what_is_no_package_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
