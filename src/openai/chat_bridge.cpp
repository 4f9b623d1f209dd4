// The one C++ file: llama.cpp's chat library has no C interface.
extern "C" {
#include "base/err.h"
}
#include "openai/chat_bridge.h"
#include "runtime/native_guard.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "chat-auto-parser.h"
#include "chat.h"
#include "json-schema-to-grammar.h"
#include "llama.h"
#include "log.h"

namespace {

using json = common_json;

// Formats kept per model. An agent uses a handful of (tools, settings) combinations; each is some tens of kilobytes.
constexpr size_t max_formats = 32;

// Rendered conversations kept per model, so that an exact repeat is not rendered again; larger ones are not kept.
constexpr size_t max_rendered = 8;
constexpr size_t max_rendered_bytes = 1 << 20;

// Runs fn and turns whatever it throws into a code with words.
int guarded(sk_err *e, int code, const std::function<int()> &fn) noexcept {
    try {
        return fn();
    } catch (const std::bad_alloc &) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    } catch (const std::exception &ex) {
        // llama.cpp's template reader also throws exceptions without words
        if (!strcmp(ex.what(), "std::exception"))
            return sk_err_set(e, code, "the chat template is not valid: it cannot be read as Jinja");
        return sk_err_set(e, code, "%s", ex.what());
    } catch (...) {
        return sk_err_set(e, code, "unknown failure in the chat template");
    }
}

// Lets C code of the runtime call llama.cpp functions that may throw: a grammar that rejects the text which triggered
// it, a bad trigger pattern.
bool call_guarded(void (*fn)(void *), void *ud, char *msg, size_t cap) noexcept {
    try {
        fn(ud);
        return true;
    } catch (const std::exception &ex) {
        snprintf(msg, cap, "%s", ex.what());
    } catch (...) {
        snprintf(msg, cap, "unknown failure in llama.cpp");
    }
    return false;
}

std::string text_or_empty(const char *s) {
    return s ? s : "";
}

std::string trimmed(const std::string &s) {
    const char *space = " \t\r\n";
    size_t from = s.find_first_not_of(space);
    return from == std::string::npos ? "" : s.substr(from, s.find_last_not_of(space) - from + 1);
}

bool starts_with(const std::string &s, const std::string &prefix) {
    return s.compare(0, prefix.size(), prefix) == 0;
}

bool ends_with(const std::string &s, const std::string &suffix) {
    return s.size() >= suffix.size() && s.compare(s.size() - suffix.size(), suffix.size(), suffix) == 0;
}

} // namespace

struct sk_chat_format {
    std::atomic<size_t> references{1}; // taken where conversations are rendered, released where answers end
    std::string grammar;
    std::string generation_prompt;
    common_chat_parser_params parser;
    bool continued = false;
    bool opening_stays = false; // a conversation that goes on begins with the whole prompt, generation prompt included
    bool single_call = false;   // the client wants one call, and not every grammar of llama.cpp can say so
    std::vector<std::string> trigger_texts, preserved, stops;
    std::vector<int> trigger_types;
    std::vector<const char *> trigger_view, preserved_view, stop_view;
    sk_chat_format_info info = {};
};

struct sk_chat {
    common_chat_templates_ptr templates;
    std::string source;
    bool own_template = false;
    bool tool_variant = false; // the model has a second template for tools
    // Our own parsed copy, for templates whose prompt needs no handler of llama.cpp's: null otherwise.
    std::unique_ptr<common_chat_template> direct;
    bool add_bos = false, add_eos = false;
    // Most recently used first. Values hold one reference.
    std::list<std::pair<std::string, sk_chat_format *>> formats;
    std::list<std::pair<std::string, bool>> openings; // see known_opening
    // A conversation with its settings, its rendering, and its format (one reference). Most recently used first.
    struct rendering {
        std::string key, text;
        sk_chat_format *format;
    };
    std::list<rendering> rendered;
    bool timeless = false; // the template reads no clock finer than the day, which is part of the key

    ~sk_chat() {
        for (auto &f : formats) sk_chat_format_release(f.second);
        for (auto &r : rendered) sk_chat_format_release(r.format);
    }
};

