/* Holds bytes against the layout that the self-check learned, before llama.cpp sees them. */
#include <string.h>

#include "base/hash.h"
#include "runtime/state_bytes.h"
#include "runtime/state_internal.h"

/* ---- digests of layouts ---- */

static void hash_text(sk_hasher *h, const char *text) {
    sk_hash_update(h, text, strlen(text) + 1);
}

static void hash_settings(sk_hasher *h, const sk_context *c) {
    uint8_t flags[2] = {(uint8_t)(c->info.flash_attn != 0), (uint8_t)sk_state_full_window(c)};
    sk_hash_update(h, flags, sizeof flags);
    hash_text(h, c->info.type_k);
    hash_text(h, c->info.type_v);
}

void sk_state_layout_of(const sk_context *c, const sk_state_parse *whole, skippy_key *out) {
    skippy_key digest;
    sk_hasher h;
    sk_state_layout_digest(whole, &digest);
    sk_hash_init(&h);
    hash_text(&h, "skippy state of a context 1");
    sk_hash_update(&h, digest.bytes, sizeof digest.bytes);
    hash_settings(&h, c);
    sk_hash_final(&h, out->bytes);
}

void sk_state_layout_opaque(const sk_context *c, const sk_state_caps *caps, skippy_key *out) {
    const sk_model_info *m = sk_model_get_info(c->model);
    uint64_t numbers[3] = {(uint64_t)m->n_layer, caps->cell_bytes, caps->tail_bytes};
    sk_hasher h;
    sk_hash_init(&h);
    hash_text(&h, "skippy opaque state of a context 1");
    hash_text(&h, m->arch);
    for (size_t i = 0; i < 3; i++) {
        uint8_t b[8];
        sk_put_le32(b, (uint32_t)numbers[i]);
        sk_put_le32(b + 4, (uint32_t)(numbers[i] >> 32));
        sk_hash_update(&h, b, sizeof b);
    }
    hash_settings(&h, c);
    sk_hash_final(&h, out->bytes);
}

/* ---- parts ---- */

static bool same_key(const skippy_key *a, const skippy_key *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static int other_layout(const char *part, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "the %s has another layout than this context's", part);
}

static int parse(const sk_context *c, const uint8_t *data, size_t len, bool partial, sk_state_parse *p, sk_err *e) {
    sk_state_shape shape = sk_state_shape_of(c, partial);
    int rc = sk_state_parse_blob(data, len, &shape, p, e);
    if (rc == SKIPPY_OK && p->seq_id != 0)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the state is not in canonical form: its sequence id is %d", p->seq_id);
    return rc;
}

/* Window cells: without gaps up to the last position, and far enough back. */
static bool window_is(const sk_context *c, const uint8_t *data, const sk_state_parse *p, size_t section, uint32_t n) {
    uint32_t cells = p->section[section].n_cells;
    if (cells == 0 || cells > n) return false;
    int64_t needed = (int64_t)n - c->info.n_swa + 1;
    return (int64_t)(n - cells) <= (needed > 0 ? needed : 0) && sk_state_positions_are(data, p, section, n - cells, n);
}

static bool recurrent_is(const uint8_t *data, const sk_state_parse *p, size_t section, uint32_t n) {
    return p->section[section].n_cells == 1 && (int64_t)sk_state_position(data, p, section, 0) == (int64_t)n - 1;
}

static bool kv_sections_are(const sk_context *c, const uint8_t *data, const sk_state_parse *p, uint32_t from,
                            uint32_t to) {
    bool full = sk_state_full_window(c);
    for (size_t i = 0; i < p->n_sections; i++) {
        bool filled = i == 0 || (p->section[i].kind == SK_SECTION_KV && full);
        if (filled ? !sk_state_positions_are(data, p, i, from, to) : p->section[i].n_cells != 0) return false;
    }
    return true;
}

