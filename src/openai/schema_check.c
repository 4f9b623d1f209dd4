#include "openai/schema_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Counting ends here: the schema is refused anyway, and counting must not take long itself. */
#define STEPS_STOP (10u * SK_MAX_SCHEMA_STEPS)
/* References that lead to references, one after the other. */
#define MAX_HOPS 16

/* Measured on llama.cpp's converter: what costs about as much as adding one rule with a short name. */
enum {
    STEP_NAME_BYTES = 128,  /* of a rule's name, which holds the names of all levels above it */
    STEP_COPIED_NODES = 40, /* for each $ref the whole schema is copied */
    STEP_COPIED_BYTES = 2048,
    STEP_SAVED_NODES = 200 /* for each pattern all rules so far are saved */
};

typedef struct check {
    const json_t *root;
    const char *param;
    sk_api_error *err;
    uint64_t steps, nodes, bytes;
    size_t depth;
    json_t *refs; /* values of $ref that were seen, as keys */
} check;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- size ---- */

static void measure(check *c, const json_t *v) {
    const char *key;
    json_t *member;
    c->nodes++;
    c->bytes += json_string_length(v);
    for (size_t i = 0; i < json_array_size(v); i++) measure(c, json_array_get(v, i));
    json_object_foreach((json_t *)v, key, member) {
        c->bytes += strlen(key);
        measure(c, member);
    }
}

/* ---- references ---- */

/* What "#/a/b" points to, found as the converter does it: without escapes. NULL: nothing. */
static const json_t *resolve(const json_t *root, const char *ref) {
    const json_t *at = root;
    if (strncmp(ref, "#/", 2) != 0) return NULL;
    for (const char *s = ref + 2;;) {
        char token[SK_MAX_SCHEMA_NAME + 1];
        size_t len = strcspn(s, "/");
        memcpy(token, s, len);
        token[len] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(token, NULL, 10)) : json_object_get(at, token);
        if (!at || !s[len]) return at;
        s += len + 1;
    }
}

/* A reference that leads only to references is followed for ever where the converter merges the parts of an allOf. */
static int check_hops(check *c, const char *ref) {
    const char *first = ref;
    for (int hops = 0; hops < MAX_HOPS; hops++) {
        const json_t *next = json_object_get(resolve(c->root, ref), "$ref");
        if (!json_is_string(next)) return 0;
        ref = json_string_value(next);
        if (json_string_length(next) > SK_MAX_SCHEMA_NAME) return 0; /* refused where it stands */
    }
    return sk_api_invalid(
        c->err, c->param,
        "\"$ref\": \"%.100s\" in the JSON schema leads through more than %d references, or in a circle", first,
        MAX_HOPS);
}

static int visit(check *c, const json_t *schema, size_t name_len, uint64_t times);

static int visit_ref(check *c, const json_t *ref, uint64_t times) {
    size_t len = json_string_length(ref);
    const char *text = json_string_value(ref);
    if (len > SK_MAX_SCHEMA_NAME)
        return sk_api_invalid(c->err, c->param, "a \"$ref\" of the JSON schema has %zu bytes; at most %d are allowed",
                              len, SK_MAX_SCHEMA_NAME);
    if (json_object_get(c->refs, text)) return 0;
    if (json_object_set_new_nocheck(c->refs, text, json_true())) return sk_api_nomem(c->err);
    if (json_object_size(c->refs) > SK_MAX_SCHEMA_REFS)
        return sk_api_invalid(c->err, c->param, "the JSON schema has more than %d different values of \"$ref\"",
                              SK_MAX_SCHEMA_REFS);
    int status = check_hops(c, text);
    if (status) return status;
    c->steps += times * (1 + c->nodes / STEP_COPIED_NODES + c->bytes / STEP_COPIED_BYTES);
    return visit(c, resolve(c->root, text), len, times);
}

/* ---- members ---- */

static bool is_required(const json_t *schema, const char *name) {
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && !strcmp(one, name)) return true;
    }
    return false;
}

