/* Many clients at once: what each server gives to how many. A line is one number of clients, so that the servers stand
 * side by side. */
#include <stdlib.h>
#include <string.h>

#include "bench/family/table_cell.h"

/* Servers that have a curve anywhere in the table; each has three columns. */
typedef struct servers {
    const char *name[SK_ROW_MAX_HOSTS];
    size_t n;
} servers;

static const json_t *levels_of(const sk_family_row *r, const char *host) {
    const json_t *part = json_object_get(json_object_get(r->json, "parts"), "curve");
    return json_object_get(json_object_get(json_object_get(part, "extra"), host), "levels");
}

static bool measured(const sk_family_row *r) {
    if (!sk_row_full_passed(r)) return false;
    for (size_t h = 0; h < r->n_hosts; h++)
        if (json_array_size(levels_of(r, r->host[h])) > 0) return true;
    return false;
}

static void add_servers(servers *to, const sk_family_row *r) {
    for (size_t h = 0; h < r->n_hosts; h++) {
        size_t i = 0;
        if (json_array_size(levels_of(r, r->host[h])) == 0) continue;
        while (i < to->n && strcmp(to->name[i], r->host[h]) != 0) i++;
        if (i == to->n && i < SK_ROW_MAX_HOSTS) to->name[to->n++] = r->host[h];
    }
}

static json_int_t number(const json_t *level, const char *name) {
    return json_integer_value(json_object_get(level, name));
}

static const json_t *level_of(const sk_family_row *r, const char *host, json_int_t clients) {
    const json_t *levels = levels_of(r, host);
    for (size_t i = 0; i < json_array_size(levels); i++)
        if (number(json_array_get(levels, i), "clients") == clients) return json_array_get(levels, i);
    return NULL;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* "p50 / p99" of a list of times; "n/a" without any. */
static void cell_spread(const json_t *list, sk_buf *out) {
    const size_t n = json_array_size(list);
    double *v = calloc(n + 1, sizeof *v); /* + 1: an empty list is no failure */
    if (!v) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) v[i] = json_number_value(json_array_get(list, i));
    qsort(v, n, sizeof *v, compare_doubles);
    sk_buf_str(out, " ");
    if (n) {
        sk_table_ms(sk_stats_median(v, n), out);
        sk_buf_str(out, " / ");
        sk_table_ms(sk_stats_rank(v, n, 99), out);
    } else {
        sk_buf_str(out, "n/a");
    }
    sk_buf_str(out, " |");
    free(v);
}

static void cell_goodput(const json_t *level, sk_buf *out) {
    if (!level) {
        sk_buf_str(out, " n/a |");
        return;
    }
    sk_buf_printf(out, " %.2f (%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT ") |",
                  json_number_value(json_object_get(level, "goodput_rps")), number(level, "within_slo"),
                  number(level, "requests"));
}

static void add_level(const sk_family_row *r, const servers *of, json_int_t clients, sk_buf *out) {
    static const char *const lists[] = {"ttft_ms", "tpot_ms"};
    sk_column_family(r, out);
    sk_column_number(clients, out);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < of->n; i++)
            cell_spread(json_object_get(level_of(r, of->name[i], clients), lists[k]), out);
    for (size_t i = 0; i < of->n; i++) cell_goodput(level_of(r, of->name[i], clients), out);
    sk_buf_str(out, "\n");
}

/* The fewest clients above `after` that some server had; 0 = none. */
static json_int_t next_clients(const sk_family_row *r, json_int_t after) {
    json_int_t next = 0;
    for (size_t h = 0; h < r->n_hosts; h++) {
        const json_t *levels = levels_of(r, r->host[h]);
        for (size_t i = 0; i < json_array_size(levels); i++) {
            const json_int_t clients = number(json_array_get(levels, i), "clients");
            if (clients > after && (next == 0 || clients < next)) next = clients;
        }
    }
    return next;
}

static void add_head(const servers *of, sk_buf *out) {
    static const char *const groups[] = {"First token, p50 / p99 ms: ", "Each further token, p50 / p99 ms: ",
                                         "Goodput, requests/s (within the limits): "};
    sk_buf titles = {0};
    sk_buf_str(&titles, "Family | Clients");
    for (size_t g = 0; g < 3; g++)
        for (size_t i = 0; i < of->n; i++) {
            sk_buf_printf(&titles, " | %s", groups[g]);
            sk_table_text(of->name[i], &titles);
        }
    if (!titles.failed) sk_table_head(titles.data, out);
    out->failed |= titles.failed;
    sk_buf_free(&titles);
}

static void add_group(const sk_row_set *s, sk_weights w, sk_buf *out) {
    servers of = {0};
    for (size_t i = 0; i < s->n; i++)
        if (sk_weights_of(&s->v[i], w) && measured(&s->v[i])) add_servers(&of, &s->v[i]);
    if (of.n == 0) return;
    sk_table_heading("Many clients at once", w, out);
    sk_buf_str(out,
               "Goodput counts the answers whose first token and whose further tokens came within the limits of the "
               "run; in brackets how many of all requests.\n\n");
    add_head(&of, out);
    for (size_t i = 0; i < s->n; i++) {
        const sk_family_row *r = &s->v[i];
        if (!sk_weights_of(r, w) || !measured(r)) continue;
        for (json_int_t c = next_clients(r, 0); c; c = next_clients(r, c)) add_level(r, &of, c, out);
    }
}

void sk_table_curves(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++) add_group(s, w, out);
}
