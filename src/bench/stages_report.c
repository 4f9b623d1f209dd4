#include "bench/stages_report.h"

#include <stdlib.h>

#include "bench/stages_columns.h"

static const double MIB = 1048576.0;

const char *const sk_stages_part_names[SK_STAGES_PARTS] = {[SK_STAGES_OVERHEAD] = "overhead",
                                                           [SK_STAGES_LANES] = "lanes",
                                                           [SK_STAGES_RIVALS] = "rivals",
                                                           [SK_STAGES_MEMORY] = "memory"};

void sk_stages_report_free(sk_stages_report *r) {
    free(r->overhead);
    free(r->lanes);
    for (size_t i = 0; i < SK_STAGES_LINKS; i++)
        for (size_t s = 0; s < SK_STAGES_SERVERS; s++) free(r->rivals[i].visits[s]);
    *r = (sk_stages_report){0};
}

/* ---- the page ---- */

/* "12.34 (12.1 to 12.6)" : median and middle half. */
static void add_spread(sk_buf *out, sk_summary s, const char *unit) {
    sk_buf_printf(out, " %.2f%s (%.2f to %.2f) |", s.p50, unit, s.p25, s.p75);
}

static void add_overhead(const sk_stages_report *r, sk_buf *out) {
    const sk_summary token = sk_stages_column(r->overhead, r->n_overhead, SK_COLUMN_TOKEN, r->predict);
    const sk_summary compute = sk_stages_column(r->overhead, r->n_overhead, SK_COLUMN_TOKEN_COMPUTE, r->predict);
    const sk_summary share = sk_stages_column(r->overhead, r->n_overhead, SK_COLUMN_OVERHEAD, r->predict);
    sk_buf_printf(
        out,
        "\n### overhead: a generated token over three stages\n\n"
        "%zu rounds of %zu tokens: %.3f ms a token, of which the stages computed %.3f ms (medians). **Overhead %.2f %%** "
        "(median of the rounds; middle half %.2f to %.2f %%, all %.2f to %.2f %%).\n",
        r->n_overhead, r->predict, token.p50, compute.p50, 100.0 * share.p50, 100.0 * share.p25, 100.0 * share.p75,
        100.0 * share.min, 100.0 * share.max);
}

static void add_lanes(const sk_stages_report *r, sk_buf *out) {
    const sk_summary gain = sk_stages_gains(r);
    sk_buf_printf(
        out,
        "\n### lanes: two answers of %zu tokens over two stages\n\n"
        "%zu rounds: together they are done **%.2f times earlier** than one after the other (median of the rounds; middle "
        "half %.2f to %.2f, all %.2f to %.2f).\n",
        r->predict + 1, r->n_lanes, gain.p50, gain.p25, gain.p75, gain.min, gain.max);
}

static double per_second(size_t n, double ms) {
    return ms > 0.0 ? (double)n * 1000.0 / ms : 0.0;
}

static void add_row(const sk_stages_report *r, const sk_stages_rivals *v, enum sk_stages_column kind, const char *title,
                    size_t tokens, sk_buf *out) {
    const sk_summary ours = sk_stages_column(v->visits[SK_STAGES_SKIPPY], v->n, kind, r->predict);
    const sk_summary theirs = sk_stages_column(v->visits[SK_STAGES_RPC], v->n, kind, r->predict);
    const sk_summary times = sk_stages_ratio(v, kind, r->predict);
    if (v->delay_ms > 0.0)
        sk_buf_printf(out, "| %g ms each way |", v->delay_ms);
    else
        sk_buf_str(out, "| loopback |");
    sk_buf_printf(out, " %s |", title);
    add_spread(out, theirs, "");
    add_spread(out, ours, "");
    if (tokens)
        sk_buf_printf(out, " %.1f | %.1f |", per_second(tokens, theirs.p50), per_second(tokens, ours.p50));
    else
        sk_buf_str(out, " | |");
    add_spread(out, times, "x");
    sk_buf_str(out, "\n");
}

