/* The time of each request of the agent conversations, for one family whose state is keys and values only and one with
 * recurrent state: skippy beside the best llama-server. */
#include <stdio.h>
#include <string.h>

#include "bench/family/plot_kinds.h"
#include "bench/family/plot_rows.h"
#include "bench/family/plot_scale.h"

enum {
    MAX_PANELS = 2,
    TOP = 64,
    HEAD = 66, /* of a panel: its title and the names of the conversations */
    BODY = 190,
    FOOT = 34,   /* numbers of the requests */
    BOTTOM = 24, /* title of the axis */
    LEFT = 74,
    RIGHT = 14,
    MAX_TICKS = 7,
    LETTER = 6, /* pixels of a letter in the names of conversations */
    NAME_LINES = 2
};

#define ALL "all conversations"

/* A row with the llama-server that it is compared with. */
typedef struct choice {
    const sk_family_row *row;
    size_t host;
    size_t requests; /* that both servers answered */
    double theirs_ms, ours_ms;
} choice;

static bool conversation(const sk_row_series *s) {
    return strcmp(s->part, "agent") == 0 && strcmp(s->name, ALL) != 0;
}

/* Requests of one conversation that both have. */
static size_t common(const sk_row_series *s, size_t a, size_t b) {
    if (!s->ms[a] || !s->ms[b]) {
        return 0;
    }
    return s->n[a] < s->n[b] ? s->n[a] : s->n[b];
}

static choice compare(const sk_family_row *row, size_t host) {
    choice c = {.row = row, .host = host};
    for (size_t i = 0; i < row->n_series; i++) {
        const sk_row_series *s = &row->series[i];
        const size_t n = conversation(s) ? common(s, host, row->ours) : 0;
        for (size_t k = 0; k < n; k++) {
            c.theirs_ms += s->ms[host][k];
            c.ours_ms += s->ms[row->ours][k];
        }
        c.requests += n;
    }
    return c;
}

/* The llama-server with the most requests, and of those the quickest over all of them. */
static choice best_of(const sk_family_row *row) {
    choice best = {.row = row, .host = row->n_hosts};
    for (size_t h = 0; row->ours < row->n_hosts && h < row->n_hosts; h++) {
        const choice c = sk_family_row_baseline(row, h) ? compare(row, h) : (choice){0};
        if (c.requests > best.requests || (c.requests == best.requests && c.requests && c.theirs_ms < best.theirs_ms)) {
            best = c;
        }
    }
    return best;
}

static bool has_conversations(const sk_family_row *row) {
    return best_of(row).requests > 0;
}

/* The row of this kind with the most requests, the first of them; NULL when there is none. */
static const sk_plot_row *choose(const sk_plot_rows *rows, bool hybrid) {
    const sk_plot_row *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const size_t n = sk_family_row_recurrent(rows->v[i].row) == hybrid ? best_of(rows->v[i].row).requests : 0;
        if (n > most) {
            most = n;
            best = &rows->v[i];
        }
    }
    return best;
}

/* ---- a panel ---- */

/* Which numbers of requests are written, so that they do not touch. */
static size_t number_step(size_t requests) {
    const size_t width = (size_t)(SK_PLOT_WIDTH - LEFT - RIGHT) / requests;
    return width >= 16 ? 1 : width >= 9 ? 2 : 5;
}

static void add_requests(sk_plot_page *p, const choice *c, size_t step, sk_plot_scale *scale) {
    size_t x = 0;
    for (size_t i = 0; i < c->row->n_series; i++) {
        const sk_row_series *s = &c->row->series[i];
        const size_t n = conversation(s) ? common(s, c->host, c->row->ours) : 0;
        for (size_t k = 0; k < n; k++) {
            const double theirs = s->ms[c->host][k], ours = s->ms[c->row->ours][k];
            char number[24] = "";
            if (k % step == 0) {
                snprintf(number, sizeof number, "%zu", k + 1);
            }
            sk_plot_scale_add(scale, theirs);
            sk_plot_scale_add(scale, ours);
            sk_buf_printf(&p->data, "%zu %.6g %.6g", ++x, theirs, ours);
            sk_plot_page_field(p, number);
            sk_plot_page_field(p, s->name);
            sk_buf_str(&p->data, "\n");
        }
        if (n > 0) {
            sk_buf_str(&p->data, "\n"); /* an empty line ends the lines of a conversation */
        }
    }
}

