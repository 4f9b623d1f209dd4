/* Which family a model belongs to: from its file's architecture and shape, or from a name alone. Pure functions. */
#ifndef SKIPPY_TOPOLOGY_INFER_H
#define SKIPPY_TOPOLOGY_INFER_H

#include "topology/registry.h"

typedef struct sk_infer_query {
    const char *arch;      /* general.architecture; NULL or "": only a name is known */
    const char *name;      /* model reference or general.name; may be NULL */
    int32_t layers, width; /* 0 = unknown */
} sk_infer_query;

enum sk_infer_basis {
    SK_INFER_NONE,     /* the family cannot be told */
    SK_INFER_REVIEWED, /* the name is the reviewed model's */
    SK_INFER_RULE,     /* a rule that looks at shape or name beside the architecture */
    SK_INFER_ARCH,     /* the architecture alone */
    SK_INFER_NAME      /* the name alone: good enough to plan, never to decide what is reused */
};

typedef struct sk_infer_match {
    const sk_family_entry *family; /* NULL with SK_INFER_NONE */
    enum sk_infer_basis basis;
    char reason[200]; /* one sentence for people */
} sk_infer_match;

/* The file's architecture is stronger evidence than any name: with one, names only choose between its families, and an
 * unknown architecture has no family. Without one, the ordered name rules decide; a name that only resembles a known
 * one has no family, because a newer release of the same name can have another kind of state. Never fails. */
void sk_infer(const sk_registry *reg, const sk_infer_query *q, sk_infer_match *out);

/* Lower case without blanks, '_', '-' and '/'. Cut to cap - 1 bytes. */
void sk_infer_normalise(const char *name, char *out, size_t cap);

#endif
