#include "bench/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bitcost.h"
#include "bench/floor.h"
#include "bench/row.h"

void sk_report_free(sk_report *r) {
    for (size_t i = 0; i < r->n_results; i++) {
        for (size_t v = 0; v < SK_MAX_VARIANTS; v++) {
            sk_measurement_free(&r->results[i].m[v]);
        }
    }
    free(r->results);
    free(r->soak);
    json_decref(r->floor);
    json_decref(r->bit_cost);
    *r = (sk_report){0};
}

/* A table cell must not contain the column separator. */
static void add_text(sk_buf *out, const char *text) {
    for (const char *p = text; *p; p++) {
        sk_buf_printf(out, "%c", *p == '|' ? '/' : *p == '\n' ? ' ' : *p);
    }
}

static void add_times(sk_buf *out, const sk_row_cell *c) {
    if (!c->measured) {
        sk_buf_str(out, " n/a |");
        return;
    }
    sk_buf_printf(out, " %.2f / %.2f |", c->ms.p50, c->ms.p95);
}

static void add_counts(sk_buf *out, const sk_row_cell *c, const char *end) {
    if (c->measured && c->cache_n + c->prompt_n) {
        sk_buf_printf(out, " %zu+%zu%s", c->cache_n, c->prompt_n, end);
    } else {
        sk_buf_printf(out, " %s%s", c->measured ? "-" : "n/a", end);
    }
}

static void add_row(const sk_report *r, const sk_result *res, const sk_row_view *row, sk_buf *out) {
    char ratio[SK_RATIO_CHARS];
    char gate[160];
    sk_buf_printf(out, "| %s: %s%s | %zu |", res->scenario->name, row->series, r->facts.synthetic ? " (synthetic)" : "",
                  row->ours.measured ? row->ours.ms.n : row->base.ms.n);
    add_times(out, &row->base);
    add_times(out, &row->best);
    add_times(out, &row->ours);
    sk_buf_printf(out, " %s |", sk_stats_ratio(row->base.ms.p50, row->ours.ms.p50, ratio));
    sk_buf_printf(out, " %s |", sk_stats_ratio(row->best.ms.p50, row->ours.ms.p50, ratio));
    add_counts(out, &row->base, ",");
    add_counts(out, &row->best, ",");
    add_counts(out, &row->ours, " |");
    sk_row_gate_text(row, gate, sizeof gate);
    sk_buf_printf(out, " %s |\n", gate);
}

static int add_table(const sk_report *r, sk_buf *out) {
    sk_buf_str(out,
               "| scenario | runs | llama-server, ms | llama-server best, ms | skippy, ms | ratio | ratio to best | "
               "cached+computed tokens | greedy text |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < r->n_results; i++) {
        for (size_t k = 0; k < sk_row_count(r, &r->results[i]); k++) {
            sk_row_view row;
            const int rc = sk_row_make(r, &r->results[i], k, &row);
            if (rc != SKIPPY_OK) {
                return rc;
            }
            add_row(r, &r->results[i], &row, out);
        }
    }
    return SKIPPY_OK;
}

static const sk_result *find_result(const sk_report *r, const char *scenario) {
    for (size_t i = 0; i < r->n_results; i++) {
        if (strcmp(r->results[i].scenario->name, scenario) == 0) {
            return &r->results[i];
        }
    }
    return NULL;
}

/* Median of a series in one variant; 0 when it was not measured. */
static double median_of(const sk_result *res, size_t variant, const char *series) {
    const sk_series *s = res && res->ran[variant] ? sk_measurement_find(&res->m[variant], series) : NULL;
    sk_summary sum = {0};
    double *ms = s && s->n ? calloc(s->n, sizeof *ms) : NULL;
    for (size_t i = 0; ms && i < s->n; i++) {
        ms[i] = s->v[i].ms;
    }
    if (ms && sk_stats_summarize(ms, s->n, &sum) != SKIPPY_OK) {
        sum.p50 = 0.0;
    }
    free(ms);
    return sum.p50;
}

