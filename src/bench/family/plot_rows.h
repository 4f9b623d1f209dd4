/* The rows that a plot shows, and what they are called in it. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PLOT_ROWS_H
#define SKIPPY_BENCH_FAMILY_PLOT_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/family/plot_page.h"
#include "bench/family/row.h"

enum { SK_PLOT_LABEL = 64, SK_PLOT_MAX_HOSTS = 8 };

typedef struct sk_plot_row {
    const sk_family_row *row;
    char label[SK_PLOT_LABEL]; /* the family; "*" behind it when the weights are random; "(2)" for its second row */
} sk_plot_row;

typedef struct sk_plot_rows {
    sk_plot_row *v; /* owned */
    size_t n;
    bool synthetic; /* one of them has random weights */
} sk_plot_rows;

/* One server in the plot. */
typedef struct sk_plot_host {
    const char *name;   /* borrowed from a row */
    const char *colour; /* static */
} sk_plot_host;

typedef struct sk_plot_hosts {
    sk_plot_host v[SK_PLOT_MAX_HOSTS];
    size_t n;
} sk_plot_hosts;

/* What is compared in one panel. */
typedef struct sk_plot_scenario {
    const char *part, *series; /* of a row */
    const char *title;         /* for people */
} sk_plot_scenario;

/* The full rows (no use cases, no sweep) for which `wanted` holds, in the set's order. Errors: SKIPPY_E_NOMEM. */
int sk_plot_rows_pick(const sk_row_set *s, bool (*wanted)(const sk_family_row *row), sk_plot_rows *out, sk_err *e);
void sk_plot_rows_free(sk_plot_rows *r);
/* Every server of these rows, skippy last; the same server has the same colour in every plot. */
void sk_plot_rows_hosts(const sk_plot_rows *r, sk_plot_hosts *out);
/* Those of the n scenarios that some row has, in order, to out (room for n); returns their number. */
size_t sk_plot_rows_scenarios(const sk_plot_rows *r, const sk_plot_scenario *all, size_t n,
                              bool (*has)(const sk_family_row *row, const sk_plot_scenario *sc),
                              const sk_plot_scenario **out);
/* Index in the row's hosts; the row's n_hosts when it has no such server. */
size_t sk_plot_host_of(const sk_family_row *row, const char *name);
const char *sk_plot_host_colour(const char *name);
/* The y axis of a panel with one row of the plot at y = 1..n from the top; every other one has a light ground. names:
 * with the labels left of it. */
void sk_plot_rows_axis(const sk_plot_rows *r, bool names, sk_plot_page *p);

#endif
