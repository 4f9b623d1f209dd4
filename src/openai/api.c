#include "openai/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "openai/fields.h"
#include "openai/internal.h"
#include "openai/render.h"

/* Of a text for /tokenize: some seconds of work. */
enum { MAX_TOKENIZE_BYTES = 8 * 1024 * 1024 };

int sk_api_create(const sk_api_params *p, sk_api **out, sk_err *e) {
    *out = NULL;
    sk_api *api = calloc(1, sizeof *api);
    if (!api) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    pthread_mutex_init(&api->chat_lock, NULL);
    api->model = p->model;
    api->n_ctx = p->n_ctx;
    api->default_n_predict = p->default_n_predict;
    api->model_id = strdup(p->model_id);
    api->memo = sk_prompt_memo_create(p->model);
    int rc = SKIPPY_OK;
    if (!api->model_id || !api->memo) rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (!rc) rc = sk_chat_create(sk_model_native(p->model), p->chat_template, &api->chat, e);
    if (rc) {
        sk_api_destroy(api);
        return rc;
    }
    if (!sk_chat_has_own_template(api->chat))
        sk_log(SK_LOG_WARN, "the model has no chat template; ChatML is used, which it may not understand");
    *out = api;
    return SKIPPY_OK;
}

void sk_api_destroy(sk_api *api) {
    if (!api) return;
    sk_chat_destroy(api->chat);
    sk_prompt_memo_destroy(api->memo);
    pthread_mutex_destroy(&api->chat_lock);
    free(api->model_id);
    free(api);
}

const char *sk_api_template_source(const sk_api *api) {
    return sk_chat_source(api->chat);
}

void sk_api_models(sk_api *api, sk_buf *out) {
    const sk_model_info *info = sk_model_get_info(api->model);
    sk_buf_str(out, "{\"object\":\"list\",\"data\":[{\"id\":");
    sk_write_string(out, api->model_id, strlen(api->model_id));
    sk_buf_printf(
        out,
        ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"skippy\",\"meta\":{\"n_vocab\":%d,\"n_ctx\":%u,"
        "\"n_ctx_train\":%d,\"n_embd\":%d,\"n_params\":%llu,\"size\":%llu}}]}",
        (long long)sk_wall_s(), info->n_vocab, api->n_ctx, info->n_ctx_train, info->n_embd,
        (unsigned long long)info->n_params, (unsigned long long)info->size_bytes);
}

/* Runs a one-shot endpoint: parses the body, and turns a refusal into an error object. */
static int one_shot(sk_api *api, const char *body, size_t len, sk_buf *out,
                    int (*answer)(sk_api *api, const json_t *body, sk_buf *out, sk_api_error *err)) {
    sk_api_error err;
    json_t *root;
    int status = sk_fields_parse(body, len, &root, &err);
    if (!status) {
        status = answer(api, root, out, &err);
        json_decref(root);
    }
    if (!status) return 200;
    sk_buf_clear(out);
    sk_api_error_json(&err, out);
    return status;
}

static void write_tokens_with_pieces(const sk_model *m, const int32_t *tokens, size_t n, sk_buf *out) {
    char piece[512];
    for (size_t i = 0; i < n; i++) {
        size_t size = sk_model_piece(m, tokens[i], true, piece, sizeof piece);
        sk_buf_printf(out, "%s{\"id\":%d,\"piece\":", i ? "," : "", tokens[i]);
        if (sk_utf8_valid(piece, size)) {
            sk_write_string(out, piece, size);
        } else { /* a part of a character: its bytes, as llama-server shows it */
            sk_buf_str(out, "[");
            for (size_t k = 0; k < size; k++) sk_buf_printf(out, "%s%d", k ? "," : "", (unsigned char)piece[k]);
            sk_buf_str(out, "]");
        }
        sk_buf_str(out, "}");
    }
}

