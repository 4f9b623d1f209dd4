/* Reads the text of /metrics back as a scraper would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/fake_engine.h"
#include "server/metrics.h"

static void fill(sk_engine_stats *s) {
    memset(s, 0, sizeof *s);
    s->hits = 7;
    s->misses = 3;
    s->lookups = 10;
    s->hits_hot_lane = 4;
    s->hits_resident = 2;
    s->hits_active_lane = 1;
    s->tokens_restored = 1184;
    s->cells_total = 4096;
    for (size_t i = 0; i < SKIPPY_EVICT_REASONS; i++) s->evictions[i] = i + 1;
    for (size_t i = 0; i < SK_HIST_BUCKETS; i++) s->token_ms.count[i] = i;
    s->token_ms.total = SK_HIST_BUCKETS * (SK_HIST_BUCKETS - 1) / 2;
    s->token_ms.sum = 1500;
}

static void render(sk_buf *out) {
    static sk_engine_stats stats;
    static sk_http_stats http;
    fill(&stats);
    memset(&http, 0, sizeof http);
    sk_http_stats_count(&http, SK_ROUTE_CHAT, 200);
    sk_http_stats_count(&http, SK_ROUTE_CHAT, 429);
    sk_http_stats_count(&http, SK_ROUTE_CHAT, 200);
    const sk_metrics_input in = {.engine = &stats,
                                 .facts = sk_engine_get_facts(NULL),
                                 .http = &http,
                                 .model_id = "a\\b\nc",
                                 .build_info = "0",
                                 .process_bytes = sk_process_resident_bytes()};
    sk_metrics_render(&in, out);
}

/* Value of a sample by its exact name with labels. */
static double value(const sk_buf *b, const char *sample) {
    size_t len = strlen(sample);
    for (const char *line = b->data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, sample, len) == 0 && line[len] == ' ') return strtod(line + len, NULL);
    fail_msg("no sample '%s'", sample);
    return 0;
}

static void lookups_are_hits_plus_misses(void **state) {
    (void)state;
    sk_buf b = {0};
    render(&b);
    assert_true(value(&b, "skippy_lookups_total") == value(&b, "skippy_hits_total") + value(&b, "skippy_misses_total"));
    assert_true(value(&b, "skippy_hits_total") == value(&b, "skippy_hits_by_source_total{source=\"hot-lane\"}") +
                                                      value(&b, "skippy_hits_by_source_total{source=\"resident\"}") +
                                                      value(&b, "skippy_hits_by_source_total{source=\"active-lane\"}"));
    assert_true(value(&b, "skippy_tokens_restored_total") == 1184);
    assert_true(value(&b, "llamacpp:prompt_tokens_cached_total") == 1184);
    assert_true(value(&b, "skippy_cells") == 4096);
    assert_true(value(&b, "process_resident_memory_bytes") > 100000);
    sk_buf_free(&b);
}

static void every_eviction_reason_has_its_own_sample(void **state) {
    (void)state;
    static const char *const reasons[] = {"entries",    "bytes",  "cells", "seq-ids",
                                          "superseded", "erased", "fault", "idle"};
    sk_buf b = {0};
    render(&b);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char name[80];
        snprintf(name, sizeof name, "skippy_evictions_total{reason=\"%s\"}", reasons[i]);
        assert_true(value(&b, name) == (double)(i + 1));
    }
    sk_buf_free(&b);
}

static void histogram_buckets_are_cumulative_and_in_seconds(void **state) {
    (void)state;
    sk_buf b = {0};
    render(&b);
    double below = 0;
    for (size_t i = 0; i + 1 < SK_HIST_BUCKETS; i++) {
        char name[80];
        below += (double)i;
        snprintf(name, sizeof name, "skippy_token_seconds_bucket{le=\"%.9g\"}", sk_hist_bounds[i] / 1000.0);
        assert_true(value(&b, name) == below);
    }
    assert_true(value(&b, "skippy_token_seconds_bucket{le=\"+Inf\"}") == value(&b, "skippy_token_seconds_count"));
    assert_true(value(&b, "skippy_token_seconds_count") == 120);
    assert_true(value(&b, "skippy_token_seconds_sum") == 1.5);
    sk_buf_free(&b);
}

static void replies_are_counted_per_route_and_status(void **state) {
    (void)state;
    sk_buf b = {0};
    render(&b);
    assert_true(value(&b, "skippy_http_requests_total{route=\"/v1/chat/completions\",status=\"200\"}") == 2);
    assert_true(value(&b, "skippy_http_requests_total{route=\"/v1/chat/completions\",status=\"429\"}") == 1);
    sk_buf_free(&b);
}

static void labels_are_escaped(void **state) {
    (void)state;
    sk_buf b = {0};
    render(&b);
    assert_non_null(strstr(b.data, "model=\"a\\\\b\\nc\""));
    assert_non_null(strstr(b.data, "family=\"lla\\\"ma\""));
    sk_buf_free(&b);
}

/* Exposition format: each family has HELP and TYPE once, before its samples; samples are `name[{labels}] number`. */
static void each_line_is_valid_exposition_format(void **state) {
    (void)state;
    sk_buf b = {0};
    char family[128] = "";
    render(&b);
    for (char *line = strtok(b.data, "\n"); line; line = strtok(NULL, "\n")) {
        char name[128] = "", type[32] = "";
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line + 7, "%127s", family), 1);
            continue;
        }
        if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line + 7, "%127s %31s", name, type), 2);
            assert_string_equal(name, family);
            assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge") || !strcmp(type, "histogram"));
            continue;
        }
        assert_int_equal(strncmp(line, family, strlen(family)), 0);
        const char *number = strrchr(line, ' ');
        char *end = NULL;
        assert_non_null(number);
        strtod(number + 1, &end);
        assert_true(end != number + 1 && *end == '\0');
    }
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_are_hits_plus_misses),
        cmocka_unit_test(every_eviction_reason_has_its_own_sample),
        cmocka_unit_test(histogram_buckets_are_cumulative_and_in_seconds),
        cmocka_unit_test(replies_are_counted_per_route_and_status),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(each_line_is_valid_exposition_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
