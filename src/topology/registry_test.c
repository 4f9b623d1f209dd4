#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "topology/registry.h"

#define REVIEWED                                                                                                       \
    "\"reviewed\":{\"model\":\"a/b:Q4\",\"layers\":8,\"width\":64,\"wire\":\"f16\",\"q8_wire\":\"untested\","          \
    "\"mobility\":\"accepted\"%s}"
#define MEASURED                                                                                                       \
    "\"measured\":[{\"model\":\"b\",\"kv_bytes_per_token\":%d,\"window_bytes_per_token\":0,\"window_tokens\":%d,"      \
    "\"recurrent_bytes\":%d,\"resident_restore\":\"exact\",\"truncated_reuse\":\"exact\",\"export_import\":\"exact\"," \
    "\"kv_only\":\"not_applicable\",\"page_wise\":\"exact\",\"stages\":\"exact\"}]"

static char json[4096];

/* One family whose values end with `more`. */
static const char *family(const char *state, const char *cache, const char *more) {
    snprintf(json, sizeof json,
             "{\"format\":1,\"runtime\":\"r\",\"families\":[{\"family\":\"f\",\"arch\":\"a\",\"state\":\"%s\","
             "\"cache\":\"%s\"%s}]}",
             state, cache, more);
    return json;
}

static const char *reviewed(const char *state, const char *cache, const char *more) {
    char text[1024];
    snprintf(text, sizeof text, "," REVIEWED, more);
    return family(state, cache, text);
}

static const char *measured(const char *state, const char *cache, int kv, int window, int recurrent,
                            const char *split) {
    char text[2048];
    bool stateful = strcmp(state, "hybrid") == 0 || strcmp(state, "recurrent") == 0;
    snprintf(text, sizeof text, "," REVIEWED "," MEASURED ",\"split\":{%s}", stateful ? ",\"recurrent\":[[0,8]]" : "",
             kv, window, recurrent, split);
    return family(state, cache, text);
}

static const char *rules(const char *key, const char *rule) {
    snprintf(json, sizeof json,
             "{\"format\":1,\"runtime\":\"r\",\"families\":[{\"family\":\"f\",\"arch\":\"a\",\"state\":\"attention\","
             "\"cache\":\"ResidentKv\"}],\"%s\":[%s]}",
             key, rule);
    return json;
}

static void expect_accepted(const char *text) {
    sk_registry r;
    sk_err e = {0};
    if (sk_registry_parse(text, strlen(text), &r, &e) != SKIPPY_OK) fail_msg("%s: %s", text, e.text);
    assert_int_equal(r.n_families, 1);
    sk_registry_free(&r);
}

