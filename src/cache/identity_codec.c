#include "cache/identity_codec.h"

#include <string.h>

#include "cache/mem.h"

enum field_kind { F_KEY, F_TEXT, F_U8, F_U32, F_U64, F_ADAPTERS };

typedef struct field {
    uint16_t tag;
    enum field_kind kind;
    size_t offset; /* in skippy_identity */
} field;

enum { TAG_VERSION = 1, HEADER_BYTES = 10, ADAPTER_BYTES = 36 };

/* Tags are part of the format: never reused, never renumbered, ascending here. Floats travel as the u32 of their bits,
 * flash_attn as the u32 of its two's complement, booleans as 0 or 1. */
#define FIELD(tag, kind, member)                                                                                       \
    { tag, kind, offsetof(skippy_identity, member) }
static const field fields[] = {
    FIELD(2, F_KEY, weights_digest),    FIELD(3, F_TEXT, model_id),         FIELD(4, F_TEXT, topology_id),
    FIELD(5, F_TEXT, stage_id),         FIELD(6, F_U32, stage_index),       FIELD(7, F_U32, layer_start),
    FIELD(8, F_U32, layer_end),         FIELD(9, F_TEXT, runtime_abi),      FIELD(10, F_TEXT, kv_type_k),
    FIELD(11, F_TEXT, kv_type_v),       FIELD(12, F_U32, flash_attn),       FIELD(13, F_U8, kv_unified),
    FIELD(14, F_U8, swa_full),          FIELD(15, F_TEXT, kv_layout),       FIELD(16, F_U32, n_ctx),
    FIELD(17, F_U32, rope_freq_base),   FIELD(18, F_U32, rope_freq_scale),  FIELD(19, F_U32, yarn_ext_factor),
    FIELD(20, F_U32, yarn_attn_factor), FIELD(21, F_U32, yarn_beta_fast),   FIELD(22, F_U32, yarn_beta_slow),
    FIELD(23, F_U32, yarn_orig_ctx),    FIELD(24, F_ADAPTERS, adapters),    FIELD(25, F_TEXT, backend_device),
    FIELD(26, F_TEXT, cpu_arch),        FIELD(27, F_U8, big_endian),        FIELD(28, F_TEXT, batch_schedule),
    FIELD(29, F_TEXT, tenant),          FIELD(30, F_TEXT, cache_namespace), FIELD(31, F_U64, token_start),
};
#undef FIELD
enum { N_FIELDS = sizeof fields / sizeof *fields };

_Static_assert(sizeof(float) == 4 && sizeof(int) == 4 && sizeof(bool) == 1, "widths that the field table relies on");

static void put_le(uint8_t *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *in, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | in[i];
    return value;
}

static const void *member_of(const skippy_identity *id, const field *f) {
    return (const char *)id + f->offset;
}

static const char *text_of(const skippy_identity *id, const field *f) {
    const char *text;
    memcpy(&text, member_of(id, f), sizeof text);
    return text;
}

/* Width on the wire of a fixed-width integer kind. */
static size_t integer_bytes(enum field_kind kind) {
    return kind == F_U8 ? 1 : kind == F_U32 ? 4 : 8;
}

static uint64_t integer_of(const skippy_identity *id, const field *f) {
    uint8_t u8;
    uint32_t u32;
    uint64_t u64;
    switch (f->kind) {
    case F_U8: memcpy(&u8, member_of(id, f), sizeof u8); return u8;
    case F_U32: memcpy(&u32, member_of(id, f), sizeof u32); return u32;
    default: memcpy(&u64, member_of(id, f), sizeof u64); return u64;
    }
}

static void integer_set(skippy_identity *id, const field *f, uint64_t value) {
    void *member = (char *)id + f->offset;
    uint8_t u8 = (uint8_t)value;
    uint32_t u32 = (uint32_t)value;
    switch (f->kind) {
    case F_U8: memcpy(member, &u8, sizeof u8); break;
    case F_U32: memcpy(member, &u32, sizeof u32); break;
    default: memcpy(member, &value, sizeof value); break;
    }
}

/* ---- encode ---- */

