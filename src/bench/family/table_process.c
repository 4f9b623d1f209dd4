/* Times inside the correctness tool's process: no HTTP, no tokenizer, no look-up. They stay apart from the others,
 * since a comparison of the two would be no comparison. */
#include <string.h>

#include "bench/family/table_cell.h"

static bool measured(const sk_family_row *r) {
    return sk_row_passed(r) && !sk_row_is(r, "package") && r->recompute_total_ms > 0.0 && r->cache_hit_total_ms > 0.0;
}

static void add_line(const sk_family_row *r, sk_buf *out) {
    sk_column_family(r, out);
    sk_column_text(r->use_case ? r->use_case_label : r->kind, out);
    sk_column_number(r->prefix_tokens, out);
    sk_column_ms(r->recompute_total_ms, out);
    sk_column_ms(r->cache_hit_total_ms, out);
    sk_column_factor(r->recompute_total_ms / r->cache_hit_total_ms, true, out);
    sk_buf_str(out, "\n");
}

void sk_table_process(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++)
        sk_table_rows(
            s, w, "In the process, without HTTP",
            "Family | Cell | Prefix | Recompute: prefill and decode, ms | Cache hit: restore and decode, ms | "
            "Recompute / hit",
            measured, add_line, out);
}

static bool package(const sk_family_row *r) {
    return sk_row_is(r, "package") && sk_family_row_evidence(r, NULL);
}

static void add_range(const sk_family_row *r, sk_buf *out) {
    sk_buf_printf(out, " %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT " |",
                  json_integer_value(json_object_get(r->json, "state_layer_start")),
                  json_integer_value(json_object_get(r->json, "state_layer_end")));
}

static void add_package(const sk_family_row *r, sk_buf *out) {
    sk_column_family(r, out);
    sk_column_code(r->model_id, out);
    add_range(r, out);
    sk_column_code(r->payload, out);
    sk_column_text(r->skippy_status, out);
    sk_column_number(r->prefix_tokens, out);
    sk_column_number(r->prompt_tokens, out);
    sk_buf_str(out, " Skippy stage recompute, ");
    sk_table_ms(r->recompute_total_ms, out);
    sk_buf_str(out, " |");
    sk_column_ms(r->cache_hit_total_ms, out);
    sk_buf_str(out, " ");
    sk_table_speedup(r->recompute_total_ms / r->cache_hit_total_ms, out);
    sk_buf_str(out, " |");
    sk_column_storage(r, out);
    sk_column_text(r->read, out);
    sk_buf_str(out, "\n");
}

void sk_table_packages(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++)
        sk_table_rows(
            s, w, "Packages: a stage without a whole model",
            "Family | Model | Layers | Payload | Correctness | Prefix | Prompt tokens | Baseline, in process, "
            "ms | Cache hit, in process, ms | Speedup | Cache bytes | Read",
            package, add_package, out);
}
