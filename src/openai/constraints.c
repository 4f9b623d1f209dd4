/* What the output must look like: response_format, json_schema, grammar. */
#include <string.h>

#include "openai/fields.h"
#include "openai/grammar_check.h"
#include "openai/request.h"
#include "openai/schema_check.h"

/* Larger grammars are refused: each costs memory per lane and time per token. */
#define MAX_GRAMMAR_BYTES (256 * 1024)

static int take_schema(sk_request *r, const json_t *schema, const char *param, sk_api_error *err) {
    if (!json_is_object(schema))
        return sk_api_invalid(err, param, "'%s' must be a JSON schema object, but it is %s", param,
                              sk_field_kind(schema));
    if (sk_json_depth(schema, SK_MAX_NESTING) > SK_MAX_NESTING)
        return sk_api_invalid(err, param, "'%s' is nested more than %d levels deep", param, SK_MAX_NESTING);
    uint64_t steps = 0;
    int rc = sk_schema_check(schema, param, &steps, err);
    if (rc) return rc;
    r->json_schema = json_incref((json_t *)schema);
    return 0;
}

/* {"type":"json_object"}: any object. llama-server also takes a schema there. */
static int parse_json_object(sk_request *r, const json_t *format, sk_api_error *err) {
    const json_t *schema = sk_field(format, "schema");
    if (schema && json_object_size(schema) > 0) return take_schema(r, schema, "response_format.schema", err);
    r->json_schema = json_pack("{s:s}", "type", "object");
    return r->json_schema ? 0 : sk_api_nomem(err);
}

/* {"type":"json_schema","json_schema":{"name","schema","strict"}}. */
static int parse_json_schema(sk_request *r, const json_t *format, sk_api_error *err) {
    const json_t *holder = sk_field(format, "json_schema");
    if (!json_is_object(holder))
        return sk_api_invalid(err, "response_format.json_schema", "'response_format.json_schema' must be an object");
    const json_t *schema = sk_field(holder, "schema");
    if (!schema)
        return sk_api_invalid(err, "response_format.json_schema.schema",
                              "'response_format.json_schema.schema' is missing");
    return take_schema(r, schema, "response_format.json_schema.schema", err);
}

static int parse_response_format(sk_request *r, sk_api_error *err) {
    const json_t *format = NULL;
    int rc = sk_field_object(r->body, "response_format", &format, err);
    if (rc || !format) return rc;
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type && !strcmp(type, "text")) return 0;
    if (type && !strcmp(type, "json_object")) return parse_json_object(r, format, err);
    if (type && !strcmp(type, "json_schema")) return parse_json_schema(r, format, err);
    return sk_api_invalid(err, "response_format.type",
                          "'response_format.type' must be \"text\", \"json_object\" or \"json_schema\"");
}

static int parse_grammar(sk_request *r, sk_api_error *err) {
    const char *grammar = NULL;
    int rc = sk_field_string(r->body, "grammar", &grammar, err);
    if (rc || !grammar || !*grammar) return rc;
    if (r->json_schema)
        return sk_api_invalid(err, "grammar", "'grammar' cannot be combined with a JSON schema or 'response_format'");
    if (r->kind == SK_API_CHAT && json_array_size(sk_field(r->body, "tools")) > 0)
        return sk_api_invalid(err, "grammar", "'grammar' cannot be combined with 'tools'");
    if (strlen(grammar) > MAX_GRAMMAR_BYTES)
        return sk_api_invalid(err, "grammar", "'grammar' is larger than %d bytes", MAX_GRAMMAR_BYTES);
    rc = sk_grammar_check(grammar, "grammar", err);
    if (rc) return rc;
    r->grammar = grammar;
    return 0;
}

int sk_constraints_parse(sk_request *r, sk_api_error *err) {
    int rc = parse_response_format(r, err);
    if (rc) return rc;
    const json_t *schema = sk_field(r->body, "json_schema");
    if (schema && r->json_schema)
        return sk_api_invalid(err, "json_schema", "'json_schema' cannot be combined with 'response_format'");
    if (schema) rc = take_schema(r, schema, "json_schema", err);
    return rc ? rc : parse_grammar(r, err);
}
