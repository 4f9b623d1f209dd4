#include "bench/evict_trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/map.h"

enum { FIRST_CAPACITY = 256 };

void sk_evict_trace_free(sk_evict_trace *t) {
    free(t->requests);
    free(t->path);
    free(t->parent);
    free(t->id);
    free(t->slots);
    *t = (sk_evict_trace){0};
}

/* ---- growing arrays ---- */

/* The next capacity that holds `need` elements; 0 when it cannot be. */
static size_t grown(size_t cap, size_t need, size_t element) {
    size_t next = cap ? cap : FIRST_CAPACITY;
    while (next < need) {
        if (next > SIZE_MAX / 2) return 0;
        next *= 2;
    }
    return next <= SIZE_MAX / element ? next : 0;
}

static bool regrow(void *array, size_t cap, size_t element) {
    void *old = NULL, *bigger = NULL;
    memcpy(&old, array, sizeof old); /* array is the address of a pointer to any element type */
    bigger = cap ? realloc(old, cap * element) : NULL;
    if (bigger) memcpy(array, &bigger, sizeof bigger);
    return bigger != NULL;
}

static bool reserve_requests(sk_evict_trace *t) {
    if (t->n_requests < t->cap_requests) return true;
    size_t cap = grown(t->cap_requests, t->n_requests + 1, sizeof *t->requests);
    if (!regrow(&t->requests, cap, sizeof *t->requests)) return false;
    t->cap_requests = cap;
    return true;
}

static bool reserve_path(sk_evict_trace *t, size_t more) {
    if (more <= t->cap_path - t->n_path) return true;
    if (more > SIZE_MAX - t->n_path) return false;
    size_t cap = grown(t->cap_path, t->n_path + more, sizeof *t->path);
    if (!regrow(&t->path, cap, sizeof *t->path)) return false;
    t->cap_path = cap;
    return true;
}

static bool reserve_blocks(sk_evict_trace *t, size_t more) {
    if (more <= t->cap_blocks - t->n_blocks) return true;
    if (more > SIZE_MAX - t->n_blocks) return false;
    size_t cap = grown(t->cap_blocks, t->n_blocks + more, sizeof *t->id);
    if (!regrow(&t->parent, cap, sizeof *t->parent) || !regrow(&t->id, cap, sizeof *t->id)) return false;
    t->cap_blocks = cap;
    return true;
}

/* ---- id -> block ---- */

static size_t slot_of(const sk_evict_trace *t, uint64_t id) {
    size_t at = (size_t)sk_map_hash_u64(id) & (t->n_slots - 1);
    while (t->slots[at] && t->id[t->slots[at] - 1] != id) at = (at + 1) & (t->n_slots - 1);
    return at;
}

/* Keeps the table at most half full, so that probing is short and always finds a free slot. */
static bool reserve_slots(sk_evict_trace *t, size_t more) {
    size_t need = t->n_blocks + more;
    if (need <= t->n_slots / 2) return true;
    if (need > SIZE_MAX / 4) return false;
    size_t n = grown(t->n_slots, 2 * need, sizeof *t->slots);
    uint32_t *slots = n ? calloc(n, sizeof *slots) : NULL;
    if (!slots) return false;
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (size_t i = 0; i < t->n_blocks; i++) t->slots[slot_of(t, t->id[i])] = (uint32_t)(i + 1);
    return true;
}

static void forget_last_block(sk_evict_trace *t) {
    t->slots[slot_of(t, t->id[t->n_blocks - 1])] = 0; /* the newest id ends its probe chain: nothing lies behind it */
    t->n_blocks--;
}

/* ---- adding ---- */

/* Numbers the prompt's blocks into path[n_path ..]. */
static int number_blocks(sk_evict_trace *t, const uint64_t *ids, size_t n, sk_err *e) {
    uint32_t *path = t->path + t->n_path;
    for (size_t i = 0; i < n; i++) {
        const uint32_t parent = i ? path[i - 1] : SK_EVICT_ROOT;
        const size_t at = slot_of(t, ids[i]);
        if (!t->slots[at]) {
            uint32_t block = (uint32_t)t->n_blocks++;
            t->id[block] = ids[i];
            t->parent[block] = parent;
            t->slots[at] = block + 1;
        }
        path[i] = t->slots[at] - 1;
        if (t->parent[path[i]] != parent)
            return sk_err_set(
                e, SKIPPY_E_INVALID,
                "block id %llu stands behind another block than before: equal ids must mean equal prefixes",
                (unsigned long long)ids[i]);
    }
    return SKIPPY_OK;
}

