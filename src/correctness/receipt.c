#include "correctness/receipt.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/hash.h"
#include "correctness/receipt_file.h"
#include "correctness/report.h"

static const char FORMAT[] = "skippy-certification-receipt";
enum { NAME_CAP = 32 + 1 + 16 + 1 + 8 + sizeof ".json", LAYOUT_PREFIX = 32 + 1 + 16 + 1, WEIGHTS_PREFIX = 32 + 1 };

/* ---- names ---- */

bool sk_receipt_default_dir(char *buf, size_t cap) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && *state == '/')
        n = snprintf(buf, cap, "%s/skippy/receipts", state);
    else if (home && *home)
        n = snprintf(buf, cap, "%s/.local/state/skippy/receipts", home);
    return n > 0 && (size_t)n < cap;
}

static void file_name(const sk_receipt_facts *f, char out[NAME_CAP]) {
    uint8_t layout[SK_HASH_BYTES], runtime[SK_HASH_BYTES];
    char weights_hex[33], layout_hex[17], runtime_hex[9];
    const uint8_t flags[2] = {f->flash_attn == 1, f->swa_full};
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, f->type_k, strlen(f->type_k) + 1); /* with the NUL: no two lists of fields read alike */
    sk_hash_update(&h, f->type_v, strlen(f->type_v) + 1);
    sk_hash_update(&h, f->device, strlen(f->device) + 1);
    sk_hash_update(&h, flags, sizeof flags);
    sk_hash_final(&h, layout);
    sk_hash(f->abi, strlen(f->abi), runtime);
    sk_hex(f->weights.bytes, 16, weights_hex);
    sk_hex(layout, 8, layout_hex);
    sk_hex(runtime, 4, runtime_hex);
    snprintf(out, NAME_CAP, "%s-%s-%s.json", weights_hex, layout_hex, runtime_hex);
}

/* ---- content ---- */

static sk_receipt_facts facts_of(const sk_certify_identity *i) {
    return (sk_receipt_facts){.weights = i->weights,
                              .abi = i->abi,
                              .device = i->device,
                              .type_k = i->type_k,
                              .type_v = i->type_v,
                              .flash_attn = i->flash_attn,
                              .swa_full = i->swa_full};
}

static json_t *content_json(const sk_certify_report *r, const char *program_version) {
    const sk_certify_identity *i = &r->identity;
    char weights[2 * SK_HASH_BYTES + 1], date[32];
    json_t *modes = json_object(), *lengths = json_array();
    sk_hex(i->weights.bytes, sizeof i->weights.bytes, weights);
    sk_certify_date(r->date_s, date, sizeof date);
    for (int m = 0; m < SK_MODES; m++)
        json_object_set_new(modes, sk_mode_name((enum sk_mode)m),
                            json_string(sk_outcome_name(sk_certify_outcome(r, (enum sk_mode)m))));
    for (size_t k = 0; k < r->n_lengths; k++) json_array_append_new(lengths, json_integer(r->length[k].n_tokens));
    return json_pack("{s:s, s:o, s:s, s:o, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s}",
                     "weights_blake3", weights, "model_id", sk_report_text(i->model_id), "architecture", i->arch,
                     "family", sk_report_text(i->family), "runtime_abi", i->abi, "device", i->device, "kv_type_k",
                     i->type_k, "kv_type_v", i->type_v, "flash_attn", i->flash_attn == 1, "swa_full", i->swa_full,
                     "status", r->passed ? "pass" : "fail", "verdict", r->verdict, "state_payload_kind",
                     sk_mode_name(r->production), "comparison", r->row_class, "state_layout", r->layout, "modes", modes,
                     "prompt_token_counts", lengths, "date", date, "skippy_version", program_version);
}

/* ---- writing ---- */

int sk_receipt_write(const char *dir, const sk_certify_report *r, const char *program_version, char *path, size_t cap,
                     sk_err *e) {
    char name[NAME_CAP];
    const sk_receipt_facts facts = facts_of(&r->identity);
    file_name(&facts, name);
    int rc = path ? sk_receipt_path(path, cap, dir, name, e) : SKIPPY_OK;
    if (rc) return rc;
    json_t *content = content_json(r, program_version);
    rc = content ? sk_receipt_save(dir, name, FORMAT, SK_RECEIPT_VERSION, content, e)
                 : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the receipt");
    json_decref(content);
    return rc;
}

