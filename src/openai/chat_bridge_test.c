#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/buf.h"
#include "openai/chat_bridge.h"
#include "openai/grammar_check.h"

#define TOOLS                                                                                                               \
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Weather of a city\",\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}},"                       \
    "{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"description\":\"Time of a zone\",\"parameters\":{"        \
    "\"type\":\"object\",\"properties\":{\"zone\":{\"type\":\"string\"}},\"required\":[\"zone\"]}}}]"
#define ONE_TOOL                                                                                                            \
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Weather of a city\",\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}}]"
#define SCHEMA "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}"

static const char *const conversations[] = {
    "[{\"role\":\"user\",\"content\":\"Hello\"}]",
    "[{\"role\":\"system\",\"content\":\"Be brief. \"},{\"role\":\"user\",\"content\":\"Hi\\n\"},{\"role\":\"assistant\","
    "\"content\":\"Hello!\"},{\"role\":\"user\",\"content\":\"What is 2+2?\"}]",
    "[{\"role\":\"developer\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
    "{\"type\":\"text\",\"text\":\"b\"}]}]",
    "[{\"role\":\"user\",\"content\":\"Weather?\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call00001\","
    "\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\": \\\"Ulm\\\"}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"content\":\"sunny\"}]",
};

static const char *templates_dir(void) {
    return getenv("SKIPPY_TEMPLATES");
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    sk_buf b = {0};
    char chunk[4096];
    size_t n;
    if (!f) return NULL;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) sk_buf_add(&b, chunk, n);
    fclose(f);
    return b.data;
}

static sk_chat *load(const char *name) {
    char path[1024];
    sk_chat *chat = NULL;
    sk_err e = {0};
    if (!templates_dir()) {
        print_message("skipped: SKIPPY_TEMPLATES does not name llama.cpp's models/templates\n");
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s.jinja", templates_dir(), name);
    char *source = read_file(path);
    if (!source) fail_msg("%s cannot be read", path);
    if (sk_chat_create(NULL, source, &chat, &e)) fail_msg("%s: %s", name, e.text);
    free(source);
    return chat;
}

static sk_chat_input input_of(const char *messages) {
    return (sk_chat_input){.messages = messages,
                           .messages_len = strlen(messages),
                           .parallel_tool_calls = -1,
                           .extract_reasoning = true,
                           .add_generation_prompt = true};
}

/* One template of each kind; SKIPPY_ALL_TEMPLATES=1 takes all of them, which needs half a minute. */
static bool is_sample(const char *name) {
    static const char *const samples[] = {
        "Qwen-Qwen2.5-7B-Instruct",
        "Qwen-Qwen3-0.6B",
        "Qwen3.5-4B",
        "meta-llama-Llama-3.1-8B-Instruct",
        "google-gemma-2-2b-it",
        "mistralai-Mistral-Nemo-Instruct-2407",
        "ibm-granite-granite-4.0",
        "LFM2.5-Instruct",
        "GLM-4.6",
        "llama-cpp-deepseek-r1",
        "llama-cpp-rwkv-world",
        "openai-gpt-oss-120b",
        "StepFun3.5-Flash",
        "Qwen-QwQ-32B",
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (!strcmp(name, samples[i])) return true;
    return false;
}

/* Calls fn for each sampled template of the llama.cpp tree. Returns how many there were. */
static size_t for_each_template(void (*fn)(const char *name, sk_chat *chat, void *ud), void *ud) {
    DIR *dir = opendir(templates_dir());
    struct dirent *entry;
    size_t n = 0;
    bool all = getenv("SKIPPY_ALL_TEMPLATES") != NULL;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        if (len < 7 || strcmp(entry->d_name + len - 6, ".jinja") != 0) continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(len - 6), entry->d_name);
        if (!all && !is_sample(name)) continue;
        sk_chat *chat = load(name);
        fn(name, chat, ud);
        sk_chat_destroy(chat);
        n++;
    }
    closedir(dir);
    return n;
}

typedef struct tally {
    size_t compared, refused, constrained, unsupported;
} tally;

