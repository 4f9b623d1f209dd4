/* Frames of a stage link: every kind as documented, every lie refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/record.h"
#include "stage/frame_samples.h"

/* The small samples, written down from docs/formats/stage-link.md by another program: bytes on the wire do not change.
 * A long frame is one text in several literals. NOLINTBEGIN(bugprone-suspicious-missing-comma) */
static const char *const golden[SK_FRAME_KINDS] = {
    [SK_FRAME_HELLO] =
        "8d0000000100000034333231484746454443424101000000404142434445464748494a4b4c4d4e4f50515253545556575859"
        "5a5b5c5d5e5f0100000003000000020000000400000006000000010000000300623a32887766554433221101000000020000"
        "00040000000600000008000000090000000a0000000b0000000c00000001010300616269020030660300613a31",
    [SK_FRAME_WELCOME] =
        "5400000002000000343332314847464544434241040000000100000088776655443322110100000002000000040000000600"
        "000008000000090000000a0000000b0000000c00000001010300616269020030660300613a31",
    [SK_FRAME_REFUSE] = "1900000003000000343332314847464544434241070000000300776879",
    [SK_FRAME_OPEN] = "2100000004000100343332314847464544434241020000000100000001000000feffffff74",
    [SK_FRAME_PROBE] = "1000000005000000343332314847464544434241",
    [SK_FRAME_PROBED] =
        "2d000000060000003433323148474645444342410100000005000000400000008000000002000000070000000600000001",
    [SK_FRAME_RESTORE] = "1c00000007000000343332314847464544434241020000000900000008000000",
    [SK_FRAME_RESTORED] =
        "3200000008000000343332314847464544434241030000000200000008070605040302010000803f00000080020000000102"
        "02006e6f",
    [SK_FRAME_CHUNK] =
        "e800000009000400343332314847464544434241020000000300000001000000000000002827262524232221010000000500"
        "00000200000004000000404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f6061626364656667"
        "68696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f0300000000000000020000000000000001000000030000008081"
        "82838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3"
        "b4b5b6b7b8b9babbbcbdbebf01000000feffffffffffff7f101112131415161718191a1b",
    [SK_FRAME_RESULT] = "280000000a0000003433323148474645444342414d0000000200000008070605040302010000803f00000080",
    [SK_FRAME_RECORD] = "180000000b0000003433323148474645444342413412000000000000",
    [SK_FRAME_TRIM] = "180000000c0000003433323148474645444342413412000000000000",
    [SK_FRAME_STOP] = "100000000d000200343332314847464544434241",
    [SK_FRAME_FAULT] = "190000000e000000343332314847464544434241070000000300776879",
    [SK_FRAME_CREDIT] = "180000000f0000003433323148474645444342413412000000000000",
    [SK_FRAME_ERASE] = "1e0000001000000034333231484746454443424101000000ffff0200010000006e73",
    [SK_FRAME_ERASED] = "1c0000001100000034333231484746454443424134120000000000000a000000",
    [SK_FRAME_PING] = "18000000120000003433323148474645444342413412000000000000",
    [SK_FRAME_PONG] = "18000000130000003433323148474645444342413412000000000000",
};
/* NOLINTEND(bugprone-suspicious-missing-comma) */

static sk_frame sample, decoded; /* large: not on the stack */

static sk_buf encoded(const sk_frame *f) {
    sk_buf b = {0};
    assert_true(sk_frame_encode(f, &b));
    return b;
}

static sk_buf encoded_sample(unsigned kind, enum sample_size size) {
    frame_sample(&sample, kind, size);
    return encoded(&sample);
}

/* Decodes what follows the length field. */
static int decode(const sk_buf *b, sk_err *e) {
    return sk_frame_decode((const uint8_t *)b->data + 4, b->len - 4, &decoded, e);
}

static void refused(const sk_buf *b, const char *why) {
    sk_err e = {0};
    assert_int_equal(decode(b, &e), SKIPPY_E_INVALID);
    if (!strstr(e.text, why)) fail_msg("'%s' does not say '%s'", e.text, why);
    assert_null(decoded.owned);
}

