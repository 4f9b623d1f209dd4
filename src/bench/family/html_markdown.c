#include "bench/family/html_markdown.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "bench/family/html_text.h"

enum { MAX_COLUMNS = 64, MAX_ID = 40 };

/* A line without its end. */
typedef struct line {
    const char *text;
    size_t n;
} line;

/* Reads the document line by line. */
typedef struct reader {
    const char *at;
    line now;
    bool ended;
} reader;

static void next(reader *r) {
    r->ended = *r->at == '\0';
    r->now = (line){r->at, strcspn(r->at, "\n")};
    r->at += r->now.n + (r->at[r->now.n] == '\n');
    while (r->now.n && isspace((unsigned char)r->now.text[r->now.n - 1])) {
        r->now.n--;
    }
}

static line strip(line l) {
    while (l.n && isspace((unsigned char)*l.text)) {
        l.text++;
        l.n--;
    }
    while (l.n && isspace((unsigned char)l.text[l.n - 1])) {
        l.n--;
    }
    return l;
}

/* ---- what a line is ---- */

static size_t heading_level(line l) {
    size_t level = 0;
    while (level < l.n && l.text[level] == '#') {
        level++;
    }
    return level <= 6 && level < l.n && l.text[level] == ' ' ? level : 0;
}

static bool is_rule(line l) {
    size_t i = 0;
    while (i < l.n && l.text[i] == '-') {
        i++;
    }
    return l.n >= 3 && i == l.n;
}

static bool is_row(line l) {
    return l.n && l.text[0] == '|';
}

static bool is_fence(line l) {
    return l.n >= 3 && memcmp(l.text, "```", 3) == 0;
}

/* Length of the mark of a list's item, 0 when the line is none. */
static size_t item_mark(line l, bool *numbered) {
    size_t i = 0;
    while (i < l.n && isdigit((unsigned char)l.text[i])) {
        i++;
    }
    *numbered = i > 0;
    const bool mark = i ? l.n > i && l.text[i] == '.' : l.n && (l.text[0] == '-' || l.text[0] == '*');
    return mark && l.n > i + 1 && l.text[i + 1] == ' ' ? i + 2 : 0;
}

static bool begins_block(line l) {
    bool numbered;
    return !l.n || heading_level(l) || is_rule(l) || is_row(l) || is_fence(l) || item_mark(l, &numbered);
}

/* ---- headings ---- */

/* The number makes an id unique; the words make it readable. */
static void add_id(sk_buf *out, size_t number, const char *text, size_t n) {
    bool gap = true;
    sk_buf_printf(out, "s%zu", number);
    for (size_t i = 0; i < n && i < MAX_ID; i++) {
        if (isalnum((unsigned char)text[i])) {
            const char c = (char)tolower((unsigned char)text[i]);
            sk_buf_str(out, gap ? "-" : "");
            sk_buf_add(out, &c, 1);
            gap = false;
        } else {
            gap = true;
        }
    }
}

/* title: HTML of the heading's text. */
static void add_heading(sk_html_document *d, int level, const char *text, size_t n, const sk_buf *title) {
    sk_buf id = {0};
    add_id(&id, ++d->n_headings, text, n);
    if (id.data && title->data) {
        sk_buf_printf(&d->body, "<h%d id=\"%s\">%s</h%d>\n", level, id.data, title->data, level);
        if (level == 2 || level == 3) {
            sk_buf_printf(&d->contents, "<li class=\"level%d\"><a href=\"#%s\">", level, id.data);
            sk_html_escape(&d->contents, text, n);
            sk_buf_str(&d->contents, "</a></li>\n");
        }
    }
    d->body.failed |= id.failed || title->failed;
    sk_buf_free(&id);
}

void sk_html_heading(sk_html_document *d, int level, const char *text, size_t n) {
    sk_buf title = {0};
    sk_html_escape(&title, text, n);
    add_heading(d, level, text, n, &title);
    sk_buf_free(&title);
}

static void heading(reader *r, sk_html_document *d) {
    const size_t level = heading_level(r->now);
    const line text = strip((line){r->now.text + level, r->now.n - level});
    sk_buf title = {0};
    sk_html_inline(&title, text.text, text.n);
    add_heading(d, (int)level, text.text, text.n, &title);
    sk_buf_free(&title);
    next(r);
}

/* ---- tables ---- */

/* The cells of "| a | b |"; returns how many. */
static size_t cells_of(line row, line cells[MAX_COLUMNS]) {
    size_t n = 0;
    const char *at = row.text + 1;
    const char *end = row.text + row.n;
    while (at < end && n < MAX_COLUMNS) {
        const char *bar = memchr(at, '|', (size_t)(end - at));
        const char *stop = bar ? bar : end;
        cells[n++] = strip((line){at, (size_t)(stop - at)});
        at = stop + 1;
    }
    return n;
}