namespace {

// ---- grammars

// Reads the GBNF string literal at `pos`; returns its end, or npos when there is none.
size_t read_literal(const std::string &s, size_t pos, std::string &out) {
    if (pos >= s.size() || s[pos] != '"') return std::string::npos;
    out.clear();
    for (size_t i = pos + 1; i < s.size(); i++) {
        if (s[i] == '"') return i + 1;
        if (s[i] != '\\') {
            out += s[i];
            continue;
        }
        if (++i >= s.size()) break;
        out += s[i] == 'n' ? '\n' : s[i] == 'r' ? '\r' : s[i] == 't' ? '\t' : s[i];
    }
    return std::string::npos;
}

// End of the parenthesised group that opens at `pos`, just behind its ')'; npos when it does not close.
size_t group_end(const std::string &s, size_t pos) {
    size_t depth = 0;
    std::string ignored;
    for (size_t i = pos; i < s.size(); i++) {
        if (s[i] == '"') {
            size_t end = read_literal(s, i, ignored);
            if (end == std::string::npos) return end;
            i = end - 1;
        } else if (s[i] == '[') {
            while (i < s.size() && s[i] != ']') i += s[i] == '\\' ? 2 : 1;
        } else if (s[i] == '(') {
            depth++;
        } else if (s[i] == ')' && --depth == 0) {
            return i + 1;
        }
    }
    return std::string::npos;
}

void skip_optional_space(const std::string &s, size_t &pos) {
    while (s.compare(pos, 6, "space ") == 0) pos += 6;
}

// The part of a generation prompt that opens thinking meets an optional group ("<think>" ... "</think>")? of the root
// rule. Thinking that is open already makes the rest of the group mandatory; thinking that is closed already uses the
// group up.
bool enter_thinking(const std::string &rule, size_t pos, const std::string &rest, const common_chat_params &p,
                    std::string &out) {
    std::string tag = trimmed(p.thinking_start_tag), literal;
    skip_optional_space(rule, pos);
    if (tag.empty() || !starts_with(rest, tag) || rule.compare(pos, 1, "(") != 0) return false;
    size_t body = read_literal(rule, pos + 1, literal);
    size_t end = group_end(rule, pos);
    if (body == std::string::npos || end == std::string::npos || trimmed(literal) != tag ||
        rule.compare(end, 1, "?") != 0)
        return false;
    std::string behind = rule.substr(end + 1), inside = rest.substr(tag.size());
    if (trimmed(inside).empty()) {
        out = rule.substr(body, end - 1 - body) + behind;
        return true;
    }
    for (const auto &close : p.thinking_end_tags) {
        size_t at = inside.find(trimmed(close));
        if (at == std::string::npos || !trimmed(inside.substr(at + trimmed(close).size())).empty()) continue;
        out = "space" + behind;
        return true;
    }
    return false;
}

// A required call comes first: without the free text that the grammar would allow before it, and which a model may
// never end.
std::string without_free_text(const std::string &rule) {
    std::string out, ignored;
    for (size_t i = 0; i < rule.size();) {
        bool word_start = i == 0 || rule[i - 1] == ' ';
        if (rule[i] == '(' || rule[i] == '"') {
            size_t end = rule[i] == '(' ? group_end(rule, i) : read_literal(rule, i, ignored);
            if (end == std::string::npos) return rule;
            out += rule.substr(i, end - i);
            i = end;
        } else if (word_start && rule.compare(i, 6, "until-") == 0 && rule.find(' ', i) != std::string::npos) {
            i = rule.find(' ', i) + 1;
        } else {
            out += rule[i++];
        }
    }
    return out;
}

// llama.cpp's grammars describe the generation prompt too. Ours start behind it, since it is part of the prompt: the
// root rule loses what the generation prompt has used up. Returns false when the root rule has another shape.
bool start_behind_prompt(const common_chat_params &p, bool call_first, std::string &grammar) {
    const std::string head = "root ::= ";
    size_t line = starts_with(grammar, head) ? 0 : grammar.find("\n" + head);
    if (line == std::string::npos) return false;
    size_t from = line + head.size() + (grammar[line] == '\n' ? 1 : 0);
    size_t to = std::min(grammar.find('\n', from), grammar.size());
    std::string rule = grammar.substr(from, to - from), rest = p.generation_prompt, literal;
    size_t pos = 0;
    for (;;) {
        size_t end = read_literal(rule, pos, literal);
        if (end == std::string::npos || literal.empty() || !starts_with(rest, literal)) break;
        rest = rest.substr(literal.size());
        pos = end;
        while (pos < rule.size() && rule[pos] == ' ') pos++;
    }
    std::string replaced = rule.substr(pos);
    if (!trimmed(rest).empty() && !enter_thinking(rule, pos, trimmed(rest), p, replaced)) return false;
    if (call_first) replaced = without_free_text(replaced);
    if (replaced.empty()) replaced = "\"\"";
    grammar.replace(from, to - from, replaced);
    return true;
}

// ---- formats

common_chat_msg parse_message(const common_chat_parser_params &p, const std::string &text, bool partial) {
    return common_chat_parse(text, partial, p);
}

// True when the parser gives back any text unchanged: then nobody needs to run it for each token.
bool parser_is_identity(const sk_chat_format &f) {
    static const char *const probes[] = {" a\n b \n", "{\"name\": \"x\", \"arguments\": {}}", "<a>b</a>",
                                         "[x] ```c\ny```"};
    try {
        std::string base = f.continued ? parse_message(f.parser, "", true).content : "";
        for (const char *probe : probes) {
            common_chat_msg whole = parse_message(f.parser, probe, false), part = parse_message(f.parser, probe, true);
            bool same = whole.content == base + probe && part.content == base + probe;
            if (!same || !whole.tool_calls.empty() || !whole.reasoning_content.empty()) return false;
        }
        return true;
    } catch (const std::exception &) {
        return false;
    }
}

int trigger_type(common_grammar_trigger_type t) {
    switch (t) {
    case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN: return SK_CHAT_TRIGGER_TOKEN;
    case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: return SK_CHAT_TRIGGER_WORD;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN: return SK_CHAT_TRIGGER_PATTERN;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL: return SK_CHAT_TRIGGER_PATTERN_FULL;
    }
    return SK_CHAT_TRIGGER_WORD;
}

std::vector<const char *> views(const std::vector<std::string> &v) {
    std::vector<const char *> out;
    out.reserve(v.size());
    for (const auto &s : v) out.push_back(s.c_str());
    return out;
}

void publish(sk_chat_format &f, bool lazy, bool plain) {
    f.trigger_view = views(f.trigger_texts);
    f.preserved_view = views(f.preserved);
    f.stop_view = views(f.stops);
    f.info.grammar = f.grammar.c_str();
    f.info.grammar_lazy = lazy;
    f.info.plain = plain;
    f.info.n_triggers = f.trigger_view.size();
    f.info.triggers = f.trigger_view.data();
    f.info.trigger_types = f.trigger_types.data();
    f.info.n_preserved = f.preserved_view.size();
    f.info.preserved = f.preserved_view.data();
    f.info.n_stops = f.stop_view.size();
    f.info.stops = f.stop_view.data();
}

using format_ptr = std::unique_ptr<sk_chat_format, void (*)(sk_chat_format *)>;

format_ptr make_format(const common_chat_params &p, const common_chat_templates_inputs &in) {
    format_ptr f(new sk_chat_format, sk_chat_format_release);
    f->grammar = p.grammar;
    f->generation_prompt = p.generation_prompt;
    if (!f->grammar.empty() && !p.grammar_lazy &&
        !start_behind_prompt(p, in.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED, f->grammar))
        return format_ptr(nullptr, sk_chat_format_release);
    f->single_call = !in.parallel_tool_calls;
    f->continued = in.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
    f->parser = common_chat_parser_params(p);
    f->parser.reasoning_format = in.reasoning_format;
    f->parser.parse_tool_calls = !in.tools.empty() && in.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    f->parser.is_continuation = f->continued;
    if (!p.parser.empty()) f->parser.parser.load(p.parser);
    for (const auto &t : p.grammar_triggers) {
        f->trigger_texts.push_back(t.value);
        f->trigger_types.push_back(trigger_type(t.type));
    }
    f->preserved = p.preserved_tokens;
    f->stops = p.additional_stops;
    bool candidate = in.json_schema.empty() && !f->parser.parse_tool_calls &&
                     (!p.supports_thinking || in.reasoning_format == COMMON_REASONING_FORMAT_NONE);
    publish(*f, p.grammar_lazy, candidate && parser_is_identity(*f));
    return f;
}

sk_chat_format *find_format(sk_chat &chat, const std::string &key) {
    for (auto it = chat.formats.begin(); it != chat.formats.end(); ++it) {
        if (it->first != key) continue;
        chat.formats.splice(chat.formats.begin(), chat.formats, it);
        return it->second;
    }
    return nullptr;
}

void keep_format(sk_chat &chat, const std::string &key, sk_chat_format *f) {
    chat.formats.emplace_front(key, f);
    f->references++;
    if (chat.formats.size() <= max_formats) return;
    sk_chat_format_release(chat.formats.back().second);
    chat.formats.pop_back();
}

// ---- rendering

json parse_messages(const sk_chat_input &in) {
    json messages = json::parse(std::string(in.messages, in.messages_len));
    for (auto &m : messages)
        if (!m.contains("content")) m["content"] = ""; // the library wants the member even beside tool calls
    return messages;
}

common_chat_templates_inputs make_inputs(const sk_chat &chat, const sk_chat_input &in) {
    common_chat_templates_inputs out;
    out.messages = common_chat_msgs_parse_oaicompat(parse_messages(in));
    if (in.tools) out.tools = common_chat_tools_parse_oaicompat(json::parse(in.tools));
    out.tool_choice = in.tool_choice == SK_CHAT_TOOLS_REQUIRED ? COMMON_CHAT_TOOL_CHOICE_REQUIRED
                      : in.tool_choice == SK_CHAT_TOOLS_NONE   ? COMMON_CHAT_TOOL_CHOICE_NONE
                                                               : COMMON_CHAT_TOOL_CHOICE_AUTO;
    out.parallel_tool_calls = in.parallel_tool_calls < 0
                                  ? common_chat_templates_get_caps(chat.templates.get())["supports_parallel_tool_calls"]
                                  : in.parallel_tool_calls > 0;
    out.json_schema = text_or_empty(in.json_schema);
    out.add_generation_prompt = in.add_generation_prompt;
    out.reasoning_format = in.extract_reasoning ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
    out.enable_thinking = !in.disable_thinking;
    if (in.kwargs) {
        json kwargs = json::parse(in.kwargs);
        for (const auto &item : kwargs.items()) out.chat_template_kwargs[item.k] = item.v.dump();
    }
    if (in.reasoning_effort)
        out.chat_template_kwargs["reasoning_effort"] = json::make(std::string(in.reasoning_effort)).dump();
    if (in.continue_final) {
        out.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
        out.add_generation_prompt = false;
    }
    return out;
}

// Everything that decides grammar and parser, apart from the generation prompt.
std::string format_key(const sk_chat_input &in) {
    std::string key;
    for (const char *part : {in.tools, in.callable_tools, in.json_schema, in.kwargs, in.reasoning_effort}) {
        key += part ? part : "";
        key += '\0';
    }
    key += static_cast<char>('a' + in.tool_choice);
    key += static_cast<char>('b' + in.parallel_tool_calls);
    key += in.disable_thinking ? '1' : '0';
    key += in.extract_reasoning ? '1' : '0';
    key += in.add_generation_prompt ? '1' : '0';
    return key;
}

std::string formatted_date(const std::chrono::system_clock::time_point &now, const char *format) {
    std::time_t t = std::chrono::system_clock::to_time_t(now);
    std::tm local = {};
    char text[64];
    localtime_r(&t, &local);
    return std::string(text, std::strftime(text, sizeof text, format, &local));
}

// Messages as a template without a handler of its own sees them.
json direct_messages(const sk_chat &chat, const common_chat_templates_inputs &in) {
    json out = json::array();
    for (const auto &msg : in.messages) {
        json m = msg.to_json_oaicompat(false);
        if (m.at("role") == "developer") m["role"] = "system";
        if (chat.direct->caps.supports_object_arguments && m.contains("tool_calls")) {
            for (auto &call : m.at("tool_calls")) {
                json &arguments = call.at("function").at("arguments");
                if (arguments.is_string()) arguments = json::parse(arguments.get<std::string>());
            }
        }
        out.push_back(m);
    }
    return out;
}

// One rendering, where the library's own entry renders three times and analyses the template again.
std::string render_direct(const sk_chat &chat, const common_chat_templates_inputs &in) {
    autoparser::generation_params p;
    p.messages = direct_messages(chat, in);
    p.tools = common_chat_tools_to_json_oaicompat(in.tools);
    p.enable_thinking = in.enable_thinking;
    p.add_generation_prompt = in.add_generation_prompt;
    p.add_bos = chat.add_bos;
    p.add_eos = chat.add_eos;
    p.extra_context = json::object();
    p.extra_context["datetime"] = formatted_date(in.now, "%b %d %Y");
    p.extra_context["date_string"] = formatted_date(in.now, "%d %b %Y");
    for (const auto &item : in.chat_template_kwargs) p.extra_context[item.first] = json::parse(item.second);
    return common_chat_template_direct_apply(*chat.direct, p);
}

common_chat_msg plain_message(const char *role, const char *content) {
    common_chat_msg m;
    m.role = role;
    m.content = content;
    return m;
}

std::string render(const sk_chat &chat, const common_chat_templates_inputs &in, bool directly) {
    return directly ? render_direct(chat, in) : common_chat_templates_apply(chat.templates.get(), in).prompt;
}

// Does the next turn's prompt begin with this one, whatever was answered? Not where the generation prompt opens a
// thought that leaves the history later.
bool opening_stays(const sk_chat &chat, common_chat_templates_inputs in, const std::string &generation_prompt,
                   bool directly) {
    try {
        in.messages = {plain_message("user", "a")};
        in.add_generation_prompt = true;
        const std::string open = render(chat, in, directly);
        in.messages = {plain_message("user", "a"), plain_message("assistant", "b"), plain_message("user", "c")};
        in.add_generation_prompt = false;
        return ends_with(open, generation_prompt) && starts_with(render(chat, in, directly), open);
    } catch (const std::exception &) {
        return false; // a template that wants other messages: nothing is known
    }
}

// The same for templates that the library renders, where every request makes a format of its own: asked once for each
// kind of request.
bool known_opening(sk_chat &chat, const std::string &key, const common_chat_templates_inputs &in,
                   const std::string &generation_prompt) {
    const std::string whole = key + generation_prompt;
    for (const auto &known : chat.openings)
        if (known.first == whole) return known.second;
    chat.openings.emplace_front(whole, opening_stays(chat, in, generation_prompt, false));
    if (chat.openings.size() > max_formats) chat.openings.pop_back();
    return chat.openings.front().second;
}

bool can_render_directly(const sk_chat &chat, const sk_chat_input &in) {
    return chat.direct && !in.library_rendering && !in.continue_final && !(chat.tool_variant && in.tools);
}

int take_prompt(const std::string &text, sk_chat_format *f, sk_chat_prompt *out, sk_err *e) {
    out->text = static_cast<char *>(std::malloc(text.size() + 1));
    if (!out->text) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    std::memcpy(out->text, text.c_str(), text.size() + 1);
    out->len = text.size();
    out->n_generation = ends_with(text, f->generation_prompt) ? f->generation_prompt.size() : 0;
    out->opening_stays = f->opening_stays;
    out->format = f;
    f->references++;
    return SKIPPY_OK;
}

const sk_chat::rendering *find_rendering(sk_chat &chat, const std::string &key) {
    for (auto it = chat.rendered.begin(); it != chat.rendered.end(); ++it) {
        if (it->key != key) continue;
        chat.rendered.splice(chat.rendered.begin(), chat.rendered, it);
        return &chat.rendered.front();
    }
    return nullptr;
}

void keep_rendering(sk_chat &chat, const std::string &key, const std::string &text, sk_chat_format *f) {
    if (!chat.timeless || key.size() + text.size() > max_rendered_bytes) return;
    chat.rendered.push_front({key, text, f});
    f->references++;
    if (chat.rendered.size() <= max_rendered) return;
    sk_chat_format_release(chat.rendered.back().format);
    chat.rendered.pop_back();
}

// The format for a conversation, made by the library, which analyses the template for it.
format_ptr library_format(sk_chat &chat, const sk_chat_input &in, common_chat_templates_inputs &inputs,
                          std::string *prompt) {
    common_chat_params params;
    if (prompt) {
        params = common_chat_templates_apply(chat.templates.get(), inputs);
        *prompt = params.prompt;
    }
    if (in.callable_tools) inputs.tools = common_chat_tools_parse_oaicompat(json::parse(in.callable_tools));
    if (!prompt || in.callable_tools) params = common_chat_templates_apply(chat.templates.get(), inputs);
    return make_format(params, inputs);
}

int unsupported(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                      "this model's chat template cannot be constrained to a tool call or a schema");
}

