/* The conversations of agents, one by one: where in an agent's work the time goes. */
#include <string.h>

#include "bench/family/table_matrix.h"

static bool replayed(const sk_family_row *r) {
    return sk_row_full_passed(r) && sk_family_row_series(r, "agent", "all conversations");
}

static double sum_of(const sk_row_series *s, size_t host) {
    double sum = 0.0;
    for (size_t i = 0; i < s->n[host]; i++) sum += s->ms[host][i];
    return sum;
}

/* Of the baselines that did every request of the conversation, the one that was done first; n_hosts when none. */
static size_t fastest(const sk_family_row *r, const sk_row_series *s) {
    size_t best = r->n_hosts;
    for (size_t h = 0; h < r->n_hosts; h++) {
        if (!sk_family_row_baseline(r, h) || s->n[h] == 0 || s->n[h] != s->n[r->ours]) continue;
        if (best == r->n_hosts || sum_of(s, h) < sum_of(s, best)) best = h;
    }
    return best;
}

static void add_cell(const sk_family_row *r, const char *name, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, "agent", name);
    const bool ours = s && r->ours < r->n_hosts && sum_of(s, r->ours) > 0.0 && sk_family_row_complete(r, "agent");
    const size_t best = ours ? fastest(r, s) : r->n_hosts;
    sk_column_factor(best < r->n_hosts ? sum_of(s, best) / sum_of(s, r->ours) : 0.0,
                     sk_family_row_comparable(r, "agent", best), out);
}

/* True when a column before this one has the conversation, too. */
static bool seen_before(const sk_matrix_columns *c, size_t column, const char *name) {
    for (size_t i = 0; i < column; i++)
        if (sk_family_row_series(c->v[i], "agent", name)) return true;
    return false;
}

static void add_line(const sk_matrix_columns *c, const char *name, sk_buf *out) {
    sk_buf_str(out, "|");
    sk_column_text(name, out);
    for (size_t i = 0; i < c->n; i++) add_cell(c->v[i], name, out);
    sk_buf_str(out, "\n");
}

static void add_lines(const sk_matrix_columns *c, size_t column, sk_buf *out) {
    const sk_family_row *r = c->v[column];
    for (size_t k = 0; k < r->n_series; k++)
        if (strcmp(r->series[k].part, "agent") == 0 && !seen_before(c, column, r->series[k].name))
            add_line(c, r->series[k].name, out);
}

void sk_table_conversations(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++) {
        sk_matrix_columns c;
        sk_matrix_columns_of(s, w, replayed, &c);
        if (c.n == 0) continue;
        sk_matrix_head("Conversations of agents: total time, times faster than llama-server's best", w, "Conversation",
                       &c, out);
        for (size_t i = 0; i < c.n; i++) add_lines(&c, i, out);
    }
}