/* Overwrites bytes of an encoded frame; at counts from the frame's body. */
static void poke(sk_buf *b, size_t at, uint32_t v) {
    assert_true(SK_FRAME_HEADER + at + 4 <= b->len);
    sk_put_u32((uint8_t *)b->data + SK_FRAME_HEADER + at, v);
}

/* ---- what is legal ---- */

static void every_kind_has_the_documented_bytes(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        sk_buf b = encoded_sample(kind, SAMPLE_SMALL);
        char *hex = malloc(2 * b.len + 1);
        assert_non_null(hex);
        sk_hex((const uint8_t *)b.data, b.len, hex);
        assert_string_equal(hex, golden[kind]);
        free(hex);
        sk_buf_free(&b);
    }
}

static void every_kind_arrives_as_it_was_sent(void **state) {
    (void)state;
    sk_err e = {0};
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        for (int size = 0; size < SAMPLE_SIZES; size++) {
            sk_buf b = encoded_sample(kind, (enum sample_size)size);
            assert_int_equal(sk_get_u32((const uint8_t *)b.data), b.len - 4);
            assert_int_equal(decode(&b, &e), SKIPPY_OK);
            if (!frame_equal(&sample, &decoded)) fail_msg("%s of size %d arrived otherwise", sk_frame_name(kind), size);
            sk_frame_free(&decoded);
            sk_buf_free(&b);
        }
    }
}

static void a_frame_may_lie_at_any_address(void **state) {
    (void)state;
    sk_err e = {0};
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        sk_buf b = encoded_sample(kind, SAMPLE_EXTREME);
        for (size_t shift = 0; shift < 4; shift++) {
            uint8_t *bytes = malloc(b.len + shift);
            assert_non_null(bytes);
            memcpy(bytes + shift, b.data + 4, b.len - 4);
            assert_int_equal(sk_frame_decode(bytes + shift, b.len - 4, &decoded, &e), SKIPPY_OK);
            assert_true(frame_equal(&sample, &decoded));
            sk_frame_free(&decoded);
            free(bytes);
        }
        sk_buf_free(&b);
    }
}

static void arrays_are_used_where_they_lie(void **state) {
    (void)state;
    sk_err e = {0};
    sk_buf b = encoded_sample(SK_FRAME_CHUNK, SAMPLE_SMALL);
    uintptr_t from = (uintptr_t)b.data, to = from + b.len;
    assert_int_equal(decode(&b, &e), SKIPPY_OK);
    assert_null(decoded.owned);
    assert_in_range((uintptr_t)decoded.u.chunk.hidden, from, to);
    assert_in_range((uintptr_t)decoded.u.chunk.spans[1].tokens, from, to);
    assert_int_equal((uintptr_t)decoded.u.chunk.hidden % 4, 0);
    sk_frame_free(&decoded);
    sk_buf_free(&b);
}

static void frames_are_appended_one_behind_the_other(void **state) {
    (void)state;
    sk_err e = {0};
    sk_buf b = encoded_sample(SK_FRAME_OPEN, SAMPLE_SMALL);
    size_t first = b.len;
    frame_sample(&sample, SK_FRAME_RECORD, SAMPLE_SMALL);
    assert_true(sk_frame_encode(&sample, &b));
    assert_int_equal(sk_get_u32((const uint8_t *)b.data), first - 4);
    assert_int_equal(sk_frame_decode((const uint8_t *)b.data + first + 4, b.len - first - 4, &decoded, &e), SKIPPY_OK);
    assert_true(frame_equal(&sample, &decoded));
    sk_buf_free(&b);
}

/* ---- what is refused ---- */

static void every_truncation_is_refused(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        for (int size = 0; size < SAMPLE_SIZES; size++) {
            sk_buf b = encoded_sample(kind, (enum sample_size)size);
            for (size_t len = 0; len < b.len - 4; len++) {
                sk_err e = {0};
                uint8_t *exact = malloc(len ? len : 1); /* a sanitizer sees one byte too many */
                assert_non_null(exact);
                memcpy(exact, b.data + 4, len);
                int rc = sk_frame_decode(exact, len, &decoded, &e);
                free(exact);
                if (rc != SKIPPY_E_INVALID) fail_msg("%s cut to %zu bytes: %d", sk_frame_name(kind), len, rc);
                assert_null(decoded.owned);
            }
            sk_buf_free(&b);
        }
    }
}

