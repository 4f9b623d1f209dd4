/* How the times of single requests are spread, per family and server: boxes on a common logarithmic axis. */
#include <string.h>

#include "bench/family/plot_kinds.h"
#include "bench/family/plot_rows.h"
#include "bench/family/plot_scale.h"

enum {
    LINE_HEIGHT = 12, /* one server */
    ROW_GAP = 8,      /* between two families */
    TOP = 92,
    BOTTOM = 58,
    LEFT = 128,
    RIGHT = 14,
    GAP = 20,
    NUMBER = 44,
    MAX_TICKS = 7
};

static const sk_plot_scenario SCENARIOS[] = {
    {"exact", "exact", "same prompt again"},
    {"suffix", "suffix", "known start, new end"},
};

enum { N_SCENARIOS = sizeof SCENARIOS / sizeof SCENARIOS[0] };

/* The times of one server in one row; NULL when there are none. */
static const sk_summary *times_of(const sk_family_row *row, const sk_plot_scenario *sc, const char *host) {
    const sk_row_series *series = sk_family_row_series(row, sc->part, sc->series);
    const size_t h = sk_plot_host_of(row, host);
    return series && h < row->n_hosts && series->summary[h].n > 0 ? &series->summary[h] : NULL;
}

static bool has_times_of(const sk_family_row *row, const sk_plot_scenario *sc) {
    for (size_t h = 0; h < row->n_hosts; h++) {
        if (times_of(row, sc, row->host[h])) {
            return true;
        }
    }
    return false;
}

static bool has_times(const sk_family_row *row) {
    for (size_t k = 0; k < N_SCENARIOS; k++) {
        if (has_times_of(row, &SCENARIOS[k])) {
            return true;
        }
    }
    return false;
}

static void time_text(double ms, sk_buf *out) {
    sk_buf_printf(out, ms >= 100.0 ? "\"%.0f\"" : ms >= 10.0 ? "\"%.1f\"" : "\"%.2f\"", ms);
}

/* Where the line of server h of n lies within its family's row, and how thick it may be, in rows. */
static double line_pitch(size_t n_hosts) {
    return (double)LINE_HEIGHT / (double)((size_t)LINE_HEIGHT * n_hosts + ROW_GAP);
}

static double line_y(size_t row, size_t h, size_t n_hosts) {
    return (double)row + 1.0 + ((double)h - ((double)n_hosts - 1.0) / 2.0) * line_pitch(n_hosts);
}

/* One block with the times of one server. False, and no block, when there are none. */
static bool add_block(sk_plot_page *p, const sk_plot_scenario *sc, const sk_plot_rows *rows, const sk_plot_hosts *hosts,
                      size_t h, size_t *block) {
    bool any = false;
    for (size_t i = 0; i < rows->n; i++) {
        const sk_summary *t = times_of(rows->v[i].row, sc, hosts->v[h].name);
        if (!t) {
            continue;
        }
        if (!any) {
            *block = sk_plot_page_block(p, "y, smallest, first quarter, median, third quarter, largest (ms), median");
            any = true;
        }
        sk_buf_printf(&p->data, "%.4f %.6g %.6g %.6g %.6g %.6g ", line_y(i, h, hosts->n), t->min, t->p25, t->p50,
                      t->p75, t->max);
        time_text(t->p50, &p->data);
        sk_plot_page_field(p, rows->v[i].label);
        sk_plot_page_field(p, hosts->v[h].name);
        sk_buf_str(&p->data, "\n");
    }
    return any;
}

/* Line from smallest to largest, box of the middle half, stroke at the median, its number. */
static void add_plot(const sk_plot_page *p, size_t block, double half, const char *colour, sk_buf *command) {
    sk_buf_printf(
        command,
        "%s'%s.dat' index %zu using 2:1:($6-$2):(0) with vectors nohead linewidth 1.5 linecolor rgb '%s', \\\n"
        "  '' index %zu using 4:1:3:5:($1-%.4f):($1+%.4f) with boxxyerror linecolor rgb '%s', \\\n"
        "  '' index %zu using 4:($1-%.4f):(0):(%.4f) with vectors nohead linewidth 2 linecolor rgb '%s', \\\n"
        "  '' index %zu using 6:1:7 with labels left offset character 0.4,0 font 'sans-serif,9' "
        "textcolor rgb '%s'",
        command->len ? ", \\\n  " : "plot ", p->name, block, colour, block, half, half, colour, block, half, 2.0 * half,
        SK_PLOT_INK, block, SK_PLOT_INK);
}

