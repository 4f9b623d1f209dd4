/* The information endpoints: what the server says about itself. Pure: facts in, text out. */
#ifndef SKIPPY_SERVER_PAGES_H
#define SKIPPY_SERVER_PAGES_H

#include "base/buf.h"
#include "engine/engine.h"

typedef struct sk_page_facts {
    const sk_engine_facts *engine;
    const char *model_id, *model_path, *build_info, *chat_template;
} sk_page_facts;

/* / : plain text for people who open the address in a browser. */
void sk_page_index(const sk_page_facts *f, sk_buf *out);
/* /props */
void sk_page_props(const sk_page_facts *f, sk_buf *out);
/* /slots: one object a lane. */
void sk_page_slots(const sk_page_facts *f, const sk_lane_view *lanes, size_t n, sk_buf *out);

#endif
