/* Bodies that would cost too much are refused before they do, and several may be read at a time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "openai/api.h"
#include "openai/fake_model.h"

/* The longest token of the model of these tests has 12 bytes. */
static void a_text_that_cannot_fit_is_refused_before_it_is_tokenised(void **state) {
    (void)state;
    static const struct {
        const char *head, *tail;
    } forms[] = {{"{\"prompt\":\"", "\"}"}, {"{\"prompt\":[\"", "\",5]}"}, {"{\"prompt\":[\"a\",\"", "\"]}"}};
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 8, .default_n_predict = -1};
    sk_api *api = NULL;
    sk_api_call *c;
    sk_api_error err;
    char text[108 + 1], body[160];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = (size_t)snprintf(body, sizeof body, "%s%s%s", forms[i].head, text, forms[i].tail);
        assert_int_equal(sk_api_parse(api, SK_API_LLAMA, body, n, &c, &err), 400);
        assert_string_equal(err.code, "context_length_exceeded");
        if (!strstr(err.message, "at least 9 tokens, and the context holds 8")) fail_msg("%zu: %s", i, err.message);
    }
    sk_api_destroy(api);
}

/* The template adds its own words: 9 tokens are those of the message alone. */
static void a_conversation_that_cannot_fit_is_refused_before_it_is_rendered(void **state) {
    (void)state;
    static const struct {
        const char *head, *tail, *tokens;
    } forms[] = {{"{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}", "at least 9 tokens"},
                 {"{\"messages\":[{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"", "\"}]}]}",
                  "at least 9 tokens"},
                 {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"",
                  "\"},{\"role\":\"user\",\"content\":\"b\"}]}", "at least 16 tokens"}};
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 8, .default_n_predict = -1};
    sk_api *api = NULL;
    sk_api_call *c;
    sk_api_error err;
    char text[108 + 1], body[300];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = (size_t)snprintf(body, sizeof body, "%s%s%s", forms[i].head, text, forms[i].tail);
        assert_int_equal(sk_api_parse(api, SK_API_CHAT, body, n, &c, &err), 400);
        assert_string_equal(err.code, "context_length_exceeded");
        if (!strstr(err.message, forms[i].tokens)) fail_msg("%zu: %s", i, err.message);
    }
    sk_api_destroy(api);
}

/* A schema may be cheap to convert and still be too much for the grammar engine. */
static void a_schema_with_too_many_alternatives_is_refused(void **state) {
    (void)state;
    static const struct {
        enum sk_api_kind kind;
        const char *head, *tail, *param;
    } forms[] = {{SK_API_LLAMA, "{\"prompt\":\"a\",\"json_schema\":{\"enum\":[0", "]}}", "json_schema"},
                 {SK_API_CHAT,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":\"json_schema\","
                  "\"json_schema\":{\"name\":\"x\",\"schema\":{\"enum\":[0",
                  "]}}}}", "response_format"}};
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 4096, .default_n_predict = -1};
    sk_api *api = NULL;
    sk_api_call *c;
    sk_api_error err;
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        sk_buf body = {0};
        sk_buf_str(&body, forms[i].head);
        for (int k = 1; k < 3000; k++) sk_buf_printf(&body, ",%d", k);
        sk_buf_str(&body, forms[i].tail);
        assert_int_equal(sk_api_parse(api, forms[i].kind, body.data, body.len, &c, &err), 400);
        assert_string_equal(err.param, forms[i].param);
        if (!strstr(err.message, "too ambiguous: at one place there are 300")) fail_msg("%zu: %s", i, err.message);
        sk_buf_free(&body);
    }
    sk_api_destroy(api);
}

static void a_text_that_takes_too_long_to_tokenise_is_refused(void **state) {
    (void)state;
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 8, .default_n_predict = -1};
    sk_api *api = NULL;
    sk_buf body = {0}, out = {0};
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    sk_buf_str(&body, "{\"content\":\"");
    for (size_t i = 0; i < 8 * 1024 * 1024 / 16 + 1; i++) sk_buf_str(&body, "0123456789abcdef");
    sk_buf_str(&body, "\"}");
    assert_int_equal(sk_api_tokenize(api, body.data, body.len, &out), 400);
    assert_non_null(strstr(out.data, "'content' has 8388624 bytes; at most 8388608 are allowed"));
    sk_buf_free(&body);
    sk_buf_free(&out);
    sk_api_destroy(api);
}

typedef struct reader {
    sk_api *api;
    bool good;
} reader;

static void *read_bodies(void *ud) {
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"two\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
        "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"three\"}],\"response_format\":{\"type\":\"json_object\"}}"};
    reader *r = ud;
    r->good = true;
    for (size_t i = 0; i < 60; i++) {
        sk_api_call *c = NULL;
        sk_api_error err;
        const char *body = bodies[i % 3];
        r->good = sk_api_parse(r->api, SK_API_CHAT, body, strlen(body), &c, &err) == 0 && r->good;
        sk_api_call_free(c);
    }
    return NULL;
}

static void bodies_may_be_read_on_several_threads(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    reader readers[THREADS];
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 4096, .default_n_predict = -1};
    sk_api *api = NULL;
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    for (size_t i = 0; i < THREADS; i++) {
        readers[i].api = api;
        assert_int_equal(pthread_create(&threads[i], NULL, read_bodies, &readers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(readers[i].good);
    }
    sk_api_destroy(api);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_cannot_fit_is_refused_before_it_is_tokenised),
        cmocka_unit_test(a_conversation_that_cannot_fit_is_refused_before_it_is_rendered),
        cmocka_unit_test(a_schema_with_too_many_alternatives_is_refused),
        cmocka_unit_test(a_text_that_takes_too_long_to_tokenise_is_refused),
        cmocka_unit_test(bodies_may_be_read_on_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
