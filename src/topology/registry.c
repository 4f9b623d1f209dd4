#include "topology/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "topology/families_data.h"
#include "topology/infer.h"
#include "topology/registry_read.h"

enum { FORMAT = 1, MAX_FAMILIES = 4096, MAX_RULES = 4096 };

const sk_family_entry *sk_registry_family(const sk_registry *r, const char *family) {
    for (size_t i = 0; i < r->n_families; i++)
        if (strcmp(r->families[i].record.family, family) == 0) return &r->families[i];
    return NULL;
}

const sk_family_entry *sk_registry_arch(const sk_registry *r, const char *arch) {
    if (arch[0] == 0) return NULL; /* families that llama.cpp does not know have no architecture */
    for (size_t i = 0; i < r->n_families; i++)
        if (strcmp(r->families[i].record.arch, arch) == 0) return &r->families[i];
    return NULL;
}

static void *zeroed(sk_reader *r, size_t n, size_t size) {
    void *p = calloc(n, size);
    if (p) return p;
    sk_err_set(r->e, SKIPPY_E_NOMEM, "out of memory");
    r->failed = true;
    return NULL;
}

static void read_families(sk_reader *r, const json_t *root, sk_registry *out) {
    const json_t *list = sk_read_opt_array(r, root, "families", MAX_FAMILIES);
    if (!list) {
        sk_read_fail(r, "the key 'families' is missing");
        return;
    }
    out->families = zeroed(r, json_array_size(list), sizeof *out->families);
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        sk_family_entry *f = &out->families[i];
        snprintf(r->where, sizeof r->where, "families[%zu]", i);
        sk_registry_read_family(r, json_array_get(list, i), f);
        sk_registry_check_family(r, f);
        if (r->failed) return;
        if (sk_registry_family(out, f->record.family)) sk_read_fail(r, "the family is listed twice");
        out->n_families = i + 1;
    }
}

/* Rules for architectures name one; rules for names have a name and nothing else. */
static void check_rule(sk_reader *r, const sk_registry *reg, const sk_infer_rule *rule, bool by_arch) {
    if (r->failed) return;
    if (by_arch && (!rule->arch || !sk_registry_arch(reg, rule->arch)))
        sk_read_fail(r, "'arch' must name an architecture of a family");
    if (!by_arch && (rule->arch || rule->layers || rule->width || rule->n_name_parts == 0))
        sk_read_fail(r, "a rule for names needs 'name' and knows neither architecture nor shape");
    for (size_t i = 0; i < rule->n_name_parts; i++) {
        char normalised[64];
        sk_infer_normalise(rule->name_parts[i], normalised, sizeof normalised);
        if (strcmp(normalised, rule->name_parts[i]) != 0)
            sk_read_fail(r, "'%.60s' matches no name: it must be in lower case without blanks, '_', '-' and '/'",
                         rule->name_parts[i]);
    }
}

static void read_rules(sk_reader *r, const json_t *root, const char *key, const sk_registry *reg, sk_infer_rule **out,
                       size_t *n) {
    const json_t *list = sk_read_opt_array(r, root, key, MAX_RULES);
    if (!list) return;
    *out = zeroed(r, json_array_size(list), sizeof **out);
    for (size_t i = 0; i < json_array_size(list) && !r->failed; i++) {
        snprintf(r->where, sizeof r->where, "%s[%zu]", key, i);
        sk_registry_read_rule(r, json_array_get(list, i), reg, &(*out)[i]);
        check_rule(r, reg, &(*out)[i], strcmp(key, "by_architecture") == 0);
        *n = i + 1;
    }
}

static void read_root(sk_reader *r, const json_t *root, sk_registry *out) {
    static const char *const keys[] = {"$schema", "format", "runtime", "families", "by_architecture", "by_name", NULL};
    int32_t format = 0;
    sk_read_keys(r, root, keys);
    sk_read_i32(r, root, "format", FORMAT, FORMAT, &format);
    sk_read_text(r, root, "runtime", &out->runtime);
    read_families(r, root, out);
    read_rules(r, root, "by_architecture", out, &out->by_arch, &out->n_by_arch);
    read_rules(r, root, "by_name", out, &out->by_name, &out->n_by_name);
}

int sk_registry_parse(const char *json, size_t len, sk_registry *out, sk_err *e) {
    sk_err local = {0};
    json_error_t why;
    memset(out, 0, sizeof *out);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return sk_err_set(e, SKIPPY_E_INVALID, "the family registry is not JSON: line %d: %.160s", why.line, why.text);
    out->text = root;
    sk_reader r = {.e = &local, .where = "the family registry"};
    read_root(&r, root, out);
    if (!r.failed) return SKIPPY_OK;
    sk_registry_free(out);
    return sk_err_set(e, local.code, "%s", local.text);
}

void sk_registry_free(sk_registry *r) {
    free(r->families);
    free(r->by_arch);
    free(r->by_name);
    json_decref(r->text);
    memset(r, 0, sizeof *r);
}

char *sk_registry_dump(const sk_registry *r, const sk_family_entry *f) {
    const json_t *list = json_object_get(r->text, "families");
    return json_dumps(json_array_get(list, (size_t)(f - r->families)), JSON_COMPACT);
}

static sk_registry compiled_in;

static void load_once(void) {
    sk_err e;
    if (sk_registry_parse((const char *)sk_families_json, sk_families_json_len, &compiled_in, &e) == SKIPPY_OK) return;
    sk_log(SK_LOG_ERROR, "family registry: %s; nothing is reused", e.text);
}

const sk_registry *sk_registry_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    return &compiled_in;
}
