#include "bench/family/row_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *or_else(const char *text, const char *fallback) {
    return text ? text : fallback;
}

static json_t *some(json_t *v) {
    assert_non_null(v);
    return v;
}

static json_t *host(const char *name, const char *flags) {
    return some(json_pack("{s:s, s:b, s:s, s:s+, s:s, s:f, s:i, s:i, s:i}", "name", name, "ours",
                          strcmp(name, "skippy") == 0, "flags", flags, "command", "/opt/bin/", name, "version",
                          "version 9 (abc)", "ready_ms", 2100.0, "peak_rss_kib", 2048, "lanes", 1, "ctx", 4096));
}

static json_t *hosts(bool bare) {
    json_t *list = some(json_array());
    if (bare) return list;
    assert_int_equal(json_array_append_new(list, host("llama-server", "")), 0);
    assert_int_equal(json_array_append_new(list, host("llama-server-tuned", "--cache-ram -1")), 0);
    assert_int_equal(json_array_append_new(list, host("skippy", "")), 0);
    return list;
}

static json_t *skippy(const char *status) {
    const char *why = strcmp(status, "pass") == 0 ? "" : "the test says so";
    return some(json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:s, s:s}", "status", status, "why", why, "verdict",
                          "continues exactly", "runner_elapsed_ms", 9000.0, "recompute_total_ms", 800.0,
                          "cache_hit_total_ms", 30.0, "storage_bytes", 1048576, "storage_method", "measured", "report",
                          "cache-correctness-stage.json"));
}

json_t *sk_fixture_row(const sk_fixture *f) {
    const char *kind = or_else(f->kind, f->use_case ? "use-case" : "full");
    const char *llama = or_else(f->llama, "ok");
    const json_int_t prefix = f->prefix_tokens ? f->prefix_tokens : 128;
    json_t *row = some(json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:s, s:s, s:s, s:I, s:I, s:s*, s:s*, s:s}", "schema_version", 1,
        "key", or_else(f->key, "llama"), "family", or_else(f->family, "Llama"), "model_id", "org/model-GGUF:Q4_K_M",
        "model_path", "/models/model.gguf", "synthetic", (int)f->synthetic, "layers", 8, "layers_real", 16, "width",
        2048, "quant", "Q4_K_M", "payload", or_else(f->payload, "ResidentKv"), "kind", kind, "prefix_tokens", prefix,
        "benchmark_prompt_token_count", prefix + 1, "use_case", f->use_case, "use_case_label", f->use_case, "read",
        or_else(f->read, "The catalogue's sentence.")));
    json_t *rest = some(json_pack(
        "{s:o, s:{s:s, s:s}, s:o, s:{}, s:[], s:[{s:s, s:s, s:i}], s:n}", "skippy", skippy(or_else(f->status, "pass")),
        "llama_server", "status", llama, "why", strcmp(llama, "ok") == 0 ? "" : "the test says so", "hosts",
        hosts(f->bare), "parts", "notes", "model_files", "path", "/models/model.gguf", "sha256",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "bytes", 3145728, "promotion"));
    assert_int_equal(json_object_update(row, rest), 0);
    json_decref(rest);
    return row;
}

/* The object with this name, made on first use. */
static json_t *child(json_t *parent, const char *name) {
    json_t *v = json_object_get(parent, name);
    if (v) return v;
    v = some(json_object());
    assert_int_equal(json_object_set_new(parent, name, v), 0);
    return v;
}

static void comparable(json_t *part, const char *name, bool yes) {
    assert_int_equal(json_object_set_new(child(part, "gate"), name,
                                         json_pack("{s:b, s:b, s:i, s:i, s:i, s:i, s:i}", "comparable", (int)yes,
                                                   "same_prompts", 1, "cold", 1, "cold_equal", (int)yes, "cold_ties", 0,
                                                   "answers", 23, "first_equal", yes ? 23 : 7)),
                     0);
}

static json_t *part_of(json_t *row, const char *name) {
    json_t *parts = child(row, "parts");
    json_t *part = json_object_get(parts, name);
    if (part) return part;
    part = child(parts, name);
    sk_fixture_status(row, name, "ok", "");
    comparable(part, "llama-server", true);
    comparable(part, "llama-server-tuned", true);
    return part;
}

void sk_fixture_samples(json_t *row, const char *part, const char *series, const char *name, const double *ms,
                        size_t n) {
    json_t *to = child(child(child(part_of(row, part), "series"), series), name);
    for (size_t i = 0; i < n; i++) {
        static const char *const lists[] = {"ms", "cache_n", "prompt_n"};
        json_t *const values[] = {json_real(ms[i]), json_integer(124), json_integer(5)};
        for (size_t k = 0; k < 3; k++) {
            if (!json_object_get(to, lists[k])) assert_int_equal(json_object_set_new(to, lists[k], json_array()), 0);
            assert_int_equal(json_array_append_new(json_object_get(to, lists[k]), values[k]), 0);
        }
    }
}

void sk_fixture_times(json_t *row, const char *part, const char *series, double base, double tuned, double ours) {
    static const char *const names[] = {"llama-server", "llama-server-tuned", "skippy"};
    const double times[] = {base, tuned, ours};
    for (size_t h = 0; h < 3; h++) {
        double ms[20];
        for (size_t i = 0; i < 20; i++) ms[i] = times[h];
        if (times[h] > 0.0) sk_fixture_samples(row, part, series, names[h], ms, 20);
    }
}

void sk_fixture_status(json_t *row, const char *part, const char *status, const char *error) {
    json_t *to = child(child(row, "parts"), part);
    assert_int_equal(json_object_set_new(to, "status", json_string(status)), 0);
    assert_int_equal(json_object_set_new(to, "error", json_string(error)), 0);
}

void sk_fixture_incomparable(json_t *row, const char *part, const char *name) {
    comparable(part_of(row, part), name, false);
}

void sk_fixture_level(json_t *row, const char *name, int clients, double ttft, double tpot, double goodput) {
    json_t *extra = child(child(part_of(row, "curve"), "extra"), name);
    json_t *level = some(json_pack("{s:i, s:i, s:i, s:f, s:[], s:[], s:[], s:f, s:i}", "clients", clients, "requests",
                                   clients, "ok", clients, "wall_ms", 1000.0, "ttft_ms", "tpot_ms", "elapsed_ms",
                                   "goodput_rps", goodput, "within_slo", clients));
    for (int i = 0; i < clients; i++) {
        assert_int_equal(json_array_append_new(json_object_get(level, "ttft_ms"), json_real(ttft)), 0);
        assert_int_equal(json_array_append_new(json_object_get(level, "tpot_ms"), json_real(tpot)), 0);
        assert_int_equal(json_array_append_new(json_object_get(level, "elapsed_ms"), json_real(ttft + tpot)), 0);
    }
    if (!json_object_get(extra, "levels")) assert_int_equal(json_object_set_new(extra, "levels", json_array()), 0);
    assert_int_equal(json_array_append_new(json_object_get(extra, "levels"), level), 0);
}
