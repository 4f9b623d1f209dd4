#include "bench/store_report.h"

#include <inttypes.h>

/* The tables. JSON is in store_json.c. */

static const double MIB = 1024.0 * 1024.0;

static sk_summary summary(const sk_store_series *s) {
    sk_summary sum;
    (void)sk_stats_summarize(s->ms, s->n, &sum); /* zeroed when out of memory, which prints as not measured */
    return sum;
}

double sk_store_share(const sk_store_restore *r, enum sk_store_path path) {
    const double whole = summary(&r->path[SK_PATH_RECOMPUTE]).p50;
    return whole > 0.0 ? summary(&r->path[path]).p50 / whole : 0.0;
}

/* ---- savings ---- */

static void add_way_name(const sk_store_use *use, sk_buf *out) {
    switch (use->cut) {
    case SK_STORE_BY_LAYOUT: sk_buf_str(out, "| as the server does |"); break;
    case SK_STORE_BY_TOKENS: sk_buf_printf(out, "| every %u tokens |", use->step); break;
    case SK_STORE_FIXED: sk_buf_str(out, "| every MiB of one export |"); break;
    }
}

static void add_saved(sk_store_sum sum, sk_buf *out) {
    if (sum.logical)
        sk_buf_printf(out, " %.1f %% |", sk_store_saved(sum));
    else
        sk_buf_str(out, " - |");
}

static void add_use(const sk_store_use *use, sk_buf *out) {
    const sk_store_sum total = sk_store_use_total(use);
    const uint64_t blocks = use->stats.blocks;
    add_way_name(use, out);
    sk_buf_printf(out, " %.1f | %.1f |", (double)total.logical / MIB, (double)total.fresh / MIB);
    add_saved(total, out);
    add_saved(use->sum[SK_STORE_KV], out);
    add_saved(use->sum[SK_STORE_TAIL], out);
    sk_buf_printf(out, " %" PRIu64 " | %" PRIu64 " | %.1f | %.1f |\n", blocks, use->stats.block_refs,
                  blocks ? (double)use->stats.block_bytes / (double)blocks / 1024.0 : 0.0,
                  (double)use->stats.physical_bytes / MIB);
}

static void add_savings(const sk_store_savings *s, sk_buf *out) {
    sk_buf_printf(
        out,
        "\n### %s: %s, %" PRIu32 " exports of %" PRIu64 " tokens in all\n\n"
        "| cut | logical MiB | unique MiB | saved | of KV | of tails | unique blocks | references | mean block "
        "KiB | RAM store MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        s->name, s->title, s->exports, s->tokens);
    for (size_t i = 0; i < s->n_ways; i++) add_use(&s->way[i], out);
}

/* ---- times ---- */

static void add_step(const sk_store_speed *s, enum sk_store_step step, sk_buf *out) {
    const sk_store_series *series = &s->step[step];
    const sk_summary ms = summary(series);
    sk_buf_printf(out, "| %s |", sk_store_step_title(step));
    if (ms.n == 0) {
        sk_buf_str(out, " not measured | | | |\n");
        return;
    }
    sk_buf_printf(out, " %.1f | %.2f | %.2f | %.2f to %.2f |\n", (double)series->bytes / MIB, ms.p50,
                  sk_store_rate(series->bytes, ms.p50), sk_store_rate(series->bytes, ms.p75),
                  sk_store_rate(series->bytes, ms.p25));
}

static void add_speed(const sk_store_report *r, sk_buf *out) {
    sk_buf_printf(out,
                  "\n### speed: a prefix of %" PRIu32 " tokens, %zu runs, one thread\n\n"
                  "| step | MiB | ms p50 | GB/s p50 | GB/s middle half |\n|---|---:|---:|---:|---:|\n",
                  r->sizes.prefix, r->speed.step[SK_STEP_EXPORT].n);
    for (size_t i = 0; i < SK_STEPS; i++) add_step(&r->speed, (enum sk_store_step)i, out);
}

static void add_path(const sk_store_restore *r, enum sk_store_path path, sk_buf *out) {
    const sk_summary ms = summary(&r->path[path]);
    sk_buf_printf(out, "| %s |", sk_store_path_title(path));
    if (ms.n == 0)
        sk_buf_str(out, " not measured | | | |\n");
    else
        sk_buf_printf(out, " %.2f | %.2f to %.2f | %.2f to %.2f | %.4f |\n", ms.p50, ms.p25, ms.p75, ms.min, ms.max,
                      sk_store_share(r, path));
}

static void add_restore(const sk_store_report *r, sk_buf *out) {
    sk_buf_printf(out,
                  "\n### restore against recompute: %" PRIu32 " tokens, %.1f MiB of state, %zu rounds\n\n"
                  "| how | ms p50 | ms middle half | ms range | share of recompute |\n|---|---:|---:|---:|---:|\n",
                  r->sizes.prefix, (double)r->restore.payload_bytes / MIB, r->restore.path[SK_PATH_RECOMPUTE].n);
    for (size_t i = 0; i < SK_PATHS; i++) add_path(&r->restore, (enum sk_store_path)i, out);
}

static void add_cold_note(const sk_store_report *r, sk_buf *out) {
    sk_buf_str(out,
               r->restore.cold
                   ? "\nCold: the store's files had left the page cache (checked with mincore); the disk and, in a "
                     "virtual machine, the host may still cache them.\n"
                   : "\nCold reads were not possible: the files stayed in the page cache, as they do in tmpfs.\n");
}

/* ---- the page ---- */

static void add_head(const sk_store_report *r, sk_buf *out) {
    const sk_bench_facts *f = &r->facts;
    sk_buf_printf(out, "## Stored state: %s (%s%s)\n\n", f->model_name, f->arch,
                  f->synthetic ? ", synthetic weights" : "");
    sk_buf_printf(out, "%s, %ld cores, %d threads, skippy %s, %s. Model BLAKE3 %.16s.\n", f->cpu, f->cores,
                  (int)r->n_threads, r->version, f->date, f->digest);
    sk_buf_printf(out, "State: %" PRIu64 " bytes of KV a token, %" PRIu64 " bytes of tail a boundary%s.\n",
                  r->caps.cell_bytes, r->caps.tail_bytes, r->flash_attn ? "" : ", V transposed (flash attention off)");
    if (!r->caps.windows)
        sk_buf_printf(out, "The layout of this model's state is not known, so it is stored whole: %s.\n", r->caps.why);
    if (!r->complete) sk_buf_str(out, "\n**Not complete**: the measurement ended early.\n");
}

int sk_store_markdown(const sk_store_report *r, sk_buf *out) {
    add_head(r, out);
    for (size_t i = 0; i < r->n_savings; i++) add_savings(&r->savings[i], out);
    if (r->speed.step[SK_STEP_EXPORT].n) add_speed(r, out);
    if (r->restore.path[SK_PATH_RECOMPUTE].n) {
        add_restore(r, out);
        add_cold_note(r, out);
    }
    return out->failed ? SKIPPY_E_NOMEM : SKIPPY_OK;
}