int apply_directly(sk_chat &chat, const sk_chat_input &in, sk_chat_prompt *out, sk_err *e) {
    std::string key = format_key(in), whole = key + formatted_date(std::chrono::system_clock::now(), "%F") +
                                              std::string(in.messages, in.messages_len);
    const sk_chat::rendering *same = find_rendering(chat, whole);
    if (same) return take_prompt(same->text, same->format, out, e);
    common_chat_templates_inputs inputs = make_inputs(chat, in);
    std::string prompt = render_direct(chat, inputs);
    sk_chat_format *format = find_format(chat, key);
    format_ptr made(nullptr, sk_chat_format_release);
    // The generation prompt may depend on the conversation: then the known format does not fit.
    if (!format || !ends_with(prompt, format->generation_prompt)) {
        made = library_format(chat, in, inputs, nullptr);
        if (!made) return unsupported(e);
        made->opening_stays = opening_stays(chat, inputs, made->generation_prompt, true);
        keep_format(chat, key, made.get());
        format = made.get();
    }
    keep_rendering(chat, whole, prompt, format);
    return take_prompt(prompt, format, out, e);
}

int apply(sk_chat &chat, const sk_chat_input &in, sk_chat_prompt *out, sk_err *e) {
    if (can_render_directly(chat, in)) return apply_directly(chat, in, out, e);
    common_chat_templates_inputs inputs = make_inputs(chat, in);
    std::string prompt;
    format_ptr made = library_format(chat, in, inputs, &prompt);
    if (made && in.add_generation_prompt && !in.continue_final)
        made->opening_stays = known_opening(chat, format_key(in), inputs, made->generation_prompt);
    return made ? take_prompt(prompt, made.get(), out, e) : unsupported(e);
}