/* One line of a conversation's name above the panel; lines are counted from below. */
static void add_name_line(sk_plot_page *p, double x, size_t line, const char *text) {
    sk_buf_str(&p->program, "set label ");
    sk_plot_quote(&p->program, text);
    sk_buf_printf(&p->program, " at first %.1f,graph 1 center offset 0,character %.1f font 'sans-serif,11'\n", x,
                  0.8 + 1.05 * (double)line);
}

/* Takes the words from *name that fit into `width` letters, at least one, which is cut if it must be. */
static void take_line(const char **name, size_t width, char *out, size_t size) {
    const size_t room = width < size - 1 ? width : size - 1;
    size_t used = 0;
    while (**name) {
        const size_t len = strcspn(*name, " _");
        if (used && used + 1 + len > room) {
            break;
        }
        if (used) {
            out[used++] = ' ';
        }
        for (size_t i = 0; i < len && used < room; i++) {
            out[used++] = (*name)[i];
        }
        *name += len + ((*name)[len] != '\0');
    }
    out[used] = '\0';
}

/* The name in the middle of its conversation, in at most NAME_LINES lines; what does not fit is left out. */
static void add_name(sk_plot_page *p, const char *name, double x, size_t width) {
    char lines[NAME_LINES][64];
    size_t n = 0;
    while (*name && n < NAME_LINES) {
        take_line(&name, width ? width : 1, lines[n++], sizeof lines[0]);
    }
    for (size_t i = 0; i < n; i++) {
        add_name_line(p, x, n - 1 - i, lines[i]);
    }
}

/* Names above the panel, and thin lines between two conversations. */
static void add_names(sk_plot_page *p, const choice *c) {
    size_t x = 0;
    for (size_t i = 0; i < c->row->n_series; i++) {
        const sk_row_series *s = &c->row->series[i];
        const size_t n = conversation(s) ? common(s, c->host, c->row->ours) : 0;
        if (n == 0) {
            continue;
        }
        if (x > 0) {
            sk_buf_printf(&p->program,
                          "set arrow from first %zu.5,graph 0 to first %zu.5,graph 1 nohead linecolor rgb '#b0b0b0'\n",
                          x, x);
        }
        add_name(p, s->name, (double)x + ((double)n + 1.0) / 2.0,
                 n * (size_t)(SK_PLOT_WIDTH - LEFT - RIGHT) / c->requests / LETTER);
        x += n;
    }
}

static void add_seconds(double ms, sk_buf *out) {
    const double s = ms / 1000.0;
    sk_buf_printf(out, s >= 100.0 ? "%.0f s" : s >= 10.0 ? "%.1f s" : "%.2f s", s);
}

/* What the reader must know before comparing the lines. */
static void add_doubts(const choice *c, sk_buf *out) {
    if (!sk_family_row_complete(c->row, "agent")) {
        sk_buf_str(out, "; not complete");
    } else if (!sk_family_row_comparable(c->row, "agent", c->host)) {
        sk_buf_str(out, "; their answers differ");
    }
}

static void add_title(sk_plot_page *p, const sk_plot_row *row, const choice *c, sk_plot_area a) {
    sk_buf title = {0};
    sk_buf_printf(&title, "%s, %s: all requests together ", row->label,
                  sk_family_row_recurrent(row->row) ? "recurrent state" : "keys and values only");
    add_seconds(c->theirs_ms, &title);
    sk_buf_printf(&title, " with %s, ", row->row->host[c->host]);
    add_seconds(c->ours_ms, &title);
    sk_buf_str(&title, " with skippy");
    if (c->ours_ms > 0.0) {
        sk_buf_printf(&title, " (%.2fx)", c->theirs_ms / c->ours_ms);
    }
    add_doubts(c, &title);
    if (!title.failed) {
        sk_plot_page_label(p, a.left, a.top - HEAD + 16, SK_PLOT_LEFT, 12, title.data);
    }
    p->program.failed |= title.failed;
    sk_buf_free(&title);
}

