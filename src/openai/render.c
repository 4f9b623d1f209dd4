#include "openai/render.h"

#include <stdlib.h>
#include <string.h>

#include "openai/error.h"

/* Every JSON text that the template needs; freed together. */
typedef struct chat_texts {
    char *messages, *tools, *callable, *schema, *kwargs;
} chat_texts;

static void texts_clear(chat_texts *t) {
    free(t->messages);
    free(t->tools);
    free(t->callable);
    free(t->schema);
    free(t->kwargs);
}

/* True also for an absent value, which stays NULL. */
static bool dump(const json_t *v, char **out) {
    if (!v) return true;
    *out = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    return *out != NULL;
}

/* The one tool that tool_choice names, as an array. The prompt still describes all tools: it stays the shared prefix.
 */
static bool dump_forced(const sk_chat_fields *f, char **out) {
    if (!f->forced_tool) return true;
    json_t *only = json_array();
    for (size_t i = 0; only && i < json_array_size(f->tools); i++) {
        json_t *tool = json_array_get(f->tools, i);
        const char *name = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (!strcmp(name, f->forced_tool)) json_array_append(only, tool);
    }
    bool ok = only && dump(only, out);
    json_decref(only);
    return ok;
}

/* Which field is at fault when the template or the grammar refuses. */
static const char *blame(const sk_chat_fields *f, const json_t *schema) {
    return schema ? "response_format" : f->tools ? "tools" : "messages";
}

static int explain(int rc, const sk_err *e, const sk_chat_fields *f, const json_t *schema, sk_api_error *err) {
    if (rc == SKIPPY_E_NOMEM) return sk_api_nomem(err);
    return sk_api_invalid(err, blame(f, schema), "%s", e->text);
}

int sk_render_chat(sk_chat *chat, const sk_chat_fields *f, const json_t *schema, sk_chat_prompt *out,
                   sk_api_error *err) {
    chat_texts t = {0};
    int status;
    if (!dump(f->messages, &t.messages) || !dump(f->tools, &t.tools) || !dump(f->kwargs, &t.kwargs) ||
        !dump(schema, &t.schema) || !dump_forced(f, &t.callable)) {
        status = sk_api_nomem(err);
        goto out;
    }
    sk_chat_input in = {
        .messages = t.messages,
        .messages_len = t.messages ? strlen(t.messages) : 0,
        .tools = t.tools,
        .callable_tools = t.callable,
        .tool_choice = f->tool_choice,
        .parallel_tool_calls = f->forced_tool ? 0 : f->parallel_tool_calls,
        .json_schema = t.schema,
        .kwargs = t.kwargs,
        .reasoning_effort = f->reasoning_effort,
        .disable_thinking = f->enable_thinking == 0,
        .extract_reasoning = f->extract_reasoning,
        .add_generation_prompt = f->add_generation_prompt,
        .continue_final = f->continue_final,
    };
    sk_err e = {0};
    int rc = sk_chat_apply(chat, &in, out, &e);
    status = rc ? explain(rc, &e, f, schema, err) : 0;
out:
    texts_clear(&t);
    return status;
}
