#include "cli/stage_weights.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/digest_dir.h"
#include "cli/load_bar.h"
#include "runtime/native_log.h"
#include "runtime/package.h"

enum { QUIET_NS = 700000000 }; /* a step that takes less needs no bar */

/* A bar, and whether to go on. */
typedef struct progress {
    sk_load_bar bar;
    bool (*go_on)(void);
} progress;

static progress progress_of(const char *what, bool (*go_on)(void)) {
    return (progress){.bar = {.out = stderr,
                              .tty = isatty(STDERR_FILENO) == 1,
                              .what = what,
                              .shown = -1,
                              .quiet_until = sk_now_ns() + QUIET_NS},
                      .go_on = go_on};
}

static bool on_progress(void *ud, uint64_t done, uint64_t total) {
    progress *p = ud;
    sk_load_bar_show(&p->bar, total ? (float)((double)done / (double)total) : 1.0f);
    return p->go_on();
}

bool sk_weights_is_package(const char *location) {
    struct stat st;
    if (strncmp(location, "http://", 7) == 0 || strncmp(location, "https://", 8) == 0) return true;
    return stat(location, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Where stage files, or (below) parts of packages, are kept. */
static int cache_dir(const sk_split_options *o, const char *below, char *buf, size_t cap, sk_err *e) {
    char digests[1024];
    int n = -1;
    if (o->stage_dir)
        n = snprintf(buf, cap, "%s%s", o->stage_dir, below);
    else if (sk_cli_digest_dir(digests, sizeof digests))
        n = snprintf(buf, cap, "%s/stages%s", digests, below);
    if (n > 0 && (size_t)n < cap) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "there is no folder for stage files: set HOME, or give --stage-cache DIR");
}

/* The bar of the whole shows how far it is; this only stops. */
static bool on_fetch(void *ud, uint64_t done, uint64_t total) {
    const sk_weights_source *s = ud;
    (void)done;
    (void)total;
    return s->go_on();
}

static int open_package(const char *location, const sk_split_options *o, sk_weights_source *out, sk_err *e) {
    char parts[1200];
    int rc = cache_dir(o, "/parts", parts, sizeof parts, e);
    if (rc != SKIPPY_OK) return rc;
    const sk_package_access access = {
        .location = location, .part_dir = parts, .ca_file = o->package_ca, .progress = on_fetch, .progress_ud = out};
    return sk_tensor_source_open_package(&access, &out->tensors, e);
}

int sk_weights_source_open(const char *location, const sk_split_options *o, bool (*go_on)(void), sk_weights_source *out,
                           sk_err *e) {
    char digests[1024];
    progress p = progress_of("reading the model", go_on);
    *out = (sk_weights_source){.go_on = go_on};
    sk_native_log_install();
    if (sk_weights_is_package(location)) return open_package(location, o, out, e);
    return sk_tensor_source_open_gguf(location, sk_cli_digest_dir(digests, sizeof digests), on_progress, &p,
                                      &out->tensors, e);
}

void sk_weights_source_close(sk_weights_source *s) {
    sk_tensor_source_close(&s->tensors);
}

int sk_weights_cut(sk_weights_source *s, sk_layer_range r, const sk_split_options *o, sk_weights *out, sk_err *e) {
    char dir[1200], digests[1024];
    progress p = progress_of("cutting the stage", s->go_on);
    *out = (sk_weights){.file.lock = -1};
    int rc = cache_dir(o, "", dir, sizeof dir, e);
    if (rc != SKIPPY_OK) return rc;
    const sk_slice_cache cache = {
        .dir = dir, .max_bytes = o->stage_max, .digest_dir = sk_cli_digest_dir(digests, sizeof digests)};
    rc = sk_slice_materialise(&s->tensors, r, &cache, on_progress, &p, &out->file, e);
    if (rc == SKIPPY_OK) out->path = out->file.path;
    return rc;
}

/* The stage file's own word about its layers against --layers. */
static int check_stage_file(const sk_tensor_source *s, const char *location, const sk_split_options *o, sk_err *e) {
    int64_t start = -1, end = -1;
    if (sk_tensor_source_int(s, "skippy.stage.layer_start", &start) &&
        sk_tensor_source_int(s, "skippy.stage.layer_end", &end) && start == o->layers.start && end == o->layers.end)
        return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "'%s' is a stage file with the layers %d..%d, but --layers says %d..%d. Leave --layers out",
                      location, (int)start, (int)end - 1, (int)o->layers.start, (int)o->layers.end - 1);
}

static int from_source(sk_weights_source *s, const char *location, const sk_split_options *o, sk_weights *out,
                       sk_err *e) {
    int64_t version = 0;
    if (sk_tensor_source_int(&s->tensors, "skippy.stage.version", &version)) {
        out->path = location;
        return check_stage_file(&s->tensors, location, o, e);
    }
    const sk_layer_range whole = {0, sk_slice_layers(&s->tensors)};
    return sk_weights_cut(s, o->has_layers ? o->layers : whole, o, out, e);
}

int sk_weights_prepare(const char *location, const sk_split_options *o, bool need_layers, bool (*go_on)(void),
                       sk_weights *out, sk_err *e) {
    *out = (sk_weights){.file.lock = -1};
    const bool package = sk_weights_is_package(location);
    if (package && need_layers && !o->has_layers)
        return sk_err_set(e, SKIPPY_E_INVALID, "which layers of the package? Give --layers A..B");
    if (!package && !o->has_layers) {
        out->path = location;
        return SKIPPY_OK;
    }
    sk_weights_source s;
    int rc = sk_weights_source_open(location, o, go_on, &s, e);
    if (rc == SKIPPY_OK) rc = from_source(&s, location, o, out, e);
    sk_weights_source_close(&s);
    return rc;
}

void sk_weights_release(sk_weights *w) {
    if (w->file.path) sk_slice_release(&w->file);
    *w = (sk_weights){.file.lock = -1};
}

const char *sk_weights_layers_text(const sk_stage_facts *f, char *buf, size_t cap) {
    if (f->layer_end - f->layer_start == 1)
        snprintf(buf, cap, "layer %d of %d", (int)f->layer_start, (int)f->n_layer);
    else
        snprintf(buf, cap, "layers %d to %d of %d", (int)f->layer_start, (int)f->layer_end - 1, (int)f->n_layer);
    return buf;
}