static void draw_panel(sk_plot_page *p, const sk_plot_scenario *sc, const sk_plot_rows *rows,
                       const sk_plot_hosts *hosts, sk_plot_scale scale, sk_plot_area a, bool first) {
    sk_buf command = {0};
    for (size_t h = 0; h < hosts->n; h++) {
        size_t block;
        if (add_block(p, sc, rows, hosts, h, &block)) {
            add_plot(p, block, 0.36 * line_pitch(hosts->n), hosts->v[h].colour, &command);
        }
    }
    sk_plot_page_panel(p, a);
    sk_plot_rows_axis(rows, first, p);
    sk_plot_page_label(p, a.left, a.top - 12, SK_PLOT_LEFT, 12, sc->title);
    sk_plot_scale_axis(&scale, 'x', "", MAX_TICKS, &p->program);
    sk_buf_str(&p->program, "set xtics out nomirror scale 0.5\nset grid xtics linetype 1 linecolor rgb '#e2e2e2'\n");
    sk_buf_add(&p->program, command.data, command.len);
    sk_buf_str(&p->program, "\n");
    p->program.failed |= command.failed;
    sk_buf_free(&command);
}

/* The same axis for all panels: lengths can be compared across them. */
static sk_plot_scale common_scale(const sk_plot_rows *rows, const sk_plot_hosts *hosts, int width) {
    sk_plot_scale scale = {0};
    for (size_t k = 0; k < N_SCENARIOS; k++) {
        for (size_t i = 0; i < rows->n; i++) {
            for (size_t h = 0; h < hosts->n; h++) {
                const sk_summary *t = times_of(rows->v[i].row, &SCENARIOS[k], hosts->v[h].name);
                sk_plot_scale_add(&scale, t ? t->min : 0.0);
                sk_plot_scale_add(&scale, t ? t->max : 0.0);
            }
        }
    }
    sk_plot_scale_pad(&scale, 0.03, (double)NUMBER / width);
    return scale;
}

static void draw(const sk_plot_rows *rows, sk_plot_page *p) {
    const sk_plot_scenario *shown[N_SCENARIOS];
    sk_plot_hosts hosts;
    const int n = (int)sk_plot_rows_scenarios(rows, SCENARIOS, N_SCENARIOS, has_times_of, shown);
    sk_plot_rows_hosts(rows, &hosts);
    const int body = (int)rows->n * (LINE_HEIGHT * (int)hosts.n + ROW_GAP);
    const int width = (SK_PLOT_WIDTH - LEFT - RIGHT - (n - 1) * GAP) / n;
    const sk_plot_scale scale = common_scale(rows, &hosts, width);
    sk_plot_page_begin(p, "latency", TOP + body + BOTTOM, "How long one request takes");
    for (size_t h = 0; h < hosts.n; h++) {
        sk_plot_page_legend(p, hosts.v[h].colour, hosts.v[h].name);
    }
    if (rows->synthetic) {
        sk_plot_page_synthetic_note(p);
    }
    sk_plot_page_label(p, LEFT + (SK_PLOT_WIDTH - LEFT - RIGHT) / 2, p->height - 16, SK_PLOT_CENTER, 12,
                       "milliseconds, logarithmic; the number is the median");
    for (int i = 0; i < n; i++) {
        const sk_plot_area a = {LEFT + i * (width + GAP), TOP, width, body};
        draw_panel(p, shown[i], rows, &hosts, scale, a, i == 0);
    }
    sk_plot_page_end(p);
}

int sk_plot_latency(const sk_plot_source *s, sk_plot_page *p, sk_err *e) {
    sk_plot_rows rows;
    const int rc = sk_plot_rows_pick(s->rows, has_times, &rows, e);
    if (rc == SKIPPY_OK && rows.n > 0) {
        draw(&rows, p);
    }
    sk_plot_rows_free(&rows);
    return rc;
}
