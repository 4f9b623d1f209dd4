#include "correctness/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"

void sk_certify_date(int64_t unix_s, char *buf, size_t cap) {
    time_t t = (time_t)unix_s;
    struct tm tm;
    gmtime_r(&t, &tm);
    if (strftime(buf, cap, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) buf[0] = '\0';
}

json_t *sk_report_text(const char *text) {
    json_t *out = json_string(text);
    if (out) return out;
    char *ascii = strdup(text);
    for (char *p = ascii; p && *p; p++)
        if (*p & 0x80) *p = '?';
    out = ascii ? json_string(ascii) : NULL;
    free(ascii);
    return out;
}

/* JSON has no infinity. */
static json_t *number(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *hex(const skippy_key *k) {
    char text[2 * SK_HASH_BYTES + 1];
    sk_hex(k->bytes, sizeof k->bytes, text);
    return json_string(text);
}

static json_t *drift_json(const sk_drift *d) {
    return json_pack("{s:b, s:o, s:o, s:o}", "bit_identical", !d->differs, "max_abs", number(d->max_abs), "kl_nats",
                     number(d->kl), "relative_l2", number(d->rel_l2));
}

static json_t *times_json(const double *ms, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, number(ms[i]));
    return list;
}

static double mean(const double *ms, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += ms[i];
    return n ? sum / (double)n : 0.0;
}

/* ---- payloads ---- */

static const char *component_name(uint8_t part_kind) {
    return part_kind == SKIPPY_PART_KV ? "kv" : part_kind == SKIPPY_PART_STATE ? "state" : "full";
}

static json_t *blocks_json(const sk_mode_result *m) {
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_blocks; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:I, s:o}", "component", component_name(m->blocks[i].part_kind), "index",
                            (json_int_t)i, "offset", (json_int_t)m->blocks[i].offset, "bytes",
                            (json_int_t)m->blocks[i].ref.bytes, "blake3", hex(&m->blocks[i].ref.digest)));
    return list;
}

static json_t *digest_json(const sk_mode_result *m) {
    const sk_parcel_cost *c = &m->cost;
    if (!m->has_cost) return json_null();
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "payload_kind", sk_mode_name(m->mode),
                     "payload_blake3", hex(&c->digest), "total_bytes", (json_int_t)c->total_bytes, "kv_bytes",
                     (json_int_t)c->kv_bytes, "state_bytes", (json_int_t)c->state_bytes, "block_size_bytes",
                     (json_int_t)SKIPPY_BLOCK_MAX, "block_count", (json_int_t)c->blocks, "unique_block_count",
                     (json_int_t)c->unique_blocks, "duplicate_block_count", (json_int_t)(c->blocks - c->unique_blocks),
                     "blocks", blocks_json(m));
}

static double hit_ms(const sk_mode_result *m) {
    const sk_target_result *t = &m->target[SK_TARGET_LANE];
    return mean(t->import_ms + 1, t->repeats) + mean(t->decode_ms + 1, t->repeats);
}

static double recompute_ms(const sk_length_result *l) {
    return l->times.prefill_ms + l->times.decode_ms;
}

static double ratio(double a, double b) {
    return b > 0.0 ? a / b : 0.0;
}

static json_t *economics_json(const sk_length_result *l, const sk_mode_result *m) {
    const sk_parcel_cost *c = &m->cost;
    const sk_target_result *t = &m->target[SK_TARGET_LANE];
    if (!m->has_cost) return json_null();
    double read_ms = c->read_ms, import_ms = mean(t->import_ms + 1, t->repeats);
    return json_pack(
        "{s:I, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "state_bytes", (json_int_t)c->total_bytes,
        "state_bytes_per_prompt_token", number((double)c->total_bytes / l->n_tokens), "cache_storage_bytes",
        (json_int_t)c->storage_bytes, "grown_16_tokens_bytes", (json_int_t)c->grown_bytes, "grown_16_tokens_new_bytes",
        (json_int_t)c->grown_new_bytes, "export_ms", number(c->export_ms), "store_put_ms", number(c->put_ms),
        "store_read_ms", number(read_ms), "import_ms", number(import_ms), "prefill_ms", number(l->times.prefill_ms),
        "restore_share_of_recompute", number(ratio(read_ms + import_ms, l->times.prefill_ms)));
}

/* ---- modes ---- */

