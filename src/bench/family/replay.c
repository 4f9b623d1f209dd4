#include "bench/family/replay.h"

#include <string.h>

#include "base/buf.h"

#define TURN_MARK "{{turn}}"
#define TOOL_PREFIX "Tool result:\n"

const char *sk_replay_kind_name(sk_replay_kind kind) {
    switch (kind) {
    case SK_REPLAY_SYSTEM: return "system";
    case SK_REPLAY_USER: return "user";
    case SK_REPLAY_TOOL: return "tool";
    case SK_REPLAY_ASK: return "ask";
    case SK_REPLAY_EDIT: return "edit";
    case SK_REPLAY_REGENERATE: return "regenerate";
    case SK_REPLAY_SIDE: return "side";
    }
    return "unknown";
}

/* Bytes 10xxxxxx go on with a character of UTF-8. */
static bool starts_character(char byte) {
    return ((unsigned char)byte & 0xC0u) != 0x80u;
}

const char *sk_replay_strip(const char *text, uint32_t percent) {
    size_t characters = 0;
    for (const char *p = text; *p; p++) {
        characters += starts_character(*p);
    }
    const uint32_t share = percent < 100 ? percent : 100;
    size_t drop = characters / 100 * share + characters % 100 * share / 100;
    if (drop >= characters) {
        drop = characters ? characters - 1 : 0;
    }
    while (drop > 0) {
        do {
            text++;
        } while (*text && !starts_character(*text));
        drop--;
    }
    return text;
}

int sk_replay_begin(sk_replay_state *s, const sk_replay_conversation *c, sk_err *e) {
    *s = (sk_replay_state){.conversation = c, .history = json_array(), .after = ""};
    return s->history ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation");
}

void sk_replay_end(sk_replay_state *s) {
    json_decref(s->history);
    *s = (sk_replay_state){0};
}

void sk_replay_request_free(sk_replay_request *r) {
    json_decref(r->messages);
    *r = (sk_replay_request){0};
}

static int refuse(const sk_replay_state *s, const char *why, sk_err *e) {
    const sk_replay_conversation *c = s->conversation;
    return sk_err_set(e, SKIPPY_E_INVALID, "conversation '%s', step %zu (%s): %s", c->key, s->step + 1,
                      sk_replay_kind_name(c->step[s->step].kind), why);
}

/* ---- history ---- */

static json_t *last_message(const sk_replay_state *s) {
    const size_t n = json_array_size(s->history);
    return n ? json_array_get(s->history, n - 1) : NULL;
}

static const char *field(const json_t *message, const char *key) {
    const char *text = json_string_value(json_object_get(message, key));
    return text ? text : "";
}

static bool has_role(const json_t *message, const char *role) {
    return strcmp(field(message, "role"), role) == 0;
}

/* Prefix and text become one message at the end of list. */
static int append(json_t *list, const char *role, const char *prefix, const char *text, sk_err *e) {
    json_t *message = json_pack("{s:s, s:s+}", "role", role, "content", prefix, text);
    return message && json_array_append_new(list, message) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_INVALID, "a message of the %s is not UTF-8, or memory is out", role);
}

/* The client leaves the thinking of its last answer out of the history from here on. */
static int strip_last_answer(sk_replay_state *s, sk_err *e) {
    json_t *last = last_message(s);
    const uint32_t percent = s->strip_percent;
    s->strip_percent = 0;
    if (percent == 0 || !has_role(last, "assistant")) {
        return SKIPPY_OK;
    }
    json_t *rest = json_string(sk_replay_strip(field(last, "content"), percent));
    return json_object_set_new(last, "content", rest) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer without its thinking");
}

static int add_message(sk_replay_state *s, const sk_replay_step *step, const char *prefix, sk_err *e) {
    if (!step->text) {
        return refuse(s, "it has no text", e);
    }
    const int rc = strip_last_answer(s, e);
    s->after = sk_replay_kind_name(step->kind);
    return rc == SKIPPY_OK ? append(s->history, "user", prefix, step->text, e) : rc;
}

static int edit(sk_replay_state *s, const sk_replay_step *step, sk_err *e) {
    const size_t n = json_array_size(s->history);
    const int rc = strip_last_answer(s, e); /* before it is gone, or an older answer would lose its share twice */
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (step->drop == 0 || step->drop > n) {
        sk_err why;
        sk_err_set(&why, SKIPPY_E_INVALID, "it drops %u messages where %zu are there besides the system message",
                   step->drop, n);
        return refuse(s, why.text, e);
    }
    for (size_t i = 0; i < step->drop; i++) {
        json_array_remove(s->history, n - 1 - i);
    }
    return add_message(s, step, "", e);
}

/* ---- requests ---- */

static int append_system(json_t *list, const char *text, size_t number, sk_err *e) {
    sk_buf out = {0};
    const char *mark = NULL;
    while ((mark = strstr(text, TURN_MARK)) != NULL) {
        sk_buf_add(&out, text, (size_t)(mark - text));
        sk_buf_printf(&out, "%zu", number);
        text = mark + strlen(TURN_MARK);
    }
    sk_buf_str(&out, text);
    const int rc = out.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a system message")
                              : append(list, "system", "", out.data ? out.data : "", e);
    sk_buf_free(&out);
    return rc;
}

