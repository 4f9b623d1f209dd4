/* C access to llama.cpp's chat library: Jinja templates, grammars for tools and schemas, parsing of what the model
 * wrote. No exception leaves it: failures come back as codes with words. Not thread-safe: only one thread at a time may
 * use a sk_chat, or a sk_chat_parser. A sk_chat_format does not change once it is made: any thread may use and release
 * it. */
#ifndef SKIPPY_OPENAI_CHAT_BRIDGE_H
#define SKIPPY_OPENAI_CHAT_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The chat template of one model, analysed once. */
typedef struct sk_chat sk_chat;

/* native_model: struct llama_model *, borrowed; it names the special tokens and holds the default template. NULL: no
 * special tokens. template_source: Jinja text, NULL or "" = the model's, or ChatML when it has none. Errors:
 * SKIPPY_E_INVALID (the template does not parse), SKIPPY_E_NOMEM. */
int sk_chat_create(const void *native_model, const char *template_source, sk_chat **out, sk_err *e);
void sk_chat_destroy(sk_chat *chat);
/* Jinja source in use. Valid as long as chat. */
const char *sk_chat_source(const sk_chat *chat);
/* False when the ChatML fallback is in use. */
bool sk_chat_has_own_template(const sk_chat *chat);

enum sk_chat_tool_choice { SK_CHAT_TOOLS_AUTO = 0, SK_CHAT_TOOLS_NONE = 1, SK_CHAT_TOOLS_REQUIRED = 2 };

/* A conversation to render. JSON comes as text. Borrowed for the call. */
typedef struct sk_chat_input {
    const char *messages; /* JSON array in OpenAI's form, checked before */
    size_t messages_len;
    const char *tools;          /* JSON array, NULL = none: all of these are described in the prompt */
    const char *callable_tools; /* JSON array: those that may be called; NULL = all */
    enum sk_chat_tool_choice tool_choice;
    int parallel_tool_calls;      /* -1 = as the template can */
    const char *json_schema;      /* NULL = none */
    const char *kwargs;           /* JSON object of template variables, NULL = none */
    const char *reasoning_effort; /* NULL = the template's default */
    bool disable_thinking;
    bool extract_reasoning; /* parse thinking into reasoning_content */
    bool add_generation_prompt;
    bool continue_final;    /* the last message is continued */
    bool library_rendering; /* always use the library's own entry, which is slower; tests compare both */
} sk_chat_input;

enum sk_chat_trigger_type {
    SK_CHAT_TRIGGER_TOKEN = 0,
    SK_CHAT_TRIGGER_WORD = 1,
    SK_CHAT_TRIGGER_PATTERN = 2,
    SK_CHAT_TRIGGER_PATTERN_FULL = 3
};

/* How the answer is constrained and read. Shared by all requests with the same tools and settings; reference counted.
 */
typedef struct sk_chat_format sk_chat_format;
typedef struct sk_chat_format_info {
    const char *grammar; /* GBNF that starts after the generation prompt, "" = none */
    bool grammar_lazy;   /* starts at a trigger */
    bool plain;          /* the text is the content: no parser is needed */
    size_t n_triggers, n_preserved, n_stops;
    const char *const *triggers;  /* texts */
    const int *trigger_types;     /* enum sk_chat_trigger_type */
    const char *const *preserved; /* special tokens that must stay visible in the text */
    const char *const *stops;     /* further stop strings */
} sk_chat_format_info;
/* Valid as long as the format. */
const sk_chat_format_info *sk_chat_format_get_info(const sk_chat_format *f);
void sk_chat_format_release(sk_chat_format *f);

typedef struct sk_chat_prompt {
    char *text; /* malloc'ed, NUL-terminated; may hold NULs inside */
    size_t len;
    size_t n_generation; /* bytes at the end that open the assistant's turn */
    bool opening_stays;  /* known: the next turn's prompt begins with all of text. False also where it is not known */
    sk_chat_format *format; /* a reference of the caller's */
} sk_chat_prompt;

/* Renders. Errors: SKIPPY_E_INVALID (the template refuses the conversation, a schema that cannot become a grammar),
 * SKIPPY_E_UNSUPPORTED (the template cannot be constrained as asked), SKIPPY_E_NOMEM. On success the caller owns *out.
 */
int sk_chat_apply(sk_chat *chat, const sk_chat_input *in, sk_chat_prompt *out, sk_err *e);
void sk_chat_prompt_clear(sk_chat_prompt *p);

/* JSON schema to GBNF. *out is malloc'ed. Errors: SKIPPY_E_INVALID, SKIPPY_E_NOMEM. */
int sk_chat_schema_grammar(const char *schema, char **out, sk_err *e);

/* Reads one answer as it grows. */
typedef struct sk_chat_parser sk_chat_parser;
typedef struct sk_chat_call {
    const char *id, *name, *arguments;
} sk_chat_call;
/* The message so far. Valid until the next feed. */
typedef struct sk_chat_message {
    const char *content;
    size_t content_len;
    const char *reasoning;
    size_t reasoning_len;
    const sk_chat_call *calls;
    size_t n_calls;
    bool cut; /* the client asked for one call; what the model wrote after it was dropped */
} sk_chat_message;
enum sk_chat_delta_kind {
    SK_CHAT_CONTENT = 0,
    SK_CHAT_REASONING = 1,
    SK_CHAT_CALL_START = 2 /* text is empty */,
    SK_CHAT_CALL_ARGUMENTS = 3
};
typedef struct sk_chat_delta {
    enum sk_chat_delta_kind kind;
    const char *text;
    size_t len;
    size_t call;           /* index of the tool call */
    const char *id, *name; /* CALL_START */
} sk_chat_delta;
typedef void (*sk_chat_delta_fn)(void *ud, const sk_chat_delta *d);

/* The format must outlive the parser. Errors: SKIPPY_E_NOMEM. */
int sk_chat_parser_create(const sk_chat_format *f, sk_chat_parser **out, sk_err *e);
void sk_chat_parser_free(sk_chat_parser *p);
/* Appends text; `last`: nothing follows. Reports what is new since the last feed to fn (may be NULL). Text that does
 * not fit the format is kept back until it does; with `last` such text becomes content, so nothing is lost. A call
 * starts when its name is complete. Errors: SKIPPY_E_NOMEM. */
int sk_chat_parser_feed(sk_chat_parser *p, const char *text, size_t len, bool last, sk_chat_delta_fn fn, void *ud,
                        sk_err *e);
const sk_chat_message *sk_chat_parser_message(const sk_chat_parser *p);

#ifdef __cplusplus
}
#endif
#endif