static void compare_rendering(const char *name, sk_chat *chat, void *ud) {
    tally *t = ud;
    for (size_t i = 0; i < sizeof conversations / sizeof *conversations; i++) {
        for (int with_tools = 0; with_tools < 2; with_tools++) {
            sk_chat_input in = input_of(conversations[i]);
            sk_chat_prompt a, b;
            sk_err ea = {0}, eb = {0};
            if (with_tools) in.tools = TOOLS;
            int ra = sk_chat_apply(chat, &in, &a, &ea);
            in.library_rendering = true;
            int rb = sk_chat_apply(chat, &in, &b, &eb);
            if (ra != rb) fail_msg("%s, conversation %zu: %d (%s) and %d (%s)", name, i, ra, ea.text, rb, eb.text);
            if (ra) {
                t->refused++;
                continue;
            }
            if (strcmp(a.text, b.text) != 0)
                fail_msg("%s, conversation %zu:\n%s\n--- and ---\n%s", name, i, a.text, b.text);
            if (a.n_generation != b.n_generation) fail_msg("%s: generation prompts differ", name);
            if (a.opening_stays != b.opening_stays) fail_msg("%s: openings differ", name);
            t->compared++;
            sk_chat_prompt_clear(&a);
            sk_chat_prompt_clear(&b);
        }
    }
}

static void the_short_path_renders_what_the_library_renders(void **state) {
    (void)state;
    tally t = {0};
    if (!templates_dir()) {
        print_message("skipped: SKIPPY_TEMPLATES does not name llama.cpp's models/templates\n");
        skip();
    }
    size_t n = for_each_template(compare_rendering, &t);
    print_message("%zu templates: %zu conversations equal, %zu refused by both\n", n, t.compared, t.refused);
    assert_true(n > 0 && t.compared > n);
}

/* A grammar that still asks for the generation prompt would make the model write it twice. */
static void check_constraint(const char *name, sk_chat *chat, const sk_chat_input *in, tally *t) {
    sk_chat_prompt p;
    sk_err e = {0};
    int rc = sk_chat_apply(chat, in, &p, &e);
    if (rc) {
        print_message("  %s: %s: %.100s\n", name, in->json_schema ? "schema" : "tools", e.text);
        t->unsupported++;
        return;
    }
    const sk_chat_format_info *f = sk_chat_format_get_info(p.format);
    sk_api_error err;
    if (sk_grammar_check(f->grammar, "tools", &err)) fail_msg("%s: %s", name, err.message);
    if (*f->grammar && !f->grammar_lazy) {
        const char *root = strstr(f->grammar, "root ::= ");
        assert_non_null(root);
        if (!strncmp(root + 9, "\"<|im_start|>assistant", 22)) fail_msg("%s: %s", name, f->grammar);
        t->constrained++;
    }
    sk_chat_prompt_clear(&p);
}

static void check_constraints(const char *name, sk_chat *chat, void *ud) {
    sk_chat_input in = input_of(conversations[1]);
    in.tools = TOOLS;
    in.tool_choice = SK_CHAT_TOOLS_REQUIRED;
    check_constraint(name, chat, &in, ud);
    in = input_of(conversations[1]);
    in.json_schema = SCHEMA;
    check_constraint(name, chat, &in, ud);
    in.disable_thinking = true;
    check_constraint(name, chat, &in, ud);
}

static void grammars_start_behind_the_generation_prompt(void **state) {
    (void)state;
    tally t = {0};
    if (!templates_dir()) {
        print_message("skipped: SKIPPY_TEMPLATES does not name llama.cpp's models/templates\n");
        skip();
    }
    size_t n = for_each_template(check_constraints, &t);
    print_message("%zu templates: %zu constraints work, %zu are refused\n", n, t.constrained, t.unsupported);
    assert_true(t.constrained > n);
}

typedef struct seen {
    sk_buf content, reasoning, arguments;
    size_t starts, argument_deltas;
    char name[64], id[64];
} seen;

static void collect(void *ud, const sk_chat_delta *d) {
    seen *s = ud;
    switch (d->kind) {
    case SK_CHAT_CONTENT: sk_buf_add(&s->content, d->text, d->len); break;
    case SK_CHAT_REASONING: sk_buf_add(&s->reasoning, d->text, d->len); break;
    case SK_CHAT_CALL_START:
        s->starts++;
        snprintf(s->name, sizeof s->name, "%s", d->name);
        snprintf(s->id, sizeof s->id, "%s", d->id);
        break;
    case SK_CHAT_CALL_ARGUMENTS:
        s->argument_deltas++;
        sk_buf_add(&s->arguments, d->text, d->len);
        break;
    }
}

