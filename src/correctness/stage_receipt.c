#include "correctness/stage_receipt.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "correctness/receipt_file.h"
#include "correctness/report.h"
#include "runtime/context.h"

static const char FORMAT[] = "skippy-stage-receipt";
enum { NAME_CAP = 128, ABI_CAP = 512, DEVICE_CAP = 128 };

/* Facts with nothing left open. */
typedef struct subject {
    const char *source, *type_k, *type_v, *abi, *device;
    sk_layer_range layers;
    int flash_attn;
} subject;

static const char *type_or_default(const char *type) {
    return type && *type ? type : "f16";
}

static void file_name(const subject *s, bool alone, char out[NAME_CAP]) {
    uint8_t settings[SK_HASH_BYTES], runtime[SK_HASH_BYTES];
    char settings_hex[17], runtime_hex[9];
    const uint8_t flash = (uint8_t)(s->flash_attn + 1);
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, s->type_k, strlen(s->type_k) + 1); /* with the NUL: no two lists of fields read alike */
    sk_hash_update(&h, s->type_v, strlen(s->type_v) + 1);
    sk_hash_update(&h, s->device, strlen(s->device) + 1);
    sk_hash_update(&h, &flash, sizeof flash);
    sk_hash_final(&h, settings);
    sk_hash(s->abi, strlen(s->abi), runtime);
    sk_hex(settings, 8, settings_hex);
    sk_hex(runtime, 4, runtime_hex);
    snprintf(out, NAME_CAP, "stage-%.32s-%d-%d-%s-%s%s.json", s->source, (int)s->layers.start, (int)s->layers.end,
             settings_hex, runtime_hex, alone ? "-alone" : "");
}

static json_t *content_json(const sk_stage_certify_report *r, const subject *s, const char *program_version) {
    char date[32];
    json_t *cuts = json_array();
    sk_certify_date(r->date_s, date, sizeof date);
    for (size_t i = 0; i < r->n_stages; i++) json_array_append_new(cuts, json_integer(r->layers[i].start));
    return json_pack("{s:s,s:i,s:i,s:i,s:o,s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:i,s:i,s:s,s:s}", "source_blake3", s->source,
                     "layer_start", (int)s->layers.start, "layer_end", (int)s->layers.end, "layers", (int)r->n_layer,
                     "stages_start_at", cuts, "runtime_abi", s->abi, "device", s->device, "kv_type_k", s->type_k,
                     "kv_type_v", s->type_v, "flash_attn", s->flash_attn, "status", r->passed ? "pass" : "fail",
                     "verdict", r->verdict, "rows", (int)r->rows, "rows_different", (int)r->different, "date", date,
                     "skippy_version", program_version);
}

int sk_stage_receipt_write(const char *dir, const sk_stage_certify_report *r, const char *program_version, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < r->n_stages; i++) {
        const subject s = {r->source, r->type_k, r->type_v, r->abi, r->device, r->layers[i], r->flash_attn};
        char name[NAME_CAP];
        json_t *content = content_json(r, &s, program_version);
        file_name(&s, false, name);
        rc = content ? sk_receipt_save(dir, name, FORMAT, SK_STAGE_RECEIPT_VERSION, content, e)
                     : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the receipt");
        json_decref(content);
    }
    return rc;
}

/* ---- alone ---- */

static json_t *alone_json(const sk_certify_report *r, const subject *s, const char *program_version) {
    char date[32], inputs[64];
    json_t *modes = json_object(), *lengths = json_array();
    sk_certify_date(r->date_s, date, sizeof date);
    for (int m = 0; m < SK_MODES; m++)
        json_object_set_new(modes, sk_mode_name((enum sk_mode)m),
                            json_string(sk_outcome_name(sk_certify_outcome(r, (enum sk_mode)m))));
    for (size_t i = 0; i < r->n_lengths; i++) json_array_append_new(lengths, json_integer(r->length[i].n_tokens));
    return json_pack("{s:s,s:i,s:i,s:i,s:s,s:s,s:s,s:s,s:i,s:b,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:s,s:s}", "source_blake3",
                     s->source, "layer_start", (int)s->layers.start, "layer_end", (int)s->layers.end, "layers",
                     (int)r->identity.stage.n_layer, "runtime_abi", s->abi, "device", s->device, "kv_type_k", s->type_k,
                     "kv_type_v", s->type_v, "flash_attn", s->flash_attn, "compared_with_whole", 0, "inputs",
                     sk_certify_inputs(&r->identity, inputs, sizeof inputs), "status", r->passed ? "pass" : "fail",
                     "verdict", r->verdict, "comparison", r->row_class, "state_payload_kind",
                     sk_mode_name(r->production), "modes", modes, "prompt_token_counts", lengths, "date", date,
                     "skippy_version", program_version);
}

