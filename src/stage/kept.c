#include "stage/kept.h"

#include <stdlib.h>
#include <string.h>

enum {
    STAGE_ID_MAX = 64,
    PAGE_ID_MAX = STAGE_ID_MAX + 80, /* three decimal numbers and 16 digits of the key follow */
    ID_MAX = PAGE_ID_MAX + 20
};

struct sk_kept {
    skippy_activation_cache *cache; /* NULL = nothing is kept */
    char stage_id[STAGE_ID_MAX];
    uint32_t layer_start, width;
};

int sk_kept_open(const char *stage_id, uint32_t layer_start, uint32_t width, uint64_t max_bytes, sk_kept **out,
                 sk_err *e) {
    *out = NULL;
    if (!stage_id || strlen(stage_id) >= STAGE_ID_MAX || width == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "activation cache: stage name '%s' or width %u cannot be used",
                          stage_id ? stage_id : "", width);
    sk_kept *k = calloc(1, sizeof *k);
    if (!k || (max_bytes && skippy_activation_create(NULL, max_bytes, &k->cache) != SKIPPY_OK)) {
        free(k);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the activation cache");
    }
    memcpy(k->stage_id, stage_id, strlen(stage_id) + 1);
    k->layer_start = layer_start;
    k->width = width;
    *out = k;
    return SKIPPY_OK;
}

void sk_kept_close(sk_kept *k) {
    if (!k) return;
    skippy_activation_destroy(k->cache);
    free(k);
}

void sk_kept_clear(sk_kept *k) {
    skippy_activation_clear(k->cache);
}

void sk_kept_get_stats(const sk_kept *k, skippy_activation_stats *out) {
    *out = (skippy_activation_stats){0};
    if (k->cache) skippy_activation_get_stats(k->cache, out);
}

/* ---- pieces ---- */

/* Where a piece lies and what finds it: the key of all tokens up to its end. */
typedef struct piece {
    uint32_t from, to;
    skippy_key key;
} piece;

static bool name_of(const sk_kept *k, const piece *p, char id[ID_MAX]) {
    char page[PAGE_ID_MAX];
    return skippy_page_id(page, sizeof page, k->stage_id, p->from, p->to - p->from, k->layer_start, &p->key) ==
               SKIPPY_OK &&
           skippy_activation_id(id, ID_MAX, page, k->width) == SKIPPY_OK;
}

static bool is_held(const sk_kept *k, const piece *p) {
    char id[ID_MAX];
    return name_of(k, p, id) && skippy_activation_has(k->cache, id, &p->key);
}

/* Copies rows [from, to) of a piece that contains them. */
static bool copy_out(sk_kept *k, const piece *p, uint32_t from, uint32_t to, float *out) {
    char id[ID_MAX];
    skippy_activation_frame f;
    if (!name_of(k, p, id) || skippy_activation_lease(k->cache, id, &p->key, &f) != SKIPPY_OK) return false;
    const float *rows = f.data;
    memcpy(out, rows + (size_t)(from - p->from) * k->width, (size_t)(to - from) * k->width * sizeof *out);
    skippy_activation_release(k->cache, id);
    return true;
}

static void store(sk_kept *k, const piece *p, const float *rows) {
    char id[ID_MAX];
    uint32_t n = p->to - p->from;
    skippy_activation_frame f = {
        .data = rows, .bytes = (size_t)n * k->width * sizeof *rows, .n_tokens = n, .width = k->width, .dtype = 0};
    if (name_of(k, p, id)) skippy_activation_put(k->cache, id, &p->key, &f);
}