/* "| --- | ---: |" below a table's head. Fills which columns are numbers (to the right). */
static bool is_divider(line l, bool right[MAX_COLUMNS]) {
    line cells[MAX_COLUMNS];
    const size_t n = is_row(l) ? cells_of(l, cells) : 0;
    for (size_t i = 0; i < n; i++) {
        size_t dashes = 0;
        for (size_t k = 0; k < cells[i].n; k++) {
            if (cells[i].text[k] != '-' && cells[i].text[k] != ':') {
                return false;
            }
            dashes += cells[i].text[k] == '-';
        }
        if (!dashes) {
            return false;
        }
        right[i] = cells[i].text[cells[i].n - 1] == ':' && cells[i].text[0] != ':';
    }
    return n > 0;
}

static bool says(line cell, const char *word) {
    const size_t len = strlen(word);
    for (size_t i = 0; i + len <= cell.n; i++) {
        if (memcmp(cell.text + i, word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Colour helps to find what is faster and what is slower; the words say it as well. */
static const char *cell_class(line cell, bool right) {
    if (says(cell, "x faster**")) {
        return right ? " class=\"right faster\"" : " class=\"faster\"";
    }
    if (says(cell, "(slower)")) {
        return right ? " class=\"right slower\"" : " class=\"slower\"";
    }
    return right ? " class=\"right\"" : "";
}

static void table_row(line row, const char *tag, const bool right[MAX_COLUMNS], sk_buf *out) {
    line cells[MAX_COLUMNS];
    const size_t n = cells_of(row, cells);
    sk_buf_str(out, "<tr>");
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(out, "<%s%s>", tag, cell_class(cells[i], right[i]));
        sk_html_inline(out, cells[i].text, cells[i].n);
        sk_buf_printf(out, "</%s>", tag);
    }
    sk_buf_str(out, "</tr>\n");
}

/* A table, or lines that only look like one. */
static void table(reader *r, sk_html_document *d) {
    bool right[MAX_COLUMNS] = {false};
    const line head = r->now;
    sk_buf *out = &d->body;
    next(r);
    if (r->ended || !is_divider(r->now, right)) {
        sk_buf_str(out, "<p>");
        sk_html_inline(out, head.text, head.n);
        sk_buf_str(out, "</p>\n");
        return;
    }
    sk_buf_str(out, "<div class=\"wide\" tabindex=\"0\"><table>\n<thead>");
    table_row(head, "th", right, out);
    sk_buf_str(out, "</thead>\n<tbody>\n");
    for (next(r); !r->ended && is_row(r->now); next(r)) {
        table_row(r->now, "td", right, out);
    }
    sk_buf_str(out, "</tbody></table></div>\n");
}

/* ---- lists, code, paragraphs ---- */

/* Lines that go on with the text of an item or a paragraph. */
static void go_on(reader *r, sk_buf *out) {
    for (next(r); !r->ended && !begins_block(strip(r->now)); next(r)) {
        const line more = strip(r->now);
        sk_buf_str(out, "\n");
        sk_html_inline(out, more.text, more.n);
    }
}

static void list(reader *r, sk_html_document *d) {
    bool numbered, other;
    (void)item_mark(r->now, &numbered);
    const char *tag = numbered ? "ol" : "ul";
    sk_buf_printf(&d->body, "<%s>\n", tag);
    while (!r->ended) {
        const size_t mark = item_mark(r->now, &other);
        if (!mark || other != numbered) {
            break; /* an item of the other kind begins a list of its own */
        }
        sk_buf_str(&d->body, "<li>");
        sk_html_inline(&d->body, r->now.text + mark, r->now.n - mark);
        go_on(r, &d->body);
        sk_buf_str(&d->body, "</li>\n");
    }
    sk_buf_printf(&d->body, "</%s>\n", tag);
}

static void fenced(reader *r, sk_html_document *d) {
    sk_buf_str(&d->body, "<pre class=\"wide\" tabindex=\"0\"><code>");
    for (next(r); !r->ended && !is_fence(r->now); next(r)) {
        sk_html_escape(&d->body, r->now.text, r->now.n);
        sk_buf_str(&d->body, "\n");
    }
    sk_buf_str(&d->body, "</code></pre>\n");
    next(r);
}

static void paragraph(reader *r, sk_html_document *d) {
    const line first = strip(r->now);
    sk_buf_str(&d->body, "<p>");
    sk_html_inline(&d->body, first.text, first.n);
    go_on(r, &d->body);
    sk_buf_str(&d->body, "</p>\n");
}

void sk_html_markdown(const char *markdown, sk_html_document *d) {
    reader r = {.at = markdown};
    bool numbered;
    next(&r);
    while (!r.ended) {
        if (!r.now.n) {
            next(&r);
        } else if (heading_level(r.now)) {
            heading(&r, d);
        } else if (is_rule(r.now)) {
            sk_buf_str(&d->body, "<hr>\n");
            next(&r);
        } else if (is_row(r.now)) {
            table(&r, d);
        } else if (is_fence(r.now)) {
            fenced(&r, d);
        } else if (item_mark(r.now, &numbered)) {
            list(&r, d);
        } else {
            paragraph(&r, d);
        }
    }
}

void sk_html_document_free(sk_html_document *d) {
    sk_buf_free(&d->body);
    sk_buf_free(&d->contents);
    *d = (sk_html_document){0};
}
