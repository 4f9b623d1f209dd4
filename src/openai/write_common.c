#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "openai/internal.h"

void sk_write_string(sk_buf *out, const char *text, size_t len) {
    sk_buf_add(out, "\"", 1);
    sk_buf_json_escape(out, text, len);
    sk_buf_add(out, "\"", 1);
}

void sk_write_number(sk_buf *out, double v) {
    if (isfinite(v))
        sk_buf_printf(out, "%.10g", v);
    else
        sk_buf_str(out, "null");
}

void sk_write_head(const sk_api_call *c, const char *object, sk_buf *out) {
    sk_buf_printf(out, "\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
                  (long long)c->created);
    sk_write_string(out, c->api->model_id, strlen(c->api->model_id));
    sk_buf_str(out, ",\"system_fingerprint\":\"skippy-" SKIPPY_VERSION "\"");
}

void sk_write_usage(const sk_api_call *c, sk_buf *out) {
    size_t prompt = 0, cached = 0, completion = 0;
    for (size_t i = 0; i < c->n_choices; i++) {
        const sk_choice *j = &c->choices[i];
        bool first = i == 0 || c->choices[i - 1].prompt != j->prompt;
        size_t restored = j->has_stats ? j->stats.cache.tokens : 0;
        size_t n_prompt = c->prompts[j->prompt].n_tokens;
        if (first) prompt += n_prompt;
        if (first) cached += restored < n_prompt ? restored : n_prompt;
        completion += j->n_tokens;
    }
    sk_buf_printf(out,
                  "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
                  prompt, completion, prompt + completion, cached);
}

static double per_token(double ms, size_t n) {
    return n ? ms / (double)n : 0;
}

static double per_second(double ms, size_t n) {
    return ms > 0 ? 1000.0 * (double)n / ms : 0;
}

static double ms_between(uint64_t from, uint64_t to) {
    return from && to > from ? (double)(to - from) / 1e6 : 0;
}

void sk_write_timings(const sk_choice *j, sk_buf *out) {
    sk_gen_stats s = j->stats;
    if (!j->done) { /* the engine's numbers come with its last event */
        s.predicted_n = j->n_tokens;
        s.prompt_ms = ms_between(j->start_ns, j->first_ns);
        s.predicted_ms = ms_between(j->first_ns, sk_now_ns());
    }
    sk_buf_printf(
        out,
        "{\"cache_n\":%zu,\"prompt_n\":%zu,\"prompt_ms\":%.3f,\"prompt_per_token_ms\":%.6f,\"prompt_per_second\":%.4f,"
        "\"predicted_n\":%zu,\"predicted_ms\":%.3f,\"predicted_per_token_ms\":%.6f,\"predicted_per_second\":%.4f",
        s.cache_n, s.prompt_n, s.prompt_ms, per_token(s.prompt_ms, s.prompt_n), per_second(s.prompt_ms, s.prompt_n),
        s.predicted_n, s.predicted_ms, per_token(s.predicted_ms, s.predicted_n),
        per_second(s.predicted_ms, s.predicted_n));
    if (s.stage_compute_ms > 0) sk_buf_printf(out, ",\"stage_compute_ms\":%.3f", s.stage_compute_ms);
    sk_buf_add(out, "}", 1);
}

void sk_write_progress(const sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    sk_buf_printf(out, "{\"total\":%zu,\"cache\":%zu,\"processed\":%zu,\"time_ms\":%.0f}", j->stats.n_prompt,
                  j->stats.cache_n, ev->n_processed, ms_between(j->start_ns, sk_now_ns()));
}

void sk_write_tokens(const int32_t *tokens, size_t n, sk_buf *out) {
    sk_buf_str(out, "[");
    for (size_t i = 0; i < n; i++) sk_buf_printf(out, "%s%d", i ? "," : "", tokens[i]);
    sk_buf_str(out, "]");
}

void sk_sse_begin(sk_buf *out) {
    sk_buf_add(out, "data: ", 6);
}

void sk_sse_end(sk_buf *out) {
    sk_buf_add(out, "\n\n", 2);
}

void sk_write_chunk_end(const sk_api_call *c, const sk_choice *j, const sk_gen_event *ev, const char *finish,
                        sk_buf *out) {
    if (finish)
        sk_buf_printf(out, ",\"finish_reason\":\"%s\"}]", finish);
    else
        sk_buf_str(out, ",\"finish_reason\":null}]");
    if (c->request.include_usage) sk_buf_str(out, ",\"usage\":null");
    if (finish || (c->request.timings_per_token && ev)) {
        sk_buf_str(out, ",\"timings\":");
        sk_write_timings(j, out);
    }
    sk_buf_str(out, "}");
    sk_sse_end(out);
}

bool sk_utf8_valid(const char *s, size_t len) {
    json_t *v = json_stringn(s, len);
    json_decref(v);
    return v != NULL;
}

const char *sk_finish_reason(enum sk_finish finish) {
    return finish == SK_FINISH_STOP || finish == SK_FINISH_WORD ? "stop" : "length";
}
