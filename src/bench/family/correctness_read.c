/* What a row takes from a certification report. */
#include <stdio.h>
#include <string.h>

#include "bench/family/correctness.h"

static const char *const TARGET = "fresh-lane"; /* serving restores into a lane of the running server */

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static json_t *named(const json_t *list, const char *key, const char *name) {
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) {
        const char *value = json_string_value(json_object_get(one, key));
        if (value && strcmp(value, name) == 0) {
            return one;
        }
    }
    return NULL;
}

/* The first entry is the first restore, which pays for cold memory; the hits follow. */
static double mean_of_hits(const json_t *ms) {
    const size_t n = json_array_size(ms);
    double sum = 0.0;
    for (size_t i = 1; i < n; i++) {
        sum += json_number_value(json_array_get(ms, i));
    }
    return n > 1 ? sum / (double)(n - 1) : 0.0;
}

static const char *mode_of(const char *payload) {
    return strcmp(payload, "KvRecurrent") == 0 ? "kv-recurrent" : "resident-kv";
}

/* True when this layout of the model has the payload, measured. */
static bool take_numbers(const json_t *one, const char *mode_name, sk_correctness *out) {
    const json_t *length = json_array_get(json_object_get(one, "lengths"), 0);
    const json_t *mode = named(json_object_get(length, "modes"), "mode", mode_name);
    const json_t *cost = json_object_get(mode, "economics");
    const json_t *target = named(json_object_get(mode, "targets"), "target", TARGET);
    const char *outcome = json_string_value(json_object_get(mode, "outcome"));
    if (!json_is_object(cost) || !target || !outcome || strcmp(outcome, "pass") != 0) {
        return false;
    }
    const json_int_t bytes = json_integer_value(json_object_get(cost, "cache_storage_bytes"));
    const json_int_t tokens = json_integer_value(json_object_get(length, "prompt_token_count"));
    out->recompute_total_ms = number(length, "source_prefill_ms") + number(length, "source_decode_ms");
    out->cache_hit_total_ms =
        mean_of_hits(json_object_get(target, "import_ms")) + mean_of_hits(json_object_get(target, "decode_ms"));
    out->storage_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    out->prompt_tokens = tokens > 0 ? (size_t)tokens : 0;
    return true;
}

static void take_status(const json_t *one, sk_correctness *out) {
    const char *status = json_string_value(json_object_get(one, "status"));
    const char *verdict = json_string_value(json_object_get(one, "verdict"));
    const bool passed = status && strcmp(status, "pass") == 0;
    if (strcmp(out->status, "fail") == 0) {
        return; /* the first layout that failed has the last word */
    }
    snprintf(out->status, sizeof out->status, "%s", passed ? "pass" : "fail");
    snprintf(out->why, sizeof out->why, "%s", verdict ? verdict : "the report gives no verdict");
}

/* A sliding-window model has a report for each layout of its cache. The full one comes last, and serving uses it for
 * small contexts: its numbers win. */
void sk_correctness_read(json_t *report, const char *payload, sk_correctness *out) {
    const size_t n = json_is_array(report) ? json_array_size(report) : 1;
    out->status[0] = '\0';
    out->payload = "";
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(report) ? json_array_get(report, i) : report;
        take_status(one, out);
        if (take_numbers(one, mode_of(payload), out)) {
            out->payload = mode_of(payload);
        }
    }
    if (n == 0) {
        snprintf(out->status, sizeof out->status, "error");
        snprintf(out->why, sizeof out->why, "the certification report is empty");
    }
}
