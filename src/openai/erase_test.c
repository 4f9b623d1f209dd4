#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "openai/api.h"
#include "runtime/test_models.h"

static sk_model *model;
static sk_api *api;

static int load(void **state) {
    (void)state;
    const char *path = test_model_path("qwen3");
    if (!path) return 0;
    const sk_model_params p = {.path = path};
    sk_err e = {0};
    assert_int_equal(sk_model_load(&p, &model, &e), SKIPPY_OK);
    const sk_api_params a = {.model = model, .model_id = "m", .n_ctx = 1024, .default_n_predict = -1};
    assert_int_equal(sk_api_create(&a, &api, &e), SKIPPY_OK);
    return 0;
}

static int unload(void **state) {
    (void)state;
    if (api) sk_api_destroy(api);
    if (model) sk_model_free(model);
    return 0;
}

static int parse(const char *body, sk_api_erase *out, sk_api_error *err) {
    if (!api) skip();
    return sk_api_parse_erase(api, body, strlen(body), out, err);
}

static void empty_body_means_everything(void **state) {
    (void)state;
    sk_api_erase e;
    sk_api_error err;
    assert_int_equal(parse("", &e, &err), 0);
    assert_null(e.cache_namespace);
    assert_int_equal(e.n_tokens, 0);
    assert_int_equal(parse("{}", &e, &err), 0);
    assert_null(e.tokens);
}

static void prompt_and_namespace_are_read(void **state) {
    (void)state;
    sk_api_erase e;
    sk_api_error err;
    assert_int_equal(parse("{\"prompt\":\"Hello there\",\"prompt_cache_key\":\"k\"}", &e, &err), 0);
    assert_string_equal(e.cache_namespace, "k");
    assert_true(e.n_tokens > 0);
    sk_api_erase_free(&e);
    assert_int_equal(parse("{\"prompt\":[5,6,7]}", &e, &err), 0);
    assert_int_equal(e.n_tokens, 3);
    assert_int_equal(e.tokens[2], 7);
    sk_api_erase_free(&e);
}

static void what_is_not_understood_erases_nothing(void **state) {
    (void)state;
    sk_api_erase e;
    sk_api_error err;
    static const char *const bad[] = {"{\"promt\":\"x\"}", "{\"prompt_cache_key\":3}", "{\"prompt\":{}}", "[]", "{"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i], &e, &err), 400);
        assert_null(e.tokens);
        assert_null(e.cache_namespace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_body_means_everything),
        cmocka_unit_test(prompt_and_namespace_are_read),
        cmocka_unit_test(what_is_not_understood_erases_nothing),
    };
    return cmocka_run_group_tests_name("erase", tests, load, unload);
}
