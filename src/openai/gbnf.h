/* The structure of a GBNF grammar as far as its ambiguity depends on it: which rules there are and what they begin
 * with. Characters themselves are not kept. Pure. */
#ifndef SKIPPY_OPENAI_GBNF_H
#define SKIPPY_OPENAI_GBNF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SK_GBNF_NO_RULE UINT32_MAX
#define SK_GBNF_UNBOUNDED UINT32_MAX

/* One element of a sequence: characters in a row, or a reference to a rule; repeated min to max times. */
typedef struct sk_gbnf_elem {
    uint32_t rule; /* SK_GBNF_NO_RULE: characters */
    uint32_t len;  /* characters in a row, 0 for the empty literal; 1 for a reference */
    uint32_t min, max;
    bool last; /* of its alternative */
} sk_gbnf_elem;

/* Alternatives one after the other; each ends with an element whose `last` is set. An empty alternative is one empty
 * literal. A rule that was only referred to has no elements. */
typedef struct sk_gbnf_rule {
    const char *name; /* into the text; a parenthesised group has the name of the rule that it stands in */
    size_t name_len;
    sk_gbnf_elem *elems;
    size_t n, cap;
} sk_gbnf_rule;

typedef struct sk_gbnf {
    sk_gbnf_rule *rules;
    size_t n, cap;
    size_t nesting; /* of parentheses, the deepest */
} sk_gbnf;

/* Reads a grammar; groups become rules. Stops with SKIPPY_E_TOO_LARGE at max_nesting. Errors: SKIPPY_E_INVALID (not
 * GBNF), SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM. On error *out needs no release. */
int sk_gbnf_parse(const char *text, size_t max_nesting, sk_gbnf *out);
void sk_gbnf_free(sk_gbnf *g);

#endif