int sk_state_verify_kv(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len, uint32_t from,
                       uint32_t to, sk_err *e) {
    sk_state_parse p;
    skippy_key layout;
    int rc = parse(c, data, len, false, &p, e);
    if (rc) goto out;
    sk_state_layout_digest(&p, &layout);
    if (!same_key(&layout, &caps->kv_part))
        rc = other_layout("KV part", e);
    else if (!kv_sections_are(c, data, &p, from, to))
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the KV part does not hold exactly the positions %u..%u", from, to);
out:
    sk_state_parse_free(&p);
    return rc;
}

int sk_state_verify_tail(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len,
                         uint32_t n_tokens, sk_err *e) {
    sk_state_parse p;
    skippy_key layout;
    int rc = parse(c, data, len, true, &p, e);
    if (rc) goto out;
    sk_state_layout_digest(&p, &layout);
    bool recurrent = p.section[0].kind == SK_SECTION_RS;
    if (p.n_sections != 1 || !same_key(&layout, &caps->state_part))
        rc = other_layout("STATE part", e);
    else if (!(recurrent ? recurrent_is(data, &p, 0, n_tokens) : window_is(c, data, &p, 0, n_tokens)))
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the STATE part is not that of position %u", n_tokens);
out:
    sk_state_parse_free(&p);
    return rc;
}

static bool whole_is(const sk_context *c, const uint8_t *data, const sk_state_parse *p, uint32_t n) {
    for (size_t i = 0; i < p->n_sections; i++) {
        bool ok;
        if (p->section[i].kind == SK_SECTION_RS)
            ok = recurrent_is(data, p, i, n);
        else if (i == 0 || sk_state_full_window(c))
            ok = sk_state_positions_are(data, p, i, 0, n);
        else
            ok = window_is(c, data, p, i, n);
        if (!ok) return false;
    }
    return true;
}

/* Nothing is known about an opaque export but its beginning: the same in every memory that has cells. A count that the
 * pool cannot hold must not reach the importer, which does not come back from it. */
static int verify_opaque(const sk_context *c, const uint8_t *data, size_t len, sk_err *e) {
    if (len < SK_STATE_HEADER_BYTES + 8 || sk_le32(data) != SK_STATE_MAGIC || sk_le32(data + 4) != 0)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "%zu bytes do not begin like a sequence state", len);
    if (!c->info.has_kv) {
        if (sk_le32(data + 8) > 1) return sk_err_set(e, SKIPPY_E_CORRUPT, "more than one recurrent state");
    } else if (sk_le32(data + 8) != 1 || sk_le32(data + 12) > c->info.n_ctx) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "%u streams of %u cells do not fit this context", sk_le32(data + 8),
                          sk_le32(data + 12));
    }
    return SKIPPY_OK;
}

int sk_state_verify_whole(const sk_context *c, const sk_state_caps *caps, const uint8_t *data, size_t len,
                          uint32_t n_tokens, sk_err *e) {
    if (!caps->windows) return verify_opaque(c, data, len, e);
    sk_state_parse p;
    skippy_key layout;
    int rc = parse(c, data, len, false, &p, e);
    if (rc) goto out;
    sk_state_layout_of(c, &p, &layout);
    if (!same_key(&layout, &caps->layout))
        rc = other_layout("whole export", e);
    else if (!whole_is(c, data, &p, n_tokens))
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the whole export does not hold exactly %u positions", n_tokens);
out:
    sk_state_parse_free(&p);
    return rc;
}

int sk_state_require_empty(const sk_context *c, uint32_t seq, sk_err *e) {
    if (seq >= c->info.n_seq_max)
        return sk_err_set(e, SKIPPY_E_INVALID, "there is no sequence %u (0..%u)", seq, c->info.n_seq_max - 1);
    if (sk_cells_len(&c->cells, seq) > 0 || llama_memory_seq_pos_max(c->mem, (llama_seq_id)seq) >= 0 ||
        llama_memory_seq_pos_min(c->mem, (llama_seq_id)seq) >= 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u is not empty", seq);
    return SKIPPY_OK;
}
