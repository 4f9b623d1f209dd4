#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "cli/families_actions.h"
#include "topology/propose.h"

size_t families_parse_list(const char *text, uint64_t *out, size_t cap) {
    for (size_t n = 0; n < cap;) {
        char *end = NULL;
        if (*text < '0' || *text > '9') return 0;
        errno = 0;
        out[n] = strtoull(text, &end, 10);
        if (errno != 0 || out[n] > UINT64_C(1) << 40) return 0;
        n++;
        if (*end == 0) return n;
        if (*end != ',') return 0;
        text = end + 1;
    }
    return 0;
}

static int bad_list(const char *option, const char *text, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_INVALID, "%s needs at most %d numbers separated by commas, not '%.80s'", option,
                      SK_MAX_STAGES, text);
}

/* Fills cuts as the options ask. */
static int choose_cuts(const families_options *o, const sk_family_entry *f, int32_t layers, int32_t *cuts, size_t *n,
                       sk_err *e) {
    uint64_t numbers[SK_MAX_STAGES];
    size_t given = 0;
    if (o->cuts) {
        given = families_parse_list(o->cuts, numbers, SK_MAX_STAGES - 1);
        if (given == 0) return bad_list("--cuts", o->cuts, e);
        for (size_t i = 0; i < given; i++) cuts[i] = numbers[i] > SK_MAX_LAYERS ? SK_MAX_LAYERS : (int32_t)numbers[i];
        *n = given;
        return SKIPPY_OK;
    }
    if (o->weights) {
        given = families_parse_list(o->weights, numbers, SK_MAX_STAGES);
        if (given == 0) return bad_list("--weights", o->weights, e);
        *n = given - 1;
        return sk_propose_weighted(layers, numbers, given, cuts, e);
    }
    size_t stages = o->stages ? o->stages : 2;
    *n = stages - 1;
    return o->even ? sk_propose_even(layers, stages, cuts, e) : sk_propose_balanced(f, layers, stages, cuts, e);
}

static json_t *signals_json(sk_signals set) {
    json_t *list = json_array();
    for (unsigned s = 0; s < SK_SIG_COUNT; s++)
        if (sk_signals_have(set, (enum sk_signal)s))
            json_array_append_new(list, json_string(sk_signal_name((enum sk_signal)s)));
    return list;
}

static void print_signals(sk_signals set) {
    for (unsigned s = 0; s < SK_SIG_COUNT; s++)
        if (sk_signals_have(set, (enum sk_signal)s)) printf(" %s", sk_signal_name((enum sk_signal)s));
    putchar('\n');
}

/* A plan may be cut by every rule and still not be served: the family's stages were never exact. */
static bool served(const sk_family_entry *f, const sk_plan *p) {
    return p->accepted && (!f->has_split || f->split.result == SK_FOUND_EXACT ||
                           f->split.result == SK_FOUND_AFTER_CONVERSION || p->n_stages == 1);
}

static int print_plan_json(const families_options *o, const sk_family_entry *f, const sk_plan *p) {
    json_t *stages = json_array(), *cuts = json_array(), *needs = json_array();
    for (size_t i = 0; i < p->n_stages; i++) {
        const sk_plan_stage *s = &p->stages[i];
        json_array_append_new(stages, json_pack("{s:i,s:i,s:b,s:o,s:s}", "start", s->range.start, "end", s->range.end,
                                                "accepted", s->accepted, "signals", signals_json(s->signals), "reason",
                                                s->reason));
    }
    for (size_t i = 0; i + 1 < p->n_stages; i++) {
        const sk_plan_boundary *b = &p->boundaries[i];
        json_array_append_new(cuts, json_pack("{s:i,s:b,s:o,s:s?}", "layer", b->layer, "accepted", b->accepted,
                                              "signals", signals_json(b->signals), "reason", b->reason));
    }
    for (size_t i = 0; i < f->split.n_needs; i++) json_array_append_new(needs, json_string(f->split.needs[i]));
    json_t *out = json_pack("{s:s,s:i,s:s,s:b,s:s,s:s?,s:o,s:o,s:o,s:o}", "family", f->record.family, "layers",
                            p->layers, "wire", sk_wire_names[o->wire], "accepted", served(f, p), "split",
                            families_split(f), "split_reason", f->split.reason, "signals",
                            signals_json(p->family_signals), "stages", stages, "boundaries", cuts, "stage_file", needs);
    int rc = out ? json_dumpf(out, stdout, JSON_COMPACT) : -1;
    putchar('\n');
    json_decref(out);
    return rc == 0 ? FAMILIES_DONE : FAMILIES_FAILED;
}

static void print_plan(const families_options *o, const sk_family_entry *f, const sk_plan *p) {
    printf("family        %s, %d layers, %zu stages, hidden states as %s\n", f->record.family, p->layers, p->n_stages,
           sk_wire_names[o->wire]);
    printf("signals      ");
    print_signals(p->family_signals);
    for (size_t i = 0; i < p->n_stages; i++) {
        const sk_plan_stage *s = &p->stages[i];
        printf("stage %-3zu     layers %d to %d:", i + 1, s->range.start, s->range.end - 1);
        print_signals(s->signals);
        if (!s->accepted) printf("              rejected: %s\n", s->reason);
        if (i + 1 == p->n_stages) break;
        const sk_plan_boundary *b = &p->boundaries[i];
        printf("cut at %-3d    %s:", b->layer, b->accepted ? "accepted" : "rejected");
        print_signals(b->signals);
        if (b->reason) printf("              %s\n", b->reason);
    }
    for (size_t i = 0; i < f->split.n_needs; i++) printf("stage file    %s\n", f->split.needs[i]);
    printf("split         %s%s%s\n", families_split(f), f->split.reason ? ". " : "",
           f->split.reason ? f->split.reason : "");
    printf("result        %s%s\n", served(f, p) ? "accepted" : "not accepted",
           f->has_split ? "" : "; stages of this family were not measured and need a certificate before they serve");
}

int families_plan(const families_options *o) {
    if (families_is_file(o->operand)) return families_plan_file(o);
    const sk_family_entry *f = families_find(o);
    if (!f) return FAMILIES_FAILED;
    int32_t cuts[SK_MAX_STAGES], layers = o->layers ? (int32_t)o->layers : f->reviewed.layers;
    sk_plan_request q = {
        .family = f, .layers = layers, .wire = o->wire, .cuts = cuts, .allow_state_transfer = o->allow_state_transfer};
    sk_plan plan;
    sk_err e;
    int rc = SKIPPY_OK;
    /* Without a number of layers there is nothing to choose from; describing the plan says so. */
    if (layers > 0) rc = choose_cuts(o, f, layers, cuts, &q.n_cuts, &e);
    if (rc == SKIPPY_OK) rc = sk_plan_describe(&q, &plan, &e);
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", o->program, e.text);
        return rc == SKIPPY_E_INVALID ? FAMILIES_USAGE : rc == SKIPPY_E_NOMEM ? FAMILIES_FAILED : FAMILIES_REFUSED;
    }
    int code = served(f, &plan) ? FAMILIES_DONE : FAMILIES_REFUSED;
    if (!o->json)
        print_plan(o, f, &plan);
    else if (print_plan_json(o, f, &plan) != FAMILIES_DONE)
        code = FAMILIES_FAILED;
    return code;
}