/* For each server: how far two of its medians lie apart. */
static void add_differences(const sk_report *r, sk_buf *out) {
    const sk_result *exact = find_result(r, "exact");
    const sk_result *turns = find_result(r, "alternation");
    for (size_t v = 0; v < r->n_variants; v++) {
        const double repeat = median_of(exact, v, "exact repeat");
        const double health = median_of(exact, v, "health");
        const double switched = median_of(turns, v, "A, B, A, B");
        const double stayed = median_of(turns, v, "same chat again");
        if (repeat > 0.0 && health > 0.0) {
            sk_buf_printf(out, "- %s: an exact repeat takes %.2f ms more than its `/health` (%.2f ms).\n",
                          r->variants[v].name, repeat - health, health);
        }
        if (switched > 0.0 && stayed > 0.0) {
            sk_buf_printf(out, "- %s: with alternation %.2f ms, without %.2f ms (%.2f times as long).\n",
                          r->variants[v].name, switched, stayed, switched / stayed);
        }
    }
}

static void add_floor(const sk_report *r, sk_buf *out) {
    for (size_t i = 0; i < json_array_size(r->floor); i++) {
        sk_floor_line(json_array_get(r->floor, i), r->sizes, out);
    }
}

static void add_bit_cost(const sk_report *r, sk_buf *out) {
    if (r->bit_cost) {
        sk_bitcost_lines(r->bit_cost, r->sizes, out);
    }
}

static void add_spread(const sk_report *r, sk_buf *out) {
    for (size_t i = 0; i < r->n_results; i++) {
        const sk_result *res = &r->results[i];
        for (size_t k = 0; res->scenario->long_runs && k < sk_row_count(r, res); k++) {
            sk_row_view row;
            if (sk_row_make(r, res, k, &row) != SKIPPY_OK || !row.ours.measured) {
                continue;
            }
            sk_buf_printf(out, "- %s: %s: skippy %.2f to %.2f ms over %zu", res->scenario->name, row.series,
                          row.ours.ms.min, row.ours.ms.max, row.ours.ms.n);
            if (row.base.measured) {
                sk_buf_printf(out, ", llama-server %.2f to %.2f ms over %zu", row.base.ms.min, row.base.ms.max,
                              row.base.ms.n);
            }
            sk_buf_str(out, ".\n");
        }
    }
}

static void add_memory(const sk_report *r, sk_buf *out) {
    for (size_t v = 0; v < r->n_variants; v++) {
        const sk_result *top = NULL;
        for (size_t i = 0; i < r->n_results; i++) {
            const sk_result *res = &r->results[i];
            if (res->ran[v] && (!top || res->m[v].memory.peak_rss > top->m[v].memory.peak_rss)) {
                top = res;
            }
        }
        if (top && top->m[v].memory.peak_rss) {
            const sk_process_memory *m = &top->m[v].memory;
            sk_buf_printf(
                out,
                "- %s: largest resident set %.1f MiB (scenario %s; at its end %.1f MiB anonymous, %.1f MiB of files).\n",
                r->variants[v].name, (double)m->peak_rss / 1024.0, top->scenario->name, (double)m->anon / 1024.0,
                (double)m->file / 1024.0);
        }
    }
    if (r->n_soak > 1) {
        const sk_soak_point *a = &r->soak[r->n_soak / 2];
        const sk_soak_point *b = &r->soak[r->n_soak - 1];
        sk_buf_printf(
            out,
            "- skippy over %zu requests: %.1f MiB resident at the start, %.1f MiB after %zu, %.1f MiB at the end.\n",
            b->requests, (double)r->soak[0].memory.rss / 1024.0, (double)a->memory.rss / 1024.0, a->requests,
            (double)b->memory.rss / 1024.0);
    }
}