static void emit(sk_identity_sink sink, void *ud, uint16_t tag, const void *data, size_t len) {
    uint8_t header[HEADER_BYTES];
    put_le(header, tag, 2);
    put_le(header + 2, len, 8);
    sink(ud, header, sizeof header);
    if (len) sink(ud, data, len);
}

static uint32_t scale_bits(const skippy_adapter *a) {
    uint32_t bits;
    memcpy(&bits, &a->scale, sizeof bits);
    return bits;
}

static void emit_adapters(sk_identity_sink sink, void *ud, uint16_t tag, const skippy_identity *id) {
    for (size_t i = 0; i < id->n_adapters; i++) {
        uint8_t body[ADAPTER_BYTES];
        memcpy(body, id->adapters[i].digest.bytes, sizeof id->adapters[i].digest.bytes);
        put_le(body + 32, scale_bits(&id->adapters[i]), 4);
        emit(sink, ud, tag, body, sizeof body);
    }
}

static void emit_field(sk_identity_sink sink, void *ud, const field *f, const skippy_identity *id) {
    uint8_t number[8];
    const char *text;
    switch (f->kind) {
    case F_KEY: emit(sink, ud, f->tag, member_of(id, f), sizeof(skippy_key)); break;
    case F_TEXT:
        text = text_of(id, f);
        if (text) emit(sink, ud, f->tag, text, strlen(text));
        break;
    case F_U8:
    case F_U32:
    case F_U64:
        put_le(number, integer_of(id, f), integer_bytes(f->kind));
        emit(sink, ud, f->tag, number, integer_bytes(f->kind));
        break;
    case F_ADAPTERS: emit_adapters(sink, ud, f->tag, id); break;
    }
}

int sk_identity_encode(const skippy_identity *id, sk_identity_sink sink, void *ud) {
    if (!id || !sink || (id->n_adapters && !id->adapters)) return SKIPPY_E_INVALID;
    uint8_t version[4];
    put_le(version, SKIPPY_IDENTITY_VERSION, sizeof version);
    emit(sink, ud, TAG_VERSION, version, sizeof version);
    for (size_t i = 0; i < N_FIELDS; i++) emit_field(sink, ud, &fields[i], id);
    return SKIPPY_OK;
}

/* ---- decode ---- */

typedef struct reader {
    const uint8_t *at;
    size_t left;
    skippy_adapter *adapters; /* next free */
    char *text;               /* next free */
} reader;

/* The body of the next field if it has this tag; false leaves the reader where it was. A length that runs over the
 * end makes the field unreadable, which shows as bytes left over at the end. */
static bool next_field(reader *r, uint16_t tag, const uint8_t **body, size_t *len) {
    if (r->left < HEADER_BYTES || get_le(r->at, 2) != tag) return false;
    uint64_t n = get_le(r->at + 2, 8);
    if (n > r->left - HEADER_BYTES) return false;
    *body = r->at + HEADER_BYTES;
    *len = (size_t)n;
    r->at += HEADER_BYTES + *len;
    r->left -= HEADER_BYTES + *len;
    return true;
}

static bool read_text(reader *r, const field *f, skippy_identity *id) {
    const uint8_t *body;
    size_t len;
    if (!next_field(r, f->tag, &body, &len)) return true; /* absent */
    if (memchr(body, 0, len)) return false;
    const char *text = r->text;
    memcpy(r->text, body, len);
    r->text += len + 1; /* storage is zero-filled: the terminator is there */
    memcpy((char *)id + f->offset, &text, sizeof text);
    return true;
}

static bool read_adapters(reader *r, const field *f, skippy_identity *id) {
    const uint8_t *body;
    size_t len;
    while (next_field(r, f->tag, &body, &len)) {
        if (len != ADAPTER_BYTES) return false;
        uint32_t bits = (uint32_t)get_le(body + 32, 4);
        memcpy(r->adapters->digest.bytes, body, 32);
        memcpy(&r->adapters->scale, &bits, sizeof bits);
        if (!id->adapters) id->adapters = r->adapters;
        id->n_adapters++;
        r->adapters++;
    }
    return true;
}