/* Any subset of the optional properties may follow each of them: the converter writes a rule for each pair. */
static uint64_t pairs_of_optional(const json_t *schema, const json_t *properties) {
    const json_t *required = json_object_get(schema, "required");
    uint64_t n = json_object_size(properties), named = json_array_size(required), optional = 0;
    const char *key;
    json_t *value;
    /* Looking every name up is itself quadratic: where that is too much, names in 'required' are believed. */
    if (n * named > SK_MAX_SCHEMA_STEPS) {
        optional = n > named ? n - named : 0;
    } else {
        json_object_foreach((json_t *)properties, key, value) optional += !is_required(schema, key);
    }
    return optional * optional / 2;
}

static int visit_properties(check *c, const json_t *schema, const json_t *properties, size_t name_len, uint64_t times) {
    const char *key;
    json_t *value;
    uint64_t pairs = json_is_object(properties) ? pairs_of_optional(schema, properties) : 0;
    c->steps += times * least(pairs, STEPS_STOP) * (1 + name_len / STEP_NAME_BYTES);
    json_object_foreach((json_t *)properties, key, value) {
        size_t len = strlen(key);
        if (len > SK_MAX_SCHEMA_NAME)
            return sk_api_invalid(c->err, c->param,
                                  "a property of the JSON schema has a name of %zu bytes; at most %d are allowed", len,
                                  SK_MAX_SCHEMA_NAME);
        int status = visit(c, value, name_len + 1 + len, times);
        if (status) return status;
    }
    return 0;
}

static int visit_pattern(check *c, const json_t *pattern, uint64_t times) {
    size_t len = json_string_length(pattern);
    if (len > SK_MAX_SCHEMA_PATTERN)
        return sk_api_invalid(c->err, c->param, "a pattern of the JSON schema has %zu bytes; at most %d are allowed",
                              len, SK_MAX_SCHEMA_PATTERN);
    c->steps += times * (1 + len / STEP_NAME_BYTES + c->nodes / STEP_SAVED_NODES);
    return 0;
}

static int visit_member(check *c, const json_t *schema, const char *key, const json_t *value, size_t name_len,
                        uint64_t times) {
    if (!strcmp(key, "properties")) return visit_properties(c, schema, value, name_len, times);
    if (!strcmp(key, "$ref") && json_is_string(value)) return visit_ref(c, value, times);
    if (!strcmp(key, "pattern") && json_is_string(value)) return visit_pattern(c, value, times);
    return visit(c, value, name_len + 1, times);
}

/* A schema, or any other value: whatever may be reached is counted. */
static int visit(check *c, const json_t *v, size_t name_len, uint64_t times) {
    const char *key;
    json_t *value;
    int status = 0;
    c->steps += times * (1 + name_len / STEP_NAME_BYTES + json_string_length(v) / STEP_NAME_BYTES);
    if (++c->depth > SK_MAX_SCHEMA_DEPTH)
        status = sk_api_invalid(c->err, c->param,
                                "the JSON schema is nested more than %d levels deep when its references are followed",
                                SK_MAX_SCHEMA_DEPTH);
    for (size_t i = 0; i < json_array_size(v) && !status && c->steps < STEPS_STOP; i++)
        status = visit(c, json_array_get(v, i), name_len + 2, times);
    /* A list of types makes the converter go through the schema once for each. */
    size_t types = json_array_size(json_object_get(v, "type"));
    if (types > 1) times = least(times * types, STEPS_STOP);
    json_object_foreach((json_t *)v, key, value) {
        if (!status && c->steps < STEPS_STOP) status = visit_member(c, v, key, value, name_len, times);
    }
    c->depth--;
    return status;
}

int sk_schema_check(const json_t *schema, const char *param, uint64_t *steps, sk_api_error *err) {
    check c = {.root = schema, .param = param, .err = err, .steps = *steps, .refs = json_object()};
    if (!c.refs) return sk_api_nomem(err);
    measure(&c, schema);
    int status = visit(&c, schema, 0, 1);
    json_decref(c.refs);
    *steps = c.steps;
    if (status || c.steps <= SK_MAX_SCHEMA_STEPS) return status;
    return sk_api_invalid(
        err, param,
        "the JSON schema would take %s%" PRIu64
        " steps to convert; at most %d are allowed (an object with n optional properties takes n * n / 2)",
        c.steps < STEPS_STOP ? "" : "at least ", least(c.steps, STEPS_STOP), SK_MAX_SCHEMA_STEPS);
}
