#include <string.h>

#include "bench/family/input.h"
#include "bench/family/input_parts.h"

/* The path stands last: should the text be cut, then the digests are still there. */
static int changed(const char *what, const char *path, const char *pinned, const char *found, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "%s has changed since the preparation: SHA-256 was %s, is %s: '%s'", what,
                      pinned, found, path);
}

static int verify_file(const char *what, const char *path, const char *pinned, const sk_sha256_watch *w, sk_err *e) {
    char found[SK_SHA256_HEX];
    if (!path[0]) return SKIPPY_OK;
    const int rc = sk_sha256_file(path, w, found, NULL, e);
    if (rc != SKIPPY_OK) return rc;
    return strcmp(found, pinned) == 0 ? SKIPPY_OK : changed(what, path, pinned, found, e);
}

static int verify_tree(const char *what, const sk_pinned_tree *t, const sk_sha256_watch *w, sk_err *e) {
    char found[SK_SHA256_HEX];
    const int rc = sk_sha256_tree(t->path, w, found, NULL, e);
    if (rc != SKIPPY_OK) return rc;
    return strcmp(found, t->sha256) == 0 ? SKIPPY_OK : changed(what, t->path, t->sha256, found, e);
}

static int verify_models(const sk_family_input *in, const sk_sha256_watch *w, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < in->n_models; i++) {
        const sk_found_model *m = &in->models[i].found;
        for (size_t k = 0; k < m->n_files && rc == SKIPPY_OK && m->status == SK_FOUND_PRESENT; k++)
            rc = verify_file(in->models[i].preset->label, m->file[k].path, m->file[k].sha256, w, e);
    }
    return rc;
}

int sk_family_input_verify(const sk_family_input *in, const sk_sha256_watch *w, sk_err *e) {
    int rc = SKIPPY_OK;
    for (const sk_input_field *f = sk_input_programs; f->name && rc == SKIPPY_OK; f++) {
        const sk_pinned_file *pin = (const sk_pinned_file *)(const void *)((const char *)in + f->offset);
        rc = verify_file(f->name, pin->path, pin->sha256, w, e);
    }
    if (rc == SKIPPY_OK) rc = verify_tree("native_build", &in->native_build, w, e);
    for (size_t i = 0; i < in->n_toolkits && rc == SKIPPY_OK; i++)
        rc = verify_tree(in->toolkit[i].name, &in->toolkit[i], w, e);
    if (rc == SKIPPY_OK) rc = verify_file("the corpus", in->corpus.path, in->corpus.sha256, w, e);
    if (rc == SKIPPY_OK) rc = verify_file("the agent corpus", in->agent_corpus.path, in->agent_corpus.sha256, w, e);
    return rc == SKIPPY_OK ? verify_models(in, w, e) : rc;
}
