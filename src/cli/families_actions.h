/* The actions of `skippy families`. Each prints to standard output and returns an exit code. Internal to families*.c.
 */
#ifndef SKIPPY_CLI_FAMILIES_ACTIONS_H
#define SKIPPY_CLI_FAMILIES_ACTIONS_H

#include "topology/plan.h"
#include "topology/registry.h"

enum families_exit { FAMILIES_DONE = 0, FAMILIES_FAILED = 1, FAMILIES_USAGE = 2, FAMILIES_REFUSED = 3 };

typedef struct families_options {
    const char *program; /* for messages */
    const char *operand; /* family or file; NULL: none given */
    const char *name;    /* infer: a model's name instead of a file */
    bool json;
    uint32_t stages, layers; /* plan; 0 = not given */
    const char *cuts;        /* plan: layer numbers, separated by commas */
    const char *weights;     /* plan: one number per stage, separated by commas */
    const char *memory;      /* plan of a file: sizes, separated by commas */
    bool even;
    bool allow_state_transfer;
    enum sk_wire wire;
} families_options;

int families_list(const families_options *o);
int families_show(const families_options *o);
int families_infer(const families_options *o);
int families_plan(const families_options *o);
int families_plan_file(const families_options *o);

/* Does the operand of plan name a GGUF or a package instead of a family? */
bool families_is_file(const char *operand);
/* Why these options cannot plan a file; NULL = they can. */
const char *families_file_contradiction(const families_options *o);
/* Numbers separated by commas, each up to 2^40; 0 when the list is empty, malformed or longer than cap. */
size_t families_parse_list(const char *text, uint64_t *out, size_t cap);

/* What the cache reuses in a mode, for people. */
const char *families_reuse(enum sk_cache_mode mode);
/* The operand's family, NULL after a message. */
const sk_family_entry *families_find(const families_options *o);
/* A family's measured split in words: "exact", "not measured", ... */
const char *families_split(const sk_family_entry *f);

#endif
