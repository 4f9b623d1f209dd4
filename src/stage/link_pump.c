/* Moves bytes between the queues of a link and its channel. Everything here runs under the link's io lock. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/record.h"
#include "stage/link_internal.h"

enum { LENGTH_FIELD = 4, LEAST_LENGTH = SK_FRAME_HEADER - LENGTH_FIELD };

/* ---- out ---- */

static sk_out_item *control_frame(unsigned kind, uint64_t value) {
    sk_frame f = {.kind = (uint16_t)kind, .u.count = {.n = value}};
    sk_out_item *item = calloc(1, sizeof *item);
    if (item && !sk_frame_encode(&f, &item->bytes)) {
        sk_buf_free(&item->bytes);
        free(item);
        item = NULL;
    }
    return item;
}

/* PING and PONG overtake frames that wait. Of each at most one waits, however many the peer asks for. Without memory
 * neither is sent, which the peer takes for silence, and that is what it is. */
static sk_out_item *due_control(sk_link *l) {
    if (l->pong_due) {
        l->pong_due = false;
        return control_frame(SK_FRAME_PONG, l->pong_value);
    }
    if (!l->ping_due) return NULL;
    l->ping_due = false;
    l->ping_value = sk_now_ns();
    return control_frame(SK_FRAME_PING, l->ping_value);
}

static sk_out_item *next_item(sk_link *l) {
    sk_out_item *item = due_control(l);
    if (item) return item;
    pthread_mutex_lock(&l->lock);
    item = l->out_head;
    if (item) {
        l->out_head = item->next;
        if (!l->out_head) l->out_tail = &l->out_head;
    }
    pthread_mutex_unlock(&l->lock);
    return item;
}

static void item_done(sk_link *l) {
    sk_out_item *item = l->sending;
    l->sent_ns = sk_now_ns();
    pthread_mutex_lock(&l->lock);
    if (item->n_frames) l->out_bytes -= item->bytes.len; /* PING and PONG were never counted */
    l->stats.frames_out += item->n_frames;
    l->stats.bytes_out += item->bytes.len;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    sk_buf_free(&item->bytes);
    free(item);
    l->sending = NULL;
    l->sent = 0;
}

int sk_link_pump_out(sk_link *l, size_t budget, sk_err *e) {
    for (size_t moved = 0; moved < budget;) {
        if (!l->sending) l->sending = next_item(l);
        if (!l->sending) return SKIPPY_OK;
        const sk_buf *b = &l->sending->bytes;
        size_t left = b->len - l->sent;
        /* depends on nothing but what is left: TLS wants a repeated write to be the same */
        size_t piece = left < SK_LINK_PIECE ? left : SK_LINK_PIECE;
        ssize_t n = sk_channel_write(&l->ch, b->data + l->sent, piece, e);
        if (n == SK_CHANNEL_WAIT) return SKIPPY_OK;
        if (n < 0) return e->code;
        l->sent += (size_t)n;
        moved += (size_t)n;
        if (l->sent == b->len) item_done(l);
    }
    return SKIPPY_OK;
}

bool sk_link_has_output(sk_link *l) {
    if (l->sending || l->ping_due || l->pong_due) return true;
    pthread_mutex_lock(&l->lock);
    bool any = l->out_head != NULL;
    pthread_mutex_unlock(&l->lock);
    return any;
}

/* ---- in ---- */

static void answer_control(sk_link *l, const sk_frame *f) {
    if (f->kind == SK_FRAME_PING) {
        l->pong_due = true;
        l->pong_value = f->u.count.n;
        return;
    }
    if (f->u.count.n != l->ping_value || l->ping_value == 0)
        return; /* of an earlier PING: its time is not known any more */
    double ms = (double)(sk_now_ns() - l->ping_value) / 1e6;
    pthread_mutex_lock(&l->lock);
    l->stats.round_trip_ms = ms;
    pthread_mutex_unlock(&l->lock);
}

static int control_arrived(sk_link *l, uint8_t *bytes, size_t len, sk_err *e) {
    sk_frame f;
    int rc = sk_frame_decode(bytes, len, &f, e);
    free(bytes);
    if (rc) return rc;
    answer_control(l, &f);
    sk_frame_free(&f);
    return SKIPPY_OK;
}

