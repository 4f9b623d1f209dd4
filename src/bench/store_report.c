#include "bench/store_report.h"

#include <inttypes.h>

static const double MIB = 1024.0 * 1024.0;

static const char *const WAYS[SK_STORE_WAYS] = {
    [SK_STORE_BY_LAYOUT] = "layout", [SK_STORE_BY_TOKENS] = "layout_and_tokens", [SK_STORE_FIXED] = "fixed_1_mib"};
static const char *const CONTENTS[SK_STORE_CONTENTS] = {
    [SK_STORE_KV] = "kv", [SK_STORE_TAIL] = "tail", [SK_STORE_WHOLE] = "whole"};

const char *sk_store_way_key(enum sk_store_way way) {
    return WAYS[way];
}

const char *sk_store_content_key(enum sk_store_content content) {
    return CONTENTS[content];
}

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

static void add_way_name(const sk_store_report *r, enum sk_store_way way, sk_buf *out) {
    if (way == SK_STORE_BY_TOKENS)
        sk_buf_printf(out, "| by layout and every %u tokens |", r->sizes.subcut);
    else
        sk_buf_str(out, way == SK_STORE_FIXED ? "| every MiB of one export |" : "| by layout |");
}

static void add_saved(sk_store_sum sum, sk_buf *out) {
    if (sum.logical)
        sk_buf_printf(out, " %.1f %% |", sk_store_saved(sum));
    else
        sk_buf_str(out, " - |");
}

static void add_use(const sk_store_report *r, enum sk_store_way way, const sk_store_use *use, sk_buf *out) {
    const sk_store_sum total = sk_store_use_total(use);
    const uint64_t blocks = use->stats.blocks;
    add_way_name(r, way, out);
    sk_buf_printf(out, " %.1f | %.1f |", (double)total.logical / MIB, (double)total.fresh / MIB);
    add_saved(total, out);
    add_saved(use->sum[SK_STORE_KV], out);
    add_saved(use->sum[SK_STORE_TAIL], out);
    sk_buf_printf(out, " %" PRIu64 " | %" PRIu64 " | %.1f | %.1f |\n", blocks, use->stats.block_refs,
                  blocks ? (double)use->stats.block_bytes / (double)blocks / 1024.0 : 0.0,
                  (double)use->stats.physical_bytes / MIB);
}

static void add_savings(const sk_store_report *r, const sk_store_savings *s, sk_buf *out) {
    sk_buf_printf(out,
                  "\n### %s: %s, %" PRIu32 " exports of %" PRIu64 " tokens in all\n\n"
                  "| cut | logical MiB | unique MiB | saved | of KV | of tails | unique blocks | references | mean block "
                  "KiB | RAM store MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
                  s->name, s->title, s->exports, s->tokens);
    for (size_t i = 0; i < SK_STORE_WAYS; i++)
        if (s->way[i].measured) add_use(r, (enum sk_store_way)i, &s->way[i], out);
}

/* ---- times ---- */

/* "12.3 (11.0 to 14.2)": the median and the middle half. */
static void add_middle(double p50, double from, double to, const char *format, sk_buf *out) {
    char text[3][32];
    const double v[3] = {p50, from, to};
    for (size_t i = 0; i < 3; i++) snprintf(text[i], sizeof text[i], format[0] == 'm' ? "%.3f" : "%.2f", v[i]);
    sk_buf_printf(out, " %s (%s to %s) |", text[0], text[1], text[2]);
}