static void expect_refused(const char *text, const char *words) {
    sk_registry r;
    sk_err e = {0};
    assert_int_equal(sk_registry_parse(text, strlen(text), &r, &e), SKIPPY_E_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
    assert_int_equal(r.n_families, 0);
    assert_null(r.families);
}

static void text_that_is_no_registry_is_refused(void **state) {
    (void)state;
    expect_refused("", "not JSON");
    expect_refused("{\"format\":1,}", "line 1");
    expect_refused("[]", "an object is needed");
    expect_refused("{}", "'format' is missing");
    expect_refused("{\"format\":2,\"runtime\":\"r\",\"families\":[]}", "'format' must be a whole number from 1 to 1");
    expect_refused("{\"format\":1,\"runtime\":\"r\"}", "'families' is missing");
    expect_refused("{\"format\":1,\"runtime\":\"r\",\"families\":[]}", "'families' must be a list");
    expect_refused("{\"format\":1,\"format\":1}", "duplicate");
    expect_refused("{\"format\":1,\"runtime\":\"r\",\"families\":[7]}", "families[0]: an object is needed");
}

static void values_of_the_wrong_kind_are_refused_with_their_place(void **state) {
    (void)state;
    expect_accepted(family("attention", "ResidentKv", ""));
    expect_refused(family("attention", "ResidentKv", ",\"colour\":1"), "families[0]: there is no key 'colour'");
    expect_refused(family("attentive", "ResidentKv", ""), "families[0] (f): 'state' cannot be 'attentive'");
    expect_refused(family("attention", "ResidentKv", ",\"note\":\"\""), "'note' must be text that is not empty");
    expect_refused(family("attention", "ResidentKv", ",\"measured\":{}"), "'measured' must be a list of 1 to 2");
    expect_accepted(reviewed("attention", "ResidentKv", ""));
    expect_refused(reviewed("attention", "ResidentKv", ",\"shards\":0"), "'shards' must be a whole number from 1");
    expect_refused(reviewed("attention", "ResidentKv", ",\"shards\":1.5"), "'shards' must be a whole number");
    expect_refused(reviewed("attention", "ResidentKv", ",\"package_only\":1"), "'package_only' must be true or false");
    expect_refused(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[0]]"), "pairs of layer numbers");
    expect_refused(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[-1,4]]"), "pairs of layer numbers");
    expect_refused(
        reviewed("attention", "ResidentKv", ",\"sidebands\":[{\"kind\":\"smoke\",\"from_layer\":1,\"reason\":\"r\"}]"),
        "'kind' cannot be 'smoke'");
    expect_refused(reviewed("attention", "ResidentKv", ",\"shared_kv\":[{\"start\":1,\"end\":2}]"),
                   "'reason' is missing");
}

static void policy_that_contradicts_the_state_is_refused(void **state) {
    (void)state;
    expect_refused(family("attention", "KvRecurrent", ""), "mean 'ResidentKv'");
    expect_refused(family("recurrent", "ResidentKv", ""), "mean 'KvRecurrent'");
    expect_refused(family("window", "disabled", ""), "mean 'ResidentKv'");
    expect_accepted(family("window", "disabled", ",\"disabled\":\"chunked\""));
    expect_refused(family("window", "ResidentKv", ",\"disabled\":\"chunked\""), "mean 'disabled'");
    expect_refused(family("other", "disabled", ""), "does not say why");
    expect_refused(family("none", "disabled", ",\"disabled\":\"none\""), "'disabled' cannot be 'none'");
    expect_refused(family("none", "disabled", ",\"disabled\":\"unsupported\""), "'arch' must be null");
}

static void reviews_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    expect_refused(reviewed("hybrid", "KvRecurrent", ""), "'recurrent' must name layers");
    expect_refused(reviewed("attention", "ResidentKv", ",\"recurrent\":[[0,8]]"), "and for these only");
    expect_accepted(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[0,3],[4,8]]"));
    expect_refused(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[0,9]]"), "inside the 8 layers");
    expect_refused(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[4,8],[0,3]]"), "must ascend");
    expect_refused(reviewed("hybrid", "KvRecurrent", ",\"recurrent\":[[3,3]]"), "must ascend");
    expect_refused(reviewed("attention", "ResidentKv", ",\"shared_kv\":[{\"start\":4,\"end\":9,\"reason\":\"r\"}]"),
                   "'shared_kv' must lie inside");
    expect_refused(reviewed("attention", "ResidentKv",
                            ",\"shared_kv\":[{\"start\":4,\"end\":8,\"forbidden\":[8],\"reason\":\"r\"}]"),
                   "cut 8 is not inside");
    expect_refused(reviewed("attention", "ResidentKv",
                            ",\"sidebands\":[{\"kind\":\"token_ids\",\"from_layer\":8,\"reason\":\"r\"}]"),
                   "layer 8 of 8");
}

static void measurements_that_contradict_the_family_are_refused(void **state) {
    (void)state;
    expect_accepted(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"exact\""));
    expect_accepted(measured("window", "ResidentKv", 1, 8, 0, "\"result\":\"exact\""));
    expect_accepted(measured("hybrid", "KvRecurrent", 1, 0, 1, "\"result\":\"exact\""));
    expect_accepted(measured("recurrent", "KvRecurrent", 0, 0, 1, "\"result\":\"exact\""));
    expect_refused(measured("attention", "ResidentKv", 1, 0, 1, "\"result\":\"exact\""), "'recurrent_bytes'");
    expect_refused(measured("attention", "ResidentKv", 1, 8, 0, "\"result\":\"exact\""), "'window_tokens'");
    expect_refused(measured("attention", "ResidentKv", 0, 0, 0, "\"result\":\"exact\""), "'kv_bytes_per_token'");
    expect_refused(measured("recurrent", "KvRecurrent", 1, 0, 1, "\"result\":\"exact\""), "'kv_bytes_per_token'");
    expect_refused(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"refused\""), "needs a reason");
    expect_refused(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"refused\",\"reason\":\"r\""),
                   "'split' says 'refused', but 'measured' says 'exact'");
    expect_refused(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"not_applicable\""), "a split cannot be");
    expect_refused(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"exact\",\"attention_layers\":[8]"),
                   "attention layer 8");
    expect_refused(measured("attention", "ResidentKv", 1, 0, 0, "\"result\":\"exact\",\"window_as\":\"x\""),
                   "'window_as' cannot be 'x'");
    expect_refused(family("attention", "ResidentKv", ",\"split\":{\"result\":\"exact\"}"), "come together");
}

