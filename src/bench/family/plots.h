/* Plots as SVG, written by gnuplot (a program of its own: Debian's gnuplot-nox). Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PLOTS_H
#define SKIPPY_BENCH_FAMILY_PLOTS_H

#include "bench/family/row.h"

typedef struct sk_plot_options {
    const char *folder;  /* made when it is not there: the SVG files and, beside each, NAME.gp (the program for gnuplot)
                            and NAME.dat */
    const char *gnuplot; /* program; NULL = "gnuplot" in PATH */
    const char *evict_json; /* file with what `skippy bench evict --json` printed, for the hit rate over capacity; NULL
                               = no such plot */
} sk_plot_options;

enum { SK_PLOTS_MAX = 8 };

typedef struct sk_plot {
    char name[32];                /* "speedup", "latency", "agent", "hit-rate" */
    char title[96], caption[256]; /* how to read it */
    char path[1100];              /* of the SVG */
} sk_plot;

/* speedup.svg: per family the ratio of exact repeat, suffix, edit, agent, restart (log scale, a line at 1, synthetic
 * families marked, ratios of different work grey); latency.svg: distribution of the request times per family and server
 * (exact and suffix): middle half and extremes as boxes, log scale; agent.svg: time of each turn of the agent
 * conversations for the servers, of one dense and one hybrid family; hit-rate.svg: computed share saved over the
 * cache's capacity for the eviction policies and the bound. A plot without data is left out. The files name no folder
 * and no date: the same rows make the same bytes. Errors: SKIPPY_E_NOT_FOUND (no gnuplot; says how to install it),
 * SKIPPY_E_RUNTIME (its words), SKIPPY_E_IO, SKIPPY_E_INVALID (evict_json). */
int sk_plots_write(const sk_row_set *s, const sk_plot_options *o, sk_plot plots[SK_PLOTS_MAX], size_t *n, sk_err *e);

#endif
