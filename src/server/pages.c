#include "server/pages.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/sampler.h"
#include "server/routes.h"

static void put_string(sk_buf *b, const char *key, const char *value) {
    sk_buf_printf(b, "\"%s\":", key);
    if (!value) {
        sk_buf_str(b, "null");
        return;
    }
    sk_buf_str(b, "\"");
    sk_buf_json_escape(b, value, strlen(value));
    sk_buf_str(b, "\"");
}

void sk_page_index(const sk_page_facts *f, sk_buf *out) {
    enum sk_route route = SK_ROUTE_NONE;
    const char *path = NULL;
    sk_buf_printf(out, "skippy %s\nmodel      %s\n", f->build_info, f->model_id);
    sk_buf_printf(out, "cache      %s: %s\n", f->engine->cache_mode, f->engine->cache_reason);
    sk_buf_printf(out, "context    %u tokens, %u lanes, exactness '%s'\n\nendpoints\n", f->engine->n_ctx,
                  f->engine->n_lanes, f->engine->exact);
    for (size_t i = 0; (path = sk_route_path(i, &route)); i++)
        sk_buf_printf(out, "  %-5s %s\n", sk_route_accepts(route, SK_HTTP_POST) ? "POST" : "GET", path);
    sk_buf_str(out, "\nNumbers for Prometheus: /metrics\n");
}

static void put_sampling(sk_buf *b) {
    sk_sampling s;
    sk_sampling_defaults(&s);
    sk_buf_printf(
        b, "\"params\":{\"seed\":%" PRIu32 ",\"temperature\":%.9g,\"dynatemp_range\":%.9g,\"dynatemp_exponent\":%.9g,",
        s.seed, (double)s.temperature, (double)s.dynatemp_range, (double)s.dynatemp_exponent);
    sk_buf_printf(b, "\"top_k\":%" PRId32 ",\"top_p\":%.9g,\"min_p\":%.9g,\"top_n_sigma\":%.9g,\"typical_p\":%.9g,",
                  s.top_k, (double)s.top_p, (double)s.min_p, (double)s.top_n_sigma, (double)s.typical_p);
    sk_buf_printf(
        b, "\"xtc_probability\":%.9g,\"xtc_threshold\":%.9g,\"repeat_last_n\":%" PRId32 ",\"repeat_penalty\":%.9g,",
        (double)s.xtc_probability, (double)s.xtc_threshold, s.repeat_last_n, (double)s.repeat_penalty);
    sk_buf_printf(b, "\"presence_penalty\":%.9g,\"frequency_penalty\":%.9g,\"dry_multiplier\":%.9g,\"dry_base\":%.9g,",
                  (double)s.presence_penalty, (double)s.frequency_penalty, (double)s.dry_multiplier,
                  (double)s.dry_base);
    sk_buf_printf(b, "\"dry_allowed_length\":%" PRId32 ",\"dry_penalty_last_n\":%" PRId32 ",\"mirostat\":%" PRId32 ",",
                  s.dry_allowed_length, s.dry_penalty_last_n, s.mirostat);
    sk_buf_printf(b, "\"mirostat_tau\":%.9g,\"mirostat_eta\":%.9g,\"min_keep\":%" PRId32 ",\"n_probs\":%" PRId32 "}",
                  (double)s.mirostat_tau, (double)s.mirostat_eta, s.min_keep, s.n_probs);
}

/* The other stages of a split model. */
static void put_stages(sk_buf *b, const sk_engine_facts *e) {
    sk_buf_str(b, ",");
    put_string(b, "topology", e->topology);
    sk_buf_str(b, ",\"stages\":[");
    for (uint32_t i = 0; i < e->n_stages; i++) {
        const sk_stage_card *c = &e->stages[i];
        sk_buf_str(b, i ? ",{" : "{");
        put_string(b, "address", c->name);
        sk_buf_printf(b, ",\"layer_start\":%" PRId32 ",\"layer_end\":%" PRId32 "}", c->layer_start, c->layer_end);
    }
    sk_buf_str(b, "]");
}

static void put_cache(sk_buf *b, const sk_engine_facts *e) {
    sk_buf_str(b, "\"skippy\":{");
    put_string(b, "cache_mode", e->cache_mode);
    sk_buf_str(b, ",");
    put_string(b, "cache_reason", e->cache_reason);
    sk_buf_str(b, ",");
    put_string(b, "family", e->family);
    sk_buf_str(b, ",");
    put_string(b, "exact", e->exact);
    sk_buf_str(b, ",");
    put_string(b, "schedule", e->schedule);
    sk_buf_str(b, ",");
    put_string(b, "namespace", e->namespace_hex);
    sk_buf_str(b, ",");
    put_string(b, "cache_type_k", e->type_k);
    sk_buf_str(b, ",");
    put_string(b, "cache_type_v", e->type_v);
    sk_buf_printf(b, ",\"flash_attn\":%d,\"cache_seqs\":%u,\"n_batch\":%u,\"n_ubatch\":%u,\"n_threads\":%" PRId32,
                  e->flash_attn, e->cache_seqs, e->n_batch, e->n_ubatch, e->n_threads);
    if (e->n_stages) put_stages(b, e);
    sk_buf_str(b, "}");
}

void sk_page_props(const sk_page_facts *f, sk_buf *out) {
    sk_buf_str(out, "{\"default_generation_settings\":{");
    put_sampling(out);
    sk_buf_printf(out, ",\"n_ctx\":%u},\"total_slots\":%u,", f->engine->n_ctx, f->engine->n_lanes);
    put_string(out, "model_alias", f->model_id);
    sk_buf_str(out, ",");
    put_string(out, "model_path", f->model_path);
    sk_buf_str(out,
               ",\"modalities\":{\"vision\":false,\"audio\":false},\"endpoint_slots\":true,\"endpoint_props\":false,"
               "\"endpoint_metrics\":true,");
    put_string(out, "chat_template", f->chat_template);
    sk_buf_str(out, ",");
    put_string(out, "build_info", f->build_info);
    sk_buf_str(out, ",");
    put_cache(out, f->engine);
    sk_buf_str(out, "}");
}

void sk_page_slots(const sk_page_facts *f, const sk_lane_view *lanes, size_t n, sk_buf *out) {
    static const char *const states[] = {"idle", "prompt", "generating", "waiting-for-cells"};
    sk_buf_str(out, "[");
    for (size_t i = 0; i < n; i++) {
        const sk_lane_view *l = &lanes[i];
        const char *state = l->state >= 0 && l->state < 4 ? states[l->state] : "unknown";
        sk_buf_printf(out, "%s{\"id\":%u,\"id_task\":%" PRId64 ",\"n_ctx\":%u,\"is_processing\":%s,\"state\":\"%s\",",
                      i ? "," : "", l->id, l->state == 0 ? (int64_t)-1 : (int64_t)l->job, f->engine->n_ctx,
                      l->state == 0 ? "false" : "true", state);
        sk_buf_printf(out,
                      "\"n_prompt_tokens\":%zu,\"n_prompt_tokens_processed\":%zu,\"n_decoded\":%zu,\"n_kept\":%zu}",
                      l->n_prompt, l->n_processed, l->n_decoded, l->n_kept);
    }
    sk_buf_str(out, "]");
}
