#include "runtime/synth_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

#define TINY_MERGED_TOKENS 768
#define TINY_MULTIPLE 64

static const char KEY_TOKENS[] = "tokenizer.ggml.tokens";
static const char KEY_TYPES[] = "tokenizer.ggml.token_type";
static const char KEY_SCORES[] = "tokenizer.ggml.scores";
static const char KEY_MERGES[] = "tokenizer.ggml.merges";
static const char KEY_MODEL[] = "tokenizer.ggml.model";
static const char KEY_PRE[] = "tokenizer.ggml.pre";

void sk_synth_vocab_free(sk_synth_vocab *v) {
    for (size_t i = 0; i < v->n_owned; i++) free(v->owned[i]);
    free(v->owned);
    free(v->merges);
    free(v->silent);
    free(v->placeholder);
    free(v->types);
    free(v->tokens);
    if (v->file) gguf_free(v->file);
    *v = (sk_synth_vocab){0};
}

static int no_memory(sk_err *err) {
    return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory while making the vocabulary");
}

/* A string that lives as long as the vocabulary; NULL when out of memory. */
static const char *keep(sk_synth_vocab *v, const char *text) {
    if (v->n_owned == v->cap_owned) {
        size_t cap = v->cap_owned ? 2 * v->cap_owned : 1024;
        char **owned = realloc(v->owned, cap * sizeof *owned);
        if (!owned) return NULL;
        v->owned = owned;
        v->cap_owned = cap;
    }
    char *copy = strdup(text);
    if (copy) v->owned[v->n_owned++] = copy;
    return copy;
}

static bool reserve(sk_synth_vocab *v, size_t cap) {
    const char **tokens = realloc(v->tokens, cap * sizeof *tokens);
    if (tokens) v->tokens = tokens;
    int32_t *types = realloc(v->types, cap * sizeof *types);
    if (types) v->types = types;
    bool *placeholder = realloc(v->placeholder, cap * sizeof *placeholder);
    if (placeholder) v->placeholder = placeholder;
    if (!tokens || !types || !placeholder) return false;
    v->cap = cap;
    return true;
}

/* Appends; text NULL (a failed keep) is a failure too. */
static bool add(sk_synth_vocab *v, const char *text, int32_t type, bool placeholder) {
    if (!text || (v->n == v->cap && !reserve(v, v->cap ? 2 * v->cap : 2048))) return false;
    v->tokens[v->n] = text;
    v->types[v->n] = type;
    v->placeholder[v->n++] = placeholder;
    return true;
}

static bool add_padding(sk_synth_vocab *v, size_t n_wanted) {
    char text[32];
    while (v->n < n_wanted) {
        snprintf(text, sizeof text, "[PAD%zu]", v->n);
        if (!add(v, keep(v, text), LLAMA_TOKEN_TYPE_UNUSED, true)) return false;
    }
    return true;
}

static int64_t find(const sk_synth_vocab *v, const char *text) {
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->tokens[i], text) == 0) return (int64_t)i;
    return -1;
}

static int64_t find_string_array(const struct gguf_context *g, const char *key) {
    int64_t id = gguf_find_key(g, key);
    if (id < 0 || gguf_get_kv_type(g, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(g, id) != GGUF_TYPE_STRING) return -1;
    return id;
}

static const char *string_value(const struct gguf_context *g, const char *key) {
    int64_t id = gguf_find_key(g, key);
    return id >= 0 && gguf_get_kv_type(g, id) == GGUF_TYPE_STRING ? gguf_get_val_str(g, id) : "";
}

static int open_file(const char *path, sk_synth_vocab *v, sk_err *err) {
    struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    *v = (sk_synth_vocab){0};
    v->file = gguf_init_from_file(path, params);
    if (!v->file) return sk_err_set(err, SKIPPY_E_NOT_FOUND, "'%s' is missing or not a GGUF file", path);
    if (find_string_array(v->file, KEY_TOKENS) < 0)
        return sk_err_set(err, SKIPPY_E_NOT_FOUND, "'%s' has no tokenizer", path);
    return SKIPPY_OK;
}

/* ---- byte-level alphabet ---- */

/* The printable code point that byte-level BPE uses for a byte: printable Latin-1 characters stand for themselves, the
 * others are numbered from U+0100 in byte order. */
static void byte_symbol(unsigned byte, char out[3]) {
    unsigned code = byte, others = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool plain = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && plain) break;
        if (b == byte)
            code = 0x100 + others;
        else if (!plain)
            others++;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        out[1] = '\0';
        return;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    out[2] = '\0';
}