/* ---- reading ---- */

static bool parse_outcome(const char *text, enum sk_outcome *out) {
    for (int o = SK_OUTCOME_NOT_APPLICABLE; o <= SK_OUTCOME_FAIL; o++) {
        if (strcmp(text, sk_outcome_name((enum sk_outcome)o)) != 0) continue;
        *out = (enum sk_outcome)o;
        return true;
    }
    return false;
}

static bool is_about(const json_t *c, const sk_receipt_facts *f) {
    char weights[2 * SK_HASH_BYTES + 1];
    sk_hex(f->weights.bytes, sizeof f->weights.bytes, weights);
    return strcmp(sk_receipt_text(c, "weights_blake3"), weights) == 0 &&
           strcmp(sk_receipt_text(c, "runtime_abi"), f->abi) == 0 &&
           strcmp(sk_receipt_text(c, "device"), f->device) == 0 &&
           strcmp(sk_receipt_text(c, "kv_type_k"), f->type_k) == 0 &&
           strcmp(sk_receipt_text(c, "kv_type_v"), f->type_v) == 0 &&
           json_is_true(json_object_get(c, "flash_attn")) == (f->flash_attn == 1) &&
           json_is_true(json_object_get(c, "swa_full")) == f->swa_full;
}

static bool read_content(const json_t *c, sk_receipt *out) {
    const json_t *modes = json_object_get(c, "modes");
    bool ok = sk_receipt_copy(c, "family", out->family, sizeof out->family) &&
              sk_receipt_copy(c, "architecture", out->arch, sizeof out->arch) &&
              sk_receipt_copy(c, "model_id", out->model_id, sizeof out->model_id) &&
              sk_receipt_copy(c, "state_payload_kind", out->payload, sizeof out->payload) &&
              sk_receipt_copy(c, "verdict", out->verdict, sizeof out->verdict) &&
              sk_receipt_copy(c, "comparison", out->comparison, sizeof out->comparison) &&
              sk_receipt_copy(c, "state_layout", out->layout, sizeof out->layout) &&
              sk_receipt_copy(c, "date", out->date, sizeof out->date) &&
              sk_receipt_copy(c, "skippy_version", out->program_version, sizeof out->program_version);
    for (int m = 0; ok && m < SK_MODES; m++)
        ok = parse_outcome(sk_receipt_text(modes, sk_mode_name((enum sk_mode)m)), &out->outcome[m]);
    const char *status = sk_receipt_text(c, "status");
    out->passed = strcmp(status, "pass") == 0;
    return ok && (out->passed || strcmp(status, "fail") == 0);
}

/* What the folder holds for the same weights, for words. */
static int explain_absence(const char *dir, const char *name, sk_err *e) {
    bool other_settings = false, other_runtime = false;
    DIR *d = opendir(dir);
    const struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL) {
        if (strncmp(entry->d_name, name, WEIGHTS_PREFIX) != 0) continue;
        if (strncmp(entry->d_name, name, LAYOUT_PREFIX) == 0)
            other_runtime = true;
        else
            other_settings = true;
    }
    if (d) closedir(d);
    if (other_runtime)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "this model was certified under another build of the runtime; run 'skippy certify' again");
    return sk_err_set(e, SKIPPY_E_NOT_FOUND, "this model is not certified%s; run 'skippy certify -m MODEL'",
                      other_settings ? " for these settings (KV types, flash attention, window cache, device)" : "");
}

int sk_receipt_find(const char *dir, const sk_receipt_facts *f, sk_receipt *out, sk_err *e) {
    char name[NAME_CAP], path[PATH_MAX];
    json_t *content = NULL;
    *out = (sk_receipt){0};
    file_name(f, name);
    int rc = sk_receipt_path(path, sizeof path, dir, name, e);
    if (rc == SKIPPY_OK) rc = sk_receipt_load(path, FORMAT, SK_RECEIPT_VERSION, &content, e);
    if (rc == SKIPPY_E_NOT_FOUND) return explain_absence(dir, name, e);
    if (rc == SKIPPY_OK && !is_about(content, f))
        rc = sk_receipt_invalid(path, "it is about another model or other settings", e);
    if (rc == SKIPPY_OK && !read_content(content, out)) rc = sk_receipt_invalid(path, "fields are missing", e);
    json_decref(content);
    if (rc) *out = (sk_receipt){0};
    return rc;
}
