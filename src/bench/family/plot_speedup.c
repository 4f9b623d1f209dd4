/* How many times faster than the best llama-server, per family: one panel of horizontal bars for each scenario. */
#include <string.h>

#include "bench/family/plot_kinds.h"
#include "bench/family/plot_rows.h"
#include "bench/family/plot_scale.h"

enum {
    ROW_HEIGHT = 24,
    TOP = 92,    /* title, legend, names of the scenarios */
    BOTTOM = 58, /* ticks and the title of the axis */
    LEFT = 128,  /* names of the families */
    RIGHT = 14,
    GAP = 14,
    NUMBER = 46, /* room for the number behind the longest bar */
    MAX_TICKS = 4
};

static const sk_plot_scenario SCENARIOS[] = {
    {"exact", "exact", "same prompt again"},   {"suffix", "suffix", "known start, new end"},
    {"edit", "edit", "edited last message"},   {"agent", "all conversations", "agent conversations"},
    {"restart", "restart", "after a restart"},
};

enum { N_SCENARIOS = sizeof SCENARIOS / sizeof SCENARIOS[0] };

static double ratio_of(const sk_family_row *row, const sk_plot_scenario *sc) {
    return sk_family_row_speedup(row, sc->part, sc->series);
}

static bool has_ratio_of(const sk_family_row *row, const sk_plot_scenario *sc) {
    return ratio_of(row, sc) > 0.0;
}

static bool has_ratio(const sk_family_row *row) {
    for (size_t i = 0; i < N_SCENARIOS; i++) {
        if (has_ratio_of(row, &SCENARIOS[i])) {
            return true;
        }
    }
    return false;
}

/* Whether both servers did the same work: else the ratio says nothing about speed. */
static bool comparable(const sk_family_row *row, const sk_plot_scenario *sc) {
    const sk_row_series *series = sk_family_row_series(row, sc->part, sc->series);
    const size_t best = series ? sk_family_row_best(row, series) : row->n_hosts;
    return best < row->n_hosts && sk_family_row_comparable(row, sc->part, best);
}

/* gnuplot takes the colours of single bars as hexadecimal numbers. */
static const char *bar_colour(double ratio, bool same_work) {
    return !same_work ? "0xb8b8b8" : ratio < 1.0 ? "0xd55e00" : "0x0072b2";
}

static void ratio_text(double ratio, sk_buf *out) {
    /* Below 1 two decimals are cut, not rounded: 0.998 is no 1.00x. */
    if (ratio < 1.0) {
        sk_buf_printf(out, "\"%.2fx\"", (double)(int)(ratio * 100.0) / 100.0);
    } else {
        sk_buf_printf(out, ratio >= 100.0 ? "\"%.0fx\"" : ratio >= 10.0 ? "\"%.1fx\"" : "\"%.2fx\"", ratio);
    }
}

static void add_line(sk_plot_page *p, const sk_plot_scenario *sc, const sk_plot_row *row, size_t y) {
    const double ratio = ratio_of(row->row, sc);
    sk_buf *out = &p->data;
    if (ratio > 0.0) {
        const double to = ratio > 1.0 ? ratio : 1.0;
        sk_buf_printf(out, "%zu %.6g %.6g %s ", y, ratio < 1.0 ? ratio : 1.0, to,
                      bar_colour(ratio, comparable(row->row, sc)));
        ratio_text(ratio, out);
        sk_buf_str(out, ratio < 1.0 ? " 0xd55e00" : " 0x222222");
    } else {
        sk_buf_printf(out, "%zu 1 1 0xffffff \"n/a\" 0x8c8c8c", y);
    }
    sk_plot_page_field(p, row->label);
    sk_buf_str(out, "\n");
}

static void draw_panel(sk_plot_page *p, const sk_plot_scenario *sc, const sk_plot_rows *rows, sk_plot_area a,
                       bool first) {
    sk_plot_scale scale = {0};
    /* Always from 1x to 2x at least: a few percent must not fill a panel. */
    sk_plot_scale_add(&scale, 1.0);
    sk_plot_scale_add(&scale, 2.0);
    const size_t block = sk_plot_page_block(p, "row, bar from, bar to, colour, number, its colour, family");
    for (size_t i = 0; i < rows->n; i++) {
        sk_plot_scale_add(&scale, ratio_of(rows->v[i].row, sc));
        add_line(p, sc, &rows->v[i], i + 1);
    }
    sk_plot_scale_pad(&scale, 0.06, (double)NUMBER / a.width);
    sk_plot_page_panel(p, a);
    sk_plot_rows_axis(rows, first, p);
    sk_plot_page_label(p, a.left, a.top - 12, SK_PLOT_LEFT, 12, sc->title);
    sk_plot_scale_axis(&scale, 'x', "x", MAX_TICKS, &p->program);
    sk_buf_printf(&p->program,
                  "set xtics out nomirror scale 0.5\nset arrow from 1,graph 0 to 1,graph 1 nohead front linewidth 1.5 "
                  "linecolor rgb '%s'\n",
                  SK_PLOT_INK);
    sk_buf_printf(&p->program,
                  "plot '%s.dat' index %zu using 2:1:2:3:($1-0.3):($1+0.3):4 with boxxyerror linecolor rgb variable, "
                  "\\\n  '' index %zu using 3:1:5:6 with labels left offset character 0.4,0 font 'sans-serif,11' "
                  "textcolor rgb variable\n",
                  p->name, block, block);
}

static void draw(const sk_plot_rows *rows, sk_plot_page *p) {
    const sk_plot_scenario *shown[N_SCENARIOS];
    const int n = (int)sk_plot_rows_scenarios(rows, SCENARIOS, N_SCENARIOS, has_ratio_of, shown);
    const int body = (int)rows->n * ROW_HEIGHT;
    const int width = (SK_PLOT_WIDTH - LEFT - RIGHT - (n - 1) * GAP) / n;
    sk_plot_page_begin(p, "speedup", TOP + body + BOTTOM,
                       "Skippy against llama-server with its best flags: how many times as fast");
    sk_plot_page_legend(p, SK_PLOT_BLUE, "faster");
    sk_plot_page_legend(p, SK_PLOT_VERMILLION, "slower");
    sk_plot_page_legend(p, "#b8b8b8", "answers differ: not comparable");
    if (rows->synthetic) {
        sk_plot_page_synthetic_note(p);
    }
    sk_plot_page_label(
        p, LEFT + (SK_PLOT_WIDTH - LEFT - RIGHT) / 2, p->height - 16, SK_PLOT_CENTER, 12,
        "median time of llama-server / median time of skippy (logarithmic, each panel has its own scale)");
    for (int i = 0; i < n; i++) {
        const sk_plot_area a = {LEFT + i * (width + GAP), TOP, width, body};
        draw_panel(p, shown[i], rows, a, i == 0);
    }
    sk_plot_page_end(p);
}

int sk_plot_speedup(const sk_plot_source *s, sk_plot_page *p, sk_err *e) {
    sk_plot_rows rows;
    const int rc = sk_plot_rows_pick(s->rows, has_ratio, &rows, e);
    if (rc == SKIPPY_OK && rows.n > 0) {
        draw(&rows, p);
    }
    sk_plot_rows_free(&rows);
    return rc;
}