static json_t *target_json(enum sk_target target, const sk_target_result *t) {
    const sk_check *c = &t->check;
    json_t *state = c->state_known ? json_boolean(c->state) : json_null();
    return json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:o, s:i, s:b, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s*}", "target",
        sk_target_name(target), "predicted_token_matches", c->predicted_token, "restored_output_matches", c->output,
        "suffix_prefill_matches", c->suffix, "cache_hit_matches", c->hits, "roundtrip_state_matches", state,
        "greedy_tokens_equal", (int)c->greedy_equal, "near_tie", c->near_tie, "restored_predicted_token", (int)c->token,
        "roundtrip_state_bytes", (json_int_t)t->state_bytes, "restore_export_ms", number(t->export_ms), "import_ms",
        times_json(t->import_ms, 1 + (size_t)t->repeats), "decode_ms", times_json(t->decode_ms, 1 + (size_t)t->repeats),
        "next_drift", drift_json(&c->next), "suffix_drift", drift_json(&c->suffix_drift), "last_drift",
        drift_json(&c->last), "worst_hit_drift", drift_json(&c->worst_hit), "error", t->error[0] ? t->error : NULL);
}

static json_t *mode_json(const sk_length_result *l, const sk_mode_result *m) {
    json_t *targets = json_array();
    for (int t = 0; t < SK_TARGETS; t++)
        if (m->target[t].check.ran || m->target[t].error[0])
            json_array_append_new(targets, target_json((enum sk_target)t, &m->target[t]));
    json_t *out = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "mode", sk_mode_name(m->mode), "outcome",
                            sk_outcome_name(m->outcome), "reason", m->reason, "targets", targets, "payload_digest",
                            digest_json(m), "economics", economics_json(l, m));
    if (m->was_forced) json_object_set_new(out, "forced_drift", drift_json(&m->forced));
    if (m->tried)
        json_object_set_new(out, "shorter_lengths",
                            json_pack("{s:i, s:i, s:i}", "restores", (int)m->tried, "exact", (int)m->exact, "refused",
                                      (int)m->refused));
    return out;
}

static json_t *length_json(const sk_length_result *l) {
    json_t *modes = json_array();
    for (int m = 0; m < SK_MODES; m++) json_array_append_new(modes, mode_json(l, &l->mode[m]));
    return json_pack("{s:i, s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "prompt_token_count", (int)l->n_tokens,
                     "criterion", l->criterion.bit ? "bits" : "values", "tolerance",
                     l->criterion.bit ? json_real(0.0) : number(l->criterion.tolerance), "cold_run_drift",
                     drift_json(&l->cold), "source_predicted_token", (int)l->predicted_token, "source_prefill_ms",
                     number(l->times.prefill_ms), "source_decode_ms", number(l->times.decode_ms), "source_export_ms",
                     number(l->times.export_ms), "modes", modes);
}

/* ---- the whole ---- */

/* What is known about a stage that was certified without the whole model. */
static json_t *stage_json(const sk_certify_identity *i) {
    const sk_stage_facts *f = &i->stage;
    char inputs[64];
    if (!i->alone) return json_null();
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:o, s:s, s:s, s:b}", "layer_start", (int)f->layer_start, "layer_end",
                     (int)f->layer_end, "layers", (int)f->n_layer, "width", (int)f->width, "source_blake3", f->source,
                     "source_name", sk_report_text(f->source_name), "inputs",
                     sk_certify_inputs(i, inputs, sizeof inputs), "outputs", f->last ? "logits" : "hidden states",
                     "compared_with_whole", 0);
}

static json_t *identity_json(const sk_certify_identity *i) {
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:i, s:i, s:i}", "model_path",
                     sk_report_text(i->model_path), "model_id", sk_report_text(i->model_id), "architecture", i->arch,
                     "family", sk_report_text(i->family), "weights_blake3", hex(&i->weights), "runtime_abi", i->abi,
                     "device", i->device, "kv_type_k", i->type_k, "kv_type_v", i->type_v, "flash_attn",
                     i->flash_attn == 1, "swa_full", i->swa_full, "hybrid", i->hybrid, "recurrent", i->recurrent,
                     "n_swa", (int)i->n_swa, "n_ctx", (int)i->n_ctx, "n_threads", (int)i->n_threads);
}