static void bytes_behind_the_end_are_refused(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        sk_buf b = encoded_sample(kind, SAMPLE_SMALL);
        sk_buf_add(&b, "", 1);
        refused(&b, kind == SK_FRAME_CHUNK ? "not as many bytes" : "left over");
        sk_buf_free(&b);
    }
}

static void unknown_kinds_are_refused(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 65536; kind += kind < 64 ? 1 : 4093) {
        if (kind >= 1 && kind < SK_FRAME_KINDS) continue;
        sk_buf b = encoded_sample(SK_FRAME_PROBE, SAMPLE_SMALL);
        b.data[4] = (char)(kind & 255);
        b.data[5] = (char)(kind >> 8);
        refused(&b, "no frame has this kind");
        sk_buf_free(&b);
    }
    frame_sample(&sample, SK_FRAME_PROBE, SAMPLE_SMALL);
    sample.kind = SK_FRAME_KINDS;
    sk_buf b = {0};
    assert_false(sk_frame_encode(&sample, &b));
    assert_false(b.failed);
    assert_string_equal(sk_frame_name(SK_FRAME_KINDS), "?");
    assert_string_equal(sk_frame_name(SK_FRAME_ERASED), "ERASED");
}

static void flags_of_other_kinds_are_refused(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < SK_FRAME_KINDS; kind++) {
        for (unsigned bit = 0; bit < 16; bit++) {
            sk_buf b = encoded_sample(kind, SAMPLE_SMALL);
            uint16_t known = sample.flags;
            sample.flags = (uint16_t)(1u << bit);
            b.data[6] = (char)(sample.flags & 255);
            b.data[7] = (char)(sample.flags >> 8);
            sk_buf again = {0};
            bool legal = sample.flags == known;
            assert_int_equal(sk_frame_encode(&sample, &again), legal);
            bool has_more = kind == SK_FRAME_RESULT && sample.flags == SK_FLAG_BEST; /* the flag changes the body */
            if (!legal && !has_more) refused(&b, "flags");
            sk_buf_free(&again);
            sk_buf_free(&b);
        }
    }
}

typedef struct lie {
    unsigned kind;
    size_t at; /* of a u32 in the body of the small sample */
    uint32_t value;
    const char *why;
} lie;

