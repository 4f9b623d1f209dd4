/* What a part measured, as its record. */
#include <stdbool.h>
#include <string.h>

#include "bench/family/json_text.h"
#include "bench/family/turns.h"

/* All functions return a new reference, or NULL when out of memory; a NULL value makes the object around it NULL. */

static const char *status_of(const sk_part_result *r) {
    switch (r->rc) {
    case SKIPPY_OK: return "ok";
    case SKIPPY_E_TIMEOUT: return "timeout";
    case SKIPPY_E_CANCELLED: return "cancelled";
    default: return "failed";
    }
}

/* Sets key of object to value, whose reference is taken over, and passes the object on. */
static json_t *with(json_t *object, const char *key, json_t *value) {
    if (object && json_object_set_new(object, key, value) == 0) {
        return object;
    }
    if (!object) {
        json_decref(value);
    }
    json_decref(object);
    return NULL;
}

static json_t *samples_json(const sk_series *s) {
    json_t *ms = json_array();
    json_t *cache_n = json_array();
    json_t *prompt_n = json_array();
    bool ok = true;
    for (size_t i = 0; i < s->n; i++) {
        ok = ok && json_array_append_new(ms, json_real(s->v[i].ms)) == 0 &&
             json_array_append_new(cache_n, json_integer((json_int_t)s->v[i].cache_n)) == 0 &&
             json_array_append_new(prompt_n, json_integer((json_int_t)s->v[i].prompt_n)) == 0;
    }
    json_t *out = json_pack("{s:o, s:o, s:o}", "ms", ms, "cache_n", cache_n, "prompt_n", prompt_n);
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* One series: the samples of each host that has it. */
static json_t *series_of_hosts(const sk_part_result *r, const sk_turns *t, const char *name) {
    json_t *out = json_object();
    for (size_t i = 0; out && i < r->n_hosts; i++) {
        const sk_series *s = sk_measurement_find(&r->m[i], name);
        if (s) {
            out = with(out, t->hosts[i].name, samples_json(s));
        }
    }
    return out;
}

static json_t *series_json(const sk_part_result *r, const sk_turns *t) {
    json_t *out = json_object();
    for (size_t i = 0; i < r->n_hosts; i++) {
        for (size_t k = 0; out && k < r->m[i].n_series; k++) {
            const char *name = r->m[i].series[k].name;
            if (!json_object_get(out, name)) {
                out = with(out, name, series_of_hosts(r, t, name));
            }
        }
    }
    return out;
}

static json_t *count(size_t n) {
    return json_integer((json_int_t)n);
}

static json_t *gate_json(const sk_gate *g) {
    return json_pack("{s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "comparable", g->comparable, "same_prompts",
                     g->same_prompts, "cold", count(g->cold), "cold_equal", count(g->cold_equal), "cold_ties",
                     count(g->cold_ties), "answers", count(g->answers), "first_equal", count(g->first_equal));
}

static json_t *gates_json(const sk_part_result *r, const sk_turns *t) {
    json_t *out = json_object();
    for (size_t i = 0; out && i + 1 < r->n_hosts; i++) {
        out = with(out, t->hosts[i].name, gate_json(&r->gate[i]));
    }
    return out;
}

static json_t *extra_json(const sk_part_result *r, const sk_turns *t) {
    json_t *out = json_object();
    for (size_t i = 0; out && i < r->n_hosts; i++) {
        if (json_object_size(r->extra[i])) {
            out = with(out, t->hosts[i].name, json_incref(r->extra[i]));
        }
    }
    return out;
}

json_t *sk_part_result_json(const sk_part_result *r, const sk_turns *t) {
    const sk_measurement none = {0};
    const sk_measurement *ours = r->n_hosts ? &r->m[r->n_hosts - 1] : &none;
    char hex[2 * SK_HASH_BYTES + 1];
    sk_hex(ours->prompts_digest, sizeof ours->prompts_digest, hex);
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:s}", "status", status_of(r), "error",
                     sk_json_text(r->err.text), "schedule", t->together ? "in turns" : "one after another", "series",
                     series_json(r, t), "gate", gates_json(r, t), "extra", extra_json(r, t), "prompts",
                     count(ours->n_prompts), "prompts_blake3", hex);
}