static void rules_that_can_never_hold_are_refused(void **state) {
    (void)state;
    expect_accepted(rules("by_architecture", "{\"arch\":\"a\",\"layers\":4,\"family\":\"f\"}"));
    expect_accepted(rules("by_name", "{\"name\":[\"f\"],\"family\":null,\"reason\":\"r\"}"));
    expect_refused(rules("by_architecture", "{\"arch\":\"zebra\",\"family\":\"f\"}"), "by_architecture[0]: 'arch'");
    expect_refused(rules("by_architecture", "{\"family\":\"f\"}"), "'arch' must name");
    expect_refused(rules("by_name", "{\"family\":\"f\"}"), "needs 'name'");
    expect_refused(rules("by_name", "{\"name\":[\"f\"],\"layers\":2,\"family\":\"f\"}"),
                   "neither architecture nor shape");
    expect_refused(rules("by_name", "{\"name\":[\"F-1\"],\"family\":\"f\"}"), "'F-1' matches no name");
    expect_refused(rules("by_name", "{\"name\":[\"f\"],\"family\":\"g\"}"), "there is no family 'g'");
    expect_refused(rules("by_name", "{\"name\":[\"f\"],\"family\":null}"), "null and a reason");
    expect_refused(rules("by_name", "{\"name\":[\"f\"],\"family\":\"f\",\"reason\":\"r\"}"), "null and a reason");
}

static void a_family_is_listed_once(void **state) {
    (void)state;
    expect_refused("{\"format\":1,\"runtime\":\"r\",\"families\":["
                   "{\"family\":\"f\",\"arch\":\"a\",\"state\":\"attention\",\"cache\":\"ResidentKv\"},"
                   "{\"family\":\"f\",\"arch\":\"b\",\"state\":\"attention\",\"cache\":\"ResidentKv\"}]}",
                   "families[1] (f): the family is listed twice");
}

/* Every cut of the text must be refused, not crash: run under a sanitizer, this is the test of the reader's bounds. */
static void a_truncated_registry_is_refused_at_every_length(void **state) {
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%s", measured("hybrid", "KvRecurrent", 1, 0, 1, "\"result\":\"exact\""));
    for (size_t n = 0; n < strlen(text); n++) {
        sk_registry r;
        sk_err e = {0};
        assert_int_equal(sk_registry_parse(text, n, &r, &e), SKIPPY_E_INVALID);
    }
}

static void the_compiled_in_registry_is_read_and_finds_by_family_and_architecture(void **state) {
    (void)state;
    const sk_registry *r = sk_registry_get();
    assert_ptr_equal(r, sk_registry_get());
    assert_non_null(strstr(r->runtime, "llama.cpp"));
    const sk_family_entry *f = sk_registry_family(r, "qwen3_dense");
    assert_non_null(f);
    assert_ptr_equal(sk_registry_arch(r, "qwen3"), f);
    assert_null(sk_registry_family(r, "zebra"));
    assert_null(sk_registry_arch(r, "zebra"));
    assert_null(sk_registry_arch(r, "")); /* a family without an architecture is not the family of "no architecture" */
    assert_string_equal(sk_registry_family(r, "inkling")->record.arch, "");
    char *text = sk_registry_dump(r, f);
    json_t *o = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "family")), "qwen3_dense");
    json_decref(o);
    free(text);
}

static void evidence_is_named_by_its_strength(void **state) {
    (void)state;
    const sk_registry *r = sk_registry_get();
    assert_string_equal(sk_family_evidence(sk_registry_family(r, "llama")), "measured");
    assert_string_equal(sk_family_evidence(sk_registry_family(r, "mpt")), "reviewed");
    assert_string_equal(sk_family_evidence(sk_registry_family(r, "grok")), "listed");
}

