/* How much of the input a cache of limited size saves, by what leaves it first: one panel for each trace and kind of
 * memory, from the simulation of `skippy bench evict`. */
#include <math.h>
#include <string.h>

#include "bench/family/plot_kinds.h"
#include "bench/family/plot_scale.h"

enum {
    MAX_TRACES = 4,
    TOP = 64,
    HEAD = 54, /* of a panel: the trace, the kind of memory */
    BODY = 200,
    FOOT = 26,
    BOTTOM = 32,
    LEFT = 74,
    RIGHT = 14,
    GAP = 40,
    MAX_TICKS = 9
};

typedef struct policy {
    const char *key, *title, *colour;
    const char *line; /* gnuplot's words for it: from thin to thick, so that lines are seen below each other */
} policy;

static const policy POLICIES[] = {
    {"benefit", "least benefit first (skippy)", SK_PLOT_BLUE, "pointtype 5 pointsize 0.55 linewidth 1.5"},
    {"lru", "least recently used first", SK_PLOT_ORANGE, "pointtype 7 pointsize 0.8 linewidth 4"},
    {"fifo", "oldest first", SK_PLOT_PURPLE, "pointtype 7 pointsize 1.1 linewidth 7"},
};

enum { N_POLICIES = sizeof POLICIES / sizeof POLICIES[0] };

/* A report's part about one kind of memory. */
typedef struct table {
    const char *trace, *memory;
    double unlimited_gib;
    const json_t *lines; /* array */
} table;

static int refuse(const char *what, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "the file for the hit rate is not what 'skippy bench evict --json' prints: %s", what);
}

/* The percentage `key` of an object; false when it is none. */
static bool percent(const json_t *object, const char *key, double *out) {
    const json_t *v = json_object_get(object, key);
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0.0 && *out <= 100.0;
}

/* The cache's size in percent of the unlimited one; the unlimited one itself has null. */
static bool capacity(const json_t *line, double *out) {
    const json_t *v = json_object_get(line, "capacity_percent");
    *out = json_is_null(v) ? 100.0 : json_number_value(v);
    return (json_is_null(v) || json_is_number(v)) && *out > 0.0 && *out <= 100.0;
}

/* Without the folder, which is of one machine. */
static const char *file_name(const char *trace) {
    const char *slash = trace ? strrchr(trace, '/') : NULL;
    return slash ? slash + 1 : trace;
}

static int read_table(const json_t *report, const json_t *memory, table *out, sk_err *e) {
    *out = (table){.trace = file_name(json_string_value(json_object_get(report, "trace"))),
                   .memory = json_string_value(json_object_get(memory, "memory")),
                   .unlimited_gib = json_number_value(json_object_get(memory, "unlimited_bytes")) / (1 << 30),
                   .lines = json_object_get(memory, "capacities")};
    if (!out->trace || !out->memory) {
        return refuse("a report without 'trace', or a table without 'memory'", e);
    }
    return json_is_array(out->lines) && json_array_size(out->lines) ? SKIPPY_OK
                                                                    : refuse("a table without 'capacities'", e);
}

/* One line: capacity, each policy, the bound. */
static int add_line(sk_plot_page *p, const json_t *line, sk_plot_scale *scale, sk_err *e) {
    double x, y;
    if (!capacity(line, &x)) {
        return refuse("'capacity_percent' is neither null nor a share of 100", e);
    }
    sk_plot_scale_add(scale, x);
    sk_buf_printf(&p->data, "%.6g", x);
    for (size_t i = 0; i < N_POLICIES; i++) {
        if (!percent(json_object_get(line, POLICIES[i].key), "tokens_saved_percent", &y)) {
            return refuse("'tokens_saved_percent' of a policy is no percentage", e);
        }
        sk_buf_printf(&p->data, " %.6g", y);
    }
    if (!percent(line, "bound_tokens_saved_percent", &y)) {
        return refuse("'bound_tokens_saved_percent' is no percentage", e);
    }
    sk_buf_printf(&p->data, " %.6g\n", y);
    return SKIPPY_OK;
}

