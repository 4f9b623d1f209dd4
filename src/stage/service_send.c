/* Frames on their way out. */
#include <string.h>

#include "base/clock.h"
#include "base/record.h"
#include "stage/stage_internal.h"

enum { RETRY_MS = 20 }; /* a queue that drains wakes nobody */

static bool encode(sk_stage *s, const sk_frame *f, sk_buf *b) {
    if (sk_frame_encode(f, b)) return true;
    sk_stage_break(s, "out of memory for a %s frame", sk_frame_name(f->kind));
    return false;
}

static void send_buf(sk_stage *s, sk_link *l, sk_buf *b, const char *whither) {
    sk_err err = {0};
    uint64_t deadline = sk_now_ns() + (uint64_t)s->stall_ms * 1000000;
    if (sk_link_send(l, b, false, deadline, &err))
        sk_stage_break(s, "the link to the stage %s broke: %s", whither, err.text);
}

void sk_stage_send_up(sk_stage *s, const sk_frame *f) {
    sk_buf b = {0};
    if (encode(s, f, &b)) send_buf(s, s->up, &b, "before this one");
    sk_buf_free(&b);
}

void sk_stage_send_down(sk_stage *s, const sk_frame *f) {
    if (!s->down) return;
    sk_buf b = {0};
    if (encode(s, f, &b)) send_buf(s, s->down, &b, "behind this one");
    sk_buf_free(&b);
}

void sk_stage_pass_down(sk_stage *s, const uint8_t *bytes, size_t len) {
    if (!s->down) return;
    sk_buf b = {0};
    uint8_t length[4];
    sk_put_u32(length, (uint32_t)len); /* it came with a length field of 32 bits */
    sk_buf_add(&b, length, sizeof length);
    sk_buf_add(&b, bytes, len);
    if (b.failed)
        sk_stage_break(s, "out of memory for a frame of %zu bytes", len);
    else
        send_buf(s, s->down, &b, "behind this one");
    sk_buf_free(&b);
}

void sk_stage_send_fault(sk_stage *s, uint32_t lane, uint64_t session, int status, const char *text) {
    sk_frame f = {.kind = SK_FRAME_FAULT, .lane = lane, .session = session, .u.text = {.status = status}};
    strncpy(f.u.text.text, text, sizeof f.u.text.text - 1);
    sk_text_clean(f.u.text.text);
    sk_stage_send_up(s, &f);
}

/* Waits for a credit of the stage behind, and for room in the link's queue. */
static void send_chunk(sk_stage *s, sk_buf *b) {
    const uint64_t deadline = sk_now_ns() + (uint64_t)s->stall_ms * 1000000;
    sk_err err = {0};
    for (;;) {
        int rc = sk_link_try_send(s->down, b, true, &err);
        if (rc == SKIPPY_OK || atomic_load(&s->stop) || sk_stage_is_broken(s)) return;
        if (rc != SKIPPY_E_BUSY) {
            sk_stage_break(s, "the link to the stage behind this one broke: %s", err.text);
            return;
        }
        if (sk_link_is_down(s->up)) return; /* nobody waits for it any more; the next look at that link says why */
        if (sk_now_ns() > deadline) {
            sk_stage_break(s, "the stage behind this one (%s) has taken nothing for %u s", sk_link_peer(s->down),
                           s->stall_ms / 1000);
            return;
        }
        sk_waker_wait(&s->waker, RETRY_MS);
    }
}

void sk_stage_send_hidden(sk_stage *s, sk_frame *f, const float *hidden) {
    sk_frame_chunk *c = &f->u.chunk;
    const size_t values = (size_t)c->n_rows * c->width;
    c->hidden = hidden;
    c->hidden_bytes = values * sizeof *hidden;
    if (c->dtype) {
        sk_stage_to_f16(hidden, s->half, values);
        c->hidden = s->half;
        c->hidden_bytes = values * sizeof *s->half;
    }
    sk_buf b = {0};
    if (encode(s, f, &b)) {
        s->st.hidden_bytes_out += c->hidden_bytes;
        send_chunk(s, &b);
    }
    sk_buf_free(&b);
}