// ---- creation

std::string special_text(const llama_vocab *vocab, llama_token token) {
    char text[256];
    if (token == LLAMA_TOKEN_NULL) return "";
    int n = llama_token_to_piece(vocab, token, text, sizeof text, 0, true);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

bool needs_handler(const common_chat_template &t) {
    // This template's messages are trimmed by the library before they are rendered.
    if (t.source().find("You have access to the following functions in JSONSchema format") != std::string::npos)
        return true;
    if (!t.original_caps().supports_system_role) return true;
    autoparser::generation_params p;
    json message = json::object();
    message["role"] = "user";
    message["content"] = "x";
    p.messages = json::array();
    p.messages.push_back(message);
    p.tools = json::array();
    p.add_generation_prompt = true;
    p.extra_context = json::object();
    try {
        return common_chat_try_specialized_template(t, t.source(), p).has_value();
    } catch (const std::exception &) {
        return true;
    }
}

void prepare_direct(sk_chat &chat, const llama_model *model) {
    std::string bos, eos;
    if (model) {
        const llama_vocab *vocab = llama_model_get_vocab(model);
        bos = special_text(vocab, llama_vocab_bos(vocab));
        eos = special_text(vocab, llama_vocab_eos(vocab));
        chat.add_bos = llama_vocab_get_add_bos(vocab);
        chat.add_eos = llama_vocab_get_add_eos(vocab);
    }
    auto own = std::make_unique<common_chat_template>(chat.source, bos, eos);
    if (!needs_handler(*own)) chat.direct = std::move(own);
}

// Proves that the template renders, and leaves the most common format ready.
int warm(sk_chat &chat, sk_err *e) {
    static const char hello[] = "[{\"role\":\"user\",\"content\":\"Hello\"}]";
    sk_chat_input in = {};
    in.messages = hello;
    in.messages_len = sizeof hello - 1;
    in.parallel_tool_calls = -1;
    in.extract_reasoning = in.add_generation_prompt = true;
    sk_chat_prompt p = {};
    int rc = apply(chat, in, &p, e);
    sk_chat_prompt_clear(&p);
    return rc;
}

// ---- reading answers

std::string new_call_id() {
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::random_device random;
    std::uniform_int_distribution<size_t> pick(0, sizeof alphabet - 2);
    std::string id = "call_";
    for (int i = 0; i < 24; i++) id += alphabet[pick(random)];
    return id;
}

} // namespace

