/* From checked chat fields to text. */
#ifndef SKIPPY_OPENAI_RENDER_H
#define SKIPPY_OPENAI_RENDER_H

#include "openai/chat_bridge.h"
#include "openai/request.h"

/* Renders the conversation; schema may be NULL. On success the caller owns *out. Returns 0 or the HTTP status. */
int sk_render_chat(sk_chat *chat, const sk_chat_fields *fields, const json_t *schema, sk_chat_prompt *out,
                   sk_api_error *err);

#endif