int sk_stage_receipt_write_alone(const char *dir, const sk_certify_report *r, int flash_attn,
                                 const char *program_version, char *path, size_t cap, sk_err *e) {
    const sk_certify_identity *i = &r->identity;
    const subject s = {.source = i->stage.source,
                       .type_k = i->type_k,
                       .type_v = i->type_v,
                       .abi = i->abi,
                       .device = i->device,
                       .layers = {i->stage.layer_start, i->stage.layer_end},
                       .flash_attn = flash_attn};
    char name[NAME_CAP];
    if (!i->alone) return sk_err_set(e, SKIPPY_E_INVALID, "the report is not about a stage alone");
    file_name(&s, true, name);
    int rc = path ? sk_receipt_path(path, cap, dir, name, e) : SKIPPY_OK;
    if (rc) return rc;
    json_t *content = alone_json(r, &s, program_version);
    rc = content ? sk_receipt_save(dir, name, FORMAT, SK_STAGE_RECEIPT_VERSION, content, e)
                 : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the receipt");
    json_decref(content);
    return rc;
}

/* ---- reading ---- */

static bool number_is(const json_t *c, const char *key, int value) {
    const json_t *n = json_object_get(c, key);
    return json_is_integer(n) && json_integer_value(n) == value;
}

static bool is_about(const json_t *c, const subject *s) {
    return strcmp(sk_receipt_text(c, "source_blake3"), s->source) == 0 &&
           number_is(c, "layer_start", s->layers.start) && number_is(c, "layer_end", s->layers.end) &&
           strcmp(sk_receipt_text(c, "runtime_abi"), s->abi) == 0 &&
           strcmp(sk_receipt_text(c, "device"), s->device) == 0 &&
           strcmp(sk_receipt_text(c, "kv_type_k"), s->type_k) == 0 &&
           strcmp(sk_receipt_text(c, "kv_type_v"), s->type_v) == 0 && number_is(c, "flash_attn", s->flash_attn);
}

static bool read_content(const json_t *c, sk_stage_receipt *out) {
    const char *status = sk_receipt_text(c, "status");
    out->passed = strcmp(status, "pass") == 0;
    return sk_receipt_copy(c, "verdict", out->verdict, sizeof out->verdict) &&
           sk_receipt_copy(c, "date", out->date, sizeof out->date) && (out->passed || strcmp(status, "fail") == 0);
}

static int load(const char *dir, const subject *s, bool alone, sk_stage_receipt *out, sk_err *e) {
    char name[NAME_CAP], path[PATH_MAX];
    json_t *content = NULL;
    *out = (sk_stage_receipt){.alone = alone};
    file_name(s, alone, name);
    int rc = sk_receipt_path(path, sizeof path, dir, name, e);
    if (rc == SKIPPY_OK) rc = sk_receipt_load(path, FORMAT, SK_STAGE_RECEIPT_VERSION, &content, e);
    if (rc == SKIPPY_OK && !is_about(content, s))
        rc = sk_receipt_invalid(path, "it is about other layers or other settings", e);
    if (rc == SKIPPY_OK && !read_content(content, out)) rc = sk_receipt_invalid(path, "fields are missing", e);
    json_decref(content);
    if (rc) *out = (sk_stage_receipt){0};
    return rc;
}

int sk_stage_receipt_find(const char *dir, const sk_stage_receipt_facts *f, sk_stage_receipt *out, sk_err *e) {
    char abi[ABI_CAP], device[DEVICE_CAP];
    sk_stage_receipt alone;
    sk_runtime_abi(abi, sizeof abi);
    sk_runtime_devices(device, sizeof device);
    const subject s = {f->source,    type_or_default(f->type_k), type_or_default(f->type_v), abi, device, f->layers,
                       f->flash_attn};
    int whole_rc = load(dir, &s, false, out, e);
    if (whole_rc != SKIPPY_OK && whole_rc != SKIPPY_E_NOT_FOUND) return whole_rc;
    int rc = load(dir, &s, true, &alone, e);
    if (rc == SKIPPY_OK && (whole_rc != SKIPPY_OK || !alone.passed)) *out = alone;
    if (rc != SKIPPY_OK && rc != SKIPPY_E_NOT_FOUND) *out = (sk_stage_receipt){0};
    if (rc != SKIPPY_E_NOT_FOUND) return rc;
    if (whole_rc == SKIPPY_OK) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOT_FOUND,
                      "the layers %d to %d are not certified as a stage; where the whole model is, run 'skippy certify "
                      "-m MODEL.gguf --stages N', else 'skippy certify --package P --layers %d..%d'",
                      (int)f->layers.start, (int)f->layers.end - 1, (int)f->layers.start, (int)f->layers.end - 1);
}
