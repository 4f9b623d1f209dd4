/* What each frame asks for. */
#include "base/log.h"
#include "stage/stage_internal.h"

static void fault_unknown(sk_stage *s, const sk_frame *f) {
    sk_err err = {0};
    sk_err_set(&err, SKIPPY_E_NOT_FOUND, "%s is for session %llu on lane %u, which stage %u does not have",
               sk_frame_name(f->kind), (unsigned long long)f->session, f->lane, s->card.index);
    s->st.faults++;
    sk_stage_send_fault(s, f->lane, f->session, err.code, err.text);
}

/* Frames of a session that runs. */
static void handle_in_session(sk_stage *s, sk_stage_lane *l, const sk_frame *f, const uint8_t *bytes, size_t len) {
    switch (f->kind) {
    case SK_FRAME_RESTORE: sk_session_restore(s, l, f); return;
    case SK_FRAME_PROBE:
        sk_stage_pass_down(s, bytes, len);
        sk_session_probe(s, l);
        return;
    case SK_FRAME_RECORD:
        sk_stage_pass_down(s, bytes, len);
        sk_session_record(s, l, f->u.count.n);
        return;
    case SK_FRAME_TRIM:
        sk_stage_pass_down(s, bytes, len);
        sk_session_trim(s, l, f->u.count.n);
        return;
    default: return;
    }
}

static void open_session(sk_stage *s, const sk_frame *f, const uint8_t *bytes, size_t len) {
    sk_session_open(s, f);
    const sk_stage_lane *l = sk_session_find(s, f->lane, f->session);
    if (l && !l->faulted) sk_stage_pass_down(s, bytes, len);
}

static void handle(sk_stage *s, const sk_frame *f, const uint8_t *bytes, size_t len) {
    sk_stage_lane *l = sk_session_find(s, f->lane, f->session);
    switch (f->kind) {
    case SK_FRAME_OPEN: open_session(s, f, bytes, len); break;
    case SK_FRAME_CHUNK: sk_stage_compute(s, f); break;
    case SK_FRAME_STOP:
        sk_stage_pass_down(s, bytes, len);
        if (l) sk_session_close(s, l, f->flags & SK_FLAG_KEEP);
        break;
    case SK_FRAME_PROBE:
    case SK_FRAME_RESTORE:
    case SK_FRAME_RECORD:
    case SK_FRAME_TRIM:
        if (!l)
            fault_unknown(s, f);
        else if (!l->faulted || f->kind == SK_FRAME_RESTORE) /* others are ignored: the session knows that it failed */
            handle_in_session(s, l, f, bytes, len);
        break;
    case SK_FRAME_ERASE: sk_stage_begin_erase(s, f, bytes, len); break;
    case SK_FRAME_REFUSE: sk_stage_break(s, "the stage before this one ended the link: %.300s", f->u.text.text); break;
    default:
        sk_stage_break(s, "a %s frame came from the stage before, where it does not belong", sk_frame_name(f->kind));
    }
}

void sk_stage_handle(sk_stage *s, const uint8_t *bytes, size_t len) {
    sk_frame f = {0};
    sk_err err = {0};
    if (sk_frame_decode(bytes, len, &f, &err)) {
        sk_stage_break(s, "a frame of the stage before cannot be read: %.300s", err.text);
        return;
    }
    if (!s->split_known && f.kind != SK_FRAME_REFUSE)
        sk_stage_break(s, "a %s frame came before the split was agreed: the HELLO named no cuts",
                       sk_frame_name(f.kind));
    else
        handle(s, &f, bytes, len);
    sk_frame_free(&f);
}

void sk_stage_take_answer(sk_stage *s, sk_stage_answer *a) {
    const sk_frame *f = &a->frame;
    sk_stage_lane *l = sk_session_find(s, f->lane, f->session);
    switch (f->kind) {
    case SK_FRAME_RESTORED:
        if (!l) break;
        sk_session_restored_below(s, l, a); /* takes it */
        return;
    case SK_FRAME_PROBED:
        if (l) sk_session_probed_below(s, l, f);
        break;
    case SK_FRAME_ERASED: sk_stage_erased_below(s, f); break;
    case SK_FRAME_FAULT: /* was passed on by the relay */
        if (l) sk_session_fail(s, l);
        break;
    default: break;
    }
    sk_stage_answer_free(a);
}