static void seen_free(seen *s) {
    sk_buf_free(&s->content);
    sk_buf_free(&s->reasoning);
    sk_buf_free(&s->arguments);
}

/* Feeds text in pieces of `step` bytes. */
static sk_chat_parser *stream(const sk_chat_format *f, const char *text, size_t step, seen *s) {
    sk_chat_parser *p = NULL;
    size_t len = strlen(text);
    assert_int_equal(sk_chat_parser_create(f, &p, NULL), SKIPPY_OK);
    for (size_t at = 0; at < len; at += step)
        assert_int_equal(sk_chat_parser_feed(p, text + at, len - at < step ? len - at : step, false, collect, s, NULL),
                         SKIPPY_OK);
    assert_int_equal(sk_chat_parser_feed(p, "", 0, true, collect, s, NULL), SKIPPY_OK);
    return p;
}

static sk_chat_format *format_of(sk_chat *chat, const sk_chat_input *in) {
    sk_chat_prompt p;
    sk_err e = {0};
    if (sk_chat_apply(chat, in, &p, &e)) fail_msg("%s", e.text);
    free(p.text);
    return p.format;
}

static void a_streamed_tool_call_has_one_start_and_whole_arguments(void **state) {
    (void)state;
    sk_chat *chat = load("Qwen-Qwen2.5-7B-Instruct");
    if (!chat) skip();
    sk_chat_input in = input_of(conversations[0]);
    in.tools = TOOLS;
    sk_chat_format *f = format_of(chat, &in);
    assert_true(sk_chat_format_get_info(f)->grammar_lazy);
    for (size_t step = 1; step < 40; step += 3) {
        seen s = {0};
        sk_chat_parser *p = stream(
            f,
            "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>",
            step, &s);
        assert_int_equal(s.starts, 1);
        assert_string_equal(s.name, "get_weather");
        assert_memory_equal(s.id, "call_", 5);
        assert_string_equal(s.arguments.data, "{\"city\": \"Ulm\"}");
        const sk_chat_message *m = sk_chat_parser_message(p);
        assert_int_equal(m->n_calls, 1);
        assert_string_equal(m->calls[0].id, s.id);
        assert_string_equal(m->calls[0].arguments, s.arguments.data);
        assert_int_equal(m->content_len, s.content.len);
        assert_memory_equal(m->content, "Let me see.", 11);
        sk_chat_parser_free(p);
        seen_free(&s);
    }
    sk_chat_format_release(f);
    sk_chat_destroy(chat);
}

static void thinking_is_kept_apart_from_the_answer(void **state) {
    (void)state;
    sk_chat *chat = load("Qwen-Qwen3-0.6B");
    if (!chat) skip();
    sk_chat_input in = input_of(conversations[0]);
    sk_chat_format *f = format_of(chat, &in);
    seen s = {0};
    sk_chat_parser_free(stream(f, "<think>\nhmm, 4\n</think>\n\nFour.", 2, &s));
    assert_non_null(strstr(s.reasoning.data, "hmm, 4"));
    assert_string_equal(s.content.data, "Four.");
    seen_free(&s);
    sk_chat_format_release(f);
    in.extract_reasoning = false;
    f = format_of(chat, &in);
    seen t = {0};
    sk_chat_parser_free(stream(f, "<think>\nhmm\n</think>\n\nFour.", 2, &t));
    assert_non_null(strstr(t.content.data, "hmm"));
    assert_int_equal(t.reasoning.len, 0);
    seen_free(&t);
    sk_chat_format_release(f);
    sk_chat_destroy(chat);
}

static void text_that_breaks_the_format_is_shown_not_lost(void **state) {
    (void)state;
    sk_chat *chat = load("Qwen-Qwen2.5-7B-Instruct");
    if (!chat) skip();
    sk_chat_input in = input_of(conversations[0]);
    in.json_schema = SCHEMA;
    sk_chat_format *f = format_of(chat, &in);
    seen s = {0};
    sk_chat_parser *p = stream(f, "no JSON at all", 3, &s);
    const sk_chat_message *m = sk_chat_parser_message(p);
    assert_string_equal(m->content, "no JSON at all");
    assert_string_equal(s.content.data, "no JSON at all");
    sk_chat_parser_free(p);
    seen_free(&s);
    sk_chat_format_release(f);
    sk_chat_destroy(chat);
}