struct sk_chat_parser {
    const sk_chat_format *format;
    std::string text;                            // everything the model wrote
    common_chat_msg message;                     // what was read from it
    size_t read = 0;                             // bytes of text that `message` covers
    size_t content_base = 0, reasoning_base = 0; // of the message that is continued
    std::string sent_content, sent_reasoning;
    std::vector<std::string> ids, sent_arguments;
    std::vector<bool> started;
    std::vector<sk_chat_call> calls;
    bool cut = false; // further calls were dropped
    sk_chat_message view = {};
};

namespace {

bool try_read(sk_chat_parser &p, bool partial) {
    try {
        common_chat_msg m = parse_message(p.format->parser, p.text, partial);
        if (partial && m.empty() && !p.message.empty()) return true;
        p.message = std::move(m);
        p.read = p.text.size();
        if (p.format->single_call && p.message.tool_calls.size() > 1) {
            p.message.tool_calls.resize(1);
            p.cut = true;
        }
        return true;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &) {
        return false; // not (yet) of the expected form
    }
}

void read_text(sk_chat_parser &p, bool last) {
    if (!last) {
        try_read(p, true);
        return;
    }
    if (try_read(p, false)) return;
    bool partial = try_read(p, true);
    bool nothing = p.message.content.empty() && p.message.reasoning_content.empty() && p.message.tool_calls.empty();
    if (partial && !nothing) return;
    // Better shown as it is than lost.
    p.message.content += p.text.substr(nothing ? 0 : p.read);
    p.read = p.text.size();
}

// The part of `now` behind what was sent; nothing while the two disagree.
std::string fresh(const std::string &sent, const std::string &now) {
    return now.size() > sent.size() && starts_with(now, sent) ? now.substr(sent.size()) : "";
}

void report_text(sk_chat_delta_kind kind, const std::string &now, std::string &sent, sk_chat_delta_fn fn, void *ud) {
    std::string add = fresh(sent, now);
    if (add.empty()) return;
    sk_chat_delta d = {};
    d.kind = kind;
    d.text = add.c_str();
    d.len = add.size();
    sent += add;
    if (fn) fn(ud, &d);
}

void report_call(sk_chat_parser &p, size_t i, bool last, sk_chat_delta_fn fn, void *ud) {
    const common_chat_tool_call &call = p.message.tool_calls[i];
    bool name_complete = last || !call.arguments.empty() || i + 1 < p.message.tool_calls.size();
    if (call.name.empty() || !name_complete) return;
    sk_chat_delta d = {};
    d.call = i;
    if (!p.started[i]) {
        if (p.ids[i].empty()) p.ids[i] = call.id.empty() ? new_call_id() : call.id;
        p.started[i] = true;
        d.kind = SK_CHAT_CALL_START;
        d.text = "";
        d.id = p.ids[i].c_str();
        d.name = call.name.c_str();
        if (fn) fn(ud, &d);
    }
    std::string add = fresh(p.sent_arguments[i], call.arguments);
    if (add.empty()) return;
    d.kind = SK_CHAT_CALL_ARGUMENTS;
    d.text = add.c_str();
    d.len = add.size();
    p.sent_arguments[i] += add;
    if (fn) fn(ud, &d);
}

// White space beside a tool call is how the model lays out its output, not something that it says.
bool only_layout(const sk_chat_parser &p, bool last) {
    bool call_possible = p.format->parser.parse_tool_calls && !(last && p.message.tool_calls.empty());
    return call_possible && trimmed(p.message.content).empty();
}

void refresh_view(sk_chat_parser &p) {
    p.calls.clear();
    for (size_t i = 0; i < p.message.tool_calls.size(); i++)
        if (p.started[i])
            p.calls.push_back(
                {p.ids[i].c_str(), p.message.tool_calls[i].name.c_str(), p.message.tool_calls[i].arguments.c_str()});
    size_t content = std::min(p.content_base, p.message.content.size());
    size_t reasoning = std::min(p.reasoning_base, p.message.reasoning_content.size());
    p.view.content = p.message.content.c_str() + content;
    p.view.content_len =
        !p.calls.empty() && trimmed(p.message.content).empty() ? 0 : p.message.content.size() - content;
    p.view.reasoning = p.message.reasoning_content.c_str() + reasoning;
    p.view.reasoning_len = p.message.reasoning_content.size() - reasoning;
    p.view.calls = p.calls.data();
    p.view.n_calls = p.calls.size();
    p.view.cut = p.cut;
}

} // namespace

