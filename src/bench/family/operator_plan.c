#include "bench/family/operator_plan.h"

#include <stdlib.h>
#include <string.h>

#include "bench/family/corpus.h"
#include "bench/family/request.h"
#include "bench/family/sizes_json.h"

enum { MAX_KEY = 63 /* what a cell has room for */ };

static void check_fields(const sk_strict *plan) {
    static const char *const own[] = {
        "schema_version", "cache_root",        "cases",      "use_cases",  "corpus",
        "agent_corpus",   "skip_llama_server", "old_server", "new_server", "model_sha256"};
    enum { N_OWN = sizeof own / sizeof *own };
    const char *sizes[SK_SIZES_MAX_NAMES], *known[N_OWN + SK_SIZES_MAX_NAMES + 1] = {NULL};
    const size_t n_sizes = sk_sizes_names(sizes);
    size_t n = 0;
    for (size_t i = 0; i < N_OWN; i++) known[n++] = own[i];
    for (size_t i = 0; i < n_sizes; i++) {
        /* a limit of the run, not of the plan: the request has it beside the other limits */
        if (strcmp(sizes[i], "request_timeout_ms") != 0) known[n++] = sizes[i];
    }
    sk_strict_known(plan, known);
}

void sk_operator_pin_read(const sk_strict *v, sk_pinned_file *out) {
    static const char *const fields[] = {"path", "sha256", NULL};
    if (!sk_strict_present(v)) return;
    sk_strict_known(v, fields);
    const sk_strict path = sk_strict_need(v, "path"), sha256 = sk_strict_need(v, "sha256");
    sk_strict_absolute(&path, out->path, sizeof out->path);
    sk_strict_sha256(&sha256, out->sha256);
}

/* ---- cases ---- */

static void read_cases(const sk_strict *plan, sk_operator_plan *out) {
    const sk_strict list = sk_strict_field(plan, "cases");
    const size_t n = sk_strict_count(&list, 0, SK_PRESETS);
    bool wanted[SK_PRESETS] = {false};
    for (size_t i = 0; i < n; i++) {
        const sk_strict item = sk_strict_item(&list, i);
        const char *key = sk_strict_text(&item, MAX_KEY);
        const size_t rank = sk_preset_rank(key);
        if (rank == SK_PRESETS) {
            sk_strict_refuse(&item, SKIPPY_E_INVALID, "there is no case '%s'", key);
            return;
        }
        if (wanted[rank]) sk_strict_refuse(&item, SKIPPY_E_INVALID, "the case '%s' is there twice", key);
        wanted[rank] = true;
    }
    for (size_t rank = 0; rank < SK_PRESETS; rank++) {
        if (n == 0 || wanted[rank]) out->cases[out->n_cases++] = sk_preset_at(rank);
    }
}

static bool is_use_case_key(const char *key) {
    return key[0] && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(key);
}

static void check_use_case(const sk_strict *item, const char *key, size_t n, const sk_operator_plan *so_far) {
    if (!is_use_case_key(key))
        sk_strict_refuse(item, SKIPPY_E_INVALID, "'%s' is no key: lower-case letters, digits and underscores", key);
    if (strcmp(key, "all") == 0 && n > 1)
        sk_strict_refuse(item, SKIPPY_E_INVALID, "\"all\" must stand alone: it means every use case of the corpus");
    for (size_t k = 0; k < so_far->n_use_cases; k++) {
        if (strcmp(so_far->use_cases[k], key) == 0)
            sk_strict_refuse(item, SKIPPY_E_INVALID, "the use case '%s' is there twice", key);
    }
}

static void read_use_cases(const sk_strict *plan, sk_operator_plan *out) {
    const sk_strict list = sk_strict_field(plan, "use_cases");
    const size_t n = sk_strict_count(&list, 0, SK_CORPUS_MAX_USE_CASES);
    if (n == 0) return;
    out->use_cases = calloc(n, sizeof *out->use_cases);
    if (!out->use_cases) {
        sk_strict_refuse(&list, SKIPPY_E_NOMEM, "out of memory");
        return;
    }
    out->n_use_cases = 0;
    for (size_t i = 0; i < n && !sk_strict_failed(plan); i++) {
        const sk_strict item = sk_strict_item(&list, i);
        const char *key = sk_strict_text(&item, MAX_KEY);
        check_use_case(&item, key, n, out);
        out->use_cases[i] = strdup(key);
        if (!out->use_cases[i]) {
            sk_strict_refuse(&item, SKIPPY_E_NOMEM, "out of memory");
            return;
        }
        out->n_use_cases = i + 1;
    }
}

static void read_corpora(const sk_strict *plan, sk_operator_plan *out) {
    const sk_strict corpus = sk_strict_field(plan, "corpus"), agent = sk_strict_field(plan, "agent_corpus");
    sk_operator_pin_read(&corpus, &out->corpus);
    sk_operator_pin_read(&agent, &out->agent_corpus);
    if (out->n_use_cases && !out->corpus.path[0])
        sk_strict_refuse(&corpus, SKIPPY_E_INVALID, "is missing, but plan.use_cases names use cases of it");
    if (out->corpus.path[0] && !out->n_use_cases)
        sk_strict_refuse(&corpus, SKIPPY_E_INVALID, "is of no use: plan.use_cases is empty (\"all\" takes them all)");
}

/* ---- pins ---- */

static void read_servers(const sk_strict *plan, sk_operator_plan *out) {
    const sk_strict old_server = sk_strict_field(plan, "old_server"), new_server = sk_strict_field(plan, "new_server");
    sk_operator_pin_read(&old_server, &out->old_server);
    sk_operator_pin_read(&new_server, &out->new_server);
    if (!out->old_server.path[0] != !out->new_server.path[0]) {
        sk_strict_refuse(out->old_server.path[0] ? &new_server : &old_server, SKIPPY_E_INVALID,
                         "is missing: give old_server and new_server, or neither");
    }
}

static void read_model_pins(const sk_strict *plan, sk_operator_plan *out) {
    const sk_strict pins = sk_strict_field(plan, "model_sha256");
    const char *keys[SK_PRESETS + 1] = {NULL};
    for (size_t i = 0; i < SK_PRESETS; i++) keys[i] = sk_preset_at(i)->key;
    sk_strict_known(&pins, keys);
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_strict pin = sk_strict_field(&pins, keys[i]);
        sk_strict_sha256(&pin, out->model_sha256[i]);
    }
}

void sk_operator_plan_read(const sk_strict *plan, sk_operator_plan *out) {
    check_fields(plan);
    const sk_strict version = sk_strict_field(plan, "schema_version"), root = sk_strict_need(plan, "cache_root");
    const sk_strict skip = sk_strict_field(plan, "skip_llama_server");
    sk_strict_int(&version, 1, 1, 1);
    sk_strict_absolute(&root, out->cache_root, sizeof out->cache_root);
    read_cases(plan, out);
    read_use_cases(plan, out);
    read_corpora(plan, out);
    sk_family_sizes_default(&out->sizes);
    out->sizes.prefix_tokens = 0; /* unless it is said, every preset and use case has its own */
    sk_sizes_read(plan, false, &out->sizes);
    out->skip_llama_server = sk_strict_bool(&skip, false);
    read_servers(plan, out);
    read_model_pins(plan, out);
}

void sk_operator_plan_free(sk_operator_plan *p) {
    for (size_t i = 0; i < p->n_use_cases; i++) free(p->use_cases[i]);
    free(p->use_cases);
    p->use_cases = NULL;
    p->n_use_cases = 0;
}
