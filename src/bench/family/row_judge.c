/* What a row proves: which baseline was the fastest, how much faster ours is, and whether that is evidence. */
#include <stdio.h>
#include <string.h>

#include "bench/family/row.h"
#include "bench/family/row_reader.h"

static const char BASELINE[] = "llama-server";

const sk_row_series *sk_family_row_series(const sk_family_row *r, const char *part, const char *name) {
    for (size_t i = 0; i < r->n_series; i++)
        if (strcmp(r->series[i].part, part) == 0 && strcmp(r->series[i].name, name) == 0) return &r->series[i];
    return NULL;
}

bool sk_family_row_baseline(const sk_family_row *r, size_t host) {
    const size_t n = sizeof BASELINE - 1;
    if (host >= r->n_hosts || strncmp(r->host[host], BASELINE, n) != 0) return false;
    return r->host[host][n] == '\0' || r->host[host][n] == '-';
}

static json_t *part_of(const sk_family_row *r, const char *part) {
    return json_object_get(json_object_get(r->json, "parts"), part);
}

bool sk_family_row_comparable(const sk_family_row *r, const char *part, size_t host) {
    if (host >= r->n_hosts) return false;
    json_t *gate = json_object_get(json_object_get(part_of(r, part), "gate"), r->host[host]);
    return json_is_true(json_object_get(gate, "comparable"));
}

bool sk_family_row_complete(const sk_family_row *r, const char *part) {
    const char *status = json_string_value(json_object_get(part_of(r, part), "status"));
    return status && strcmp(status, "ok") == 0;
}

size_t sk_family_row_best(const sk_family_row *r, const sk_row_series *s) {
    size_t best = r->n_hosts;
    for (size_t h = 0; s && h < r->n_hosts; h++) {
        if (!sk_family_row_baseline(r, h) || s->n[h] == 0) continue;
        if (best == r->n_hosts || s->summary[h].p50 < s->summary[best].p50) best = h;
    }
    return best;
}

double sk_family_row_speedup(const sk_family_row *r, const char *part, const char *name) {
    const sk_row_series *s = sk_family_row_series(r, part, name);
    const size_t best = sk_family_row_best(r, s);
    if (!s || best == r->n_hosts || r->ours == r->n_hosts || !sk_family_row_complete(r, part)) return 0.0;
    const double ours = s->summary[r->ours].p50;
    return s->n[r->ours] && ours > 0.0 ? s->summary[best].p50 / ours : 0.0;
}

bool sk_family_row_recurrent(const sk_family_row *r) {
    return strcmp(r->payload, "KvRecurrent") == 0;
}

static const char *against_correctness(const sk_family_row *r) {
    static const struct {
        const char *status, *reason;
    } known[] = {{"fail", "correctness failed"},
                 {"timeout", "correctness ran out of time"},
                 {"error", "correctness could not be tested"},
                 {"cancelled", "the run was cancelled before correctness was known"},
                 {"missing-model", "the model is not there"},
                 {"refused", "the model was refused"},
                 {"not-run", "not run"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(r->skippy_status, known[i].status) == 0) return known[i].reason;
    return strcmp(r->skippy_status, "pass") == 0 ? NULL : "correctness has not passed";
}

static const char *against_baseline(const sk_family_row *r) {
    if (strcmp(r->llama_status, "ok") == 0) return NULL;
    if (strcmp(r->llama_status, "skipped") == 0) return "llama-server was not asked";
    return "llama-server did not finish its part";
}

static const char *against_exact(const sk_family_row *r) {
    const sk_row_series *s = sk_family_row_series(r, "exact", "exact");
    const size_t best = sk_family_row_best(r, s);
    if (!s || best == r->n_hosts) return "the exact repeat was not measured on llama-server";
    if (r->ours == r->n_hosts || s->n[r->ours] == 0) return "the exact repeat was not measured on skippy";
    if (!sk_family_row_complete(r, "exact")) return "the exact repeat is not complete";
    if (!sk_family_row_comparable(r, "exact", best)) return "the servers' answers differ: their work is not comparable";
    return sk_family_row_speedup(r, "exact", "exact") > 1.0 ? NULL : "not faster than llama-server's best flags";
}

static const char *against_package(const sk_family_row *r) {
    if (!(r->recompute_total_ms > 0.0) || !(r->cache_hit_total_ms > 0.0)) return "the cache hit was not measured";
    return r->cache_hit_total_ms < r->recompute_total_ms ? NULL : "a cache hit is not faster than the recompute";
}

/* NULL = nothing. */
static const char *against(const sk_family_row *r) {
    const char *reason = against_correctness(r);
    if (reason) return reason;
    if (strcmp(r->kind, "package") == 0) return against_package(r);
    reason = against_baseline(r);
    return reason ? reason : against_exact(r);
}

static bool decide(const char *reason, const char **why) {
    if (why) *why = reason ? reason : "";
    return reason == NULL;
}

bool sk_family_row_evidence(const sk_family_row *r, const char **why) {
    return decide(against(r), why);
}

bool sk_family_row_promoted(const sk_family_row *r, const char **why) {
    const char *reason = against(r);
    if (!reason && strcmp(r->kind, "package") == 0) reason = "a package has no llama-server baseline";
    if (!reason && r->synthetic) reason = "the weights are synthetic";
    return decide(reason, why);
}
