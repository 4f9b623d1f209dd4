/* "Current performance read": what the rows say, by kind of family. Every sentence is computed, so that it stays true
 * whatever was measured. */
#include <math.h>
#include <string.h>

#include "bench/family/goal.h"
#include "bench/family/table_cell.h"

/* Families that are told apart: recurrent state is lost to llama-server where attention keys and values are not. */
enum { DENSE, RECURRENT, CLASSES };

static const char *const CLASS_NAMES[CLASSES] = {"Dense attention", "Recurrent and hybrid"};

/* Of one scenario in one class. */
typedef struct range {
    size_t rows, comparable, reached;
    const sk_family_row *lowest, *highest; /* comparable ones */
    double low, high;
} range;

/* The exact repeat of the corpus's prompts: no goal of its own. */
static const sk_goal USE_CASES = {.part = "exact", .series = "exact", .title = "Use cases, exact repeat"};

static bool in_class(const sk_family_row *r, int kind, const sk_goal *g) {
    return sk_row_is(r, g == &USE_CASES ? "use-case" : "full") && sk_row_passed(r) &&
           sk_family_row_recurrent(r) == (kind == RECURRENT);
}

static double ratio_of(const sk_family_row *r, const sk_goal *g) {
    return sk_family_row_speedup(r, g->part, g->series);
}

static bool comparable(const sk_family_row *r, const sk_goal *g) {
    const size_t best = sk_family_row_best(r, sk_family_row_series(r, g->part, g->series));
    return sk_family_row_comparable(r, g->part, best);
}

static void add_to_range(range *all, const sk_family_row *r, const sk_goal *g) {
    const double ratio = ratio_of(r, g);
    all->rows++;
    if (!(ratio > 0.0)) return;
    if (!comparable(r, g)) return;
    all->comparable++;
    all->reached += ratio >= sk_goal_for(g, sk_family_row_recurrent(r));
    if (!all->lowest || ratio < all->low) {
        all->lowest = r;
        all->low = ratio;
    }
    if (!all->highest || ratio > all->high) {
        all->highest = r;
        all->high = ratio;
    }
}

static range range_of(const sk_row_set *s, sk_weights w, int kind, const sk_goal *g) {
    range all = {0};
    for (size_t i = 0; i < s->n; i++)
        if (sk_weights_of(&s->v[i], w) && in_class(&s->v[i], kind, g)) add_to_range(&all, &s->v[i], g);
    return all;
}

static void cell_end_of_range(const sk_family_row *r, double ratio, sk_buf *out) {
    if (!r) {
        sk_buf_str(out, " n/a |");
        return;
    }
    sk_buf_str(out, " ");
    sk_table_speedup(ratio, out);
    sk_buf_str(out, ", ");
    sk_table_text(r->family, out);
    if (r->use_case) {
        sk_buf_str(out, ", ");
        sk_table_text(r->use_case_label, out);
    }
    sk_buf_str(out, " |");
}

static void add_goal(int kind, const sk_goal *g, const range *all, sk_buf *out) {
    const double goal = sk_goal_for(g, kind == RECURRENT);
    sk_buf_printf(out, "| %s | %s | %zu of %zu |", CLASS_NAMES[kind], g->title, all->comparable, all->rows);
    cell_end_of_range(all->lowest, all->low, out);
    cell_end_of_range(all->highest, all->high, out);
    if (goal > 0.0)
        sk_buf_printf(out, " at least %gx | %zu of %zu |\n", goal, all->reached, all->rows);
    else
        sk_buf_str(out, " none | - |\n");
}

static void add_range(const sk_row_set *s, sk_weights w, int kind, const sk_goal *g, sk_buf *out) {
    const range all = range_of(s, w, kind, g);
    if (all.rows) add_goal(kind, g, &all, out);
}

static void add_ranges(const sk_row_set *s, sk_weights w, sk_buf *out) {
    sk_table_head("Families | Scenario | Compared | Lowest ratio | Highest ratio | Goal | Reached", out);
    for (int kind = RECURRENT; kind >= DENSE; kind--) {
        for (size_t i = 0; sk_goal_at(i); i++) add_range(s, w, kind, sk_goal_at(i), out);
        add_range(s, w, kind, &USE_CASES, out);
    }
}

/* ---- sentences ---- */

/* To two decimals, downwards where the next number would be the goal: a ratio that is short of its goal must not read
 * as if it were not. */
static double shown_short(double ratio, double goal) {
    const double nearest = floor(100.0 * ratio + 0.5) / 100.0;
    return nearest < goal ? nearest : floor(100.0 * ratio) / 100.0;
}

static void add_name(const sk_family_row *r, const char *scenario, sk_buf *out) {
    sk_buf_str(out, "- ");
    sk_table_text(r->family, out);
    sk_buf_str(out, ", ");
    sk_table_text(scenario, out);
    sk_buf_str(out, ": ");
}