int sk_chat_create(const void *native_model, const char *template_source, sk_chat **out, sk_err *e) {
    sk_native_guard_install(call_guarded);
    *out = nullptr;
    common_log_set_verbosity_thold(0); // its findings reach people through our errors, in words
    // A name such as "llama3" would render every conversation as that word.
    if (template_source && *template_source && !strchr(template_source, '{'))
        return sk_err_set(
            e, SKIPPY_E_INVALID,
            "the chat template '%.40s' is not a Jinja template (names of built-in templates are not known "
            "here; give the template's text, or its file with --chat-template-file)",
            template_source);
    return guarded(e, SKIPPY_E_INVALID, [&] {
        auto model = static_cast<const llama_model *>(native_model);
        auto chat = std::make_unique<sk_chat>();
        std::string source = text_or_empty(template_source);
        if (!model && source.empty()) source = "chatml";
        chat->templates = common_chat_templates_init(model, source);
        chat->own_template = source != "chatml" && common_chat_templates_was_explicit(chat->templates.get());
        chat->source = common_chat_templates_source(chat->templates.get());
        chat->tool_variant = source.empty() && llama_model_chat_template(model, "tool_use") != nullptr;
        chat->timeless = chat->source.find("strftime_now") == std::string::npos;
        prepare_direct(*chat, model);
        int rc = warm(*chat, e);
        if (rc == SKIPPY_OK) *out = chat.release();
        return rc;
    });
}

