/* Hidden states that were kept, sent again for a stage behind that restored less. */
#include "stage/stage_internal.h"

/* Of span s[0]: the rows [pos, pos + n) are in s->out. */
static void send_piece(sk_stage *s, sk_stage_lane *l, sk_hasher *hash, uint32_t pos, uint32_t n) {
    const int32_t *tokens = l->prompt.tokens + pos;
    sk_frame f = {.kind = SK_FRAME_CHUNK, .flags = SK_FLAG_REPLAY};
    sk_frame_chunk *c = &f.u.chunk;
    c->n_spans = 1;
    c->n_rows = n;
    c->width = s->card.width;
    c->dtype = s->card.dtype;
    c->spans[0] =
        (sk_span){.lane = l->id, .session = l->session, .pos = pos, .n = n, .flags = SK_SPAN_PROMPT, .tokens = tokens};
    sk_hash_final(hash, c->spans[0].before.bytes);
    sk_hash_update(hash, tokens, n * sizeof *tokens);
    sk_hash_final(hash, c->spans[0].after.bytes);
    s->st.rows_replayed += n;
    sk_stage_send_hidden(s, &f, s->out);
}

int sk_session_replay(sk_stage *s, sk_stage_lane *l, uint32_t from, uint32_t to, sk_err *e) {
    const sk_prefix *p = &l->prompt;
    sk_hasher hash;
    sk_hash_init(&hash);
    if (from) sk_hash_update(&hash, p->tokens, from * sizeof *p->tokens);
    for (uint32_t pos = from, n; pos < to && !sk_stage_is_broken(s); pos += n) {
        n = to - pos < s->setup.n_batch ? to - pos : s->setup.n_batch;
        if (!s->kept || !sk_kept_read(s->kept, &p->ns, p->tokens, (uint32_t)p->n_tokens, pos, pos + n, s->out))
            return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the hidden states of tokens %u to %u are not kept any more", pos,
                              pos + n);
        send_piece(s, l, &hash, pos, n);
    }
    return SKIPPY_OK;
}
