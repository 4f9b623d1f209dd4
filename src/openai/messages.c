/* Checks of the `messages` array: what gets through here can be rendered by any chat template. */
#include <stdio.h>
#include <string.h>

#include "openai/fields.h"
#include "openai/request.h"

static int invalid_at(sk_api_error *err, size_t i, const char *member, const char *text) {
    char param[64];
    snprintf(param, sizeof param, "messages[%zu].%s", i, member);
    return sk_api_invalid(err, param, "%s: %s", param, text);
}

static int check_part(const json_t *part, size_t i, sk_api_error *err) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type) return invalid_at(err, i, "content", "each part must be an object with a 'type'");
    if (!strcmp(type, "image_url") || !strcmp(type, "input_audio") || !strcmp(type, "input_image") ||
        !strcmp(type, "input_video") || !strcmp(type, "file"))
        return invalid_at(err, i, "content", "this server has no multimodal support");
    if (strcmp(type, "text") != 0) return invalid_at(err, i, "content", "unknown part type; only 'text' is supported");
    if (!json_is_string(json_object_get(part, "text")))
        return invalid_at(err, i, "content", "a text part needs a string 'text'");
    return 0;
}

static int check_content(const json_t *m, size_t i, bool optional, sk_api_error *err) {
    const json_t *content = sk_field(m, "content");
    if (!content) return optional ? 0 : invalid_at(err, i, "content", "is missing");
    if (json_is_string(content)) return 0;
    if (!json_is_array(content)) return invalid_at(err, i, "content", "must be a string or an array of parts");
    for (size_t p = 0; p < json_array_size(content); p++) {
        int rc = check_part(json_array_get(content, p), i, err);
        if (rc) return rc;
    }
    return 0;
}

/* Brackets outside strings: the template engine turns this text into a value recursively. */
static size_t text_nesting(const char *s, size_t len) {
    size_t depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '{' || s[i] == '[') {
            depth++;
            if (depth > deepest) deepest = depth;
        } else if ((s[i] == '}' || s[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return deepest;
}

static int check_arguments(const json_t *args, size_t i, sk_api_error *err) {
    static const char member[] = "tool_calls.function.arguments";
    if (json_is_object(args))
        return sk_json_depth(args, SK_MAX_NESTING) > SK_MAX_NESTING ? invalid_at(err, i, member, "is nested too deeply")
                                                                    : 0;
    if (!json_is_string(args)) return invalid_at(err, i, member, "must be a string of JSON");
    if (text_nesting(json_string_value(args), json_string_length(args)) > SK_MAX_NESTING)
        return invalid_at(err, i, member, "is nested too deeply");
    json_t *parsed =
        json_loadb(json_string_value(args), json_string_length(args), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!parsed) return invalid_at(err, i, member, "is not valid JSON");
    json_decref(parsed);
    return 0;
}

static int check_call(const json_t *call, size_t i, sk_api_error *err) {
    const char *type = json_string_value(json_object_get(call, "type"));
    const json_t *function = json_object_get(call, "function");
    const json_t *id = sk_field(call, "id");
    if (!type || strcmp(type, "function") != 0)
        return invalid_at(err, i, "tool_calls", "each needs \"type\": \"function\"");
    if (!json_is_object(function)) return invalid_at(err, i, "tool_calls", "each needs an object 'function'");
    if (!json_is_string(json_object_get(function, "name")))
        return invalid_at(err, i, "tool_calls", "each function needs a string 'name'");
    if (id && !json_is_string(id)) return invalid_at(err, i, "tool_calls", "an 'id' must be a string");
    return check_arguments(json_object_get(function, "arguments"), i, err);
}

static int check_calls(const json_t *m, size_t i, sk_api_error *err) {
    const json_t *calls = sk_field(m, "tool_calls");
    if (!calls) return 0;
    if (!json_is_array(calls)) return invalid_at(err, i, "tool_calls", "must be an array");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        int rc = check_call(json_array_get(calls, k), i, err);
        if (rc) return rc;
    }
    return 0;
}

/* Some templates read a tool's answer as JSON, recursively. Text that is not JSON stays text and may look as it likes.
 */
static int check_tool_answer(const json_t *m, size_t i, sk_api_error *err) {
    const json_t *content = json_object_get(m, "content");
    json_error_t e;
    if (!json_is_string(content)) return 0;
    json_t *v =
        json_loadb(json_string_value(content), json_string_length(content), JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    json_decref(v);
    if (!v && json_error_code(&e) == json_error_stack_overflow)
        return invalid_at(err, i, "content", "is nested too deeply");
    return 0;
}

static int check_strings(const json_t *m, size_t i, sk_api_error *err) {
    static const char *const names[] = {"name", "tool_call_id", "reasoning_content"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const json_t *v = sk_field(m, names[k]);
        if (v && !json_is_string(v)) return invalid_at(err, i, names[k], "must be a string");
    }
    return 0;
}

static bool known_role(const char *role) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (!strcmp(role, roles[k])) return true;
    return false;
}

static int check_message(const json_t *m, size_t i, sk_api_error *err) {
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", i);
    if (!json_is_object(m))
        return sk_api_invalid(err, param, "%s must be an object, but it is %s", param, sk_field_kind(m));
    const json_t *r = json_object_get(m, "role");
    const char *role = json_string_value(r);
    if (!role) return invalid_at(err, i, "role", "must be a string");
    if (sk_json_has_nul(r) || !known_role(role))
        return invalid_at(err, i, "role", "unknown role; expected system, developer, user, assistant or tool");
    bool assistant = !strcmp(role, "assistant");
    bool calls = assistant && json_array_size(json_object_get(m, "tool_calls")) > 0;
    if (assistant && !calls && !sk_field(m, "content") && !sk_field(m, "reasoning_content"))
        return invalid_at(err, i, "content", "an assistant message needs 'content' or 'tool_calls'");
    int rc = check_content(m, i, assistant, err);
    if (!rc && assistant) rc = check_calls(m, i, err);
    if (!rc && !strcmp(role, "tool")) rc = check_tool_answer(m, i, err);
    return rc ? rc : check_strings(m, i, err);
}

int sk_messages_check(const json_t *messages, sk_api_error *err) {
    if (!messages) return sk_api_invalid(err, "messages", "'messages' is missing");
    if (!json_is_array(messages))
        return sk_api_invalid(err, "messages", "'messages' must be an array, but it is %s", sk_field_kind(messages));
    size_t n = json_array_size(messages);
    if (n == 0) return sk_api_invalid(err, "messages", "'messages' is empty");
    if (n > SK_MAX_MESSAGES)
        return sk_api_invalid(err, "messages", "'messages' has %zu entries; at most %d are allowed", n,
                              SK_MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        int rc = check_message(json_array_get(messages, i), i, err);
        if (rc) return rc;
    }
    return 0;
}
