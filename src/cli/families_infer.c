#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "cli/families_actions.h"
#include "runtime/model.h"
#include "topology/infer.h"

static const char *basis_name(enum sk_infer_basis b) {
    static const char *const names[] = {"none", "reviewed", "rule", "architecture", "name"};
    return names[b];
}

/* Text from a file or a command line, which may not be UTF-8, as a JSON string. */
static json_t *any_text(const char *text) {
    sk_buf b = {0};
    sk_buf_str(&b, "\"");
    sk_buf_json_escape(&b, text, strlen(text));
    sk_buf_str(&b, "\"");
    json_t *s = b.failed ? NULL : json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    sk_buf_free(&b);
    return s;
}

static int print_json(json_t *o) {
    int rc = o ? json_dumpf(o, stdout, JSON_COMPACT) : -1;
    putchar('\n');
    json_decref(o);
    return rc == 0 ? FAMILIES_DONE : FAMILIES_FAILED;
}

static json_t *match_json(const sk_infer_match *m) {
    return json_pack("{s:s?,s:s,s:s,s:s}", "family", m->family ? m->family->record.family : NULL, "basis",
                     basis_name(m->basis), "why", m->reason, "evidence",
                     m->family ? sk_family_evidence(m->family) : "none");
}

static void print_match(const sk_infer_match *m) {
    printf("family        %s. %s\n", m->family ? m->family->record.family : "not known", m->reason);
    if (m->family) printf("evidence      %s\n", sk_family_evidence(m->family));
}

/* From a name alone: says what such a model usually keeps; what is reused is decided on the loaded file. */
static int infer_name(const families_options *o) {
    sk_infer_match m;
    sk_infer(sk_registry_get(), &(sk_infer_query){.name = o->name}, &m);
    enum sk_cache_mode mode = m.family ? m.family->record.mode : SK_CACHE_DISABLED;
    int code = mode == SK_CACHE_DISABLED ? FAMILIES_REFUSED : FAMILIES_DONE;
    if (o->json) {
        json_t *out = match_json(&m);
        if (out)
            json_object_update_new(out, json_pack("{s:o,s:s,s:s}", "name", any_text(o->name), "cache_mode",
                                                  sk_cache_mode_name(mode), "reused", families_reuse(mode)));
        return print_json(out) == FAMILIES_DONE ? code : FAMILIES_FAILED;
    }
    print_match(&m);
    printf("cache         %s; usually reused: %s. The file decides.\n", sk_cache_mode_name(mode), families_reuse(mode));
    return code;
}

static json_t *model_json(const sk_model_info *i, const sk_family_policy *p) {
    return json_pack("{s:o,s:o,s:o,s:i,s:i,s:b,s:b,s:i,s:I,s:s,s:s,s:s,s:b}", "file", any_text(i->path), "arch",
                     any_text(i->arch), "name", any_text(i->name), "layers", i->n_layer, "width", i->n_embd, "hybrid",
                     i->facts.is_hybrid, "recurrent", i->facts.is_recurrent, "window_tokens", i->n_swa,
                     "stateful_tensors", (json_int_t)i->facts.stateful_tensors, "cache_mode",
                     sk_cache_mode_name(p->mode), "reused", families_reuse(p->mode), "reason", p->reason,
                     "exact_boundaries", p->exact_boundaries);
}

static void print_model(const sk_model_info *i, const sk_infer_match *m, const sk_family_policy *p) {
    printf("file          %s\n", i->path);
    printf("architecture  %s, %d layers, width %d%s\n", i->arch, i->n_layer, i->n_embd,
           i->facts.is_hybrid      ? ", hybrid"
           : i->facts.is_recurrent ? ", recurrent"
           : i->n_swa > 0          ? ", sliding window"
                                   : "");
    print_match(m);
    printf("cache         %s; reused: %s\n", sk_cache_mode_name(p->mode), families_reuse(p->mode));
    printf("why           %s\n", p->reason);
    if (m->family)
        printf("split         %s%s%s\n", families_split(m->family), m->family->split.reason ? ". " : "",
               m->family->split.reason ? m->family->split.reason : "");
    bool generates = i->facts.has_decoder && !i->facts.has_encoder && !i->facts.is_diffusion;
    if (p->mode == SK_CACHE_DISABLED && generates)
        puts("Nothing is reused until its state is known and has been shown to be exact: see 'skippy certify --help'.");
}

int families_infer(const families_options *o) {
    if (o->name) return infer_name(o);
    sk_model *model = NULL;
    sk_err e;
    if (sk_model_load(&(sk_model_params){.path = o->operand, .facts_only = true}, &model, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", o->program, e.text);
        return FAMILIES_FAILED;
    }
    const sk_model_info *i = sk_model_get_info(model);
    sk_infer_match m;
    sk_family_policy policy;
    sk_infer(sk_registry_get(),
             &(sk_infer_query){.arch = i->arch, .name = i->name, .layers = i->n_layer, .width = i->n_embd}, &m);
    sk_family_decide(&i->facts, &policy);
    int code = policy.mode == SK_CACHE_DISABLED ? FAMILIES_REFUSED : FAMILIES_DONE;
    if (o->json) {
        json_t *out = match_json(&m);
        if (out) json_object_update_new(out, model_json(i, &policy));
        if (print_json(out) != FAMILIES_DONE) code = FAMILIES_FAILED;
    } else {
        print_model(i, &m, &policy);
    }
    sk_model_free(model);
    return code;
}