static bool read_field(reader *r, const field *f, skippy_identity *id) {
    const uint8_t *body;
    size_t len;
    if (f->kind == F_TEXT) return read_text(r, f, id);
    if (f->kind == F_ADAPTERS) return read_adapters(r, f, id);
    if (!next_field(r, f->tag, &body, &len)) return false;
    if (f->kind == F_KEY) {
        if (len != sizeof(skippy_key)) return false;
        memcpy((char *)id + f->offset, body, len);
        return true;
    }
    if (len != integer_bytes(f->kind)) return false;
    uint64_t value = get_le(body, len);
    if (f->kind == F_U8 && value > 1) return false;
    integer_set(id, f, value);
    return true;
}

static int read_version(reader *r) {
    const uint8_t *body;
    size_t len;
    if (!next_field(r, TAG_VERSION, &body, &len) || len != 4) return SKIPPY_E_CORRUPT;
    return get_le(body, 4) == SKIPPY_IDENTITY_VERSION ? SKIPPY_OK : SKIPPY_E_UNSUPPORTED;
}

int sk_identity_decode(const uint8_t *data, size_t len, const skippy_allocator *alloc, sk_identity_copy **out) {
    if (!data || !out || !sk_mem_hooks_valid(alloc)) return SKIPPY_E_INVALID;
    *out = NULL;
    if (len > SIZE_MAX - sizeof(sk_identity_copy)) return SKIPPY_E_INVALID;
    skippy_allocator a = sk_mem_hooks(alloc);
    /* len bytes are enough: every adapter (36) and every string with its terminator is shorter than its field. */
    sk_identity_copy *copy = sk_mem_alloc(&a, sizeof *copy + len);
    if (!copy) return SKIPPY_E_NOMEM;
    copy->alloc = a;
    _Static_assert(offsetof(sk_identity_copy, storage) % _Alignof(skippy_adapter) == 0, "adapters are aligned");
    _Static_assert(sizeof(skippy_adapter) <= HEADER_BYTES + ADAPTER_BYTES, "adapters fit in place of their fields");
    reader r = {.at = data, .left = len, .adapters = (skippy_adapter *)(void *)copy->storage};
    size_t adapter_room = 0;
    int status = read_version(&r);
    if (status != SKIPPY_OK) goto out;
    /* Adapters sit in the middle of the encoding but first in storage: count them before the strings get a place. */
    for (reader scan = r; scan.left >= HEADER_BYTES;) {
        const uint8_t *body;
        size_t n;
        uint16_t tag = (uint16_t)get_le(scan.at, 2);
        if (!next_field(&scan, tag, &body, &n)) break;
        if (tag == 24 && n == ADAPTER_BYTES) adapter_room += sizeof(skippy_adapter);
    }
    r.text = (char *)copy->storage + adapter_room;
    for (size_t i = 0; status == SKIPPY_OK && i < N_FIELDS; i++)
        if (!read_field(&r, &fields[i], &copy->id)) status = SKIPPY_E_CORRUPT;
    if (status == SKIPPY_OK && r.left) status = SKIPPY_E_CORRUPT;
out:
    if (status != SKIPPY_OK)
        sk_identity_copy_free(copy);
    else
        *out = copy;
    return status;
}

void sk_identity_copy_free(sk_identity_copy *copy) {
    if (!copy) return;
    skippy_allocator a = copy->alloc;
    sk_mem_release(&a, copy);
}

/* ---- compare ---- */

static bool texts_equal(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool adapters_equal(const skippy_identity *a, const skippy_identity *b) {
    if (a->n_adapters != b->n_adapters) return false;
    for (size_t i = 0; i < a->n_adapters; i++) {
        const skippy_adapter *x = &a->adapters[i], *y = &b->adapters[i];
        if (!skippy_key_equal(&x->digest, &y->digest) || scale_bits(x) != scale_bits(y)) return false;
    }
    return true;
}

bool sk_identity_equal(const skippy_identity *a, const skippy_identity *b) {
    bool same = true;
    for (size_t i = 0; same && i < N_FIELDS; i++) {
        const field *f = &fields[i];
        switch (f->kind) {
        case F_KEY: same = memcmp(member_of(a, f), member_of(b, f), sizeof(skippy_key)) == 0; break;
        case F_TEXT: same = texts_equal(text_of(a, f), text_of(b, f)); break;
        case F_ADAPTERS: same = adapters_equal(a, b); break;
        default: same = integer_of(a, f) == integer_of(b, f); break;
        }
    }
    return same;
}