/* Sets the keys of pieces whose ends ascend, in one pass over the tokens. */
static bool find_keys(const skippy_key *ns, const int32_t *tokens, piece *p, size_t n) {
    if (n == 0) return true;
    bool ok = false;
    size_t *lengths = calloc(n, sizeof *lengths);
    skippy_key *keys = calloc(n, sizeof *keys);
    if (!lengths || !keys) goto out;
    for (size_t i = 0; i < n; i++) lengths[i] = p[i].to;
    if (skippy_prefix_keys(ns, tokens, p[n - 1].to, lengths, n, keys) != SKIPPY_OK) goto out;
    for (size_t i = 0; i < n; i++) p[i].key = keys[i];
    ok = true;
out:
    free(lengths);
    free(keys);
    return ok;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Pieces of positions [from, to), from a multiple: whole ones, and the last one as far as `to` when `part` is set. With
 * keys. NULL: there is none, or no memory. */
static piece *cut(const skippy_key *ns, const int32_t *tokens, uint32_t from, uint32_t to, bool part, size_t *n) {
    *n = (to - from) / SK_KEPT_PIECE + (part && (to - from) % SK_KEPT_PIECE != 0);
    piece *p = *n ? malloc(*n * sizeof *p) : NULL;
    if (!p) return NULL;
    for (size_t i = 0; i < *n; i++) {
        p[i].from = from + (uint32_t)i * SK_KEPT_PIECE;
        p[i].to = p[i].from + least(SK_KEPT_PIECE, to - p[i].from);
    }
    if (find_keys(ns, tokens, p, *n)) return p;
    free(p);
    return NULL;
}

/* ---- in ---- */

void sk_kept_writer_free(sk_kept_writer *w) {
    free(w->rows);
    memset(w, 0, sizeof *w);
}

/* The rows before pos are not in the writer. They may be in the cache, when an earlier prompt ended at pos. */
static void begin_at(sk_kept *k, sk_kept_writer *w, const skippy_key *ns, const int32_t *tokens, uint32_t pos) {
    uint32_t behind = pos % SK_KEPT_PIECE;
    w->from = pos - behind;
    w->n = behind;
    if (behind == 0) return;
    piece p = {.from = w->from, .to = pos};
    if (find_keys(ns, tokens, &p, 1) && is_held(k, &p) && copy_out(k, &p, p.from, p.to, w->rows)) return;
    w->from += SK_KEPT_PIECE;
    w->n = 0;
}

/* Moves rows into the writer, as many as its piece still needs; returns how many. */
static uint32_t collect(const sk_kept *k, sk_kept_writer *w, const float *rows, uint32_t n) {
    uint32_t take = least(n, SK_KEPT_PIECE - w->n);
    memcpy(w->rows + (size_t)w->n * k->width, rows, (size_t)take * k->width * sizeof *rows);
    w->n += take;
    return take;
}

void sk_kept_add(sk_kept *k, sk_kept_writer *w, const skippy_key *ns, const int32_t *tokens, uint32_t pos, uint32_t n,
                 const float *rows, bool end) {
    if (!k->cache || n == 0 || n > UINT32_MAX - SK_KEPT_PIECE - pos) return;
    if (!w->rows) w->rows = malloc((size_t)SK_KEPT_PIECE * k->width * sizeof *w->rows);
    if (!w->rows) return;
    if (pos != w->from + w->n) begin_at(k, w, ns, tokens, pos);
    uint32_t to = pos + n, at = w->from + w->n;
    size_t count = 0, i = 0;
    piece *pieces = to > w->from ? cut(ns, tokens, w->from, to, end, &count) : NULL;
    if (!pieces) count = 0;
    while (at < to) {
        at += collect(k, w, rows + (size_t)(at - pos) * k->width, to - at);
        if (w->n < SK_KEPT_PIECE && !end) break; /* the rows are used up */
        if (i < count) store(k, &pieces[i++], w->rows);
        w->from += SK_KEPT_PIECE;
        w->n = 0;
    }
    free(pieces);
    /* What was collected belongs to this prompt: another one must not go on from it. */
    if (end) w->from = w->n = 0;
}

/* ---- out ---- */

/* The longest held piece that begins at `from` (a multiple) and reaches at least to `least_to`, wherever the prompt
 * that it belongs to ended. */
static bool find_piece(const sk_kept *k, const skippy_key *ns, const int32_t *tokens, uint32_t n, uint32_t from,
                       uint32_t least_to, piece *out) {
    piece p[SK_KEPT_PIECE];
    size_t count = 0;
    uint32_t most = from + least(SK_KEPT_PIECE, n - from);
    for (uint32_t to = least_to; to <= most; to++) p[count++] = (piece){.from = from, .to = to};
    if (!find_keys(ns, tokens, p, count)) return false;
    while (count-- > 0)
        if (is_held(k, &p[count])) {
            *out = p[count];
            return true;
        }
    return false;
}

/* First and last+1 of the longest run of held pieces; of equal ones the first. */
static void longest_run(const sk_kept *k, const piece *p, size_t n, size_t *first, size_t *end) {
    *first = *end = 0;
    uint32_t best = 0;
    for (size_t i = 0, from = 0; i < n; i++) {
        if (!is_held(k, &p[i])) {
            from = i + 1;
            continue;
        }
        uint32_t length = p[i].to - p[from].from;
        if (length <= best) continue;
        best = length;
        *first = from;
        *end = i + 1;
    }
}

void sk_kept_cover(sk_kept *k, const skippy_key *ns, const int32_t *tokens, uint32_t n, uint32_t *from, uint32_t *to) {
    *from = *to = 0;
    if (!k->cache || n == 0 || n > UINT32_MAX - SK_KEPT_PIECE) return;
    size_t count = 0, first, end;
    piece *p = cut(ns, tokens, 0, n, true, &count), part;
    if (!p) return;
    longest_run(k, p, count, &first, &end);
    if (end > first) {
        *from = p[first].from;
        *to = p[end - 1].to;
    }
    if (end < count && find_piece(k, ns, tokens, n, p[end].from, p[end].from + 1, &part)) *to = part.to;
    free(p);
}

bool sk_kept_read(sk_kept *k, const skippy_key *ns, const int32_t *tokens, uint32_t n, uint32_t from, uint32_t to,
                  float *out) {
    if (!k->cache || from >= to || to > n || n > UINT32_MAX - SK_KEPT_PIECE) return false;
    uint32_t begin = from - from % SK_KEPT_PIECE, last = to - 1 - (to - 1) % SK_KEPT_PIECE;
    size_t count = 0;
    piece *whole = cut(ns, tokens, begin, last, false, &count), part;
    bool ok = whole || last == begin;
    for (size_t i = 0; whole && ok && i < count; i++) {
        uint32_t at = whole[i].from > from ? whole[i].from : from;
        ok = copy_out(k, &whole[i], at, whole[i].to, out + (size_t)(at - from) * k->width);
    }
    free(whole);
    uint32_t at = last > from ? last : from;
    return ok && find_piece(k, ns, tokens, n, last, to, &part) &&
           copy_out(k, &part, at, to, out + (size_t)(at - from) * k->width);
}