static void a_continued_message_reports_only_what_is_new(void **state) {
    (void)state;
    sk_chat *chat = load("Qwen-Qwen2.5-7B-Instruct");
    if (!chat) skip();
    sk_chat_input in =
        input_of("[{\"role\":\"user\",\"content\":\"Count\"},{\"role\":\"assistant\",\"content\":\"one, two\"}]");
    in.continue_final = true;
    sk_chat_prompt prompt;
    sk_err e = {0};
    if (sk_chat_apply(chat, &in, &prompt, &e)) fail_msg("%s", e.text);
    assert_string_equal(prompt.text + prompt.len - 8, "one, two");
    if (!sk_chat_format_get_info(prompt.format)->plain) {
        seen s = {0};
        sk_chat_parser *p = stream(prompt.format, ", three", 2, &s);
        assert_string_equal(s.content.data, ", three");
        assert_string_equal(sk_chat_parser_message(p)->content, ", three");
        sk_chat_parser_free(p);
        seen_free(&s);
    }
    sk_chat_prompt_clear(&prompt);
    sk_chat_destroy(chat);
}

static void the_prompt_describes_all_tools_and_the_grammar_allows_the_named_one(void **state) {
    (void)state;
    sk_chat *chat = load("Qwen-Qwen2.5-7B-Instruct");
    if (!chat) skip();
    sk_chat_input in = input_of(conversations[0]);
    in.tools = TOOLS;
    in.callable_tools = ONE_TOOL;
    in.tool_choice = SK_CHAT_TOOLS_REQUIRED;
    sk_chat_prompt p;
    sk_err e = {0};
    if (sk_chat_apply(chat, &in, &p, &e)) fail_msg("%s", e.text);
    const sk_chat_format_info *f = sk_chat_format_get_info(p.format);
    assert_non_null(strstr(p.text, "get_time"));
    assert_non_null(strstr(f->grammar, "get_weather"));
    assert_null(strstr(f->grammar, "get_time"));
    const char *root = strstr(f->grammar, "root ::= ");
    assert_memory_equal(root, "root ::= space tool-call", 24); /* no free text before a required call */
    assert_false(f->grammar_lazy);
    sk_chat_prompt_clear(&p);
    sk_chat_destroy(chat);
}

static void formats_are_shared_between_requests_and_told_apart_by_tools(void **state) {
    (void)state;
    sk_chat *chat = NULL;
    assert_int_equal(sk_chat_create(NULL, NULL, &chat, NULL), SKIPPY_OK);
    assert_false(sk_chat_has_own_template(chat));
    sk_chat_input in = input_of(conversations[0]), with_schema = in;
    with_schema.json_schema = SCHEMA;
    sk_chat_format *a = format_of(chat, &in), *b = format_of(chat, &in), *c = format_of(chat, &with_schema);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_true(sk_chat_format_get_info(a)->plain);
    assert_false(sk_chat_format_get_info(c)->plain);
    sk_chat_format_release(a);
    sk_chat_format_release(b);
    sk_chat_format_release(c);
    sk_chat_destroy(chat);
}

static void a_repeated_conversation_renders_the_same_and_an_edited_one_does_not(void **state) {
    (void)state;
    sk_chat *chat = NULL;
    sk_chat_prompt first, again, other;
    assert_int_equal(sk_chat_create(NULL, NULL, &chat, NULL), SKIPPY_OK);
    sk_chat_input in = input_of(conversations[0]);
    assert_int_equal(sk_chat_apply(chat, &in, &first, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 20; i++) { /* more than are remembered */
        char messages[128];
        snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"Hello %zu\"}]", i);
        in = input_of(messages);
        assert_int_equal(sk_chat_apply(chat, &in, &other, NULL), SKIPPY_OK);
        assert_string_not_equal(other.text, first.text);
        sk_chat_prompt_clear(&other);
    }
    in = input_of(conversations[0]);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sk_chat_apply(chat, &in, &again, NULL), SKIPPY_OK);
        assert_string_equal(again.text, first.text);
        assert_int_equal(again.n_generation, first.n_generation);
        sk_chat_prompt_clear(&again);
    }
    in.add_generation_prompt = false;
    assert_int_equal(sk_chat_apply(chat, &in, &other, NULL), SKIPPY_OK);
    assert_true(other.len < first.len);
    sk_chat_prompt_clear(&other);
    sk_chat_prompt_clear(&first);
    sk_chat_destroy(chat);
}