#define ALPHABET 0x144 /* code points that stand for bytes are below */

/* byte_of[code point] = byte, -1 where the code point stands for none. */
static void invert_alphabet(int16_t byte_of[ALPHABET]) {
    char symbol[3];
    for (int i = 0; i < ALPHABET; i++) byte_of[i] = -1;
    for (unsigned b = 0; b < 256; b++) {
        byte_symbol(b, symbol);
        unsigned char lead = (unsigned char)symbol[0];
        unsigned code = lead < 0x80 ? lead : (unsigned)(lead & 0x1f) << 6 | ((unsigned char)symbol[1] & 0x3f);
        byte_of[code] = (int16_t)b;
    }
}

/* Bytes that a byte-level token stands for; the number of bytes, or -1 if it holds other characters or is too long. */
static int token_bytes(const int16_t byte_of[ALPHABET], const char *text, unsigned char *out, int cap) {
    int n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s; n++) {
        unsigned code = s[0];
        if (code >= 0x80) code = s[1] ? (code & 0x1f) << 6 | (s[1] & 0x3f) : ALPHABET;
        if (n == cap || s[0] >= 0xe0 || code >= ALPHABET || byte_of[code] < 0) return -1;
        out[n] = (unsigned char)byte_of[code];
        s += s[0] < 0x80 ? 1 : 2;
    }
    return n;
}

/* Whole UTF-8 characters without control characters (tab and line ends are text). Overlong and surrogate forms do not
 * occur in vocabularies that were trained on text, so lengths are enough. */