static void add_failures(const sk_report *r, sk_buf *out) {
    for (size_t i = 0; i < r->n_results; i++) {
        for (size_t v = 0; v < r->n_variants; v++) {
            const sk_measurement *m = &r->results[i].m[v];
            if (r->results[i].ran[v] && m->error.code != SKIPPY_OK) {
                sk_buf_printf(out, "- %s on %s failed: ", r->results[i].scenario->name, r->variants[v].name);
                add_text(out, m->error.text);
                sk_buf_str(out, "\n");
            }
            if (r->results[i].ran[v] && m->forced_end) {
                sk_buf_printf(out, "- %s did not end on SIGTERM after %s and was killed.\n", r->variants[v].name,
                              r->results[i].scenario->name);
            }
        }
    }
}

static void add_heading(const sk_report *r, sk_buf *out) {
    const sk_bench_facts *f = &r->facts;
    sk_buf_str(out, "# skippy bench quick\n\n");
    if (f->synthetic) {
        sk_buf_str(
            out,
            "**Synthetic weights**: random numbers in the shape of the family. Times are real, texts mean nothing.\n\n");
    }
    sk_buf_printf(out, "- model: %s (%s), %.1f MiB, BLAKE3 %.16s\n", f->model_name, f->arch,
                  (double)f->file_bytes / 1048576.0, f->digest);
    sk_buf_printf(out, "- machine: %s, %ld cores, %.1f GiB; %d threads\n", f->cpu, f->cores,
                  (double)f->memory_kib / 1048576.0, r->threads);
    sk_buf_printf(out, "- date: %s, skippy %s\n", f->date, r->skippy_version);
    for (size_t v = 0; v < r->n_variants; v++) {
        sk_buf_printf(out, "- %s: %s\n", r->variants[v].name,
                      r->variants[v].flags[0] ? r->variants[v].flags : "default flags");
    }
    if (r->interrupted) {
        sk_buf_str(out, "- interrupted: this is what was measured until then\n");
    }
    sk_buf_str(
        out,
        "\nTimes are client wall time over HTTP, p50 / p95. A ratio is llama-server's p50 divided by skippy's. `best` is the "
        "fastest of all flag sets of llama-server that were tried.\n\n");
}

/* A section appears only when it has something to say. */
static void add_section(const sk_report *r, const char *title, void (*fill)(const sk_report *, sk_buf *), sk_buf *out) {
    sk_buf body = {0};
    fill(r, &body);
    if (body.len) {
        sk_buf_printf(out, "\n## %s\n\n", title);
        sk_buf_add(out, body.data, body.len);
    }
    out->failed |= body.failed;
    sk_buf_free(&body);
}

int sk_report_markdown(const sk_report *r, sk_buf *out) {
    add_heading(r, out);
    const int rc = add_table(r, out);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    add_section(r, "Differences", add_differences, out);
    add_section(r, "Lower bound: the same new tokens without a server, round by round", add_floor, out);
    add_section(r, "Cost of bit mode", add_bit_cost, out);
    add_section(r, "Spread of the long scenarios", add_spread, out);
    add_section(r, "Memory", add_memory, out);
    add_section(r, "What failed", add_failures, out);
    return out->failed ? SKIPPY_E_NOMEM : SKIPPY_OK;
}

int sk_report_write_file(const char *path, const char *text, size_t len, sk_err *e) {
    char part[1200];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path '%s' is too long", path);
    }
    FILE *f = fopen(part, "we");
    if (!f) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot write '%s': %s", part, strerror(errno));
    }
    const bool written = fwrite(text, 1, len, f) == len;
    if (fclose(f) != 0 || !written || rename(part, path) != 0) {
        const int why = errno;
        remove(part);
        return sk_err_set(e, SKIPPY_E_IO, "cannot write '%s': %s", path, strerror(why));
    }
    return SKIPPY_OK;
}
