#include "openai/logprobs.h"

#include <stdlib.h>
#include <string.h>

#include "openai/internal.h"

/* The lowest value that is shown: JSON has no -Infinity, and OpenAI uses this one. */
#define MIN_LOGPROB (-9999.0)

sk_token_record *sk_records_borrow(const sk_gen_event *ev) {
    sk_token_record *list = ev->n_tokens ? calloc(ev->n_tokens, sizeof *list) : NULL;
    for (size_t i = 0; list && i < ev->n_tokens; i++) {
        const sk_gen_token *t = &ev->tokens[i];
        list[i] = (sk_token_record){.token = t->token, .logprob = t->chosen.logprob, .top = t->top, .n_top = t->n_top};
    }
    return list;
}

static bool keep_one(sk_token_record *r, const sk_gen_token *t) {
    *r = (sk_token_record){.token = t->token, .logprob = t->chosen.logprob, .n_top = t->n_top};
    if (t->n_top == 0) return true;
    r->owned = malloc(t->n_top * sizeof *r->owned);
    if (!r->owned) return false;
    memcpy(r->owned, t->top, t->n_top * sizeof *r->owned);
    r->top = r->owned;
    return true;
}

bool sk_records_keep(sk_token_record **list, size_t *n, size_t *cap, const sk_gen_event *ev) {
    for (size_t i = 0; i < ev->n_tokens; i++) {
        if (*n == *cap) {
            size_t wanted = *cap ? *cap * 2 : 32;
            sk_token_record *grown = realloc(*list, wanted * sizeof *grown);
            if (!grown) return false;
            *list = grown;
            *cap = wanted;
        }
        if (!keep_one(&(*list)[*n], &ev->tokens[i])) return false;
        (*n)++;
    }
    return true;
}

void sk_records_free(sk_token_record *list, size_t n) {
    for (size_t i = 0; i < n; i++) free(list[i].owned);
    free(list);
}

static void write_logprob(float v, sk_buf *out) {
    sk_write_number(out, v > MIN_LOGPROB ? (double)v : MIN_LOGPROB);
}

static void write_entry(const sk_model *m, int32_t token, float logprob, bool with_ids, sk_buf *out) {
    char piece[512];
    size_t n = sk_model_piece(m, token, true, piece, sizeof piece);
    if (with_ids) sk_buf_printf(out, "\"id\":%d,", token);
    sk_buf_str(out, "\"token\":");
    sk_write_string(out, piece, n);
    sk_buf_str(out, ",\"logprob\":");
    write_logprob(logprob, out);
    sk_buf_str(out, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++) sk_buf_printf(out, "%s%d", i ? "," : "", (unsigned char)piece[i]);
    sk_buf_str(out, "]");
}

void sk_write_chat_logprobs(const sk_model *m, const sk_token_record *r, size_t n, size_t n_top, bool with_ids,
                            sk_buf *out) {
    sk_buf_str(out, "[");
    for (size_t i = 0; i < n; i++) {
        sk_buf_str(out, i ? ",{" : "{");
        write_entry(m, r[i].token, r[i].logprob, with_ids, out);
        sk_buf_str(out, ",\"top_logprobs\":[");
        for (size_t k = 0; k < r[i].n_top && k < n_top; k++) {
            sk_buf_str(out, k ? ",{" : "{");
            write_entry(m, r[i].top[k].token, r[i].top[k].logprob, with_ids, out);
            sk_buf_str(out, "}");
        }
        sk_buf_str(out, "]}");
    }
    sk_buf_str(out, "]");
}

/* Text of a token as a key: a part of a character is spelled out, so that two such tokens stay different. */
static void write_key(const sk_model *m, int32_t token, sk_buf *out) {
    char piece[512];
    size_t n = sk_model_piece(m, token, true, piece, sizeof piece);
    if (sk_utf8_valid(piece, n)) {
        sk_write_string(out, piece, n);
        return;
    }
    sk_buf_str(out, "\"bytes:");
    for (size_t i = 0; i < n; i++) sk_buf_printf(out, "\\\\x%02x", (unsigned char)piece[i]);
    sk_buf_str(out, "\"");
}

static void write_legacy_top(const sk_model *m, const sk_token_record *r, size_t n_top, sk_buf *out) {
    sk_buf_str(out, "{");
    for (size_t k = 0; k < r->n_top && k < n_top; k++) {
        if (k) sk_buf_str(out, ",");
        write_key(m, r->top[k].token, out);
        sk_buf_str(out, ":");
        write_logprob(r->top[k].logprob, out);
    }
    sk_buf_str(out, "}");
}

void sk_write_legacy_logprobs(const sk_model *m, const sk_token_record *r, size_t n, size_t n_top, size_t *offset,
                              sk_buf *out) {
    sk_buf_str(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) sk_buf_str(out, ",");
        write_key(m, r[i].token, out);
    }
    sk_buf_str(out, "],\"token_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) sk_buf_str(out, ",");
        write_logprob(r[i].logprob, out);
    }
    sk_buf_str(out, n_top ? "],\"top_logprobs\":[" : "],\"top_logprobs\":null");
    for (size_t i = 0; n_top && i < n; i++) {
        if (i) sk_buf_str(out, ",");
        write_legacy_top(m, &r[i], n_top, out);
    }
    sk_buf_str(out, n_top ? "],\"text_offset\":[" : ",\"text_offset\":[");
    for (size_t i = 0; i < n; i++) {
        char piece[512];
        sk_buf_printf(out, "%s%zu", i ? "," : "", *offset);
        *offset += sk_model_piece(m, r[i].token, false, piece, sizeof piece);
    }
    sk_buf_str(out, "]}");
}