static void counts_that_lie_are_refused(void **state) {
    (void)state;
    static const lie lies[] = {
        {SK_FRAME_HELLO, 40, SK_CHAIN_MAX + 1, "more stages than a chain"},
        {SK_FRAME_HELLO, 40, 16, "route is longer"}, /* it takes later fields for cuts */
        {SK_FRAME_HELLO, 56, UINT32_MAX, "route is longer"},
        {SK_FRAME_WELCOME, 4, SK_CHAIN_MAX + 1, "more cards"},
        {SK_FRAME_WELCOME, 4, 2, "ends early"},
        {SK_FRAME_WELCOME, 4, 0, "left over"},
        {SK_FRAME_OPEN, 0, 3, "ends early"},
        {SK_FRAME_OPEN, 0, SK_FRAME_TOKENS_MAX + 1, "more than any context"},
        {SK_FRAME_OPEN, 0, UINT32_MAX, "more than any context"},
        {SK_FRAME_OPEN, 4, 0x0400, "too long"},
        {SK_FRAME_OPEN, 4, 0x0009, "ends early"},
        {SK_FRAME_ERASE, 0, 0x40000001, "more than any context"}, /* times four overflows 32 bits */
        {SK_FRAME_ERASE, 0, 2, "ends early"},
        {SK_FRAME_PROBED, 0, SK_CHAIN_MAX + 1, "more offers"},
        {SK_FRAME_PROBED, 0, 2, "ends early"},
        {SK_FRAME_PROBED, 16, SK_FRAME_LENGTHS_MAX + 1, "more lengths"},
        {SK_FRAME_PROBED, 16, 3, "ends early"},
        {SK_FRAME_RESTORE, 0, SK_CHAIN_MAX + 1, "more lengths"},
        {SK_FRAME_RESTORE, 0, 3, "ends early"},
        {SK_FRAME_RESTORED, 4, (1u << 24) + 1, "longer than any vocabulary"},
        {SK_FRAME_RESTORED, 4, 1u << 24, "ends early"},
        {SK_FRAME_RESTORED, 24, SK_CHAIN_MAX + 1, "more sources"},
        {SK_FRAME_CHUNK, 0, SK_SPANS_MAX + 1, "number of spans"},
        {SK_FRAME_CHUNK, 0, 0, "disagree"},
        {SK_FRAME_CHUNK, 0, 1, "disagree"},
        {SK_FRAME_CHUNK, 4, UINT32_MAX, "number of rows"},
        {SK_FRAME_CHUNK, 4, 4, "disagree"},
        {SK_FRAME_CHUNK, 8, 2, "not as many bytes"},
        {SK_FRAME_CHUNK, 8, 0, "no values"},
        {SK_FRAME_CHUNK, 8, UINT32_MAX, "larger than a frame"},
        {SK_FRAME_CHUNK, 12, 2, "neither f32 nor f16"},
        {SK_FRAME_CHUNK, 12, 256, "neither f32 nor f16"},
        {SK_FRAME_CHUNK, 12, 1, "not as many bytes"},
        {SK_FRAME_CHUNK, 28, SK_FRAME_TOKENS_MAX - 1, "ends behind any context"},
        {SK_FRAME_CHUNK, 28, UINT32_MAX, "ends behind any context"},
        {SK_FRAME_CHUNK, 32, 0, "disagree"},
        {SK_FRAME_CHUNK, 32, SK_FRAME_TOKENS_MAX + 1, "more tokens than any context"},
        {SK_FRAME_CHUNK, 36, 16, "unknown flags"},
        {SK_FRAME_CHUNK, 36, 0x104, "unknown flags"},
        {SK_FRAME_RESULT, 4, 0, "out of range"},
        {SK_FRAME_RESULT, 4, 3, "ends early"},
        {SK_FRAME_RESULT, 4, 1, "left over"},
        {SK_FRAME_RESULT, 4, UINT32_MAX, "longer than any vocabulary"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        sk_buf b = encoded_sample(lies[i].kind, SAMPLE_SMALL);
        poke(&b, lies[i].at, lies[i].value);
        refused(&b, lies[i].why);
        sk_buf_free(&b);
    }
}

static void values_out_of_bounds_are_refused(void **state) {
    (void)state;
    static const lie lies[] = {
        {SK_FRAME_PROBED, 4, SK_FRAME_TOKENS_MAX + 1, "more tokens than any context"},
        {SK_FRAME_PROBED, 8, 129, "end before they begin"},
        {SK_FRAME_PROBED, 12, SK_FRAME_TOKENS_MAX + 1, "more tokens than any context"},
        {SK_FRAME_PROBED, 20, SK_FRAME_TOKENS_MAX + 1, "more tokens than any context"},
        {SK_FRAME_PROBED, 24, 7, "do not descend"},
        {SK_FRAME_RESTORE, 8, SK_FRAME_TOKENS_MAX + 1, "longer than any context"},
        {SK_FRAME_RESULT, 0, SK_FRAME_TOKENS_MAX + 1, "behind any context"},
        {SK_FRAME_RECORD, 0, SK_FRAME_TOKENS_MAX + 1, "larger than any context"},
        {SK_FRAME_TRIM, 4, 1, "larger than any context"},
        {SK_FRAME_CREDIT, 0, 0, "chunks is out of range"},
        {SK_FRAME_CREDIT, 4, 1, "chunks is out of range"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        sk_buf b = encoded_sample(lies[i].kind, SAMPLE_SMALL);
        poke(&b, lies[i].at, lies[i].value);
        refused(&b, lies[i].why);
        sk_buf_free(&b);
    }
}

/* Changes one byte, counted from the end of the body. */
static void refused_with_byte(unsigned kind, size_t from_end, uint8_t byte, const char *why) {
    sk_buf b = encoded_sample(kind, SAMPLE_SMALL);
    b.data[b.len - from_end] = (char)byte;
    refused(&b, why);
    sk_buf_free(&b);
}

static void bytes_with_a_second_meaning_are_refused(void **state) {
    (void)state;
    refused_with_byte(SK_FRAME_PROBED, 1, 2, "neither");       /* terminal */
    refused_with_byte(SK_FRAME_WELCOME, 15, 2, "neither");     /* last */
    refused_with_byte(SK_FRAME_WELCOME, 16, 2, "neither f32"); /* dtype of a card */
    refused_with_byte(SK_FRAME_WELCOME, 1, 0, "NUL");          /* in a name */
    refused_with_byte(SK_FRAME_REFUSE, 2, 0, "NUL");
    refused_with_byte(SK_FRAME_ERASE, 1, 0, "NUL");
    refused_with_byte(SK_FRAME_RESTORED, 5, SK_STAGE_DISK + 1, "source of state is unknown");
}

static void texts_that_do_not_fit_are_refused(void **state) {
    (void)state;
    sk_buf b = encoded_sample(SK_FRAME_FAULT, SAMPLE_EXTREME);
    b.data[SK_FRAME_HEADER + 4] = (char)(SK_FRAME_TEXT_MAX & 255);
    b.data[SK_FRAME_HEADER + 5] = (char)(SK_FRAME_TEXT_MAX >> 8);
    sk_buf_add(&b, "x", 1);
    refused(&b, "too long");
    sk_buf_free(&b);
}

static void another_version_of_the_protocol_is_named(void **state) {
    (void)state;
    sk_buf b = encoded_sample(SK_FRAME_HELLO, SAMPLE_SMALL);
    poke(&b, 0, SK_STAGE_PROTOCOL + 6);
    refused(&b, "the peer speaks version 7 of the stage protocol, this program version 1");
    sk_buf_free(&b);
}

/* ---- the encoder ---- */

static void not_encoded(void) {
    sk_buf b = {0};
    sk_buf_str(&b, "before");
    assert_false(sk_frame_encode(&sample, &b));
    assert_false(b.failed);
    assert_string_equal(b.data, "before");
    sk_buf_free(&b);
}

static void largest_logits_come_with_their_tokens(void **state) {
    (void)state;
    const int32_t tokens[] = {7, 3, 90000};
    const float logits[] = {2.5F, 2.5F, -1};
    sk_frame f = {.kind = SK_FRAME_RESULT,
                  .flags = SK_FLAG_BEST,
                  .u.result = {.pos = 9, .compute_ns = 5, .logits = logits, .n_logits = 3, .tokens = tokens}};
    sk_frame back;
    sk_buf b = {0};
    sk_err e = {0};
    assert_true(sk_frame_encode(&f, &b));
    for (size_t shift = 0; shift < 4; shift++) { /* wherever the bytes lie */
        uint8_t bytes[128];
        memcpy(bytes + shift, b.data + 4, b.len - 4);
        assert_int_equal(sk_frame_decode(bytes + shift, b.len - 4, &back, &e), SKIPPY_OK);
        assert_true(frame_equal(&f, &back));
        sk_frame_free(&back);
        assert_int_equal(sk_frame_decode(bytes + shift, b.len - 5, &back, &e), SKIPPY_E_INVALID);
    }
    sk_buf_free(&b);
    f.u.result.n_logits = SK_BEST_LOGITS + 1;
    assert_false(sk_frame_encode(&f, &b));
    sk_buf_free(&b);
}

#define NOT_ENCODED(kind, change)                                                                                      \
    do {                                                                                                               \
        frame_sample(&sample, kind, SAMPLE_SMALL);                                                                     \
        change;                                                                                                        \
        not_encoded();                                                                                                 \
    } while (0)

static void fields_out_of_bounds_are_not_encoded(void **state) {
    static const int32_t some_tokens[] = {1, 2};
    (void)state;
    static char endless[SK_FRAME_TEXT_MAX + 1];
    memset(endless, 'x', SK_FRAME_TEXT_MAX);
    NOT_ENCODED(SK_FRAME_HELLO, sample.u.hello.n_stages = SK_CHAIN_MAX + 1);
    NOT_ENCODED(SK_FRAME_HELLO, sample.u.hello.n_route = SK_CHAIN_MAX + 1);
    NOT_ENCODED(SK_FRAME_HELLO, memset(sample.u.hello.route[0], 'x', 256));
    NOT_ENCODED(SK_FRAME_HELLO, memset(sample.u.hello.head.source, 'x', 65));
    NOT_ENCODED(SK_FRAME_WELCOME, sample.u.welcome.n_cards = UINT32_MAX);
    NOT_ENCODED(SK_FRAME_WELCOME, sample.u.welcome.cards[0].dtype = 2);
    NOT_ENCODED(SK_FRAME_WELCOME, memset(sample.u.welcome.cards[0].abi, 'x', SK_FRAME_TEXT_MAX));
    NOT_ENCODED(SK_FRAME_WELCOME, memset(sample.u.welcome.cards[0].name, 'x', 256));
    NOT_ENCODED(SK_FRAME_FAULT, memset(sample.u.text.text, 'x', SK_FRAME_TEXT_MAX));
    NOT_ENCODED(SK_FRAME_OPEN, sample.u.open.n_tokens = SK_FRAME_TOKENS_MAX + 1);
    NOT_ENCODED(SK_FRAME_OPEN, sample.u.open.tokens = NULL);
    NOT_ENCODED(SK_FRAME_OPEN, sample.u.open.tenant = endless);
    NOT_ENCODED(SK_FRAME_OPEN, sample.u.open.cache_namespace = endless);
    NOT_ENCODED(SK_FRAME_ERASE, sample.u.erase.n_tokens = UINT32_MAX);
    NOT_ENCODED(SK_FRAME_ERASE, sample.u.erase.tokens = NULL);
    NOT_ENCODED(SK_FRAME_ERASE, sample.u.erase.tenant = endless);
    NOT_ENCODED(SK_FRAME_ERASE, sample.u.erase.cache_namespace = endless);
    NOT_ENCODED(SK_FRAME_PROBED, sample.u.probed.n_offers = SK_CHAIN_MAX + 1);
    NOT_ENCODED(SK_FRAME_PROBED, sample.u.probed.offers[0].n_exact = SK_FRAME_LENGTHS_MAX + 1);
    NOT_ENCODED(SK_FRAME_PROBED, sample.u.probed.offers[0].exact[1] = 8);
    NOT_ENCODED(SK_FRAME_RESTORE, sample.u.restore.n_lengths = SK_CHAIN_MAX + 1);
    NOT_ENCODED(SK_FRAME_RESTORED, sample.u.restored.n_sources = SK_CHAIN_MAX + 1);
    NOT_ENCODED(SK_FRAME_RESTORED, sample.u.restored.logits = NULL);
    NOT_ENCODED(SK_FRAME_RESTORED, sample.u.restored.n_logits = 0);
    NOT_ENCODED(SK_FRAME_RESTORED, memset(sample.u.restored.text, 'x', 256));
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.n_spans = 0);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.n_spans = SK_SPANS_MAX + 1);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.n_rows++);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.hidden_bytes--);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.hidden = NULL);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.spans[1].tokens = NULL);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.spans[1].pos = UINT32_MAX);
    NOT_ENCODED(SK_FRAME_CHUNK, sample.u.chunk.spans[1].flags = 0x80);
    NOT_ENCODED(SK_FRAME_RESULT, sample.u.result.n_logits = 0);
    NOT_ENCODED(SK_FRAME_RESULT, sample.u.result.logits = NULL);
    NOT_ENCODED(SK_FRAME_RESULT, sample.flags = SK_FLAG_BEST);          /* without tokens */
    NOT_ENCODED(SK_FRAME_RESULT, sample.u.result.tokens = some_tokens); /* without the flag */
    NOT_ENCODED(SK_FRAME_PING, sample.u.count.status = 1);              /* would be lost */
    NOT_ENCODED(SK_FRAME_CREDIT, sample.u.count.n = 0);
}

