/* JSON objects of families.json to structs. Internal to topology/. */
#ifndef SKIPPY_TOPOLOGY_REGISTRY_READ_H
#define SKIPPY_TOPOLOGY_REGISTRY_READ_H

#include "topology/json_read.h"
#include "topology/registry.h"

/* Both leave the first mistake in r. Strings point into o. */
void sk_registry_read_family(sk_reader *r, const json_t *o, sk_family_entry *out);
/* The rule's family must be in reg already. */
void sk_registry_read_rule(sk_reader *r, const json_t *o, const sk_registry *reg, sk_infer_rule *out);

/* Contradictions between values that are fine by themselves. */
void sk_registry_check_family(sk_reader *r, const sk_family_entry *f);

#endif
