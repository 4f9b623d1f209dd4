#include "bench/family/certify_words.h"

#include <stdio.h>

static uint32_t between(uint32_t value, uint32_t least, uint32_t most) {
    return value < least ? least : value > most ? most : value;
}

uint32_t sk_certify_prefix(const sk_family_cell *cell) {
    return between(cell->prefix_tokens, SK_CERTIFY_LEAST_PREFIX, SK_CERTIFY_MOST_PREFIX);
}

uint32_t sk_certify_repeats(const sk_family_sizes *sizes) {
    return between(sizes->cache_hit_repeats, SK_CERTIFY_LEAST_REPEATS, SK_CERTIFY_MOST_REPEATS);
}

static void add(sk_certify_words *w, const char *flag, const char *value) {
    if (w->n + 2 < SK_CERTIFY_WORDS) {
        w->v[w->n++] = flag;
        w->v[w->n++] = value;
    }
}

/* A preset counts layers [start, end), the command line names the last one. */
static void add_package(sk_certify_words *w, const sk_preset *p, const char *package, bool producer) {
    snprintf(w->layers, sizeof w->layers, "%d..%d", (int)p->layer_start, (int)p->layer_end - 1);
    snprintf(w->stage, sizeof w->stage, "%d", (int)p->stage_index);
    snprintf(w->producer, sizeof w->producer, "0..%d", (int)p->layer_start - 1);
    add(w, "--package", package);
    add(w, "--layers", w->layers);
    add(w, "--stage", w->stage);
    if (producer) {
        add(w, "--producer", w->producer);
    }
}

void sk_certify_words_make(const sk_family_input *in, const sk_family_cell *cell, const char *report_path,
                           bool producer, sk_certify_words *out) {
    const char *entry = in->models[cell->model].found.runtime_entry;
    *out = (sk_certify_words){0};
    snprintf(out->prefix, sizeof out->prefix, "%u", sk_certify_prefix(cell));
    snprintf(out->repeats, sizeof out->repeats, "%u", sk_certify_repeats(&in->sizes));
    snprintf(out->threads, sizeof out->threads, "%u", in->sizes.threads);
    snprintf(out->n_gpu_layers, sizeof out->n_gpu_layers, "%d", (int)in->sizes.n_gpu_layers);
    add(out, in->correctness.path, "certify");
    if (cell->preset->artifact == SK_ARTIFACT_PACKAGE) {
        add_package(out, cell->preset, entry, producer);
    } else {
        add(out, "-m", entry);
    }
    add(out, "--family-name", cell->preset->label);
    add(out, "--prefix", out->prefix);
    add(out, "--repeats", out->repeats);
    add(out, "-ngl", out->n_gpu_layers);
    if (in->sizes.threads > 0) {
        add(out, "-t", out->threads);
    }
    add(out, "--report-out", report_path);
    out->v[out->n++] = "--no-receipt"; /* what a benchmark finds out must not change how the operator's server works */
}
