/* Searches for two different identities with one encoding, and for byte strings that decode to something that encodes
 * differently. Input: one mode byte, then
 *   even mode: the bytes of an encoding to decode, or
 *   odd mode: bytes that two identities are made of. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cache/identity_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

enum { MAX_TEXTS = 32, MAX_ADAPTERS = 4 };

/* An identity and the memory that it points into. */
typedef struct made {
    skippy_identity id;
    char *texts[MAX_TEXTS];
    size_t n_texts;
    skippy_adapter adapters[MAX_ADAPTERS];
} made;

static void take(input *in, void *out, size_t n) {
    size_t have = n < in->left ? n : in->left;
    memset(out, 0, n);
    if (have) memcpy(out, in->at, have);
    in->at += have;
    in->left -= have;
}

static uint8_t take_u8(input *in) {
    uint8_t v;
    take(in, &v, 1);
    return v;
}

/* Absent for lengths 0 mod 8; otherwise 0..6 characters up to the first NUL. */
static const char *take_text(input *in, made *m) {
    uint8_t n = take_u8(in) % 8;
    if (n == 0) return NULL;
    char *text = calloc(1, 8);
    if (!text) abort();
    take(in, text, n - 1u);
    m->texts[m->n_texts++] = text;
    return text;
}

static void take_identity(input *in, made *m) {
    memset(m, 0, sizeof *m);
    skippy_identity *id = &m->id;
    take(in, &id->weights_digest, 4);
    id->model_id = take_text(in, m);
    id->topology_id = take_text(in, m);
    id->stage_id = take_text(in, m);
    id->stage_index = take_u8(in);
    id->layer_start = take_u8(in);
    id->layer_end = take_u8(in);
    id->runtime_abi = take_text(in, m);
    id->kv_type_k = take_text(in, m);
    id->kv_type_v = take_text(in, m);
    id->flash_attn = take_u8(in) - 128;
    id->kv_unified = take_u8(in) & 1;
    id->swa_full = take_u8(in) & 1;
    id->kv_layout = take_text(in, m);
    take(in, &id->n_ctx, sizeof id->n_ctx);
    take(in, &id->rope_freq_base, sizeof id->rope_freq_base);
    take(in, &id->rope_freq_scale, sizeof id->rope_freq_scale);
    take(in, &id->yarn_ext_factor, sizeof id->yarn_ext_factor);
    take(in, &id->yarn_attn_factor, sizeof id->yarn_attn_factor);
    take(in, &id->yarn_beta_fast, sizeof id->yarn_beta_fast);
    take(in, &id->yarn_beta_slow, sizeof id->yarn_beta_slow);
    take(in, &id->yarn_orig_ctx, sizeof id->yarn_orig_ctx);
    id->n_adapters = take_u8(in) % (MAX_ADAPTERS + 1);
    id->adapters = m->adapters;
    for (size_t i = 0; i < id->n_adapters; i++) take(in, &m->adapters[i], sizeof m->adapters[i]);
    id->backend_device = take_text(in, m);
    id->cpu_arch = take_text(in, m);
    id->big_endian = take_u8(in) & 1;
    id->batch_schedule = take_text(in, m);
    id->tenant = take_text(in, m);
    id->cache_namespace = take_text(in, m);
    take(in, &id->token_start, sizeof id->token_start);
}

static void made_free(made *m) {
    for (size_t i = 0; i < m->n_texts; i++) free(m->texts[i]);
}

static void buf_sink(void *ud, const void *data, size_t len) {
    sk_buf_add(ud, data, len);
}

static sk_buf encoded(const skippy_identity *id) {
    sk_buf b = {0};
    if (sk_identity_encode(id, buf_sink, &b) != SKIPPY_OK || b.failed) abort();
    return b;
}

/* Whatever decodes is the encoding of what it decodes to. */
static void check_bytes(const uint8_t *data, size_t size) {
    sk_identity_copy *copy;
    if (sk_identity_decode(data, size, NULL, &copy) != SKIPPY_OK) return;
    sk_buf again = encoded(&copy->id);
    if (again.len != size || memcmp(again.data, data, size) != 0) abort();
    sk_buf_free(&again);
    sk_identity_copy_free(copy);
}

static void check_round_trip(const skippy_identity *id, const sk_buf *encoding) {
    sk_identity_copy *copy;
    if (sk_identity_decode((const uint8_t *)encoding->data, encoding->len, NULL, &copy) != SKIPPY_OK) abort();
    if (!sk_identity_equal(&copy->id, id)) abort();
    sk_identity_copy_free(copy);
}

static void check_pair(input in) {
    made a, b;
    take_identity(&in, &a);
    take_identity(&in, &b);
    sk_buf x = encoded(&a.id), y = encoded(&b.id);
    bool same_bytes = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    if (same_bytes != sk_identity_equal(&a.id, &b.id)) abort();
    check_round_trip(&a.id, &x);
    check_round_trip(&b.id, &y);
    sk_buf_free(&x);
    sk_buf_free(&y);
    made_free(&a);
    made_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] % 2 == 0)
        check_bytes(data + 1, size - 1);
    else
        check_pair((input){data + 1, size - 1});
    return 0;
}
