#include "server/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skippy/resident.h"

void sk_http_stats_count(sk_http_stats *s, enum sk_route route, int status) {
    for (size_t i = 0; i < SK_HTTP_STATUSES; i++) {
        if (s->replies[route][i].status != 0 && s->replies[route][i].status != status) continue;
        s->replies[route][i].status = status;
        s->replies[route][i].count++;
        return;
    }
}

uint64_t sk_process_resident_bytes(void) {
    char line[256];
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    char *second = ok ? strchr(line, ' ') : NULL; /* pages: total, resident, ... */
    long page = sysconf(_SC_PAGESIZE);
    return second && page > 0 ? strtoull(second, NULL, 10) * (uint64_t)page : 0;
}

/* Text between the quotes of a label. */
static void label_text(sk_buf *b, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') sk_buf_add(b, "\\", 1);
        if (*text == '\n')
            sk_buf_str(b, "\\n");
        else
            sk_buf_add(b, text, 1);
    }
}

static void family(sk_buf *b, const char *name, const char *type, const char *help) {
    sk_buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(sk_buf *b, const char *name, uint64_t v, const char *help) {
    family(b, name, "counter", help);
    sk_buf_printf(b, "%s %" PRIu64 "\n", name, v);
}

static void gauge(sk_buf *b, const char *name, uint64_t v, const char *help) {
    family(b, name, "gauge", help);
    sk_buf_printf(b, "%s %" PRIu64 "\n", name, v);
}

static void labelled(sk_buf *b, const char *name, const char *label, const char *value, uint64_t v) {
    sk_buf_printf(b, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, v);
}

/* The engine counts milliseconds per bucket; Prometheus wants seconds and cumulative buckets. */
static void histogram(sk_buf *b, const char *name, const sk_histogram *h, const char *help) {
    uint64_t below = 0;
    family(b, name, "histogram", help);
    for (size_t i = 0; i + 1 < SK_HIST_BUCKETS; i++) {
        below += h->count[i];
        sk_buf_printf(b, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", name, sk_hist_bounds[i] / 1000.0, below);
    }
    below += h->count[SK_HIST_BUCKETS - 1];
    sk_buf_printf(b, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, below);
    sk_buf_printf(b, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, h->sum / 1000.0, name, below);
}

static void render_build(const sk_metrics_input *in, sk_buf *b) {
    const struct {
        const char *name, *value;
    } labels[] = {{"version", in->build_info},
                  {"model", in->model_id},
                  {"family", in->facts->family},
                  {"cache_mode", in->facts->cache_mode},
                  {"exact", in->facts->exact}};
    family(b, "skippy_build_info", "gauge", "Always 1; the labels say what runs here.");
    sk_buf_str(b, "skippy_build_info{");
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        sk_buf_printf(b, "%s%s=\"", i ? "," : "", labels[i].name);
        label_text(b, labels[i].value ? labels[i].value : "");
        sk_buf_str(b, "\"");
    }
    sk_buf_str(b, "} 1\n");
    gauge(b, "skippy_draining", in->draining, "1 while the server shuts down.");
    gauge(b, "process_resident_memory_bytes", in->process_bytes, "Resident set of the process.");
}

static void render_cache(const sk_engine_stats *s, sk_buf *b) {
    counter(b, "skippy_lookups_total", s->lookups, "Prompts looked up in the cache: hits plus misses.");
    counter(b, "skippy_hits_total", s->hits, "Lookups that restored at least one token.");
    counter(b, "skippy_misses_total", s->misses, "Lookups that restored nothing.");
    family(b, "skippy_hits_by_source_total", "counter", "Hits by where the state came from.");
    labelled(b, "skippy_hits_by_source_total", "source", "hot-lane", s->hits_hot_lane);
    labelled(b, "skippy_hits_by_source_total", "source", "resident", s->hits_resident);
    labelled(b, "skippy_hits_by_source_total", "source", "active-lane", s->hits_active_lane);
    labelled(b, "skippy_hits_by_source_total", "source", "ram", s->hits_ram);
    labelled(b, "skippy_hits_by_source_total", "source", "disk", s->hits_disk);
    if (s->stages) {
        gauge(b, "skippy_stages", s->stages, "Stages of the model behind this one.");
        gauge(b, "skippy_stages_up", s->stages_up, "Stages that are connected.");
        counter(b, "skippy_stage_breaks_total", s->stage_breaks, "Times that the chain of stages broke.");
        counter(b, "skippy_hidden_bytes_sent_total", s->hidden_bytes_sent, "Hidden states sent to the next stage.");
        counter(b, "skippy_hidden_bytes_avoided_total", s->hidden_bytes_avoided,
                "Hidden states that did not have to cross links, since the stages restored their own state.");
    }
    counter(b, "skippy_terminal_hits_total", s->terminal_hits,
            "First tokens sampled from stored logits, without a decode.");
    counter(b, "skippy_coalesced_total", s->coalesced, "Requests that waited for another one to compute their prefix.");
    counter(b, "skippy_tokens_restored_total", s->tokens_restored, "Prompt tokens that were not computed again.");
    counter(b, "skippy_tokens_computed_total", s->tokens_computed, "Prompt tokens that were computed.");
    counter(b, "skippy_tokens_generated_total", s->tokens_generated, "Tokens sampled.");
    gauge(b, "skippy_cache_entries", s->entries, "Stored prefixes.");
    gauge(b, "skippy_cache_entry_tokens", s->entry_tokens, "Tokens of all stored prefixes.");
    gauge(b, "skippy_cache_seqs_used", s->seqs_used, "Sequence ids in use by stored prefixes.");
    gauge(b, "skippy_cache_seqs", s->seqs_total, "Sequence ids that stored prefixes may use.");
    gauge(b, "skippy_cells_used", s->cells_used, "Cells of the context that hold a token.");
    gauge(b, "skippy_cells_span", s->cells_span, "Highest cell in use and all below it: what a decode walks past.");
    gauge(b, "skippy_cells", s->cells_total, "Cells of the context.");
    family(b, "skippy_cache_bytes", "gauge", "Bytes held by stored prefixes beyond the context's cells, by tier.");
    labelled(b, "skippy_cache_bytes", "tier", "resident", s->kv_bytes + s->recurrent_bytes);
    labelled(b, "skippy_cache_bytes", "tier", "logits", s->logits_bytes);
    labelled(b, "skippy_cache_bytes", "tier", "ram", s->tiers.ram.physical_bytes);
    labelled(b, "skippy_cache_bytes", "tier", "disk", s->tiers.disk.physical_bytes);
    gauge(b, "skippy_logits_rows", s->logits_rows, "Stored rows of terminal logits.");
}

/* One family for both stores. */
static void by_store(sk_buf *b, const char *name, const char *type, const sk_tier_stats *t, size_t field,
                     const char *help) {
    family(b, name, type, help);
    const struct {
        const char *tier;
        const skippy_store_stats *stats;
    } stores[] = {{"ram", &t->ram}, {"disk", &t->disk}};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        uint64_t value;
        memcpy(&value, (const char *)stores[i].stats + field, sizeof value);
        labelled(b, name, "tier", stores[i].tier, value);
    }
}

