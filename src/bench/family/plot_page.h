/* A plot while it is made: the program for gnuplot and the data beside it.
 *
 * Everything has its place in pixels, because only fixed places keep labels from lying on data. Texts from rows never
 * become commands: they are quoted here. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PLOT_PAGE_H
#define SKIPPY_BENCH_FAMILY_PLOT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Width of every plot: a README shows about that many pixels. */
enum { SK_PLOT_WIDTH = 860 };

/* Colours that people with any kind of colour vision can tell apart (the palette of Okabe and Ito). */
#define SK_PLOT_BLUE "#0072b2"
#define SK_PLOT_VERMILLION "#d55e00"
#define SK_PLOT_ORANGE "#e69f00"
#define SK_PLOT_PURPLE "#cc79a7"
#define SK_PLOT_GREEN "#009e73"
#define SK_PLOT_SKY "#56b4e9"
#define SK_PLOT_GREY "#8c8c8c"
#define SK_PLOT_INK "#222222"

typedef struct sk_plot_page {
    const char *name; /* of the files; static */
    int height;       /* pixels */
    sk_buf program;   /* NAME.gp */
    sk_buf data;      /* NAME.dat */
    size_t n_blocks;  /* in data */
    size_t n_panels;  /* begun */
    int legend_left;  /* where the next entry of the legend goes */
} sk_plot_page;

/* Pixels from the page's upper left corner. */
typedef struct sk_plot_area {
    int left, top, width, height;
} sk_plot_area;

typedef enum sk_plot_anchor { SK_PLOT_LEFT, SK_PLOT_CENTER, SK_PLOT_RIGHT } sk_plot_anchor;

/* Begins a page with its title at the top. Free with sk_plot_page_free. Out of memory shows in sk_plot_page_failed. */
void sk_plot_page_begin(sk_plot_page *p, const char *name, int height, const char *title);
/* The end of the program. */
void sk_plot_page_end(sk_plot_page *p);
void sk_plot_page_free(sk_plot_page *p);
bool sk_plot_page_failed(const sk_plot_page *p);

/* A coloured square and what it stands for, beside the entry before, under the title. Before the first panel. */
void sk_plot_page_legend(sk_plot_page *p, const char *colour, const char *text);
/* What the "*" behind the name of a family means, at the right end of the legend. */
void sk_plot_page_synthetic_note(sk_plot_page *p);
/* A text at a place of the page; turned: reads upwards. After sk_plot_page_panel it belongs to that panel's drawing. */
void sk_plot_page_label(sk_plot_page *p, int x, int y, sk_plot_anchor anchor, int size, const char *text);
void sk_plot_page_turned_label(sk_plot_page *p, int x, int y, const char *text);
/* From here on commands in `program` are about a panel at this place; one plot command follows for each. */
void sk_plot_page_panel(sk_plot_page *p, sk_plot_area a);
/* Begins a block of the data, after a comment that names its columns; returns its index. */
size_t sk_plot_page_block(sk_plot_page *p, const char *columns);
/* Appends a text as one field of a data line, with a space before it. A line end in it is one in the plot. */
void sk_plot_page_field(sk_plot_page *p, const char *text);
/* Appends text as a string of gnuplot's language. */
void sk_plot_quote(sk_buf *out, const char *text);

#endif