/* True when it is short of its goal, and then out says how. */
static bool add_missed(const sk_family_row *r, const sk_goal *g, sk_buf *out) {
    const double goal = sk_goal_for(g, sk_family_row_recurrent(r));
    const double ratio = ratio_of(r, g);
    if (goal <= 0.0 || (ratio >= goal && comparable(r, g))) return false;
    add_name(r, g->title, out);
    if (!(ratio > 0.0))
        sk_buf_printf(out, "not measured; the goal is %gx.\n", goal);
    else if (!comparable(r, g))
        sk_buf_printf(out, "%.2fx, but the servers' answers differ, so it proves nothing; the goal is %gx.\n", ratio,
                      goal);
    else
        sk_buf_printf(out, "%.2fx; the goal is %gx.\n", shown_short(ratio, goal), goal);
    return true;
}

static bool counted(const sk_family_row *r, sk_weights w) {
    return sk_weights_of(r, w) && sk_row_full_passed(r);
}

static void add_all_missed(const sk_row_set *s, sk_weights w, sk_buf *out) {
    sk_buf lines = {0};
    bool any = false;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; counted(&s->v[i], w) && sk_goal_at(k); k++)
            any |= add_missed(&s->v[i], sk_goal_at(k), &lines);
    if (any) {
        sk_buf_str(out, "\nWhat fell short of its goal:\n\n");
        sk_buf_add(out, lines.data, lines.len);
    } else {
        sk_buf_str(out, "\nEvery goal was reached by every family that is shown.\n");
    }
    out->failed |= lines.failed;
    sk_buf_free(&lines);
}

static bool add_slower(const sk_family_row *r, const char *part, const char *series, const char *title, sk_buf *out) {
    const double ratio = sk_family_row_speedup(r, part, series);
    if (!sk_table_slower(ratio)) return false;
    add_name(r, title, out);
    sk_table_speedup(ratio, out);
    sk_buf_str(out, ".\n");
    return true;
}

static bool add_slower_row(const sk_family_row *r, sk_buf *out) {
    bool any = false;
    if (!sk_row_passed(r)) return false;
    if (!sk_row_is(r, "full")) return add_slower(r, "exact", "exact", r->use_case ? r->use_case_label : r->kind, out);
    for (size_t k = 0; sk_goal_at(k); k++)
        any |= add_slower(r, sk_goal_at(k)->part, sk_goal_at(k)->series, sk_goal_at(k)->title, out);
    return any;
}

static bool any_ratio(const sk_row_set *s, sk_weights w) {
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; sk_weights_of(&s->v[i], w) && sk_row_passed(&s->v[i]) && sk_goal_at(k); k++)
            if (ratio_of(&s->v[i], sk_goal_at(k)) > 0.0) return true;
    return false;
}

static void add_all_slower(const sk_row_set *s, sk_weights w, sk_buf *out) {
    sk_buf lines = {0};
    bool any = false;
    if (!any_ratio(s, w)) {
        sk_buf_str(out, "\nNo ratio was measured.\n");
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        if (sk_weights_of(&s->v[i], w)) any |= add_slower_row(&s->v[i], &lines);
    if (any) {
        sk_buf_str(out, "\nWhere skippy is slower than llama-server's best flags:\n\n");
        sk_buf_add(out, lines.data, lines.len);
    } else {
        sk_buf_str(out, "\nNo measured ratio is below parity.\n");
    }
    out->failed |= lines.failed;
    sk_buf_free(&lines);
}

static bool full_not_passed(const sk_family_row *r) {
    return sk_row_is(r, "full") && !sk_row_passed(r);
}

static void add_left_out(const sk_row_set *s, sk_weights w, sk_buf *out) {
    const char *between = "";
    if (sk_table_count(s, w, full_not_passed) == 0) return;
    sk_buf_str(out, "\nNot counted here, since correctness did not pass or nothing was run: ");
    for (size_t i = 0; i < s->n; i++) {
        if (!sk_weights_of(&s->v[i], w) || !full_not_passed(&s->v[i])) continue;
        sk_buf_str(out, between);
        sk_table_text(s->v[i].family, out);
        between = ", ";
    }
    sk_buf_str(out, ".\n");
}

void sk_table_read(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++) {
        if (sk_table_count(s, w, sk_row_full_passed) == 0) continue;
        sk_table_heading("Current performance read", w, out);
        sk_table_explain(w, out);
        add_ranges(s, w, out);
        add_left_out(s, w, out);
        add_all_slower(s, w, out);
        add_all_missed(s, w, out);
        sk_buf_str(out, "\nOne server on one machine: a model that is split over machines costs other things, which "
                        "`skippy bench stages` measures.\n");
    }
}