static void add_plot(sk_plot_page *p, size_t block) {
    sk_buf_printf(
        &p->program,
        "plot '%s.dat' index %zu using 1:%d smooth unique with lines dashtype 3 linewidth 2 linecolor rgb '%s'",
        p->name, block, N_POLICIES + 2, SK_PLOT_GREY);
    for (size_t i = N_POLICIES; i-- > 0;) {
        sk_buf_printf(&p->program,
                      ", \\\n  '' index %zu using 1:%zu smooth unique with linespoints %s linecolor rgb '%s'", block,
                      i + 2, POLICIES[i].line, POLICIES[i].colour);
    }
    sk_buf_str(&p->program, "\n");
}

static int draw_panel(sk_plot_page *p, const table *t, sk_plot_area a, bool first, sk_err *e) {
    sk_plot_scale scale = {0};
    sk_buf title = {0};
    const size_t block = sk_plot_page_block(p, "capacity (%), benefit, lru, fifo, bound (% of the input's tokens)");
    for (size_t i = 0; i < json_array_size(t->lines); i++) {
        const int rc = add_line(p, json_array_get(t->lines, i), &scale, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    sk_plot_scale_pad(&scale, 0.04, 0.04);
    sk_plot_page_panel(p, a);
    sk_buf_printf(&title, "%.20s memory (100 %% = %.0f GiB)", t->memory, t->unlimited_gib);
    if (!title.failed) {
        sk_plot_page_label(p, a.left, a.top - 12, SK_PLOT_LEFT, 11, title.data);
    }
    p->program.failed |= title.failed;
    sk_buf_free(&title);
    if (first) {
        sk_plot_page_label(p, a.left, a.top - 32, SK_PLOT_LEFT, 12, t->trace);
        sk_plot_page_turned_label(p, 20, a.top + a.height / 2, "input tokens saved (%)");
    }
    sk_plot_scale_axis(&scale, 'x', "", MAX_TICKS, &p->program);
    sk_buf_str(&p->program,
               "set xtics out nomirror scale 0.5\nset yrange [0:100]\nset ytics out nomirror scale 0.5 0,20\n"
               "set grid linetype 1 linecolor rgb '#e2e2e2'\n");
    add_plot(p, block);
    return SKIPPY_OK;
}

static int draw(const json_t *reports, size_t n_traces, size_t n_columns, sk_plot_page *p, sk_err *e) {
    const int panel = HEAD + BODY + FOOT, columns = (int)n_columns;
    const int width = (SK_PLOT_WIDTH - LEFT - RIGHT - (columns - 1) * GAP) / columns;
    sk_plot_page_begin(p, "hit-rate", TOP + (int)n_traces * panel + BOTTOM,
                       "How much of the input a cache of limited size saves");
    for (size_t i = 0; i < N_POLICIES; i++) {
        sk_plot_page_legend(p, POLICIES[i].colour, POLICIES[i].title);
    }
    sk_plot_page_legend(p, SK_PLOT_GREY, "bound: no policy can save more");
    sk_plot_page_label(p, LEFT + (SK_PLOT_WIDTH - LEFT - RIGHT) / 2, p->height - 16, SK_PLOT_CENTER, 12,
                       "size of the cache, in percent of one that keeps everything (logarithmic)");
    for (size_t i = 0; i < n_traces; i++) {
        const json_t *memories = json_object_get(json_array_get(reports, i), "memories");
        for (int k = 0; k < columns && k < (int)json_array_size(memories); k++) {
            const sk_plot_area a = {LEFT + k * (width + GAP), TOP + (int)i * panel + HEAD, width, BODY};
            table t;
            int rc = read_table(json_array_get(reports, i), json_array_get(memories, (size_t)k), &t, e);
            rc = rc == SKIPPY_OK ? draw_panel(p, &t, a, k == 0, e) : rc;
            if (rc != SKIPPY_OK) {
                return rc;
            }
        }
    }
    sk_plot_page_end(p);
    return SKIPPY_OK;
}

int sk_plot_hit_rate(const sk_plot_source *s, sk_plot_page *p, sk_err *e) {
    const size_t n = json_array_size(s->evict);
    size_t columns = 0;
    if (!s->evict) {
        return SKIPPY_OK;
    }
    if (!json_is_array(s->evict)) {
        return refuse("it is no array", e);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t k = json_array_size(json_object_get(json_array_get(s->evict, i), "memories"));
        columns = k > columns ? k : columns;
    }
    if (n == 0 || columns == 0) {
        return refuse("it has no reports, or these have no 'memories'", e);
    }
    return draw(s->evict, n < MAX_TRACES ? n : MAX_TRACES, columns < 3 ? columns : 3, p, e);
}