static void a_failed_buffer_stays_as_it_is(void **state) {
    (void)state;
    sk_buf b = {.failed = true};
    frame_sample(&sample, SK_FRAME_OPEN, SAMPLE_SMALL);
    assert_false(sk_frame_encode(&sample, &b));
    assert_true(b.failed);
    assert_int_equal(b.len, 0);
}

/* ---- limits ---- */

static void the_limit_admits_the_largest_frames_of_a_stage(void **state) {
    (void)state;
    enum { WIDTH = 16, BATCH = 6000 };
    uint32_t limit = sk_frame_limit(BATCH, WIDTH, 0, 0);
    int32_t *tokens = calloc(BATCH, sizeof *tokens);
    void *hidden = calloc(BATCH, WIDTH * sizeof(float));
    assert_true(tokens && hidden);
    frame_sample(&sample, SK_FRAME_CHUNK, SAMPLE_EXTREME);
    sk_frame_chunk *c = &sample.u.chunk;
    c->n_rows = BATCH;
    c->width = WIDTH;
    c->dtype = 0;
    c->hidden = hidden;
    c->hidden_bytes = BATCH * WIDTH * sizeof(float);
    c->spans[0].n = BATCH - SK_SPANS_MAX + 1;
    c->spans[0].pos = 0;
    c->spans[0].tokens = tokens;
    sk_buf b = encoded(&sample);
    assert_int_equal(b.len - 4, limit);
    sk_buf_free(&b);
    free(hidden);
    frame_sample(&sample, SK_FRAME_OPEN, SAMPLE_EXTREME);
    sample.u.open.tokens = tokens;
    sample.u.open.n_tokens = BATCH;
    b = encoded(&sample);
    assert_true(b.len - 4 <= sk_frame_limit(1, 1, 0, BATCH));
    sk_buf_free(&b);
    free(tokens);
}

