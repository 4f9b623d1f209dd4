#include "bench/family/plot_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/host.h"

/* How many rows before this one show the same family with the same kind of weights. */
static size_t earlier(const sk_plot_rows *r, const sk_family_row *row) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        n += r->v[i].row->synthetic == row->synthetic && strcmp(r->v[i].row->family, row->family) == 0;
    }
    return n;
}

static void append(sk_plot_rows *r, const sk_family_row *row) {
    sk_plot_row entry = {.row = row};
    const size_t before = earlier(r, row);
    const char *mark = row->synthetic ? "*" : "";
    if (before) {
        snprintf(entry.label, sizeof entry.label, "%.48s%s (%zu)", row->family, mark, before + 1);
    } else {
        snprintf(entry.label, sizeof entry.label, "%.48s%s", row->family, mark);
    }
    r->synthetic |= row->synthetic;
    r->v[r->n++] = entry;
}

int sk_plot_rows_pick(const sk_row_set *s, bool (*wanted)(const sk_family_row *row), sk_plot_rows *out, sk_err *e) {
    *out = (sk_plot_rows){.v = calloc(s->n + 1, sizeof *out->v)};
    if (!out->v) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a plot of %zu rows", s->n);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->v[i].kind, "full") == 0 && wanted(&s->v[i])) {
            append(out, &s->v[i]);
        }
    }
    return SKIPPY_OK;
}

void sk_plot_rows_free(sk_plot_rows *r) {
    free(r->v);
    *r = (sk_plot_rows){0};
}

size_t sk_plot_rows_scenarios(const sk_plot_rows *r, const sk_plot_scenario *all, size_t n,
                              bool (*has)(const sk_family_row *row, const sk_plot_scenario *sc),
                              const sk_plot_scenario **out) {
    size_t found = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;
        while (i < r->n && !has(r->v[i].row, &all[k])) {
            i++;
        }
        if (i < r->n) {
            out[found++] = &all[k];
        }
    }
    return found;
}

const char *sk_plot_host_colour(const char *name) {
    static const sk_plot_host known[] = {{SK_HOST_OURS, SK_PLOT_BLUE},
                                         {SK_HOST_BASE, SK_PLOT_ORANGE},
                                         {SK_HOST_TUNED, SK_PLOT_PURPLE},
                                         {SK_HOST_BASE "-unified", SK_PLOT_GREEN}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].colour;
        }
    }
    return SK_PLOT_GREY;
}

size_t sk_plot_host_of(const sk_family_row *row, const char *name) {
    size_t i = 0;
    while (i < row->n_hosts && strcmp(row->host[i], name) != 0) {
        i++;
    }
    return i;
}

static void add_host(sk_plot_hosts *hosts, const char *name) {
    for (size_t i = 0; i < hosts->n; i++) {
        if (strcmp(hosts->v[i].name, name) == 0) {
            return;
        }
    }
    if (hosts->n < SK_PLOT_MAX_HOSTS) {
        hosts->v[hosts->n++] = (sk_plot_host){name, sk_plot_host_colour(name)};
    }
}

void sk_plot_rows_hosts(const sk_plot_rows *r, sk_plot_hosts *out) {
    *out = (sk_plot_hosts){0};
    for (int ours = 0; ours < 2; ours++) {
        for (size_t i = 0; i < r->n; i++) {
            const sk_family_row *row = r->v[i].row;
            for (size_t h = 0; h < row->n_hosts; h++) {
                if ((h == row->ours) == (ours == 1)) {
                    add_host(out, row->host[h]);
                }
            }
        }
    }
}

static void add_names(const sk_plot_rows *r, sk_buf *out) {
    sk_buf_str(out, "set ytics scale 0 (");
    for (size_t i = 0; i < r->n; i++) {
        sk_buf_str(out, i ? ", " : "");
        sk_plot_quote(out, r->v[i].label);
        sk_buf_printf(out, " %zu", i + 1);
    }
    sk_buf_str(out, ")\n");
}

void sk_plot_rows_axis(const sk_plot_rows *r, bool names, sk_plot_page *p) {
    sk_buf *out = &p->program;
    sk_buf_printf(out, "set yrange [%zu.5:0.5]\n", r->n);
    if (names) {
        add_names(r, out);
    } else {
        sk_buf_str(out, "unset ytics\n");
    }
    for (size_t i = 1; i <= r->n; i += 2) {
        sk_buf_printf(out,
                      "set object rectangle from graph 0,first %zu.5 to graph 1,first %zu.5 behind "
                      "fillcolor rgb '#f3f5f7' fillstyle solid 1.0 noborder\n",
                      i - 1, i);
    }
}
