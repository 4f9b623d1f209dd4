#include "bench/family/plot_page.h"

#include <string.h>

enum { TITLE_Y = 22, LEGEND_Y = 46, LEGEND_SQUARE = 11, LEGEND_GAP = 22, MARGIN = 14 };

/* About the width of a letter in legends, at 12 pixels. */
#define LETTER_WIDTH 6.4

static double screen_x(int x) {
    return (double)x / SK_PLOT_WIDTH;
}

/* gnuplot counts from the bottom. */
static double screen_y(const sk_plot_page *p, int y) {
    return 1.0 - (double)y / p->height;
}

void sk_plot_quote(sk_buf *out, const char *text) {
    sk_buf_str(out, "'");
    for (const char *c = text; *c; c++) {
        if (*c == '\'') {
            sk_buf_str(out, "''");
        } else {
            sk_buf_add(out, (unsigned char)*c < ' ' ? " " : c, 1);
        }
    }
    sk_buf_str(out, "'");
}

void sk_plot_page_begin(sk_plot_page *p, const char *name, int height, const char *title) {
    *p = (sk_plot_page){.name = name, .height = height, .legend_left = MARGIN};
    sk_buf_printf(&p->program,
                  "# Draws %s.svg from %s.dat: gnuplot -d %s.gp\n"
                  "if (!exists('output_file')) output_file = '%s.svg'\n"
                  "set encoding utf8\n"
                  "set terminal svg noenhanced size %d,%d fixed font 'sans-serif,12' background '#ffffff'\n"
                  "set output output_file\n"
                  "set multiplot\n"
                  "set border linecolor rgb '#b0b0b0'\n"
                  "set style fill solid 1.0 noborder\n"
                  "set xtics textcolor rgb '%s'\n"
                  "set ytics textcolor rgb '%s'\n"
                  "unset key\n",
                  name, name, name, name, SK_PLOT_WIDTH, height, SK_PLOT_INK, SK_PLOT_INK);
    sk_plot_page_label(p, MARGIN, TITLE_Y, SK_PLOT_LEFT, 15, title);
}

void sk_plot_page_end(sk_plot_page *p) {
    sk_buf_str(&p->program, "unset multiplot\nunset output\n");
}

void sk_plot_page_free(sk_plot_page *p) {
    sk_buf_free(&p->program);
    sk_buf_free(&p->data);
    *p = (sk_plot_page){0};
}

bool sk_plot_page_failed(const sk_plot_page *p) {
    return p->program.failed || p->data.failed;
}

void sk_plot_page_label(sk_plot_page *p, int x, int y, sk_plot_anchor anchor, int size, const char *text) {
    static const char *const anchors[] = {"left", "center", "right"};
    sk_buf_str(&p->program, "set label ");
    sk_plot_quote(&p->program, text);
    sk_buf_printf(&p->program, " at screen %.5f,%.5f %s font 'sans-serif,%d' textcolor rgb '%s'\n", screen_x(x),
                  screen_y(p, y), anchors[anchor], size, SK_PLOT_INK);
}

void sk_plot_page_turned_label(sk_plot_page *p, int x, int y, const char *text) {
    sk_buf_str(&p->program, "set label ");
    sk_plot_quote(&p->program, text);
    sk_buf_printf(&p->program, " at screen %.5f,%.5f center rotate by 90 textcolor rgb '%s'\n", screen_x(x),
                  screen_y(p, y), SK_PLOT_INK);
}

void sk_plot_page_legend(sk_plot_page *p, const char *colour, const char *text) {
    const int left = p->legend_left;
    sk_buf_printf(&p->program,
                  "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f front fillcolor rgb '%s' "
                  "fillstyle solid 1.0 noborder\n",
                  screen_x(left), screen_y(p, LEGEND_Y + LEGEND_SQUARE / 2), screen_x(left + LEGEND_SQUARE),
                  screen_y(p, LEGEND_Y - LEGEND_SQUARE + LEGEND_SQUARE / 2), colour);
    sk_plot_page_label(p, left + LEGEND_SQUARE + 6, LEGEND_Y, SK_PLOT_LEFT, 12, text);
    p->legend_left = left + LEGEND_SQUARE + 6 + (int)((double)strlen(text) * LETTER_WIDTH) + LEGEND_GAP;
}

void sk_plot_page_synthetic_note(sk_plot_page *p) {
    sk_plot_page_label(p, SK_PLOT_WIDTH - MARGIN, LEGEND_Y, SK_PLOT_RIGHT, 12,
                       "* random weights in the shape of the family");
}

void sk_plot_page_panel(sk_plot_page *p, sk_plot_area a) {
    if (p->n_panels++) {
        /* What was set for the panels before would be drawn again. */
        sk_buf_str(&p->program, "unset label\nunset object\nunset arrow\n");
    }
    sk_buf_printf(&p->program,
                  "set lmargin at screen %.5f\nset rmargin at screen %.5f\nset tmargin at screen %.5f\n"
                  "set bmargin at screen %.5f\n",
                  screen_x(a.left), screen_x(a.left + a.width), screen_y(p, a.top), screen_y(p, a.top + a.height));
}

size_t sk_plot_page_block(sk_plot_page *p, const char *columns) {
    /* Two empty lines part blocks. */
    sk_buf_printf(&p->data, "%s# %s\n", p->n_blocks ? "\n\n" : "", columns);
    return p->n_blocks++;
}

void sk_plot_page_field(sk_plot_page *p, const char *text) {
    sk_buf_str(&p->data, " \"");
    for (const char *c = text; *c; c++) {
        /* gnuplot reads backslashes in data, and a quote would end the field. */
        const char *as = *c == '"' ? "'" : *c == '\\' ? "/" : *c == '\n' ? "\\n" : (unsigned char)*c < ' ' ? " " : NULL;
        sk_buf_add(&p->data, as ? as : c, as ? strlen(as) : 1);
    }
    sk_buf_str(&p->data, "\"");
}