/* The schema is for editors and other programs; its lists of words must be those that this program reads. */
static void expect_words(const json_t *schema, const char *name, const char *const *words) {
    const json_t *list = json_object_get(json_object_get(json_object_get(schema, "$defs"), name), "enum");
    size_t n = 0;
    for (; words[n]; n++) {
        const char *word = json_string_value(json_array_get(list, n));
        if (!word || strcmp(word, words[n]) != 0)
            fail_msg("%s: '%s' instead of '%s'", name, word ? word : "nothing", words[n]);
    }
    assert_int_equal(json_array_size(list), n);
}

static void the_schema_lists_the_same_words(void **state) {
    (void)state;
    char path[1024];
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    if (!source) {
        print_message("skipped: SKIPPY_SOURCE_DIR is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/src/topology/families.schema.json", source);
    json_t *schema = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(schema);
    expect_words(schema, "state", sk_state_names);
    expect_words(schema, "disabled", sk_trait_names + 1);
    expect_words(schema, "wire", sk_wire_names);
    expect_words(schema, "validation", sk_validation_names);
    expect_words(schema, "mobility", sk_mobility_names);
    expect_words(schema, "sideband_kind", sk_sideband_names);
    expect_words(schema, "finding", sk_finding_names);
    json_decref(schema);
}

static void words(enum sk_finding f, char *out, size_t cap) {
    snprintf(out, cap, "%s", sk_finding_names[f]);
    for (char *c = out; *c; c++)
        if (*c == '_') *c = ' ';
}

/* A number as the documentation writes it: thousands apart, "-" for none. */
static void number(int64_t n, char *out, size_t cap) {
    if (n == 0)
        snprintf(out, cap, "-");
    else if (n >= 1000000)
        snprintf(out, cap, "%lld,%03lld,%03lld", (long long)n / 1000000, (long long)n / 1000 % 1000,
                 (long long)n % 1000);
    else if (n >= 1000)
        snprintf(out, cap, "%lld,%03lld", (long long)n / 1000, (long long)n % 1000);
    else
        snprintf(out, cap, "%lld", (long long)n);
}

static void documented_row(const sk_family_entry *f, const sk_measured *m, char *row, size_t cap) {
    char bytes[3][32], found[6][32];
    const enum sk_finding findings[] = {m->resident_restore, m->truncated_reuse, m->export_import,
                                        m->kv_only,          m->page_wise,       m->stages};
    number(m->kv_bytes_per_token, bytes[0], sizeof bytes[0]);
    number(m->window_bytes_per_token, bytes[1], sizeof bytes[1]);
    number(m->recurrent_bytes, bytes[2], sizeof bytes[2]);
    for (size_t i = 0; i < 6; i++) words(findings[i], found[i], sizeof found[i]);
    snprintf(row, cap, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f->record.family, m->model,
             bytes[0], bytes[1], bytes[2], found[0], found[1], found[2], found[3], found[4], found[5]);
}

static void the_documentation_shows_what_the_registry_says(void **state) {
    (void)state;
    char path[1024], row[512];
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    if (!source) {
        print_message("skipped: SKIPPY_SOURCE_DIR is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/docs/families.md", source);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char page[100000];
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    const sk_registry *r = sk_registry_get();
    for (size_t i = 0; i < r->n_families; i++) {
        const sk_family_entry *f = &r->families[i];
        for (size_t k = 0; k < f->n_measured; k++) {
            documented_row(f, &f->measured[k], row, sizeof row);
            if (!strstr(page, row)) fail_msg("docs/families.md lacks: %s", row);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_no_registry_is_refused),
        cmocka_unit_test(values_of_the_wrong_kind_are_refused_with_their_place),
        cmocka_unit_test(policy_that_contradicts_the_state_is_refused),
        cmocka_unit_test(reviews_that_contradict_themselves_are_refused),
        cmocka_unit_test(measurements_that_contradict_the_family_are_refused),
        cmocka_unit_test(rules_that_can_never_hold_are_refused),
        cmocka_unit_test(a_family_is_listed_once),
        cmocka_unit_test(a_truncated_registry_is_refused_at_every_length),
        cmocka_unit_test(the_compiled_in_registry_is_read_and_finds_by_family_and_architecture),
        cmocka_unit_test(evidence_is_named_by_its_strength),
        cmocka_unit_test(the_schema_lists_the_same_words),
        cmocka_unit_test(the_documentation_shows_what_the_registry_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