static void add_rivals(const sk_stages_report *r, sk_buf *out) {
    sk_buf_str(
        out,
        "\n### rivals: two processes, the same split\n\n"
        "| link | what | llama-server + rpc-server, ms | skippy, ms | tokens/s theirs | tokens/s ours | times faster |\n"
        "|---|---|---:|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < SK_STAGES_LINKS; i++) {
        const sk_stages_rivals *v = &r->rivals[i];
        if (v->n == 0) continue;
        add_row(r, v, SK_COLUMN_COLD, "new prompt, 1 token", r->prompt_tokens, out);
        add_row(r, v, SK_COLUMN_WARM, "its repeat", 0, out);
        add_row(r, v, SK_COLUMN_TOKEN, "a generated token", 1, out);
    }
    for (size_t i = 0; i < SK_STAGES_LINKS; i++) {
        const sk_stages_rivals *v = &r->rivals[i];
        if (v->n == 0) continue;
        const sk_summary ours = sk_stages_column(v->visits[SK_STAGES_SKIPPY], v->n, SK_COLUMN_WARM_GAIN, r->predict);
        const sk_summary theirs = sk_stages_column(v->visits[SK_STAGES_RPC], v->n, SK_COLUMN_WARM_GAIN, r->predict);
        sk_buf_printf(
            out,
            "\nAt %g ms: a repeat takes 1/%.1f of the new prompt's time (theirs 1/%.1f); %zu rounds, the same text in %zu.\n",
            v->delay_ms, ours.p50, theirs.p50, v->n, v->same_text);
    }
}

static void add_memory(const sk_stages_report *r, sk_buf *out) {
    sk_buf_str(out,
               "\n### memory: three stages with caches on disk\n\n"
               "| layers | its weights, MiB | of the model | resident set, MiB | of it mapped | own | disk, MiB |\n"
               "|---|---:|---:|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < r->n_processes; i++) {
        const sk_stages_process *p = &r->processes[i];
        sk_buf_printf(out, "| %d to %d | %.1f | %.1f %% | %.1f | %.1f | %.1f | %.1f |\n", (int)p->from, (int)p->to - 1,
                      (double)p->weights / MIB,
                      p->model_weights ? 100.0 * (double)p->weights / (double)p->model_weights : 0.0,
                      (double)p->memory.rss / 1024.0, (double)p->memory.file / 1024.0, (double)p->memory.anon / 1024.0,
                      (double)p->disk / MIB);
    }
}

int sk_stages_markdown(const sk_stages_report *r, sk_buf *out) {
    const sk_bench_facts *f = &r->facts;
    sk_buf_printf(out, "## Stages: %s (%s%s), %d layers\n\n", f->model_name, f->arch,
                  f->synthetic ? ", synthetic weights" : "", (int)r->n_layers);
    sk_buf_printf(
        out,
        "%s, %ld cores, threads of each process: %d, links: %s. Prompts of %zu tokens. skippy %s, %s. Model BLAKE3 %.16s.\n"
        "Times are wall time at the client; in brackets the middle half of the rounds.\n",
        f->cpu, f->cores, r->threads, r->tls ? "TLS 1.3 on loopback" : "plaintext on loopback", r->prompt_tokens,
        r->version, f->date, f->digest);
    if (r->n_overhead) add_overhead(r, out);
    if (r->n_lanes) add_lanes(r, out);
    if (r->rivals[0].n) add_rivals(r, out);
    if (r->n_processes) add_memory(r, out);
    for (size_t i = 0; i < SK_STAGES_PARTS; i++)
        if (r->error[i][0]) sk_buf_printf(out, "\n**%s is not complete**: %s\n", sk_stages_part_names[i], r->error[i]);
    return out->failed ? SKIPPY_E_NOMEM : SKIPPY_OK;
}