/* Adds the history to list; neighbours of one role become one message. */
static int append_history(const sk_replay_state *s, json_t *list, sk_err *e) {
    sk_buf joined = {0};
    int rc = SKIPPY_OK;
    const size_t n = json_array_size(s->history);
    for (size_t i = 0; rc == SKIPPY_OK && i < n; i++) {
        const json_t *message = json_array_get(s->history, i);
        const json_t *next = json_array_get(s->history, i + 1);
        sk_buf_str(&joined, field(message, "content"));
        if (next && has_role(next, field(message, "role"))) {
            sk_buf_str(&joined, "\n\n");
            continue;
        }
        rc = joined.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a message")
                           : append(list, field(message, "role"), "", joined.data ? joined.data : "", e);
        sk_buf_clear(&joined);
    }
    sk_buf_free(&joined);
    return rc;
}

static int fill_conversation(const sk_replay_state *s, json_t *list, size_t number, sk_err *e) {
    const int rc = s->system ? append_system(list, s->system, number, e) : SKIPPY_OK;
    return rc == SKIPPY_OK ? append_history(s, list, e) : rc;
}

static int fill_side(const sk_replay_state *s, const sk_replay_step *step, json_t *list, sk_err *e) {
    const json_t *first = json_array_get(s->history, 0);
    if (!first || !step->text) {
        return refuse(s, "it needs a text, and a message of the user before it", e);
    }
    const int rc = append(list, "system", "", step->text, e);
    return rc == SKIPPY_OK ? append(list, "user", "", field(first, "content"), e) : rc;
}

/* Checks that the request fits the history; takes back the answer that is to be made again. */
static int prepare_history(sk_replay_state *s, const sk_replay_step *step, sk_err *e) {
    const json_t *last = last_message(s);
    if (step->max_tokens == 0) {
        return refuse(s, "max_tokens must be at least 1", e);
    }
    if (step->kind == SK_REPLAY_REGENERATE) {
        if (!has_role(last, "assistant")) {
            return refuse(s, "there is no answer at the end that could be made again", e);
        }
        json_array_remove(s->history, json_array_size(s->history) - 1);
        return SKIPPY_OK;
    }
    if (step->kind == SK_REPLAY_ASK && !has_role(last, "user")) {
        return refuse(s, "the last message is not the user's or a tool's", e);
    }
    return SKIPPY_OK;
}

static int make_request(sk_replay_state *s, const sk_replay_step *step, sk_replay_request *out, sk_err *e) {
    json_t *list = json_array();
    int rc = list ? prepare_history(s, step, e) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a request");
    if (rc == SKIPPY_OK) {
        rc =
            step->kind == SK_REPLAY_SIDE ? fill_side(s, step, list, e) : fill_conversation(s, list, s->requests + 1, e);
    }
    if (rc != SKIPPY_OK) {
        json_decref(list);
        return rc;
    }
    s->requests++;
    s->asked = step->kind;
    s->waiting = true;
    if (step->kind == SK_REPLAY_ASK) {
        s->strip_percent = step->strip_percent; /* holds for the same answer when it is made again */
    }
    *out = (sk_replay_request){
        .kind = step->kind, .after = s->after, .max_tokens = step->max_tokens, .number = s->requests, .messages = list};
    return SKIPPY_OK;
}

static int do_step(sk_replay_state *s, const sk_replay_step *step, sk_replay_request *out, sk_err *e) {
    switch (step->kind) {
    case SK_REPLAY_SYSTEM: s->system = step->text; return step->text ? SKIPPY_OK : refuse(s, "it has no text", e);
    case SK_REPLAY_USER: return add_message(s, step, "", e);
    case SK_REPLAY_TOOL: return add_message(s, step, TOOL_PREFIX, e);
    case SK_REPLAY_EDIT: return edit(s, step, e);
    case SK_REPLAY_ASK:
    case SK_REPLAY_REGENERATE:
    case SK_REPLAY_SIDE: return make_request(s, step, out, e);
    }
    return refuse(s, "there is no such kind of step", e);
}

int sk_replay_next(sk_replay_state *s, sk_replay_request *out, sk_err *e) {
    const sk_replay_conversation *c = s->conversation;
    *out = (sk_replay_request){0};
    if (s->waiting) {
        return sk_err_set(e, SKIPPY_E_INVALID, "conversation '%s': the answer to request %zu was not given", c->key,
                          s->requests);
    }
    while (!out->messages && s->step < c->n_steps) {
        const int rc = do_step(s, &c->step[s->step], out, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        s->step++;
    }
    return SKIPPY_OK;
}

int sk_replay_answer(sk_replay_state *s, const char *text, sk_err *e) {
    if (!s->waiting) {
        return sk_err_set(e, SKIPPY_E_INVALID, "conversation '%s': an answer came, but nothing was asked",
                          s->conversation->key);
    }
    s->waiting = false;
    return s->asked == SK_REPLAY_SIDE ? SKIPPY_OK : append(s->history, "assistant", "", *text ? text : " ", e);
}
