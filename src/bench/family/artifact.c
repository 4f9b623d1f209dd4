#include "bench/family/artifact.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/facts.h"
#include "bench/family/package_facts.h"
#include "bench/family/quant.h"
#include "bench/family/root_path.h"
#include "runtime/gguf_check.h"
#include "runtime/model.h"
#include "runtime/synth_families.h"

enum { SHARD_TAIL = sizeof "-00001-of-00003.gguf" - 1 };

/* One look at one path. */
typedef struct look {
    const char *real_root, *path;
    const sk_preset *preset;
    sk_found_model *out;
} look;

static bool refuse(const look *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns false, so that a check reads `return refuse(...)`. Takes back what was found out before. */
static bool refuse(const look *l, const char *fmt, ...) {
    sk_found_model *m = l->out;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->why, sizeof m->why, fmt, ap);
    va_end(ap);
    sk_text_clean(m->why);
    m->status = SK_FOUND_REFUSED;
    m->runtime_entry[0] = m->arch[0] = m->quant[0] = '\0';
    m->n_files = 0;
    m->layers = m->width = 0;
    m->synthetic = false;
    return false;
}

/* Adds a regular file of the artifact. */
static bool add_file(const look *l, const char *path) {
    char real[PATH_MAX];
    struct stat st;
    sk_err why = {0};
    if (sk_root_resolve(l->real_root, path, real, &why) != SKIPPY_OK) {
        return refuse(l, "%.250s", why.text);
    }
    if (stat(real, &st) != 0) {
        return refuse(l, "'%.150s' cannot be looked at: %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return refuse(l, "'%.150s' is a folder, not a GGUF file", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return refuse(l, "'%.150s' is not a regular file", path);
    }
    sk_found_file *f = &l->out->file[l->out->n_files];
    if ((size_t)snprintf(f->path, sizeof f->path, "%s", real) >= sizeof f->path) {
        return refuse(l, "the path '%.150s...' is too long", real);
    }
    f->bytes = (uint64_t)st.st_size;
    f->sha256[0] = '\0';
    l->out->n_files++;
    return true;
}

/* The family that the preset's shape has; every preset names one. */
static bool has_arch(const look *l, const char *arch) {
    const sk_synth_family *f = sk_synth_family_find(l->preset->synth);
    if (f && strcmp(f->arch, arch) != 0) {
        return refuse(l, "'%.120s' is a model of the architecture '%.40s', %s is '%s'", l->path, arch, l->preset->label,
                      f->arch);
    }
    return true;
}

/* ---- GGUF ---- */

/* Reads five digits. */
static bool five_digits(const char *p, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        *out = *out * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

/* "...-00001-of-00003.gguf": number and count of a shard; 1 of 1 for other names. */
static void shard_of_name(const char *path, unsigned *no, unsigned *count) {
    const size_t len = strlen(path);
    const char *tail = len < SHARD_TAIL ? "" : path + len - SHARD_TAIL;
    if (tail[0] != '-' || !five_digits(tail + 1, no) || strncmp(tail + 6, "-of-", 4) != 0 ||
        !five_digits(tail + 10, count) || strcmp(tail + 15, ".gguf") != 0) {
        *no = *count = 1;
    }
}

static bool add_shards(const look *l) {
    unsigned no, count;
    char path[PATH_MAX];
    shard_of_name(l->path, &no, &count);
    if (no != 1) {
        return refuse(l, "'%.150s' is shard %u of %u, not the first", l->path, no, count);
    }
    if (count < 1 || count > SK_PRESET_MAX_SHARDS) {
        return refuse(l, "'%.150s' is the first of %u shards; at most %d can be measured", l->path, count,
                      SK_PRESET_MAX_SHARDS);
    }
    bool ok = add_file(l, l->path);
    for (unsigned i = 2; ok && i <= count; i++) {
        const size_t stem = strlen(l->path) - SHARD_TAIL;
        snprintf(path, sizeof path, "%.*s-%05u-of-%05u.gguf", (int)stem, l->path, i, count);
        ok = add_file(l, path);
    }
    l->out->kind = count > 1 ? "split-gguf-first-shard" : "single-gguf";
    return ok;
}

/* The header must agree with the name: llama.cpp finds shards by the header's count. */
static bool counts_agree(const look *l) {
    sk_gguf_facts facts;
    sk_err why = {0};
    if (sk_gguf_check_file(l->path, &facts, &why) != SKIPPY_OK) {
        return refuse(l, "%.250s", why.text);
    }
    const size_t count = facts.split_count > 1 ? facts.split_count : 1;
    return count == l->out->n_files ||
           refuse(l, "'%.120s' says that it has %zu parts, its name stands for %zu", l->path, count, l->out->n_files);
}

static bool read_facts(const look *l, const sk_model *m) {
    const sk_model_info *info = sk_model_get_info(m);
    char text[32];
    sk_found_model *f = l->out;
    if (info->stage.is_stage) {
        return refuse(l, "'%.120s' holds layers %d..%d of another model, not a whole one", l->path,
                      info->stage.layer_start, info->stage.layer_end);
    }
    snprintf(f->arch, sizeof f->arch, "%s", info->arch);
    f->layers = info->n_layer;
    f->width = info->n_embd;
    f->synthetic = sk_facts_synthetic(m);
    sk_quant_of_name(l->path, f->quant, sizeof f->quant);
    if (!f->quant[0] && sk_model_meta(m, "general.file_type", text, sizeof text)) {
        snprintf(f->quant, sizeof f->quant, "%s", sk_quant_of_file_type(strtol(text, NULL, 10)));
    }
    return has_arch(l, f->arch);
}

static int read_gguf(const look *l, sk_err *e) {
    const sk_model_params params = {.path = l->path, .facts_only = true};
    sk_model *m = NULL;
    sk_err why = {0};
    if (!add_shards(l) || !counts_agree(l)) {
        return SKIPPY_OK;
    }
    const int rc = sk_model_load(&params, &m, &why);
    if (rc == SKIPPY_E_NOMEM) {
        return sk_err_set(e, rc, "%s", why.text);
    }
    if (rc != SKIPPY_OK) {
        refuse(l, "%.250s", why.text);
    } else {
        read_facts(l, m);
    }
    sk_model_free(m);
    return SKIPPY_OK;
}

/* ---- package ---- */

static int read_package(const look *l, sk_err *e) {
    sk_package_facts facts;
    sk_err why = {0};
    const int rc =
        sk_package_facts_read(l->real_root, l->path, l->preset->layer_start, l->preset->layer_end, &facts, &why);
    if (rc == SKIPPY_E_NOMEM) {
        return sk_err_set(e, rc, "%s", why.text);
    }
    if (rc != SKIPPY_OK) {
        refuse(l, "%.250s", why.text);
    } else if (add_file(l, facts.manifest)) {
        sk_found_model *f = l->out;
        snprintf(f->arch, sizeof f->arch, "%s", facts.arch);
        f->layers = facts.layers;
        f->width = facts.width;
        f->synthetic = facts.synthetic;
        sk_quant_of_name(l->path, f->quant, sizeof f->quant);
        has_arch(l, f->arch);
    }
    return SKIPPY_OK;
}

int sk_artifact_read(const char *real_root, const char *path, const sk_preset *p, sk_found_model *out, sk_err *e) {
    const look l = {real_root, path, p, out};
    const bool package = p->artifact == SK_ARTIFACT_PACKAGE;
    out->status = SK_FOUND_PRESENT;
    out->kind = package ? "layer-package-tree" : "single-gguf";
    out->n_files = 0;
    out->why[0] = '\0';
    if ((size_t)snprintf(out->runtime_entry, sizeof out->runtime_entry, "%s", path) >= sizeof out->runtime_entry) {
        refuse(&l, "the path '%.150s...' is too long", path);
        return SKIPPY_OK;
    }
    return package ? read_package(&l, e) : read_gguf(&l, e);
}