static int answer_tokenize(sk_api *api, const json_t *body, sk_buf *out, sk_api_error *err) {
    bool add_special = false, parse_special = true, with_pieces = false;
    const json_t *content = sk_field(body, "content");
    if (!json_is_string(content)) return sk_api_invalid(err, "content", "'content' must be a string");
    if (json_string_length(content) > MAX_TOKENIZE_BYTES)
        return sk_api_invalid(err, "content", "'content' has %zu bytes; at most %d are allowed",
                              json_string_length(content), MAX_TOKENIZE_BYTES);
    int status = sk_field_bool(body, "add_special", &add_special, err);
    if (!status) status = sk_field_bool(body, "parse_special", &parse_special, err);
    if (!status) status = sk_field_bool(body, "with_pieces", &with_pieces, err);
    if (status) return status;
    int32_t *tokens = NULL;
    size_t n = 0;
    int rc = sk_model_tokenize(api->model, json_string_value(content), json_string_length(content), add_special,
                               parse_special, &tokens, &n);
    if (rc == SKIPPY_E_NOMEM) return sk_api_nomem(err);
    if (rc) return sk_api_invalid(err, "content", "'content' is too long to be tokenised");
    sk_buf_str(out, "{\"tokens\":[");
    if (with_pieces)
        write_tokens_with_pieces(api->model, tokens, n, out);
    else
        for (size_t i = 0; i < n; i++) sk_buf_printf(out, "%s%d", i ? "," : "", tokens[i]);
    sk_buf_str(out, "]}");
    free(tokens);
    return 0;
}

int sk_api_tokenize(sk_api *api, const char *body, size_t len, sk_buf *out) {
    return one_shot(api, body, len, out, answer_tokenize);
}

static int read_tokens(const sk_model *m, const json_t *list, int32_t *out, sk_api_error *err) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id > INT32_MAX || !sk_model_valid_token(m, (int32_t)id))
            return sk_api_invalid(err, "tokens", "entry %zu of 'tokens' is not a token id of this model", i);
        out[i] = (int32_t)id;
    }
    return 0;
}

static int answer_detokenize(sk_api *api, const json_t *body, sk_buf *out, sk_api_error *err) {
    const json_t *list = sk_field(body, "tokens");
    if (!json_is_array(list)) return sk_api_invalid(err, "tokens", "'tokens' must be an array of token ids");
    size_t n = json_array_size(list), len = 0;
    char *text = NULL;
    int32_t *tokens = malloc((n ? n : 1) * sizeof *tokens);
    if (!tokens) return sk_api_nomem(err);
    int status = read_tokens(api->model, list, tokens, err);
    if (!status && sk_model_detokenize(api->model, tokens, n, true, &text, &len)) status = sk_api_nomem(err);
    if (!status) {
        sk_buf_str(out, "{\"content\":");
        sk_write_string(out, text, len);
        sk_buf_str(out, "}");
    }
    free(text);
    free(tokens);
    return status;
}

int sk_api_detokenize(sk_api *api, const char *body, size_t len, sk_buf *out) {
    return one_shot(api, body, len, out, answer_detokenize);
}

int sk_api_check_length(const sk_api *api, size_t len, sk_api_error *err) {
    size_t least = sk_prompt_memo_least_tokens(api->memo, len);
    return least >= api->n_ctx ? sk_api_context_far_exceeded(err, least, api->n_ctx) : 0;
}

/* Bytes of what was said to the model. Its own words do not count: templates leave its earlier thoughts out. */
static size_t message_bytes(const json_t *messages) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        if (!strcmp(json_string_value(json_object_get(m, "role")), "assistant")) continue;
        n += json_string_length(content);
        for (size_t k = 0; k < json_array_size(content); k++)
            n += json_string_length(json_object_get(json_array_get(content, k), "text"));
    }
    return n;
}

/* A template takes seconds for some tens of megabytes, so what cannot fit is refused before. */
int sk_api_render(sk_api *api, const sk_chat_fields *fields, const json_t *schema, sk_chat_prompt *out,
                  sk_api_error *err) {
    int too_long = sk_api_check_length(api, message_bytes(fields->messages), err);
    if (too_long) return too_long;
    pthread_mutex_lock(&api->chat_lock);
    int status = sk_render_chat(api->chat, fields, schema, out, err);
    pthread_mutex_unlock(&api->chat_lock);
    return status;
}

static int answer_template(sk_api *api, const json_t *body, sk_buf *out, sk_api_error *err) {
    sk_chat_fields fields;
    sk_chat_prompt prompt;
    int status = sk_chat_fields_parse(body, &fields, err);
    if (!status) status = sk_api_render(api, &fields, NULL, &prompt, err);
    if (status) return status;
    sk_buf_str(out, "{\"prompt\":");
    sk_write_string(out, prompt.text, prompt.len);
    sk_buf_str(out, "}");
    sk_chat_prompt_clear(&prompt);
    return 0;
}

int sk_api_apply_template(sk_api *api, const char *body, size_t len, sk_buf *out) {
    return one_shot(api, body, len, out, answer_template);
}
