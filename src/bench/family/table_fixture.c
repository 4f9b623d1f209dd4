#include "bench/family/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void sk_fixture_add(sk_row_set *s, json_t *row) {
    sk_err e = {0};
    if (sk_row_set_add(s, row, s->n + 1, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

json_t *sk_fixture_exact(sk_fixture f, double base, double tuned, double ours) {
    json_t *row = sk_fixture_row(&f);
    sk_fixture_times(row, "exact", "exact", base, tuned, ours);
    return row;
}

void sk_fixture_write(sk_row_set *s, sk_table_writer writer, sk_buf *out) {
    sk_row_set_sort(s);
    writer(s, out);
    assert_false(out->failed);
    sk_row_set_free(s);
}

void sk_fixture_line(const sk_buf *out, const char *line) {
    const size_t n = strlen(line);
    for (const char *p = out->data; p && *p;) {
        const size_t len = strcspn(p, "\n");
        if (len == n && memcmp(p, line, n) == 0) return;
        p += len + (p[len] == '\n');
    }
    fail_msg("no line is\n%s\nin\n%s", line, out->data ? out->data : "(nothing)");
}

void sk_fixture_absent(const sk_buf *out, const char *part) {
    if (out->data && strstr(out->data, part)) fail_msg("'%s' is in\n%s", part, out->data);
}

void sk_fixture_order(const sk_buf *out, const char *first, const char *second) {
    const char *a = out->data ? strstr(out->data, first) : NULL;
    const char *b = out->data ? strstr(out->data, second) : NULL;
    if (!a || !b || a >= b) fail_msg("'%s' is not before '%s' in\n%s", first, second, out->data);
}

void sk_fixture_even(const sk_buf *out) {
    size_t cells = 0;
    for (const char *p = out->data; p && *p;) {
        const size_t len = strcspn(p, "\n");
        size_t bars = 0;
        for (size_t i = 0; i < len; i++) bars += p[i] == '|';
        if (*p != '|')
            cells = 0;
        else if (cells && bars != cells)
            fail_msg("%zu bars instead of %zu in %.*s", bars, cells, (int)len, p);
        else
            cells = bars;
        p += len + (p[len] == '\n');
    }
}
