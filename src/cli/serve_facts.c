#include "cli/serve_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/stage_weights.h"

/* "1.10 GiB" or "35.2 MiB". */
static const char *size_text(uint64_t bytes, char *buf, size_t cap) {
    const double mib = 1024.0 * 1024.0;
    double size = (double)bytes;
    snprintf(buf, cap, size < 1024.0 * mib ? "%.1f MiB" : "%.2f GiB",
             size < 1024.0 * mib ? size / mib : size / (1024.0 * mib));
    return buf;
}

static void print_stages(const sk_serve_facts *s) {
    const sk_engine_facts *f = sk_engine_get_facts(s->engine);
    char text[64];
    if (f->n_stages == 0) return;
    printf("  stages   %s here, hidden states as %s%s\n", sk_weights_layers_text(&s->model->stage, text, sizeof text),
           s->o->split.dtype ? "f16" : "f32", s->o->split.dtype ? " (not exact)" : "");
    for (uint32_t i = 0; i < f->n_stages; i++) {
        const sk_stage_card *c = &f->stages[i];
        const sk_stage_facts card = {.layer_start = c->layer_start, .layer_end = c->layer_end, .n_layer = c->n_layer};
        printf("           %s on %s\n", sk_weights_layers_text(&card, text, sizeof text), s->o->stages[i]);
    }
    if (s->split_receipt[0]) printf("           %s\n", s->split_receipt);
}

static void print_disk(const sk_serve_facts *s) {
    if (!sk_engine_get_facts(s->engine)->disk_store) return;
    sk_engine_stats stats;
    sk_engine_get_stats(s->engine, &stats);
    printf("  disk     %s: %s\n", s->o->run.engine.disk_dir,
           !stats.tiers.disk_on     ? "not used, see the warning"
           : stats.tiers.disk_ready ? "prefixes outlive the server"
                                    : "being opened; prefixes outlive the server");
}

static void print_facts(const sk_serve_facts *s) {
    const sk_model_info *info = s->model;
    const sk_engine_facts *f = sk_engine_get_facts(s->engine);
    bool keys = sk_auth_count(s->o->auth) > 0;
    printf("skippy %s is listening on http://%s\n", SKIPPY_VERSION, s->address);
    char size[32];
    printf("  model    %s (%s, %s)\n", info->id, info->desc, size_text(info->size_bytes, size, sizeof size));
    print_stages(s);
    printf("  cache    %s: %s\n", f->cache_mode, f->cache_reason);
    if (f->ram_store)
        printf("  memory   %s for prefixes that leave the context\n",
               f->ram_bytes >= UINT64_C(1) << 50 ? "no limit" : size_text(f->ram_bytes, size, sizeof size));
    print_disk(s);
    if (f->certified != SK_NOT_CERTIFIED) printf("  receipt  %s\n", f->certified_text);
    if (f->state_reason && *f->state_reason) printf("  state    %s\n", f->state_reason);
    printf("  context  %u tokens, %u lanes, %d threads, KV %s/%s\n", f->n_ctx, f->n_lanes, (int)f->n_threads, f->type_k,
           f->type_v);
    printf("  exact    %s%s%s\n", f->exact, f->schedule && *f->schedule ? ": " : "", f->schedule ? f->schedule : "");
    if (keys) printf("  keys     %zu, each its own tenant\n", sk_auth_count(s->o->auth));
    printf("Try it:\n  curl http://%s/v1/chat/completions%s -H 'Content-Type: application/json' \\\n"
           "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":32}'\n",
           s->address, keys ? " -H 'Authorization: Bearer KEY'" : "");
    fflush(stdout);
}

static void put(sk_buf *b, const char *key, const char *value) {
    sk_buf_printf(b, "\"%s\":\"", key);
    if (value) sk_buf_json_escape(b, value, strlen(value));
    sk_buf_str(b, "\",");
}

static void put_stages(sk_buf *b, const sk_serve_facts *s) {
    const sk_engine_facts *f = sk_engine_get_facts(s->engine);
    if (f->n_stages == 0) return;
    put(b, "topology", f->topology);
    put(b, "split_receipt", s->split_receipt);
    sk_buf_str(b, "\"stages\":[");
    for (uint32_t i = 0; i < f->n_stages; i++) {
        sk_buf_str(b, i == 0 ? "{" : ",{");
        put(b, "address", s->o->stages[i]);
        sk_buf_printf(b, "\"layer_start\":%d,\"layer_end\":%d}", (int)f->stages[i].layer_start,
                      (int)f->stages[i].layer_end);
    }
    sk_buf_str(b, "],");
}

static void print_json(const sk_serve_facts *s) {
    const sk_model_info *info = s->model;
    const sk_engine_facts *f = sk_engine_get_facts(s->engine);
    char url[160];
    sk_buf b = {0};
    snprintf(url, sizeof url, "http://%s", s->address);
    sk_buf_str(&b, "{");
    put(&b, "version", SKIPPY_VERSION);
    put(&b, "url", url);
    put(&b, "model", info->id);
    put(&b, "model_desc", info->desc);
    put(&b, "model_path", info->path);
    put(&b, "family", f->family);
    put(&b, "cache_mode", f->cache_mode);
    put(&b, "cache_reason", f->cache_reason);
    put(&b, "exact", f->exact);
    put(&b, "cache_type_k", f->type_k);
    put(&b, "cache_type_v", f->type_v);
    put(&b, "certified", f->certified_text);
    put(&b, "cache_disk", f->disk_store ? s->o->run.engine.disk_dir : NULL);
    put_stages(&b, s);
    sk_buf_printf(&b, "\"cache_ram_bytes\":%llu,", (unsigned long long)f->ram_bytes);
    sk_buf_printf(&b, "\"model_bytes\":%llu,\"n_ctx\":%u,\"lanes\":%u,\"threads\":%d,\"api_keys\":%zu}\n",
                  (unsigned long long)info->size_bytes, f->n_ctx, f->n_lanes, (int)f->n_threads,
                  sk_auth_count(s->o->auth));
    fwrite(b.data, 1, b.len, stdout);
    fflush(stdout);
    sk_buf_free(&b);
}

void sk_serve_print_facts(const sk_serve_facts *s) {
    if (s->o->run.json)
        print_json(s);
    else
        print_facts(s);
}