void sk_chat_destroy(sk_chat *chat) {
    delete chat;
}

const char *sk_chat_source(const sk_chat *chat) {
    return chat->source.c_str();
}

bool sk_chat_has_own_template(const sk_chat *chat) {
    return chat->own_template;
}

const sk_chat_format_info *sk_chat_format_get_info(const sk_chat_format *f) {
    return &f->info;
}

void sk_chat_format_release(sk_chat_format *f) {
    if (f && --f->references == 0) delete f;
}

int sk_chat_apply(sk_chat *chat, const sk_chat_input *in, sk_chat_prompt *out, sk_err *e) {
    *out = sk_chat_prompt{};
    return guarded(e, SKIPPY_E_INVALID, [&] { return apply(*chat, *in, out, e); });
}

void sk_chat_prompt_clear(sk_chat_prompt *p) {
    std::free(p->text);
    sk_chat_format_release(p->format);
    *p = sk_chat_prompt{};
}

int sk_chat_schema_grammar(const char *schema, char **out, sk_err *e) {
    *out = nullptr;
    return guarded(e, SKIPPY_E_INVALID, [&] {
        *out = strdup(json_schema_to_grammar(json::parse(schema)).c_str());
        return *out ? static_cast<int>(SKIPPY_OK) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    });
}

