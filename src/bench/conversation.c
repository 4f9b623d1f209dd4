#include "bench/conversation.h"

#include <string.h>

int sk_conversation_init(sk_conversation *c, bool chat, sk_err *e) {
    *c = (sk_conversation){.chat = chat, .messages = chat ? json_array() : NULL};
    return !chat || c->messages ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation");
}

void sk_conversation_free(sk_conversation *c) {
    sk_buf_free(&c->text);
    json_decref(c->messages);
    *c = (sk_conversation){0};
}

int sk_conversation_add(sk_conversation *c, const char *role, const char *text, sk_err *e) {
    if (c->chat) {
        json_t *message = json_pack("{s:s, s:s}", "role", role, "content", text);
        return message && json_array_append_new(c->messages, message) == 0
                   ? SKIPPY_OK
                   : sk_err_set(e, SKIPPY_E_INVALID, "a message is not UTF-8, or memory is out");
    }
    if (c->text.len) {
        sk_buf_str(&c->text, " ");
    }
    sk_buf_str(&c->text, text);
    return c->text.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation") : SKIPPY_OK;
}

int sk_conversation_replace(sk_conversation *c, const char *text, sk_err *e) {
    if (c->chat) {
        const size_t n = json_array_size(c->messages);
        json_t *last = n ? json_array_get(c->messages, n - 1) : NULL;
        return last && json_object_set_new(last, "content", json_string(text)) == 0
                   ? SKIPPY_OK
                   : sk_err_set(e, SKIPPY_E_INVALID, "there is no message to replace, or its text is not UTF-8");
    }
    sk_buf_clear(&c->text);
    sk_buf_str(&c->text, text);
    return c->text.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a conversation") : SKIPPY_OK;
}

int sk_conversation_send(const sk_conversation *c, sk_endpoint *ep, size_t n_predict, sk_reply *r, sk_err *e) {
    return c->chat ? sk_endpoint_chat(ep, c->messages, n_predict, r, e)
                   : sk_endpoint_complete(ep, c->text.data ? c->text.data : "", n_predict, r, e);
}

char *sk_conversation_dump(const sk_conversation *c) {
    return c->chat ? json_dumps(c->messages, JSON_COMPACT) : strdup(c->text.data ? c->text.data : "");
}
