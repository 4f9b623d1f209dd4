#include "correctness/receipt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/hash.h"
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

static int join_path(char *buf, size_t cap, const char *dir, const char *name, sk_err *e) {
    int n = snprintf(buf, cap, "%s/%s", dir, name);
    if (n > 0 && (size_t)n < cap) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_TOO_SMALL, "the path of the receipt is too long: %s/%s", dir, name);
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

/* Digest of the content in one fixed spelling: keys sorted, no blanks. */
static bool content_digest(const json_t *content, char out[2 * SK_HASH_BYTES + 1]) {
    uint8_t digest[SK_HASH_BYTES];
    char *text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    if (!text) return false;
    sk_hash(text, strlen(text), digest);
    sk_hex(digest, sizeof digest, out);
    free(text);
    return true;
}

static char *receipt_text(const sk_certify_report *r, const char *program_version) {
    char digest[2 * SK_HASH_BYTES + 1];
    char *text = NULL;
    json_t *whole = NULL, *content = content_json(r, program_version);
    if (content && content_digest(content, digest))
        whole = json_pack("{s:s, s:i, s:O, s:s}", "format", FORMAT, "version", SK_RECEIPT_VERSION, "content", content,
                          "blake3", digest);
    if (whole) text = json_dumps(whole, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(whole);
    json_decref(content);
    return text;
}

/* ---- writing ---- */

static int make_dirs(const char *dir, sk_err *e) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s", dir);
    if (n <= 0 || (size_t)n >= sizeof path) return sk_err_set(e, SKIPPY_E_TOO_SMALL, "the path '%s' is too long", dir);
    for (char *p = path + 1;; p++) {
        bool end = *p == '\0';
        if (*p != '/' && !end) continue;
        *p = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return sk_err_set(e, SKIPPY_E_IO, "the folder '%s' cannot be made: %s", path, strerror(errno));
        if (end) return SKIPPY_OK;
        *p = '/';
    }
}

static bool write_synced(int fd, const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* The file appears whole or not at all. */
static int publish(const char *path, const char *text, sk_err *e) {
    char partial[PATH_MAX];
    int n = snprintf(partial, sizeof partial, "%s.XXXXXX", path);
    if (n <= 0 || (size_t)n >= sizeof partial) return sk_err_set(e, SKIPPY_E_TOO_SMALL, "'%s' is too long", path);
    int fd = mkostemp(partial, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(errno));
    bool ok = write_synced(fd, text);
    int why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok && rename(partial, path) != 0) ok = false, why = errno;
    if (ok) return SKIPPY_OK;
    unlink(partial);
    return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(why));
}

int sk_receipt_write(const char *dir, const sk_certify_report *r, const char *program_version, char *path, size_t cap,
                     sk_err *e) {
    char name[NAME_CAP], whole[PATH_MAX];
    const sk_receipt_facts facts = facts_of(&r->identity);
    file_name(&facts, name);
    int rc = join_path(whole, sizeof whole, dir, name, e);
    if (rc == SKIPPY_OK && path) rc = join_path(path, cap, dir, name, e);
    if (rc == SKIPPY_OK) rc = make_dirs(dir, e);
    if (rc) return rc;
    char *text = receipt_text(r, program_version);
    if (!text) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the receipt");
    rc = publish(whole, text, e);
    free(text);
    return rc;
}

/* ---- reading ---- */

static int not_a_receipt(const char *path, const char *why, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "'%s' is not a valid receipt: %s. Certify the model again", path, why);
}

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static bool copy_text(const json_t *o, const char *key, char *buf, size_t cap) {
    const char *s = json_string_value(json_object_get(o, key));
    int n = s ? snprintf(buf, cap, "%s", s) : -1;
    return n >= 0 && (size_t)n < cap;
}

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
    return strcmp(text_of(c, "weights_blake3"), weights) == 0 && strcmp(text_of(c, "runtime_abi"), f->abi) == 0 &&
           strcmp(text_of(c, "device"), f->device) == 0 && strcmp(text_of(c, "kv_type_k"), f->type_k) == 0 &&
           strcmp(text_of(c, "kv_type_v"), f->type_v) == 0 &&
           json_is_true(json_object_get(c, "flash_attn")) == (f->flash_attn == 1) &&
           json_is_true(json_object_get(c, "swa_full")) == f->swa_full;
}

static bool read_content(const json_t *c, sk_receipt *out) {
    const json_t *modes = json_object_get(c, "modes");
    bool ok = copy_text(c, "family", out->family, sizeof out->family) &&
              copy_text(c, "architecture", out->arch, sizeof out->arch) &&
              copy_text(c, "model_id", out->model_id, sizeof out->model_id) &&
              copy_text(c, "state_payload_kind", out->payload, sizeof out->payload) &&
              copy_text(c, "verdict", out->verdict, sizeof out->verdict) &&
              copy_text(c, "comparison", out->comparison, sizeof out->comparison) &&
              copy_text(c, "state_layout", out->layout, sizeof out->layout) &&
              copy_text(c, "date", out->date, sizeof out->date) &&
              copy_text(c, "skippy_version", out->program_version, sizeof out->program_version);
    for (int m = 0; ok && m < SK_MODES; m++)
        ok = parse_outcome(text_of(modes, sk_mode_name((enum sk_mode)m)), &out->outcome[m]);
    const char *status = text_of(c, "status");
    out->passed = strcmp(status, "pass") == 0;
    return ok && (out->passed || strcmp(status, "fail") == 0);
}

static int judge_file(const char *path, const json_t *whole, const sk_receipt_facts *f, sk_receipt *out, sk_err *e) {
    const json_t *content = json_object_get(whole, "content");
    char digest[2 * SK_HASH_BYTES + 1];
    if (strcmp(text_of(whole, "format"), FORMAT) != 0 || !json_is_object(content))
        return not_a_receipt(path, "it has another format", e);
    if (json_integer_value(json_object_get(whole, "version")) != SK_RECEIPT_VERSION)
        return not_a_receipt(path, "it has another version", e);
    if (!content_digest(content, digest)) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a receipt");
    if (strcmp(digest, text_of(whole, "blake3")) != 0)
        return not_a_receipt(path, "its content does not match its digest", e);
    if (!is_about(content, f)) return not_a_receipt(path, "it is about another model or other settings", e);
    if (!read_content(content, out)) return not_a_receipt(path, "fields are missing", e);
    return SKIPPY_OK;
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
    json_error_t where;
    *out = (sk_receipt){0};
    file_name(f, name);
    int rc = join_path(path, sizeof path, dir, name, e);
    if (rc) return rc;
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) return explain_absence(dir, name, e);
    if (!file) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be read: %s", path, strerror(errno));
    json_t *whole = json_loadf(file, JSON_REJECT_DUPLICATES, &where);
    fclose(file);
    rc = whole ? judge_file(path, whole, f, out, e) : not_a_receipt(path, "it is not JSON", e);
    json_decref(whole);
    if (rc) *out = (sk_receipt){0};
    return rc;
}
