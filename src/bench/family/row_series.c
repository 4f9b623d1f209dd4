#include "bench/family/row_series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "parts.agent.series.coding.llama-server-tuned.prompt_n[999]" with names of any length that are cut. */
enum { FIELD_CHARS = 224 };

static void no_memory(sk_row_reader *rd) {
    if (rd->rc == SKIPPY_OK) rd->rc = sk_err_set(rd->e, SKIPPY_E_NOMEM, "no memory for row %zu", rd->number);
}

/* Copies a list of numbers. NULL with nothing recorded: the list is empty or not there. */
static double *copy_numbers(sk_row_reader *rd, json_t *list, const char *field, const char *what, size_t *n) {
    char place[FIELD_CHARS + 32];
    *n = 0;
    if (list && !json_is_array(list)) sk_row_refuse(rd, field, "an array");
    const size_t count = json_array_size(list);
    if (count == 0 || rd->rc != SKIPPY_OK) return NULL;
    double *v = calloc(count, sizeof *v);
    if (!v) no_memory(rd);
    for (size_t i = 0; v && i < count; i++) {
        json_t *number = json_array_get(list, i);
        v[i] = json_number_value(number);
        if (!json_is_number(number) || !(v[i] >= 0.0 && v[i] <= SK_ROW_MAX_MS)) {
            snprintf(place, sizeof place, "%s[%zu]", field, i);
            sk_row_refuse(rd, place, what);
        }
    }
    *n = v ? count : 0;
    return v;
}

/* Median of the server's own counts, to the next whole number. */
static size_t median_count(sk_row_reader *rd, json_t *host, const char *name, const char *where) {
    char field[FIELD_CHARS];
    size_t n = 0;
    sk_summary sum = {0};
    snprintf(field, sizeof field, "%s.%s", where, name);
    double *v = copy_numbers(rd, json_object_get(host, name), field, "a number of tokens, at least 0", &n);
    if (sk_stats_summarize(v, n, &sum) != SKIPPY_OK) no_memory(rd);
    free(v);
    return (size_t)(sum.p50 + 0.5);
}

static size_t host_index(const sk_family_row *r, const char *name) {
    size_t i = 0;
    while (i < r->n_hosts && strcmp(r->host[i], name) != 0) i++;
    return i;
}

static void read_host(sk_row_reader *rd, const sk_family_row *r, sk_row_series *s, const char *name, json_t *host) {
    char where[FIELD_CHARS - 32];
    char field[FIELD_CHARS];
    const size_t h = host_index(r, name);
    snprintf(where, sizeof where, "parts.%.32s.series.%.64s.%.64s", s->part, s->name, name);
    if (h == r->n_hosts) {
        sk_row_refuse(rd, where, "of one of the row's hosts");
        return;
    }
    snprintf(field, sizeof field, "%s.ms", where);
    s->ms[h] = copy_numbers(rd, json_object_get(host, "ms"), field, "a time in milliseconds, 0 to 1e12", &s->n[h]);
    s->cache_n[h] = median_count(rd, host, "cache_n", where);
    s->prompt_n[h] = median_count(rd, host, "prompt_n", where);
    if (sk_stats_summarize(s->ms[h], s->n[h], &s->summary[h]) != SKIPPY_OK) no_memory(rd);
}

static void read_series(sk_row_reader *rd, sk_family_row *r, const char *part, const char *name, json_t *hosts) {
    const char *host;
    json_t *value;
    if (r->n_series == SK_ROW_MAX_SERIES) {
        sk_row_refuse(rd, "parts", "of at most 64 series in all");
        return;
    }
    sk_row_series *s = &r->series[r->n_series++];
    *s = (sk_row_series){.part = part, .name = name};
    json_object_foreach(hosts, host, value) {
        if (rd->rc == SKIPPY_OK) read_host(rd, r, s, host, value);
    }
}

static void read_part(sk_row_reader *rd, sk_family_row *r, const char *name, json_t *part) {
    char field[FIELD_CHARS];
    const char *series;
    json_t *value;
    snprintf(field, sizeof field, "parts.%.64s.status", name);
    if (!json_is_string(json_object_get(part, "status"))) sk_row_refuse(rd, field, "a string");
    snprintf(field, sizeof field, "parts.%.64s.series", name);
    json_t *all = json_object_get(part, "series");
    if (all && !json_is_object(all)) sk_row_refuse(rd, field, "an object");
    json_object_foreach(all, series, value) {
        if (!json_is_object(value)) sk_row_refuse(rd, field, "an object of objects");
        if (rd->rc == SKIPPY_OK) read_series(rd, r, name, series, value);
    }
}

void sk_row_read_parts(sk_row_reader *rd, sk_family_row *r) {
    const char *name;
    json_t *part;
    json_t *parts = sk_row_at(rd->row, "parts");
    if (parts && !json_is_object(parts)) sk_row_refuse(rd, "parts", "an object");
    if (json_object_size(parts) == 0 || rd->rc != SKIPPY_OK) return;
    r->series = calloc(SK_ROW_MAX_SERIES, sizeof *r->series);
    if (!r->series) {
        no_memory(rd);
        return;
    }
    json_object_foreach(parts, name, part) {
        if (rd->rc == SKIPPY_OK) read_part(rd, r, name, part);
    }
}