int sk_evict_trace_add(sk_evict_trace *t, uint64_t time_ms, uint64_t input_tokens, uint64_t output_tokens,
                       const uint64_t *ids, size_t n_ids, sk_err *e) {
    const uint64_t whole = input_tokens / SK_EVICT_BLOCK_TOKENS;
    const size_t n_before = t->n_blocks;
    if (t->n_requests && time_ms < t->requests[t->n_requests - 1].time_ms)
        return sk_err_set(e, SKIPPY_E_INVALID, "the time goes back to %llu ms", (unsigned long long)time_ms);
    if (whole > n_ids)
        return sk_err_set(e, SKIPPY_E_INVALID, "%llu tokens fill %llu blocks, but there are %zu block ids",
                          (unsigned long long)input_tokens, (unsigned long long)whole, n_ids);
    const size_t n = (size_t)whole;
    if (n >= UINT32_MAX - t->n_blocks) return sk_err_set(e, SKIPPY_E_TOO_LARGE, "the trace has too many blocks");
    if (!reserve_requests(t) || !reserve_path(t, n) || !reserve_blocks(t, n) || !reserve_slots(t, n))
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the trace");
    int rc = number_blocks(t, ids, n, e);
    if (rc != SKIPPY_OK) {
        while (t->n_blocks > n_before) forget_last_block(t);
        return rc;
    }
    t->requests[t->n_requests++] = (sk_evict_request){time_ms, input_tokens, output_tokens, t->n_path, n};
    t->n_path += n;
    return SKIPPY_OK;
}

/* ---- reading ---- */

/* A member that must be there and must be a whole number of at least 0. */
static bool read_number(const json_t *line, const char *key, uint64_t *out) {
    const json_t *v = json_object_get(line, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

/* *ids is a buffer that the caller keeps from line to line. */
static int read_ids(const json_t *line, uint64_t **ids, size_t *cap, size_t *n, sk_err *e) {
    const json_t *array = json_object_get(line, "hash_ids");
    if (!json_is_array(array)) return sk_err_set(e, SKIPPY_E_CORRUPT, "hash_ids is not an array");
    *n = json_array_size(array);
    if (*n > *cap) {
        size_t bigger = grown(*cap, *n, sizeof **ids);
        if (!regrow(ids, bigger, sizeof **ids)) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the block ids");
        *cap = bigger;
    }
    for (size_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_integer(v)) return sk_err_set(e, SKIPPY_E_CORRUPT, "hash_ids holds something that is no number");
        (*ids)[i] = (uint64_t)json_integer_value(v);
    }
    return SKIPPY_OK;
}

static int read_line(sk_evict_trace *t, const char *text, size_t len, uint64_t **ids, size_t *cap, sk_err *e) {
    json_error_t bad;
    uint64_t time_ms = 0, input = 0, output = 0;
    size_t n = 0;
    json_t *line = json_loadb(text, len, 0, &bad);
    int rc = SKIPPY_OK;
    if (!json_is_object(line)) {
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "it is no JSON object");
    } else if (!read_number(line, "timestamp", &time_ms) || !read_number(line, "input_length", &input) ||
               !read_number(line, "output_length", &output)) {
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "timestamp, input_length and output_length must be whole numbers from 0");
    } else {
        rc = read_ids(line, ids, cap, &n, e);
        if (rc == SKIPPY_OK) rc = sk_evict_trace_add(t, time_ms, input, output, *ids, n, e);
    }
    json_decref(line);
    return rc;
}

int sk_evict_trace_load(sk_evict_trace *t, const char *path, sk_err *e) {
    uint64_t *ids = NULL;
    size_t cap = 0, room = 0, number = 0;
    char *line = NULL;
    sk_err why = {0};
    int rc = SKIPPY_OK;
    ssize_t len = 0;
    FILE *f = fopen(path, "re");
    if (!f) return sk_err_set(e, SKIPPY_E_IO, "%s: %s", path, strerror(errno));
    while (rc == SKIPPY_OK && (len = getline(&line, &room, f)) > 0) {
        number++;
        if (line[0] != '\n') rc = read_line(t, line, (size_t)len, &ids, &cap, &why);
    }
    if (rc == SKIPPY_E_NOMEM)
        sk_err_set(e, rc, "%s: %s", path, why.text);
    else if (rc != SKIPPY_OK)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "%s, line %zu: %s", path, number, why.text);
    else if (ferror(f))
        rc = sk_err_set(e, SKIPPY_E_IO, "%s: %s", path, strerror(errno));
    else if (t->n_requests == 0)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "%s: there is no request in it", path);
    if (rc != SKIPPY_OK) sk_evict_trace_free(t);
    free(line);
    free(ids);
    fclose(f);
    return rc;
}

sk_evict_trace_facts sk_evict_trace_describe(const sk_evict_trace *t) {
    sk_evict_trace_facts f = {.requests = t->n_requests, .block_uses = t->n_path, .unique_blocks = t->n_blocks};
    for (size_t i = 0; i < t->n_requests; i++) {
        const sk_evict_request *r = &t->requests[i];
        f.input_tokens += r->input_tokens;
        f.output_tokens += r->output_tokens;
        if (r->input_tokens > f.longest_input) f.longest_input = r->input_tokens;
        f.span_ms = r->time_ms - t->requests[0].time_ms;
    }
    return f;
}