static void every_greeting_is_below_the_first_limit(void **state) {
    (void)state;
    static const unsigned greetings[] = {SK_FRAME_HELLO, SK_FRAME_WELCOME, SK_FRAME_REFUSE};
    assert_int_equal(sk_frame_limit(0, 0, 0, 0), 64 * 1024);
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++) {
        sk_buf b = encoded_sample(greetings[i], SAMPLE_EXTREME);
        assert_true(b.len - 4 <= 64 * 1024);
        sk_buf_free(&b);
    }
}

static void no_limit_is_larger_than_the_largest_frame(void **state) {
    (void)state;
    uint32_t top = sk_frame_limit(UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    assert_true(top > SK_FRAME_ACTIVATIONS_MAX);
    assert_true(top < 2u * SK_FRAME_ACTIVATIONS_MAX);
    assert_int_equal(sk_frame_limit(UINT32_MAX, 1 << 20, 0, 0), top);
    assert_true(sk_frame_limit(1, 1, UINT32_MAX, 1) <= top);
    assert_int_equal(sk_frame_limit(1, 1, 100000, 1), 16 + 4 * SK_FRAME_TEXT_MAX + 4 * 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_the_documented_bytes),
        cmocka_unit_test(every_kind_arrives_as_it_was_sent),
        cmocka_unit_test(a_frame_may_lie_at_any_address),
        cmocka_unit_test(arrays_are_used_where_they_lie),
        cmocka_unit_test(frames_are_appended_one_behind_the_other),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(unknown_kinds_are_refused),
        cmocka_unit_test(flags_of_other_kinds_are_refused),
        cmocka_unit_test(counts_that_lie_are_refused),
        cmocka_unit_test(values_out_of_bounds_are_refused),
        cmocka_unit_test(bytes_with_a_second_meaning_are_refused),
        cmocka_unit_test(texts_that_do_not_fit_are_refused),
        cmocka_unit_test(another_version_of_the_protocol_is_named),
        cmocka_unit_test(largest_logits_come_with_their_tokens),
        cmocka_unit_test(fields_out_of_bounds_are_not_encoded),
        cmocka_unit_test(a_failed_buffer_stays_as_it_is),
        cmocka_unit_test(the_limit_admits_the_largest_frames_of_a_stage),
        cmocka_unit_test(every_greeting_is_below_the_first_limit),
        cmocka_unit_test(no_limit_is_larger_than_the_largest_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
