#include "stage/agree.h"

#include <stdlib.h>
#include <string.h>

/* Every number that an offer names. Sets of possible lengths are unions of closed intervals whose ends are such
 * numbers, and so are the best lengths: only these have to be tried, however long the prompt is. */
enum { CANDIDATES = SK_CHAIN_MAX * (SK_FRAME_LENGTHS_MAX + 3) + 2 };

typedef struct table {
    uint32_t value[CANDIDATES]; /* ascending, no doubles */
    size_t n;
    /* ok[i][j]: stage i can restore value[j], and the stages behind it can go on from there */
    bool ok[SK_CHAIN_MAX][CANDIDATES];
} table;

static bool can_restore(const sk_stage_offer *o, uint32_t length) {
    if (length <= o->range_max) return true;
    for (uint32_t i = 0; i < o->n_exact && o->exact[i] >= length; i++)
        if (o->exact[i] == length) return true;
    return false;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add(table *t, uint32_t value, uint32_t most) {
    if (value <= most) t->value[t->n++] = value;
}

static void collect(table *t, const sk_stage_offer *offers, size_t n_stages, uint32_t most) {
    t->n = 0;
    add(t, 0, most);
    add(t, most, most);
    for (size_t i = 0; i < n_stages; i++) {
        const sk_stage_offer *o = &offers[i];
        add(t, o->range_max, most);
        add(t, o->act_from, most);
        add(t, o->act_to, most);
        for (uint32_t x = 0; x < o->n_exact; x++) add(t, o->exact[x], most);
    }
    qsort(t->value, t->n, sizeof *t->value, ascending);
    size_t kept = 0;
    for (size_t j = 0; j < t->n; j++)
        if (j == 0 || t->value[j] != t->value[kept - 1]) t->value[kept++] = t->value[j];
    t->n = kept;
}

/* Does the stage with offer o hold the hidden states of positions [from, to)? */
static bool holds(const sk_stage_offer *o, uint32_t from, uint32_t to) {
    return from == to || (o->act_from <= from && to <= o->act_to);
}

/* From the last stage to the head. A shorter length behind needs the hidden states up from it: if the shortest one at
 * or above act_from is possible, every longer length up to act_to can lean on it. */
static void fill(table *t, const sk_stage_offer *offers, size_t n_stages) {
    for (size_t i = n_stages; i-- > 0;) {
        bool last = i + 1 == n_stages, lean = false;
        for (size_t j = 0; j < t->n; j++) {
            if (!last && t->ok[i + 1][j] && t->value[j] >= offers[i].act_from) lean = true;
            bool behind = last || t->ok[i + 1][j] || (lean && t->value[j] <= offers[i].act_to);
            t->ok[i][j] = behind && can_restore(&offers[i], t->value[j]);
        }
    }
}

/* The longest length of stage i when the stage before it restores value[at]; there is one, because ok says so. */
static size_t longest(const table *t, const sk_stage_offer *before, size_t i, size_t at) {
    size_t j = at;
    while (j > 0 && !(t->ok[i][j] && holds(before, t->value[j], t->value[at]))) j--;
    return j;
}

static bool all_terminal(const sk_stage_offer *offers, size_t n_stages, uint32_t n_tokens) {
    for (size_t i = 0; i < n_stages; i++)
        if (!can_restore(&offers[i], n_tokens)) return false;
    return offers[n_stages - 1].terminal;
}

static void choose(const table *t, const sk_stage_offer *offers, size_t n_stages, sk_agreement *out) {
    size_t at = t->n - 1;
    while (at > 0 && !t->ok[0][at]) at--;
    out->length[0] = t->value[at];
    for (size_t i = 1; i < n_stages; i++) {
        at = longest(t, &offers[i - 1], i, at);
        out->length[i] = t->value[at];
    }
}

void sk_agree(const sk_stage_offer *offers, size_t n_stages, uint32_t n_tokens, uint32_t gain, sk_agreement *out) {
    memset(out, 0, sizeof *out);
    if (n_stages == 0 || n_stages > SK_CHAIN_MAX) return;
    out->n_stages = (uint32_t)n_stages;
    if (n_tokens == 0 || n_tokens < gain) return;
    out->terminal = all_terminal(offers, n_stages, n_tokens);
    if (out->terminal) {
        for (size_t i = 0; i < n_stages; i++) out->length[i] = n_tokens;
        return;
    }
    table t;
    collect(&t, offers, n_stages, n_tokens - 1);
    fill(&t, offers, n_stages);
    choose(&t, offers, n_stages, out);
    if (out->length[0] < gain) memset(out->length, 0, sizeof out->length);
    out->replayed = out->length[0] - out->length[n_stages - 1]; /* the links' differences add up to this */
}
