/* The family registry: families.json, compiled in and read once. */
#ifndef SKIPPY_TOPOLOGY_REGISTRY_H
#define SKIPPY_TOPOLOGY_REGISTRY_H

#include "base/err.h"
#include "topology/capability.h"

enum { SK_MAX_NAME_PARTS = 3 };

/* One rule of inference (infer.h). Every condition that is set must hold. */
typedef struct sk_infer_rule {
    const char *arch;                          /* NULL in rules for names */
    const char *name_parts[SK_MAX_NAME_PARTS]; /* all of them occur in the normalised name */
    size_t n_name_parts;
    int32_t layers, width;         /* 0 = any */
    const sk_family_entry *family; /* NULL: stop, the family cannot be told */
    const char *reason;            /* why not; NULL when family is set */
} sk_infer_rule;

typedef struct sk_registry {
    const char *runtime; /* the llama.cpp that the architectures are those of */
    sk_family_entry *families;
    size_t n_families;
    sk_infer_rule *by_arch, *by_name; /* in order: the first that holds decides */
    size_t n_by_arch, n_by_name;
    void *text; /* owner of every string above */
} sk_registry;

/* Reads a registry from JSON text. Errors: SKIPPY_E_INVALID (not JSON, unknown key, wrong value, contradiction between
 * values; *e names the place), SKIPPY_E_NOMEM. On error *out is empty. */
int sk_registry_parse(const char *json, size_t len, sk_registry *out, sk_err *e);
void sk_registry_free(sk_registry *r);

/* The compiled-in registry, read by the first caller. Never NULL and never freed; any thread may call this. Should it
 * be unreadable, it is empty, so that every architecture is unknown and nothing is reused. */
const sk_registry *sk_registry_get(void);

/* By family name; NULL when there is none. */
const sk_family_entry *sk_registry_family(const sk_registry *r, const char *family);
/* The first family of an architecture; NULL when none has it. */
const sk_family_entry *sk_registry_arch(const sk_registry *r, const char *arch);

/* The family's object of families.json as JSON text, malloc'ed; NULL when out of memory. */
char *sk_registry_dump(const sk_registry *r, const sk_family_entry *f);

#endif