/* Where the generation prompt opens a thought, the next turn's history lacks it. */
static void an_opening_stays_unless_it_begins_a_thought(void **state) {
    static const char THINKS[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
    static const char *const sources[] = {NULL, THINKS};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sk_chat *chat = NULL;
        sk_chat_prompt p;
        sk_chat_input in = input_of(conversations[0]);
        assert_int_equal(sk_chat_create(NULL, sources[i], &chat, NULL), SKIPPY_OK);
        assert_int_equal(sk_chat_apply(chat, &in, &p, NULL), SKIPPY_OK);
        assert_true(p.n_generation > 0);
        assert_int_equal(p.opening_stays, i == 0);
        sk_chat_prompt_clear(&p);
        sk_chat_destroy(chat);
    }
}

static void more_formats_than_are_kept_stay_usable_while_held(void **state) {
    (void)state;
    sk_chat *chat = NULL;
    sk_chat_format *held[40];
    assert_int_equal(sk_chat_create(NULL, NULL, &chat, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 40; i++) {
        char schema[64];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"minLength\":%zu}", i + 1);
        sk_chat_input in = input_of(conversations[0]);
        in.json_schema = schema;
        held[i] = format_of(chat, &in);
    }
    for (size_t i = 0; i < 40; i++) {
        assert_true(strlen(sk_chat_format_get_info(held[i])->grammar) > 0);
        sk_chat_format_release(held[i]);
    }
    sk_chat_destroy(chat);
}

static void what_cannot_be_used_is_refused_in_words(void **state) {
    (void)state;
    sk_chat *chat = NULL;
    sk_err e = {0};
    assert_int_equal(sk_chat_create(NULL, "{{ unclosed", &chat, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "template"));
    assert_int_equal(sk_chat_create(NULL, "llama3", &chat, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "'llama3' is not a Jinja template"));
    assert_int_equal(sk_chat_create(NULL, "{% if %}", &chat, &e), SKIPPY_E_INVALID);
    assert_null(chat);
    assert_true(strlen(e.text) > 0);
    assert_int_equal(sk_chat_create(NULL, "{{ raise_exception('no such luck') }}", &chat, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "no such luck"));
    char *grammar = NULL;
    assert_int_equal(sk_chat_schema_grammar("{\"type\":\"strange\"}", &grammar, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_chat_schema_grammar("{\"$ref\":\"#/nowhere\"}", &grammar, &e), SKIPPY_E_INVALID);
    assert_null(grammar);
    assert_int_equal(sk_chat_schema_grammar(SCHEMA, &grammar, &e), SKIPPY_OK);
    assert_non_null(strstr(grammar, "root ::="));
    free(grammar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_short_path_renders_what_the_library_renders),
        cmocka_unit_test(grammars_start_behind_the_generation_prompt),
        cmocka_unit_test(a_streamed_tool_call_has_one_start_and_whole_arguments),
        cmocka_unit_test(thinking_is_kept_apart_from_the_answer),
        cmocka_unit_test(text_that_breaks_the_format_is_shown_not_lost),
        cmocka_unit_test(a_continued_message_reports_only_what_is_new),
        cmocka_unit_test(the_prompt_describes_all_tools_and_the_grammar_allows_the_named_one),
        cmocka_unit_test(formats_are_shared_between_requests_and_told_apart_by_tools),
        cmocka_unit_test(a_repeated_conversation_renders_the_same_and_an_edited_one_does_not),
        cmocka_unit_test(an_opening_stays_unless_it_begins_a_thought),
        cmocka_unit_test(more_formats_than_are_kept_stay_usable_while_held),
        cmocka_unit_test(what_cannot_be_used_is_refused_in_words),
    };
    return cmocka_run_group_tests_name("chat_bridge", tests, NULL, NULL);
}