int sk_chat_parser_create(const sk_chat_format *f, sk_chat_parser **out, sk_err *e) {
    *out = nullptr;
    return guarded(e, SKIPPY_E_INVALID, [&] {
        auto p = std::make_unique<sk_chat_parser>();
        p->format = f;
        if (f->continued && try_read(*p, true)) { // the client has the beginning already
            p->sent_content = p->message.content;
            p->sent_reasoning = p->message.reasoning_content;
            p->content_base = p->sent_content.size();
            p->reasoning_base = p->sent_reasoning.size();
        }
        refresh_view(*p);
        *out = p.release();
        return static_cast<int>(SKIPPY_OK);
    });
}

void sk_chat_parser_free(sk_chat_parser *p) {
    delete p;
}

int sk_chat_parser_feed(sk_chat_parser *p, const char *text, size_t len, bool last, sk_chat_delta_fn fn, void *ud,
                        sk_err *e) {
    return guarded(e, SKIPPY_E_RUNTIME, [&] {
        p->text.append(text, len);
        read_text(*p, last);
        size_t n = std::max(p->started.size(), p->message.tool_calls.size());
        p->started.resize(n, false);
        p->ids.resize(n);
        p->sent_arguments.resize(n);
        report_text(SK_CHAT_REASONING, p->message.reasoning_content, p->sent_reasoning, fn, ud);
        if (!only_layout(*p, last)) report_text(SK_CHAT_CONTENT, p->message.content, p->sent_content, fn, ud);
        for (size_t i = 0; i < p->message.tool_calls.size(); i++) report_call(*p, i, last, fn, ud);
        refresh_view(*p);
        return static_cast<int>(SKIPPY_OK);
    });
}

const sk_chat_message *sk_chat_parser_message(const sk_chat_parser *p) {
    return &p->view;
}
