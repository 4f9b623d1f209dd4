/* `skippy families plan MODEL.gguf`: cuts that the file itself allows. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/cut_plan.h"
#include "cli/families_actions.h"
#include "cli/inspect_names.h"
#include "cli/stage_weights.h"

bool families_is_file(const char *operand) {
    const size_t n = strlen(operand);
    return strchr(operand, '/') || (n > 5 && strcmp(operand + n - 5, ".gguf") == 0) || access(operand, F_OK) == 0;
}

const char *families_file_contradiction(const families_options *o) {
    if (o->weights || o->even || o->layers || o->allow_state_transfer || o->wire != SK_WIRE_F16)
        return "a file is planned with --stages, --cuts or --memory; the other options are for families";
    if ((o->stages != 0) + (o->cuts != NULL) + (o->memory != NULL) > 1)
        return "--stages, --cuts and --memory exclude each other: each says how many stages there are";
    return NULL;
}

/* "8G": 0 when it is no size. */
static uint64_t parse_size(const char *text, char **end) {
    static const char units[] = "MGT";
    errno = 0;
    if (*text < '0' || *text > '9') return 0;
    const uint64_t n = strtoull(text, end, 10);
    const char *unit = **end ? strchr(units, **end) : NULL;
    if (errno != 0 || !unit || n > UINT64_C(1) << 22) return 0;
    ++*end;
    return n << (20 + 10 * (unit - units));
}

static size_t parse_memory(const char *text, uint64_t *out, sk_err *e) {
    const char *all = text;
    for (size_t n = 0; n < SK_CUT_STAGES_MAX;) {
        char *end = NULL;
        out[n] = parse_size(text, &end);
        if (out[n] == 0) break;
        n++;
        if (*end == '\0') return n;
        if (*end != ',') break;
        text = end + 1;
    }
    sk_err_set(e, SKIPPY_E_INVALID,
               "--memory needs 1 to %d sizes such as 512M, 8G or 1T, separated by commas, not '%.80s'",
               SK_CUT_STAGES_MAX, all);
    return 0;
}

static int make_fixed(const sk_tensor_source *s, const char *text, sk_cut_plan *plan, sk_err *e) {
    uint64_t numbers[SK_CUT_STAGES_MAX - 1];
    int32_t cuts[SK_CUT_STAGES_MAX - 1];
    const size_t n = families_parse_list(text, numbers, SK_CUT_STAGES_MAX - 1);
    if (n == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "--cuts needs at most %d numbers separated by commas, not '%.80s'",
                          SK_CUT_STAGES_MAX - 1, text);
    for (size_t i = 0; i < n; i++) cuts[i] = numbers[i] > SK_MAX_LAYERS ? SK_MAX_LAYERS : (int32_t)numbers[i];
    return sk_cut_plan_fixed(s, cuts, n + 1, plan, e);
}

static int make(const families_options *o, const sk_tensor_source *s, uint64_t *memory, sk_cut_plan *plan, sk_err *e) {
    if (o->cuts) return make_fixed(s, o->cuts, plan, e);
    if (!o->memory) return sk_cut_plan_make(s, o->stages ? o->stages : 2, NULL, plan, e);
    const size_t n = parse_memory(o->memory, memory, e);
    return n == 0 ? SKIPPY_E_INVALID : sk_cut_plan_make(s, n, memory, plan, e);
}

static int print_json(const sk_tensor_source *s, const uint64_t *memory, const sk_cut_plan *p) {
    json_t *stages = json_array();
    for (size_t i = 0; i < p->n_stages; i++) {
        json_t *one = json_pack("{s:i,s:i,s:I}", "start", p->stage[i].start, "end", p->stage[i].end, "bytes",
                                (json_int_t)p->bytes[i]);
        if (memory[i]) json_object_set_new(one, "memory", json_integer((json_int_t)memory[i]));
        json_array_append_new(stages, one);
    }
    char digest[HEX_CHARS];
    json_t *out = json_pack("{s:s,s:s,s:i,s:b,s:o}", "source", hex_of(&s->digest, digest), "arch", s->arch, "layers",
                            p->n_layer, "accepted", true, "stages", stages);
    const int rc = out ? json_dumpf(out, stdout, JSON_COMPACT) : -1;
    putchar('\n');
    json_decref(out);
    return rc == 0 ? FAMILIES_DONE : FAMILIES_FAILED;
}

static void print_table(const families_options *o, const sk_tensor_source *s, const uint64_t *memory,
                        const sk_cut_plan *p) {
    char size[SIZE_CHARS], room[SIZE_CHARS];
    printf("model         %s (%s, %d layers)\n", s->name, s->arch, (int)p->n_layer);
    for (size_t i = 0; i < p->n_stages; i++) {
        printf("stage %-3zu     layers %d to %d: %s of weights", i, (int)p->stage[i].start, (int)p->stage[i].end - 1,
               size_of(p->bytes[i], size));
        if (memory[i]) printf(", %s left for context and cache", size_of(memory[i] - p->bytes[i], room));
        printf("%s\n", i == 0 ? "; the head: tokens, embeddings" : i + 1 == p->n_stages ? "; gives logits" : "");
    }
    printf("start\n");
    for (size_t i = 1; i < p->n_stages; i++)
        printf("              skippy stage -m %s --layers %d..%d --listen ADDRESS_%zu\n", o->operand,
               (int)p->stage[i].start, (int)p->stage[i].end - 1, i);
    printf("              skippy serve -m %s", o->operand);
    if (p->n_stages > 1) printf(" --layers 0..%d --stages ", (int)p->stage[0].end - 1);
    for (size_t i = 1; i < p->n_stages; i++) printf("%sADDRESS_%zu", i == 1 ? "" : ",", i);
    putchar('\n');
}

static bool go_on(void) {
    return true; /* a signal ends this command as it ends any */
}

static int exit_code(int rc) {
    return rc == SKIPPY_E_INVALID                                   ? FAMILIES_USAGE
           : rc == SKIPPY_E_UNSUPPORTED || rc == SKIPPY_E_TOO_LARGE ? FAMILIES_REFUSED
                                                                    : FAMILIES_FAILED;
}

static int plan_source(const families_options *o, const sk_tensor_source *s) {
    uint64_t memory[SK_CUT_STAGES_MAX] = {0};
    sk_cut_plan plan;
    sk_err e = {0};
    const int rc = make(o, s, memory, &plan, &e);
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", o->program, e.text);
        return exit_code(rc);
    }
    if (o->json) return print_json(s, memory, &plan);
    print_table(o, s, memory, &plan);
    return FAMILIES_DONE;
}

int families_plan_file(const families_options *o) {
    const sk_split_options none = {0};
    sk_weights_source s;
    sk_err e = {0};
    int code = FAMILIES_FAILED;
    if (sk_weights_source_open(o->operand, &none, go_on, &s, &e) == SKIPPY_OK)
        code = plan_source(o, &s.tensors);
    else
        fprintf(stderr, "%s: %s\n", o->program, e.text);
    sk_weights_source_close(&s);
    return code;
}