/* Takes bytes. */
static int frame_arrived(sk_link *l, uint8_t *bytes, size_t len, uint32_t *arrived, sk_err *e) {
    unsigned kind = (unsigned)(bytes[0] | bytes[1] << 8);
    l->frame_in_ns = l->heard_ns;
    if (kind == SK_FRAME_PING || kind == SK_FRAME_PONG) return control_arrived(l, bytes, len, e);
    sk_in_item *item = malloc(sizeof *item);
    if (!item) {
        free(bytes);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a frame that came");
    }
    *item = (sk_in_item){.bytes = bytes, .len = len};
    pthread_mutex_lock(&l->lock);
    *l->in_tail = item;
    l->in_tail = &item->next;
    l->in_bytes += len;
    l->stats.frames_in++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    ++*arrived;
    return SKIPPY_OK;
}

/* The frame at the start of the stash has this length: gives it memory and moves to it what came of it already. */
static int begin_frame(sk_link *l, size_t len, size_t *used, sk_err *e) {
    l->frame = malloc(len);
    if (!l->frame) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a frame of %zu bytes", len);
    size_t came = l->stash_len - *used - LENGTH_FIELD;
    l->frame_len = len;
    l->frame_have = came < len ? came : len;
    memcpy(l->frame, l->stash + *used + LENGTH_FIELD, l->frame_have);
    *used += LENGTH_FIELD + l->frame_have;
    return SKIPPY_OK;
}

static int complete_frame(sk_link *l, uint32_t *arrived, sk_err *e) {
    if (!l->frame || l->frame_have < l->frame_len) return SKIPPY_OK;
    uint8_t *whole = l->frame;
    l->frame = NULL;
    return frame_arrived(l, whole, l->frame_len, arrived, e);
}

static int split_stash(sk_link *l, uint32_t *arrived, sk_err *e) {
    size_t used = 0;
    while (!l->frame && l->stash_len - used >= LENGTH_FIELD) {
        uint32_t len = sk_get_u32(l->stash + used), limit = atomic_load(&l->limit);
        if (len < LEAST_LENGTH || len > limit)
            return sk_err_set(
                e, SKIPPY_E_INVALID,
                "the peer announces a frame of %u bytes, and %d to %u are accepted: it is no stage of this chain", len,
                LEAST_LENGTH, limit);
        int rc = begin_frame(l, len, &used, e);
        if (!rc) rc = complete_frame(l, arrived, e);
        if (rc) return rc;
    }
    l->stash_len -= used;
    memmove(l->stash, l->stash + used, l->stash_len);
    return SKIPPY_OK;
}

/* One read: into the frame that is being read, or into the stash. */
static ssize_t read_some(sk_link *l, sk_err *e) {
    if (!l->frame) return sk_channel_read(&l->ch, l->stash + l->stash_len, sizeof l->stash - l->stash_len, e);
    size_t left = l->frame_len - l->frame_have;
    return sk_channel_read(&l->ch, l->frame + l->frame_have, left < SK_LINK_PIECE ? left : SK_LINK_PIECE, e);
}

static int take_in(sk_link *l, size_t n, uint32_t *arrived, sk_err *e) {
    l->heard_ns = sk_now_ns();
    if (l->finished) return SKIPPY_OK; /* closing: only the end is waited for */
    pthread_mutex_lock(&l->lock);
    l->stats.bytes_in += n;
    pthread_mutex_unlock(&l->lock);
    if (l->frame) {
        l->frame_have += n;
        return complete_frame(l, arrived, e);
    }
    l->stash_len += n;
    return split_stash(l, arrived, e);
}

/* Whether the owner has so much to take that the peer shall wait. */
static bool pause_reading(sk_link *l) {
    pthread_mutex_lock(&l->lock);
    l->reading_paused = !l->finished && l->in_bytes > SK_LINK_UNREAD_MAX;
    bool paused = l->reading_paused;
    pthread_mutex_unlock(&l->lock);
    if (paused) l->heard_ns = sk_now_ns(); /* who is not listened to is not silent */
    return paused;
}

int sk_link_pump_in(sk_link *l, size_t budget, bool *more, uint32_t *arrived, sk_err *e) {
    *more = false;
    for (size_t moved = 0; moved < budget;) {
        if (pause_reading(l)) return SKIPPY_OK;
        ssize_t n = read_some(l, e);
        if (n == SK_CHANNEL_WAIT) return SKIPPY_OK;
        if (n < 0) return e->code;
        moved += (size_t)n;
        int rc = take_in(l, (size_t)n, arrived, e);
        if (rc) return rc;
    }
    *more = true;
    return SKIPPY_OK;
}