static bool is_whole_text(const unsigned char *s, int n) {
    for (int i = 0; i < n;) {
        int len = s[i] < 0x80 ? 1 : s[i] >= 0xf0 ? 4 : s[i] >= 0xe0 ? 3 : s[i] >= 0xc2 ? 2 : 0;
        bool control = (s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r') || s[i] == 0x7f;
        if (len == 0 || control || i + len > n) return false;
        for (int k = 1; k < len; k++)
            if ((s[i + k] & 0xc0) != 0x80) return false;
        i += len;
    }
    return n > 0;
}

/* ---- reduced vocabulary ---- */

static bool add_bytes(sk_synth_vocab *v) {
    char symbol[3];
    for (unsigned b = 0; b < 256; b++) {
        byte_symbol(b, symbol);
        if (!add(v, keep(v, symbol), LLAMA_TOKEN_TYPE_NORMAL, false)) return false;
    }
    return true;
}

/* Keeps a merge "left right" when both parts are tokens; its result becomes a token. False when out of memory. */
static bool add_merge(sk_synth_vocab *v, const char *merge) {
    char left[128], joined[256];
    const char *space = strchr(merge + 1, ' ');
    if (!space || (size_t)(space - merge) >= sizeof left || strlen(merge) >= sizeof joined) return true;
    snprintf(left, sizeof left, "%.*s", (int)(space - merge), merge);
    if (find(v, left) < 0 || find(v, space + 1) < 0) return true;
    snprintf(joined, sizeof joined, "%s%s", left, space + 1);
    if (find(v, joined) < 0 && !add(v, keep(v, joined), LLAMA_TOKEN_TYPE_NORMAL, false)) return false;
    v->merges[v->n_merges++] = merge;
    return true;
}

static bool add_merges(sk_synth_vocab *v) {
    int64_t id = find_string_array(v->file, KEY_MERGES);
    size_t n = gguf_get_arr_n(v->file, id);
    size_t enough = v->n + TINY_MERGED_TOKENS;
    v->merges = calloc(n ? n : 1, sizeof *v->merges);
    if (!v->merges) return false;
    for (size_t i = 0; i < n && v->n < enough; i++)
        if (!add_merge(v, gguf_get_arr_str(v->file, id, i))) return false;
    return true;
}

static bool add_all(sk_synth_vocab *v, const char *const *texts, int32_t type) {
    for (; *texts; texts++)
        if (!add(v, *texts, type, false)) return false;
    return true;
}

/* A random model that produced pieces of characters would write invalid UTF-8, which chat parsers refuse. */
static bool mark_silent(sk_synth_vocab *v) {
    int16_t byte_of[ALPHABET];
    unsigned char bytes[512];
    bool byte_level = strcmp(string_value(v->file, KEY_MODEL), "gpt2") == 0;
    invert_alphabet(byte_of);
    v->silent = calloc(v->n, sizeof *v->silent);
    if (!v->silent) return false;
    for (size_t i = 0; i < v->n; i++) {
        v->silent[i] = v->placeholder[i] || v->types[i] != LLAMA_TOKEN_TYPE_NORMAL;
        if (v->silent[i] || !byte_level) continue;
        int n = token_bytes(byte_of, v->tokens[i], bytes, (int)sizeof bytes);
        v->silent[i] = !is_whole_text(bytes, n);
    }
    return true;
}

int sk_synth_vocab_reduced(const char *path, const sk_synth_specials *sp, sk_synth_vocab *out, sk_err *err) {
    int rc = open_file(path, out, err);
    if (rc != SKIPPY_OK) return rc;
    if (strcmp(string_value(out->file, KEY_MODEL), "gpt2") != 0 || find_string_array(out->file, KEY_MERGES) < 0)
        return sk_err_set(err, SKIPPY_E_UNSUPPORTED, "'%s' is not a byte-level BPE vocabulary: it cannot be reduced",
                          path);
    if (!add_bytes(out) || !add_merges(out) || !add_all(out, sp->control, LLAMA_TOKEN_TYPE_CONTROL) ||
        !add_all(out, sp->marks, LLAMA_TOKEN_TYPE_USER_DEFINED) ||
        !add_padding(out, (out->n + TINY_MULTIPLE - 1) / TINY_MULTIPLE * TINY_MULTIPLE) || !mark_silent(out))
        return no_memory(err);
    return SKIPPY_OK;
}

/* ---- full vocabulary ---- */

static bool is_placeholder(const char *text) {
    return strncmp(text, "[PAD", 4) == 0 || strncmp(text, "<unused", 7) == 0 ||
           strncmp(text, "<|reserved_special_token_", 25) == 0;
}

static bool add_file_tokens(sk_synth_vocab *v) {
    int64_t id = find_string_array(v->file, KEY_TOKENS), type_id = gguf_find_key(v->file, KEY_TYPES);
    size_t n = gguf_get_arr_n(v->file, id);
    const int32_t *types =
        type_id >= 0 && gguf_get_arr_n(v->file, type_id) == n ? gguf_get_arr_data(v->file, type_id) : NULL;
    for (size_t i = 0; i < n; i++) {
        const char *text = gguf_get_arr_str(v->file, id, i);
        if (!add(v, text, types ? types[i] : LLAMA_TOKEN_TYPE_NORMAL, is_placeholder(text))) return false;
    }
    return true;
}

static bool add_file_merges(sk_synth_vocab *v) {
    int64_t id = find_string_array(v->file, KEY_MERGES);
    size_t n = id >= 0 ? gguf_get_arr_n(v->file, id) : 0;
    v->merges = calloc(n ? n : 1, sizeof *v->merges);
    if (!v->merges) return false;
    for (size_t i = 0; i < n; i++) v->merges[i] = gguf_get_arr_str(v->file, id, i);
    v->n_merges = n;
    return true;
}

/* Each missing token takes over the next reserved entry, or is appended. */
static bool add_missing(sk_synth_vocab *v, const char *const *texts, int32_t type, size_t *next_reserved) {
    for (; *texts; texts++) {
        int64_t at = find(v, *texts);
        if (at >= 0) { /* the file knows better, unless it takes the token for plain text */
            if (v->types[at] == LLAMA_TOKEN_TYPE_NORMAL) v->types[at] = type;
            continue;
        }
        while (*next_reserved < v->n && !v->placeholder[*next_reserved]) ++*next_reserved;
        if (*next_reserved >= v->n) {
            if (!add(v, *texts, type, false)) return false;
            continue;
        }
        v->tokens[*next_reserved] = *texts;
        v->types[*next_reserved] = type;
        v->placeholder[*next_reserved] = false;
    }
    return true;
}

int sk_synth_vocab_full(const char *path, const sk_synth_specials *sp, size_t n_wanted, sk_synth_vocab *out,
                        sk_err *err) {
    size_t next_reserved = 0;
    int rc = open_file(path, out, err);
    if (rc != SKIPPY_OK) return rc;
    if (!add_file_tokens(out) || !add_file_merges(out) ||
        !add_missing(out, sp->control, LLAMA_TOKEN_TYPE_CONTROL, &next_reserved) ||
        !add_missing(out, sp->marks, LLAMA_TOKEN_TYPE_USER_DEFINED, &next_reserved) || !add_padding(out, n_wanted))
        return no_memory(err);
    while (n_wanted > 0 && out->n > n_wanted && out->placeholder[out->n - 1]) out->n--;
    return mark_silent(out) ? SKIPPY_OK : no_memory(err);
}

/* ---- storing ---- */

/* Files of SentencePiece kind need a score per token; added ones get the lowest, as byte-level files need none. */
static int store_scores(const sk_synth_vocab *v, struct gguf_context *g, sk_err *err) {
    int64_t id = gguf_find_key(v->file, KEY_SCORES);
    if (id < 0 || strcmp(string_value(v->file, KEY_MODEL), "gpt2") == 0) return SKIPPY_OK;
    float *scores = malloc(v->n * sizeof *scores);
    if (!scores) return no_memory(err);
    size_t n_file = gguf_get_arr_n(v->file, id);
    const float *from = gguf_get_arr_data(v->file, id);
    for (size_t i = 0; i < v->n; i++) scores[i] = i < n_file ? from[i] : -1000.0f;
    gguf_set_arr_data(g, KEY_SCORES, GGUF_TYPE_FLOAT32, scores, v->n);
    free(scores);
    return SKIPPY_OK;
}

static void store_id(const sk_synth_vocab *v, struct gguf_context *g, const char *key, const char *text) {
    int64_t id = find(v, text);
    if (id >= 0) gguf_set_val_u32(g, key, (uint32_t)id);
}

int sk_synth_vocab_store(const sk_synth_vocab *v, const sk_synth_specials *sp, const char *pre, struct gguf_context *g,
                         sk_err *err) {
    const char *file_pre = string_value(v->file, KEY_PRE), *model = string_value(v->file, KEY_MODEL);
    gguf_set_val_str(g, KEY_MODEL, model);
    if (pre || *file_pre) gguf_set_val_str(g, KEY_PRE, pre ? pre : file_pre);
    gguf_set_arr_str(g, KEY_TOKENS, v->tokens, v->n);
    gguf_set_arr_data(g, KEY_TYPES, GGUF_TYPE_INT32, v->types, v->n);
    if (v->n_merges > 0) gguf_set_arr_str(g, KEY_MERGES, v->merges, v->n_merges);
    store_id(v, g, "tokenizer.ggml.bos_token_id", sp->bos);
    store_id(v, g, "tokenizer.ggml.eos_token_id", sp->eos);
    store_id(v, g, "tokenizer.ggml.eot_token_id", sp->eot);
    store_id(v, g, "tokenizer.ggml.unknown_token_id", "<unk>");
    store_id(v, g, "tokenizer.ggml.padding_token_id", "<pad>");
    gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", sp->add_bos);
    gguf_set_val_bool(g, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(g, "tokenizer.ggml.add_space_prefix", false);
    return store_scores(v, g, err);
}

bool sk_synth_vocab_is_silent(const sk_synth_vocab *v, size_t token) {
    return token >= v->n || v->silent[token];
}
