#include "bench/family/models.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/family/locate.h"
#include "bench/family/model_maker.h"
#include "bench/family/shape.h"

/* Room for what the estimate leaves out: norms, the vocabulary, rounding. */
#define VOCABULARY_BYTES (UINT64_C(16) << 20)

static uint64_t file_estimate(const sk_shape_size *s) {
    return s->bytes + s->bytes / 100 + VOCABULARY_BYTES;
}

static bool fits(const sk_preset *p, int32_t layers, int32_t least, const sk_models_limits *l) {
    sk_shape_size size;
    return sk_shape_size_of(p->synth, layers, &size) && file_estimate(&size) <= l->file && size.reserved <= l->memory &&
           (l->active == 0 || size.active <= l->active || layers == least);
}

int32_t sk_models_layers_for(const sk_preset *p, const sk_models_limits *limits) {
    sk_shape_layers kinds;
    if (!sk_shape_layers_of(p->synth, &kinds)) {
        return 0;
    }
    /* the first number from the least on that is a whole number of periods */
    const int32_t least = (kinds.least + kinds.period - 1) / kinds.period * kinds.period;
    for (int32_t n = kinds.real; n >= kinds.least; n--) {
        /* The real number is right even where it ends in the middle of a period. */
        const bool whole = n == kinds.real || n % kinds.period == 0;
        if (whole && fits(p, n, least, limits)) {
            return n;
        }
    }
    return 0;
}

int32_t sk_models_layers(const sk_preset *p, uint64_t file_limit) {
    const sk_models_limits l = {.file = file_limit, .memory = UINT64_MAX};
    return sk_models_layers_for(p, &l);
}

/* ---- making ---- */

static uint64_t physical_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

static int make_root(const char *root, sk_err *e) {
    if (root[0] != '/') {
        return sk_err_set(e, SKIPPY_E_INVALID, "the cache root '%.200s' is not an absolute path", root);
    }
    return mkdir(root, 0777) == 0 || errno == EEXIST
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%.250s': %s", root, strerror(errno));
}

/* Why no number of layers fits, in words. */
static int too_large(const sk_preset *p, uint64_t limit, uint64_t memory, sk_err *e) {
    sk_shape_layers kinds;
    sk_shape_size size;
    if (!sk_shape_layers_of(p->synth, &kinds) || !sk_shape_size_of(p->synth, kinds.least, &size)) {
        return sk_err_set(e, SKIPPY_E_INVALID, "%s: 'skippy synth' has no family '%s'", p->key, p->synth);
    }
    return sk_err_set(e, SKIPPY_E_TOO_LARGE,
                      "%s needs at least %" PRId32 " layers: a file of %.1f GiB and %.1f GiB of memory to make it; the "
                      "limit is %.1f GiB and this machine has %.1f GiB",
                      p->key, kinds.least, (double)file_estimate(&size) / (1 << 30), (double)size.reserved / (1 << 30),
                      (double)limit / (1 << 30), (double)memory / (1 << 30));
}

static int make_missing(const sk_models_options *o, const sk_preset *p, sk_err *e) {
    const uint64_t limit = o->file_limit ? o->file_limit : SK_MODELS_FILE_LIMIT;
    const uint64_t memory = physical_memory();
    const sk_models_limits limits = {.file = limit, .memory = memory, .active = o->active_limit};
    const int32_t layers = o->layers ? o->layers : sk_models_layers_for(p, &limits);
    return layers ? sk_model_maker_run(o, p, layers, e) : too_large(p, limit, memory, e);
}

static int make_one(const sk_models_options *o, const sk_preset *p, sk_err *e) {
    sk_found_model found;
    const int rc = sk_locate_model(o->root, p, &found, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (found.status == SK_FOUND_REFUSED) {
        return sk_err_set(e, SKIPPY_E_EXISTS, "%s: %s; remove it to make the model anew", p->key, found.why);
    }
    if (found.status == SK_FOUND_MISSING) {
        return make_missing(o, p, e);
    }
    if (o->progress) {
        fprintf(o->progress, "%s: there already, %" PRId32 " of %" PRId32 " layers\n", p->key, found.layers, p->layers);
    }
    return SKIPPY_OK;
}

/* A failure is told at once and kept when it is the first. True when the others may still be made. */
static bool note_failure(const sk_models_options *o, int rc, const sk_err *why, int *first, sk_err *e) {
    if (rc == SKIPPY_OK) {
        return true;
    }
    if (o->progress) {
        fprintf(o->progress, "%s\n", why->text);
    }
    if (*first == SKIPPY_OK || rc == SKIPPY_E_CANCELLED) {
        *first = sk_err_set(e, rc, "%s", why->text);
    }
    return rc != SKIPPY_E_CANCELLED;
}

int sk_models_make(const sk_models_options *o, sk_err *e) {
    int first = make_root(o->root, e);
    if (first != SKIPPY_OK) {
        return first;
    }
    bool go_on = true;
    for (size_t i = 0; go_on && i < (o->n_only ? o->n_only : SK_PRESETS); i++) {
        const sk_preset *p = o->n_only ? o->only[i] : sk_preset_at(i);
        sk_err why = {0};
        if (o->n_only || p->artifact != SK_ARTIFACT_PACKAGE) {
            const int rc = make_one(o, p, &why);
            go_on = note_failure(o, rc, &why, &first, e);
        }
    }
    return first;
}
