/* The chat part of a request: tools, tool_choice and the settings of the template. */
#include <stdio.h>
#include <string.h>

#include "openai/fields.h"
#include "openai/request.h"
#include "openai/schema_check.h"

static int tool_error(sk_api_error *err, size_t i, const char *member, const char *text) {
    char param[64];
    snprintf(param, sizeof param, "tools[%zu]%s", i, member);
    return sk_api_invalid(err, param, "%s: %s", param, text);
}

static int check_tool(const json_t *tool, size_t i, uint64_t *steps, sk_api_error *err) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *function = json_object_get(tool, "function");
    if (!type || strcmp(type, "function") != 0) return tool_error(err, i, ".type", "must be \"function\"");
    if (!json_is_object(function)) return tool_error(err, i, ".function", "must be an object");
    const json_t *name = json_object_get(function, "name");
    if (!json_is_string(name) || json_string_length(name) == 0 || json_string_length(name) > 256 ||
        sk_json_has_nul(name))
        return tool_error(err, i, ".function.name", "must be a string of 1 to 256 bytes");
    const json_t *description = sk_field(function, "description");
    if (description && !json_is_string(description))
        return tool_error(err, i, ".function.description", "must be a string");
    const json_t *parameters = sk_field(function, "parameters");
    if (parameters && !json_is_object(parameters))
        return tool_error(err, i, ".function.parameters", "must be a JSON schema object");
    if (sk_json_depth(tool, SK_MAX_NESTING) > SK_MAX_NESTING)
        return tool_error(err, i, ".function.parameters", "is nested too deeply");
    if (!parameters) return 0;
    char param[64];
    snprintf(param, sizeof param, "tools[%zu].function.parameters", i);
    return sk_schema_check(parameters, param, steps, err);
}

int sk_tools_check(const json_t *tools, sk_api_error *err) {
    size_t n = json_array_size(tools);
    if (n > SK_MAX_TOOLS)
        return sk_api_invalid(err, "tools", "'tools' has %zu entries; at most %d are allowed", n, SK_MAX_TOOLS);
    uint64_t steps = 0; /* of all tools: they become one grammar */
    for (size_t i = 0; i < n; i++) {
        int rc = check_tool(json_array_get(tools, i), i, &steps, err);
        if (rc) return rc;
    }
    return 0;
}

static bool tool_exists(const json_t *tools, const char *name) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (!strcmp(json_string_value(json_object_get(function, "name")), name)) return true;
    }
    return false;
}

static int parse_named_choice(const json_t *v, sk_chat_fields *out, sk_api_error *err) {
    const char *type = json_string_value(json_object_get(v, "type"));
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (!type || strcmp(type, "function") != 0 || !name)
        return sk_api_invalid(err, "tool_choice",
                              "'tool_choice' must be {\"type\": \"function\", \"function\": {\"name\": ...}}");
    if (!tool_exists(out->tools, name))
        return sk_api_invalid(err, "tool_choice", "'tool_choice' names '%.100s', which is not in 'tools'", name);
    out->forced_tool = name;
    out->tool_choice = SK_CHAT_TOOLS_REQUIRED;
    return 0;
}

static int parse_tool_choice(const json_t *body, sk_chat_fields *out, sk_api_error *err) {
    const json_t *v = sk_field(body, "tool_choice");
    if (!v) return 0;
    if (json_is_object(v)) return parse_named_choice(v, out, err);
    const char *name = json_string_value(v);
    if (name && !strcmp(name, "auto")) return 0;
    if (name && !strcmp(name, "none")) {
        out->tool_choice = SK_CHAT_TOOLS_NONE;
        return 0;
    }
    if (!name || strcmp(name, "required") != 0)
        return sk_api_invalid(err, "tool_choice",
                              "'tool_choice' must be \"auto\", \"none\", \"required\" or name a function");
    if (!out->tools)
        return sk_api_invalid(err, "tool_choice", "'tool_choice' is \"required\", but there are no 'tools'");
    out->tool_choice = SK_CHAT_TOOLS_REQUIRED;
    return 0;
}

static int parse_tools(const json_t *body, sk_chat_fields *out, sk_api_error *err) {
    const json_t *tools = NULL;
    int rc = sk_field_array(body, "tools", &tools, err);
    if (!rc && tools) rc = sk_tools_check(tools, err);
    if (rc) return rc;
    out->tools = json_array_size(tools) > 0 ? tools : NULL;
    rc = parse_tool_choice(body, out, err);
    if (rc) return rc;
    bool parallel = false;
    rc = sk_field_bool(body, "parallel_tool_calls", &parallel, err);
    if (!rc && sk_field(body, "parallel_tool_calls")) out->parallel_tool_calls = parallel;
    return rc;
}

static int parse_reasoning(const json_t *body, sk_chat_fields *out, sk_api_error *err) {
    const char *format = "auto";
    int rc = sk_field_string(body, "reasoning_format", &format, err);
    if (!rc) rc = sk_field_string(body, "reasoning_effort", &out->reasoning_effort, err);
    if (rc) return rc;
    if (strcmp(format, "none") != 0 && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0)
        return sk_api_invalid(err, "reasoning_format", "'reasoning_format' must be \"auto\", \"deepseek\" or \"none\"");
    out->extract_reasoning = strcmp(format, "none") != 0;
    if (out->reasoning_effort && !strcmp(out->reasoning_effort, "none")) {
        out->enable_thinking = 0;
        out->reasoning_effort = NULL;
    }
    return 0;
}

static int parse_template_settings(const json_t *body, sk_chat_fields *out, sk_api_error *err) {
    int rc = sk_field_object(body, "chat_template_kwargs", &out->kwargs, err);
    if (!rc && out->kwargs && sk_json_depth(out->kwargs, SK_MAX_NESTING) > SK_MAX_NESTING)
        rc = sk_api_invalid(err, "chat_template_kwargs", "'chat_template_kwargs' is nested too deeply");
    if (rc) return rc;
    bool thinking = true;
    rc = sk_field_bool(out->kwargs, "enable_thinking", &thinking, err);
    if (rc) {
        snprintf(err->param, sizeof err->param, "chat_template_kwargs.enable_thinking");
        return rc;
    }
    if (sk_field(out->kwargs, "enable_thinking")) out->enable_thinking = thinking;
    return sk_field_bool(body, "add_generation_prompt", &out->add_generation_prompt, err);
}

/* A conversation that ends with the assistant's words is continued, as llama-server does it. */
static void decide_continuation(const json_t *body, sk_chat_fields *out) {
    const json_t *last = json_array_get(out->messages, json_array_size(out->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    const json_t *asked = sk_field(body, "continue_final_message");
    bool possible = !strcmp(role, "assistant") && json_array_size(json_object_get(last, "tool_calls")) == 0;
    out->continue_final = possible && (!asked || !json_is_false(asked)) && !sk_field(body, "add_generation_prompt");
}

int sk_chat_fields_parse(const json_t *body, sk_chat_fields *out, sk_api_error *err) {
    memset(out, 0, sizeof *out);
    out->parallel_tool_calls = -1;
    out->enable_thinking = -1;
    out->add_generation_prompt = true;
    out->messages = sk_field(body, "messages");
    int rc = sk_messages_check(out->messages, err);
    if (!rc) rc = parse_tools(body, out, err);
    if (!rc) rc = parse_reasoning(body, out, err);
    if (!rc) rc = parse_template_settings(body, out, err);
    if (rc) return rc;
    decide_continuation(body, out);
    return 0;
}
