#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "cli/families_actions.h"

const char *families_reuse(enum sk_cache_mode mode) {
    switch (mode) {
    case SK_CACHE_RESIDENT_KV: return "any shared beginning";
    case SK_CACHE_WINDOW_KV: return "recorded boundaries, window kept beside";
    case SK_CACHE_KV_RECURRENT: return "recorded boundaries, KV and recurrent state together";
    case SK_CACHE_DISABLED: break;
    }
    return "none";
}

const char *families_split(const sk_family_entry *f) {
    return f->has_split ? sk_finding_names[f->split.result] : "not_measured";
}

const sk_family_entry *families_find(const families_options *o) {
    const sk_registry *reg = sk_registry_get();
    const sk_family_entry *f = sk_registry_family(reg, o->operand);
    if (!f) f = sk_registry_arch(reg, o->operand);
    if (!f) fprintf(stderr, "%s: there is no family '%s'. 'skippy families' lists them.\n", o->program, o->operand);
    return f;
}

static json_t *row(const sk_family_entry *f) {
    const sk_family_record *r = &f->record;
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "family", r->family, "arch", r->arch, "state",
                     sk_state_names[f->state], "cache_mode", sk_cache_mode_name(r->mode), "reused",
                     families_reuse(r->mode), "evidence", sk_family_evidence(f), "split", families_split(f), "example",
                     r->example);
}

int families_list(const families_options *o) {
    const sk_registry *reg = sk_registry_get();
    if (!o->json) {
        printf("%-17s %-17s %-9s %-11s %-52s %-8s %s\n", "family", "architecture", "state", "cache", "reused",
               "evidence", "example");
        for (size_t i = 0; i < reg->n_families; i++) {
            const sk_family_entry *f = &reg->families[i];
            printf("%-17s %-17s %-9s %-11s %-52s %-8s %s\n", f->record.family, f->record.arch, sk_state_names[f->state],
                   sk_cache_mode_name(f->record.mode), families_reuse(f->record.mode), sk_family_evidence(f),
                   f->record.example);
        }
        return FAMILIES_DONE;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < reg->n_families; i++) json_array_append_new(list, row(&reg->families[i]));
    bool ok = json_array_size(list) == reg->n_families && json_dumpf(list, stdout, JSON_COMPACT) == 0;
    json_decref(list);
    putchar('\n');
    return ok ? FAMILIES_DONE : FAMILIES_FAILED;
}

static void show_reviewed(const sk_reviewed *m) {
    printf("reviewed      %s: %d layers, width %d%s\n", m->model, m->layers, m->width,
           m->package_only ? ", as a package only" : "");
    if (m->file_arch) printf("              the file declares the architecture '%s'\n", m->file_arch);
    printf("wire          %s; q8 %s\n", sk_wire_names[m->wire], sk_validation_names[m->q8_wire]);
    printf("moving state  %s\n", sk_mobility_names[m->mobility]);
    for (size_t i = 0; i < m->n_recurrent; i++)
        printf("%s%d to %d", i == 0 ? "recurrent     layers " : ", ", m->recurrent[i].start, m->recurrent[i].end - 1);
    if (m->n_recurrent > 0) putchar('\n');
    if (m->has_shared_kv) printf("shared KV     %s\n", m->shared_kv.reason);
    for (size_t i = 0; i < m->n_sidebands; i++)
        printf("sideband      %s, for layers from %d. %s\n", sk_sideband_names[m->sidebands[i].kind],
               m->sidebands[i].from_layer, m->sidebands[i].reason);
}

static void show_measured(const sk_measured *m) {
    printf("measured      %s: %" PRId64 " bytes of KV per token", m->model, m->kv_bytes_per_token);
    if (m->window_tokens > 0)
        printf(", %" PRId64 " more in a window of %d tokens", m->window_bytes_per_token, m->window_tokens);
    if (m->recurrent_bytes > 0) printf(", %" PRId64 " bytes of recurrent state", m->recurrent_bytes);
    printf("\n              resident restore: %s, shorter reuse: %s, export and import: %s,\n",
           sk_finding_names[m->resident_restore], sk_finding_names[m->truncated_reuse],
           sk_finding_names[m->export_import]);
    printf("              KV without recurrent state: %s, page by page: %s, stages: %s\n", sk_finding_names[m->kv_only],
           sk_finding_names[m->page_wise], sk_finding_names[m->stages]);
}

int families_show(const families_options *o) {
    const sk_family_entry *f = families_find(o);
    if (!f) return FAMILIES_FAILED;
    if (o->json) {
        char *text = sk_registry_dump(sk_registry_get(), f);
        if (text) puts(text);
        free(text);
        return text ? FAMILIES_DONE : FAMILIES_FAILED;
    }
    printf("family        %s\n", f->record.family);
    printf("architecture  %s\n", f->record.arch[0] ? f->record.arch : "none in this build of llama.cpp");
    printf("state         %s\n", sk_state_names[f->state]);
    printf("cache         %s; reused: %s\n", sk_cache_mode_name(f->record.mode), families_reuse(f->record.mode));
    if (f->trait != SK_TRAIT_NONE) printf("disabled      %s\n", sk_trait_names[f->trait]);
    printf("evidence      %s\n", sk_family_evidence(f));
    if (f->has_reviewed) show_reviewed(&f->reviewed);
    printf("split         %s%s%s\n", families_split(f), f->split.reason ? ". " : "",
           f->split.reason ? f->split.reason : "");
    for (size_t i = 0; i < f->split.n_needs; i++) printf("stage file    %s\n", f->split.needs[i]);
    for (size_t i = 0; i < f->n_measured; i++) show_measured(&f->measured[i]);
    if (f->note) printf("note          %s\n", f->note);
    return FAMILIES_DONE;
}