static void draw_panel(sk_plot_page *p, const sk_plot_row *row, sk_plot_area a) {
    const choice c = best_of(row->row);
    sk_plot_scale scale = {0};
    const size_t block = sk_plot_page_block(p, "request, llama-server (ms), skippy (ms), its number, conversation");
    add_requests(p, &c, number_step(c.requests), &scale);
    sk_plot_scale_pad(&scale, 0.06, 0.06);
    sk_plot_page_panel(p, a);
    add_title(p, row, &c, a);
    add_names(p, &c);
    sk_plot_page_turned_label(p, 20, a.top + a.height / 2, "milliseconds (log)");
    sk_plot_scale_axis(&scale, 'y', "", MAX_TICKS, &p->program);
    sk_buf_printf(
        &p->program,
        "set ytics out nomirror scale 0.5\nset xtics scale 0 font 'sans-serif,10' ()\n"
        "set xrange [0.5:%zu.5]\nset grid ytics linetype 1 linecolor rgb '#e2e2e2'\n"
        "plot '%s.dat' index %zu using 1:2:xticlabels(4) with linespoints pointtype 7 pointsize 0.6 linewidth 2 "
        "linecolor rgb '%s', \\\n"
        "  '' index %zu using 1:3 with linespoints pointtype 5 pointsize 0.6 linewidth 2 linecolor rgb '%s'\n",
        c.requests, p->name, block, sk_plot_host_colour(row->row->host[c.host]), block, SK_PLOT_BLUE);
}

/* One entry for each llama-server that is shown, then ours. */
static void add_legend(sk_plot_page *p, const sk_plot_row *const shown[MAX_PANELS], int n) {
    const char *before = "";
    for (int i = 0; i < n; i++) {
        const char *host = shown[i]->row->host[best_of(shown[i]->row).host];
        if (strcmp(host, before) != 0) {
            sk_plot_page_legend(p, sk_plot_host_colour(host), host);
        }
        before = host;
    }
    sk_plot_page_legend(p, SK_PLOT_BLUE, shown[0]->row->host[shown[0]->row->ours]);
}

static void draw(const sk_plot_row *const shown[MAX_PANELS], int n, sk_plot_page *p) {
    const int panel = HEAD + BODY + FOOT;
    bool synthetic = false;
    sk_plot_page_begin(p, "agent", TOP + n * panel + BOTTOM, "How long each request of an agent's conversations takes");
    add_legend(p, shown, n);
    for (int i = 0; i < n; i++) {
        synthetic = synthetic || shown[i]->row->synthetic;
    }
    if (synthetic) {
        sk_plot_page_synthetic_note(p);
    }
    sk_plot_page_label(p, LEFT + (SK_PLOT_WIDTH - LEFT - RIGHT) / 2, p->height - 16, SK_PLOT_CENTER, 12,
                       "requests of each conversation, in order");
    for (int i = 0; i < n; i++) {
        const sk_plot_area a = {LEFT, TOP + i * panel + HEAD, SK_PLOT_WIDTH - LEFT - RIGHT, BODY};
        draw_panel(p, shown[i], a);
    }
    sk_plot_page_end(p);
}

int sk_plot_agent(const sk_plot_source *s, sk_plot_page *p, sk_err *e) {
    sk_plot_rows rows;
    const int rc = sk_plot_rows_pick(s->rows, has_conversations, &rows, e);
    const sk_plot_row *shown[MAX_PANELS];
    int n = 0;
    for (int hybrid = 0; rc == SKIPPY_OK && hybrid < 2; hybrid++) {
        const sk_plot_row *row = choose(&rows, hybrid == 1);
        if (row) {
            shown[n++] = row;
        }
    }
    if (n > 0) {
        draw(shown, n, p);
    }
    sk_plot_rows_free(&rows);
    return rc;
}
