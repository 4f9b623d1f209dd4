#include "cli/families.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/families_actions.h"

enum {
    ARG_JSON = 1,
    ARG_NAME,
    ARG_STAGES,
    ARG_CUTS,
    ARG_WEIGHTS,
    ARG_EVEN,
    ARG_LAYERS,
    ARG_MEMORY,
    ARG_WIRE,
    ARG_MOVE,
    ARG_HELP
};

static const sk_arg_def defs[] = {
    {ARG_JSON, "--json", NULL, NULL, "JSON on standard output"},
    {ARG_NAME, "--name", "NAME", NULL, "infer: go by a model's name instead of a file"},
    {ARG_STAGES, "--stages", "N", NULL, "plan: number of stages (default: 2)"},
    {ARG_CUTS, "--cuts", "L,L,...", NULL, "plan: cut in front of these layers instead of proposing cuts"},
    {ARG_WEIGHTS, "--weights", "W,W,...", NULL, "plan: stages in proportion to these, such as each machine's memory"},
    {ARG_EVEN, "--even", NULL, NULL, "plan: equal stages, accepted or not"},
    {ARG_LAYERS, "--layers", "N", NULL, "plan: number of layers (default: the reviewed model's)"},
    {ARG_MEMORY, "--memory", "8G,16G,...", NULL,
     "plan of a file: memory for the weights of each stage, in M, G or T;\nstages are in proportion to it"},
    {ARG_WIRE, "--wire", "TYPE", "f16|f32|q8", "plan: hidden states between stages (default: f16)"},
    {ARG_MOVE, "--allow-state-transfer", NULL, NULL, "plan: recurrent state may move to another machine"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

static const struct action {
    const char *name;
    bool needs_operand;
    int (*run)(const families_options *o);
} actions[] = {
    {"list", false, families_list},
    {"show", true, families_show},
    {"infer", true, families_infer},
    {"plan", true, families_plan},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

static void print_help(void) {
    puts(
        "Usage: skippy families [list] [--json]\n"
        "       skippy families show FAMILY [--json]\n"
        "       skippy families infer MODEL.gguf | --name NAME [--json]\n"
        "       skippy families plan FAMILY [--stages N] [options]\n"
        "       skippy families plan MODEL.gguf [--stages N | --cuts L,L | --memory M,M] [--json]\n"
        "\n"
        "What is known about each model family, and what the cache reuses for it. 'infer' says which family a model is\n"
        "of, what is reused and why; it reads the file's header only. 'plan' says what cutting a model of the family\n"
        "into stages means; of a file (or a package) it proposes cuts that the file allows, and what each stage holds.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts(
        "\n"
        "Examples:\n"
        "  skippy families show falcon_h1\n"
        "  skippy families infer model.gguf --json\n"
        "  skippy families infer --name Qwen/Qwen3-8B-GGUF\n"
        "  skippy families plan qwen3next --stages 3\n"
        "  skippy families plan llama --cuts 4,10 --wire q8\n"
        "  skippy families plan model.gguf --stages 3\n"
        "  skippy families plan model.gguf --memory 8G,16G,16G\n"
        "\n"
        "Exit codes: 0 done, 1 no such family or no readable model, 2 wrong usage, 3 nothing is reused (infer) or the\n"
        "cut is not accepted (plan).");
}

static int take(sk_args *a, int id, families_options *o, sk_err *e) {
    bool ok = true;
    switch (id) {
    case ARG_JSON: o->json = true; break;
    case ARG_NAME: o->name = a->value; break;
    case ARG_STAGES: ok = sk_args_u32(a, 1, SK_MAX_STAGES, &o->stages, e); break;
    case ARG_CUTS: o->cuts = a->value; break;
    case ARG_WEIGHTS: o->weights = a->value; break;
    case ARG_EVEN: o->even = true; break;
    case ARG_LAYERS: ok = sk_args_u32(a, 1, SK_MAX_LAYERS, &o->layers, e); break;
    case ARG_WIRE:
        o->wire = strcmp(a->value, "q8") == 0 ? SK_WIRE_Q8 : strcmp(a->value, "f32") == 0 ? SK_WIRE_F32 : SK_WIRE_F16;
        break;
    case ARG_MEMORY: o->memory = a->value; break;
    case ARG_MOVE: o->allow_state_transfer = true; break;
    default: return ARG_HELP;
    }
    return ok ? 0 : -1;
}

static int usage(const families_options *o, const char *words) {
    fprintf(stderr, "%s: %s. Try 'skippy families --help'.\n", o->program, words);
    return FAMILIES_USAGE;
}

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
    return NULL;
}

/* NULL: all is well. */
static const char *contradiction(const families_options *o, const struct action *action) {
    bool plan = action->run == families_plan;
    if (o->name && (action->run != families_infer || o->operand)) return "--name stands for infer's file";
    if (action->needs_operand && !o->operand && !o->name)
        return action->run == families_infer ? "infer which model?" : "which family?";
    if (!action->needs_operand && o->operand) return "list takes no name";
    if (!plan && (o->stages || o->cuts || o->memory || o->weights || o->even || o->layers || o->allow_state_transfer ||
                  o->wire != SK_WIRE_F16))
        return "options of plan were given without it";
    if (plan && families_is_file(o->operand)) return families_file_contradiction(o);
    if (o->memory) return "--memory plans a file: its bytes are not known from a family's name";
    if ((o->cuts != NULL) + (o->weights != NULL) + o->even > 1)
        return "--cuts, --weights and --even exclude each other";
    if ((o->cuts || o->weights) && o->stages) return "the list already says how many stages there are";
    return NULL;
}

int sk_cli_families(int argc, char **argv) {
    families_options o = {.program = argv[0], .wire = SK_WIRE_F16};
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    const struct action *action = &actions[0];
    sk_err e;
    if (argc > 1 && argv[1][0] != '-') {
        action = find_action(argv[1]);
        if (!action) return usage(&o, "the action must be list, show, infer or plan");
        a.at = 2;
        if (argc > 2 && argv[2][0] != '-') o.operand = argv[a.at++];
    }
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id > 0) id = take(&a, id, &o, &e);
        if (id < 0) return usage(&o, e.text);
        if (id == ARG_HELP) {
            print_help();
            return FAMILIES_DONE;
        }
    }
    const char *wrong = contradiction(&o, action);
    return wrong ? usage(&o, wrong) : action->run(&o);
}