#define FIELD(name) offsetof(skippy_store_stats, name)

static void render_dropped(const sk_tier_stats *t, sk_buf *b) {
    static const char *const reasons[SKIPPY_DROP_REASONS] = {[SKIPPY_DROP_EVICTED] = "evicted",
                                                             [SKIPPY_DROP_CORRUPT] = "corrupt",
                                                             [SKIPPY_DROP_ERASED] = "erased",
                                                             [SKIPPY_DROP_SUPERSEDED] = "superseded"};
    family(b, "skippy_store_dropped_total", "counter", "Entries that left a store, by reason.");
    for (size_t i = 0; i < SKIPPY_DROP_REASONS; i++) {
        sk_buf_printf(b, "skippy_store_dropped_total{tier=\"ram\",reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                      t->ram.dropped[i]);
        sk_buf_printf(b, "skippy_store_dropped_total{tier=\"disk\",reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                      t->disk.dropped[i]);
    }
}

static void render_stores(const sk_engine_stats *s, const sk_engine_facts *f, sk_buf *b) {
    const sk_tier_stats *t = &s->tiers;
    gauge(b, "skippy_state_windows", f->state_windows,
          "1: state leaves the runtime by layer and window; 0: as opaque exports, or not at all.");
    gauge(b, "skippy_disk_ready", t->disk_ready, "1 when the disk store is open and its entries are usable.");
    by_store(b, "skippy_store_entries", "gauge", t, FIELD(entries), "Prefixes and logits rows in a store.");
    by_store(b, "skippy_store_limit_bytes", "gauge", t, FIELD(max_bytes), "Limit of a store.");
    by_store(b, "skippy_store_logical_bytes", "gauge", t, FIELD(logical_bytes), "Bytes of all entries, uncut.");
    by_store(b, "skippy_store_block_bytes", "gauge", t, FIELD(block_bytes), "Bytes of unique blocks.");
    by_store(b, "skippy_store_blocks", "gauge", t, FIELD(blocks), "Unique blocks.");
    by_store(b, "skippy_store_puts_total", "counter", t, FIELD(puts), "Entries that were stored.");
    by_store(b, "skippy_store_written_bytes_total", "counter", t, FIELD(put_bytes), "Bytes of new blocks.");
    by_store(b, "skippy_store_read_bytes_total", "counter", t, FIELD(read_bytes), "Bytes read and verified.");
    by_store(b, "skippy_store_corrupt_blocks_total", "counter", t, FIELD(corrupt_blocks),
             "Blocks whose bytes did not match their digest; they were not used.");
    render_dropped(t, b);
    counter(b, "skippy_exports_total", s->exports, "Prefixes and logits rows copied out of the runtime.");
    counter(b, "skippy_export_bytes_total", s->export_bytes, "Bytes copied out of the runtime.");
    counter(b, "skippy_exports_skipped_total", s->exports_skipped,
            "Evicted prefixes that were not kept: the store thread was behind.");
    counter(b, "skippy_exports_lost_total", s->exports_lost,
            "Evicted prefixes that could not be stored: a part of them was in no store any more.");
    counter(b, "skippy_imports_total", s->imports, "Prefixes imported into the runtime.");
    counter(b, "skippy_import_bytes_total", s->import_bytes, "Bytes imported into the runtime.");
    counter(b, "skippy_gated_total", s->gated, "Lookups where computing was faster than restoring from a store.");
    counter(b, "skippy_shadows_total", s->shadows, "Hits that were computed again and compared.");
    counter(b, "skippy_shadow_disagreements_total", s->shadow_disagreements,
            "Comparisons that disagreed; each ended reuse for its namespace.");
    counter(b, "skippy_shadow_skipped_total", s->shadow_skipped, "Comparisons not made: no lane was idle for them.");
    family(b, "skippy_shadow_max_distance", "gauge", "Largest relative distance of two rows of logits so far.");
    sk_buf_printf(b, "skippy_shadow_max_distance %.9g\n", s->shadow_max_drift);
    gauge(b, "skippy_staging_bytes", t->staging_bytes, "Copied out, not stored yet.");
}

static void render_evictions(const sk_engine_stats *s, sk_buf *b) {
    static const char *const reasons[SKIPPY_EVICT_REASONS] = {
        [SKIPPY_EVICT_ENTRIES] = "entries",       [SKIPPY_EVICT_BYTES] = "bytes",
        [SKIPPY_EVICT_CELLS] = "cells",           [SKIPPY_EVICT_SEQ_IDS] = "seq-ids",
        [SKIPPY_EVICT_SUPERSEDED] = "superseded", [SKIPPY_EVICT_ERASED] = "erased",
        [SKIPPY_EVICT_FAULT] = "fault",           [SKIPPY_EVICT_IDLE] = "idle"};
    family(b, "skippy_evictions_total", "counter", "Stored prefixes that were dropped, by reason.");
    for (size_t i = 0; i < SKIPPY_EVICT_REASONS; i++)
        labelled(b, "skippy_evictions_total", "reason", reasons[i], s->evictions[i]);
}

static void render_engine(const sk_engine_stats *s, sk_buf *b) {
    counter(b, "skippy_requests_total", s->requests, "Requests that were accepted into the queue.");
    family(b, "skippy_requests_ended_total", "counter", "Requests that ended, by outcome.");
    labelled(b, "skippy_requests_ended_total", "outcome", "completed", s->completed);
    labelled(b, "skippy_requests_ended_total", "outcome", "cancelled", s->cancelled);
    labelled(b, "skippy_requests_ended_total", "outcome", "failed", s->failed);
    gauge(b, "skippy_queue_depth", s->queued, "Requests that wait for a lane.");
    gauge(b, "skippy_lanes_running", s->running, "Lanes that work on a request.");
    gauge(b, "skippy_lanes", s->n_lanes, "Lanes.");
    counter(b, "skippy_decodes_total", s->decodes, "Calls of the model's decoder.");
    counter(b, "skippy_rows_total", s->rows, "Rows of all decodes, padding included.");
    counter(b, "skippy_pad_rows_total", s->pad_rows, "Padding rows that bit-exact mode adds.");
    counter(b, "skippy_cell_retries_total", s->cell_retries, "Decodes repeated after an eviction made room.");
    counter(b, "skippy_batch_splits_total", s->batch_splits, "Batches split because cells were short.");
    counter(b, "skippy_preemptions_total", s->preemptions, "Requests sent back to the queue to free cells for others.");
    counter(b, "skippy_restore_faults_total", s->restore_faults, "Restores that failed and became misses.");
    histogram(b, "skippy_queue_seconds", &s->queue_ms, "Time in the queue.");
    histogram(b, "skippy_prompt_seconds", &s->prompt_ms, "Time to restore and compute a prompt.");
    histogram(b, "skippy_first_token_seconds", &s->first_token_ms, "Submission to the first token.");
    histogram(b, "skippy_token_seconds", &s->token_ms, "Time per generated token.");
}

/* llama-server's names, where they mean the same, so that its dashboards go on working. */
static void render_compatible(const sk_engine_stats *s, sk_buf *b) {
    counter(b, "llamacpp:prompt_tokens_total", s->tokens_computed, "Number of prompt tokens processed.");
    counter(b, "llamacpp:prompt_tokens_cached_total", s->tokens_restored,
            "Number of prompt tokens taken from the cache.");
    family(b, "llamacpp:prompt_seconds_total", "counter", "Prompt process time.");
    sk_buf_printf(b, "llamacpp:prompt_seconds_total %.9g\n", s->prompt_ms.sum / 1000.0);
    counter(b, "llamacpp:tokens_predicted_total", s->tokens_generated, "Number of generation tokens processed.");
    family(b, "llamacpp:tokens_predicted_seconds_total", "counter", "Predict process time.");
    sk_buf_printf(b, "llamacpp:tokens_predicted_seconds_total %.9g\n", s->token_ms.sum / 1000.0);
    counter(b, "llamacpp:n_decode_total", s->decodes, "Total number of decode calls.");
    gauge(b, "llamacpp:requests_processing", s->running, "Number of requests processing.");
    gauge(b, "llamacpp:requests_deferred", s->queued, "Number of requests deferred.");
}

static void render_http(const sk_http_stats *h, sk_buf *b) {
    gauge(b, "skippy_http_connections", h->connections, "Open client connections.");
    gauge(b, "skippy_http_reading", h->reading, "Requests whose bodies wait to be read or are being read.");
    family(b, "skippy_http_requests_total", "counter", "Replies by route and status.");
    for (int r = 0; r < SK_ROUTES; r++)
        for (size_t i = 0; i < SK_HTTP_STATUSES && h->replies[r][i].status; i++)
            sk_buf_printf(b, "skippy_http_requests_total{route=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                          sk_route_name((enum sk_route)r), h->replies[r][i].status, h->replies[r][i].count);
}

void sk_metrics_render(const sk_metrics_input *in, sk_buf *out) {
    render_build(in, out);
    render_cache(in->engine, out);
    render_stores(in->engine, in->facts, out);
    render_evictions(in->engine, out);
    render_engine(in->engine, out);
    render_compatible(in->engine, out);
    render_http(in->http, out);
}