/* The fields of the reference procedure, over all targets of the payload that serving uses. */
static void add_summary(json_t *out, const sk_certify_report *r) {
    const sk_length_result *l = &r->length[0];
    const sk_mode_result *m = &l->mode[r->production];
    const sk_target_result *lane = &m->target[SK_TARGET_LANE];
    sk_check all = {.predicted_token = true, .output = true, .suffix = true, .hits = true, .state = true};
    for (int t = 0; t < SK_TARGETS; t++) {
        const sk_check *c = &m->target[t].check;
        all.predicted_token = all.predicted_token && c->predicted_token;
        all.output = all.output && c->output;
        all.suffix = all.suffix && c->suffix;
        all.hits = all.hits && c->hits;
        all.state = all.state && c->state;
    }
    json_object_update_new(
        out, json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:s, s:i, s:i, s:i, s:i}", "matches",
                       all.predicted_token && all.output && all.suffix && all.hits, "predicted_token_matches",
                       all.predicted_token, "restored_output_matches", all.output, "suffix_prefill_matches", all.suffix,
                       "cache_hit_matches", all.hits, "roundtrip_state_matches", all.state, "state_payload_kind",
                       sk_mode_name(r->production), "source_predicted_token", (int)l->predicted_token,
                       "restored_predicted_token", (int)lane->check.token, "prompt_token_count", (int)l->n_tokens,
                       "benchmark_prompt_token_count", (int)l->n_tokens + 1));
    json_object_update_new(out, json_pack("{s:I, s:o, s:I, s:o, s:I, s:o}", "state_bytes",
                                          (json_int_t)m->cost.total_bytes, "state_bytes_per_prompt_token",
                                          number((double)m->cost.total_bytes / l->n_tokens), "cache_storage_bytes",
                                          (json_int_t)m->cost.storage_bytes, "cache_storage_bytes_per_prompt_token",
                                          number((double)m->cost.storage_bytes / l->n_tokens), "roundtrip_state_bytes",
                                          (json_int_t)lane->state_bytes, "payload_digest", digest_json(m)));
    json_object_update_new(
        out, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "source_prefill_ms",
                       number(l->times.prefill_ms), "source_export_ms", number(l->times.export_ms), "source_decode_ms",
                       number(l->times.decode_ms), "restore_import_ms", number(lane->import_ms[0]), "restore_export_ms",
                       number(lane->export_ms), "restore_decode_ms", number(lane->decode_ms[0]), "cache_hit_repeats",
                       (int)lane->repeats, "recompute_total_ms", number(recompute_ms(l)), "cache_hit_total_ms",
                       number(hit_ms(m)), "cache_hit_speedup", number(ratio(recompute_ms(l), hit_ms(m))),
                       "cache_hit_import_ms", times_json(lane->import_ms + 1, lane->repeats), "cache_hit_decode_ms",
                       times_json(lane->decode_ms + 1, lane->repeats)));
}

json_t *sk_certify_report_json(const sk_certify_report *r, const char *program_version) {
    char date[32];
    json_t *lengths = json_array(), *outcomes = json_object();
    sk_certify_date(r->date_s, date, sizeof date);
    for (size_t i = 0; i < r->n_lengths; i++) json_array_append_new(lengths, length_json(&r->length[i]));
    for (int m = 0; m < SK_MODES; m++)
        json_object_set_new(outcomes, sk_mode_name((enum sk_mode)m),
                            json_string(sk_outcome_name(sk_certify_outcome(r, (enum sk_mode)m))));
    json_t *out =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s}", "format", 1, "mode", "state-handoff", "status",
                  r->passed ? "pass" : "fail", "verdict", r->verdict, "skippy_version", program_version, "date", date,
                  "model_identity", identity_json(&r->identity), "comparison", r->row_class, "state_layout", r->layout);
    if (!out) {
        json_decref(lengths);
        json_decref(outcomes);
        return NULL;
    }
    json_object_update_new(
        out,
        json_pack("{s:i, s:i, s:i, s:b, s:b, s:o, s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "stage_index",
                  (int)r->identity.stage_index, "layer_start", (int)r->identity.stage.layer_start, "layer_end",
                  (int)r->identity.stage.layer_start + (int)r->identity.n_layer, "include_embeddings",
                  r->identity.stage.first, "include_output", r->identity.stage.last, "stage", stage_json(&r->identity),
                  "handoff_transport", "local-process", "borrowed_resident_hits", 0, "cached_decoded_result_hits", 0,
                  "tokenize_ms", number(r->tokenize_ms), "model_load_ms", number(r->load_ms), "certification_ms",
                  number(r->total_ms), "outcomes", outcomes, "lengths", lengths));
    add_summary(out, r);
    return out;
}
