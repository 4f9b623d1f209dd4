#include "openai/grammar_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai/gbnf.h"

/* The engine takes a larger upper bound of a repetition for none. */
#define MAX_REPETITION 2000
/* Numbers stop growing here, so that sums and products of two stay exact. */
#define FAR_TOO_MANY UINT64_C(1000000000)
/* How far one rule's beginning may lead through others, tail references included. llama.cpp's test for left recursion
 * calls itself for each, and so do we. */
#define MAX_PATH 8192

/* What is known of a rule. Rules that begin with each other form a group (Tarjan's strongly connected components): a
 * stack that comes back to where it was is the same stack, so the ways of a group are those that leave it. */
typedef struct rule_facts {
    bool nullable; /* may stand for nothing */
    bool grouped;  /* the rest is final */
    uint32_t order, low;
    uint64_t ways; /* in which it can begin */
    uint32_t depth;
} rule_facts;

typedef struct check {
    const sk_gbnf *g;
    const char *param;
    sk_api_error *err;
    rule_facts *facts;
    uint32_t *open; /* rules that are not grouped yet, in the order of their visits */
    size_t n_open, path;
    uint32_t visits;
} check;

/* ---- elements ---- */

static uint64_t capped(uint64_t n) {
    return n < FAR_TOO_MANY ? n : FAR_TOO_MANY;
}

/* How many copies of a repeated element the engine's rules hold. */
static uint64_t copies(const sk_gbnf_elem *e) {
    if (e->max > MAX_REPETITION) return (uint64_t)e->min + 1;
    return e->max > e->min ? e->max : e->min;
}

static bool body_nullable(const check *c, const sk_gbnf_elem *e) {
    return e->rule == SK_GBNF_NO_RULE ? e->len == 0 : c->facts[e->rule].nullable;
}

static bool nullable(const check *c, const sk_gbnf_elem *e) {
    return e->min == 0 || body_nullable(c, e);
}

/* The element leaves nothing behind it on the engine's stack. */
static bool is_tail(const sk_gbnf_elem *e) {
    return e->last && copies(e) <= 1;
}

/* Of the rules that are final; others are in the group that is being counted, and add nothing. */
static uint64_t body_ways(const check *c, const sk_gbnf_elem *e) {
    if (e->rule == SK_GBNF_NO_RULE) return e->len > 0;
    return c->facts[e->rule].grouped ? c->facts[e->rule].ways : 0;
}

/* Each copy of something that may be empty can be where the text goes on. */
static uint64_t elem_ways(const check *c, const sk_gbnf_elem *e) {
    uint64_t ways = body_ways(c, e);
    return capped(body_nullable(c, e) ? ways * capped(copies(e)) : ways);
}

/* ---- refusals ---- */

static int refuse_rule(const check *c, const sk_gbnf_rule *r, const char *what) {
    return sk_api_invalid(c->err, c->param, "rule '%.*s' of the grammar %s",
                          (int)(r->name_len < 100 ? r->name_len : 100), r->name, what);
}

static int refuse_depth(const check *c, const sk_gbnf_rule *r) {
    char what[120];
    snprintf(what, sizeof what, "begins with more than %d rules inside each other", SK_MAX_GRAMMAR_DEPTH);
    return refuse_rule(c, r, what);
}

static int refuse_ways(const check *c, const sk_gbnf_rule *r, uint64_t ways) {
    char what[160];
    snprintf(what, sizeof what,
             "is too ambiguous: at one place there are %s%" PRIu64 " ways to go on; at most %d are allowed",
             ways < FAR_TOO_MANY ? "" : "more than ", ways, SK_MAX_GRAMMAR_WAYS);
    return refuse_rule(c, r, what);
}

/* ---- size ---- */

static int check_size(const check *c) {
    uint64_t n = 0;
    for (size_t i = 0; i < c->g->n; i++)
        for (size_t k = 0; k < c->g->rules[i].n; k++) {
            const sk_gbnf_elem *e = &c->g->rules[i].elems[k];
            n = capped(n + capped((uint64_t)e->len * capped(copies(e))));
        }
    if (n <= SK_MAX_GRAMMAR_ELEMENTS) return 0;
    return sk_api_invalid(c->err, c->param,
                          "the grammar has %s%" PRIu64
                          " elements when its repetitions are written out; at most %d are allowed",
                          n < FAR_TOO_MANY ? "" : "more than ", n, SK_MAX_GRAMMAR_ELEMENTS);
}

/* ---- which rules may be empty ---- */

static bool rule_is_nullable(const check *c, const sk_gbnf_rule *r) {
    bool all = true;
    for (size_t k = 0; k < r->n; k++) {
        all = all && nullable(c, &r->elems[k]);
        if (!r->elems[k].last) continue;
        if (all) return true;
        all = true;
    }
    return false;
}

/* Forth and back, since rules mostly refer either to later or to earlier ones. */
static bool nullable_pass(check *c, bool backward) {
    bool changed = false;
    for (size_t i = 0; i < c->g->n; i++) {
        size_t at = backward ? c->g->n - 1 - i : i;
        if (c->facts[at].nullable || !rule_is_nullable(c, &c->g->rules[at])) continue;
        c->facts[at].nullable = changed = true;
    }
    return changed;
}

static int find_nullable(check *c) {
    for (int pass = 0; pass < SK_MAX_GRAMMAR_DEPTH; pass++)
        if (!nullable_pass(c, pass % 2)) return 0;
    return refuse_depth(c, &c->g->rules[0]);
}

/* ---- what rules begin with ---- */

/* The next element that the text of a rule can begin with, from *k on; NULL at the end. *k moves behind it. */
static const sk_gbnf_elem *next_first(const check *c, const sk_gbnf_rule *r, size_t *k) {
    if (*k >= r->n) return NULL;
    const sk_gbnf_elem *e = &r->elems[(*k)++];
    if (!nullable(c, e) && !e->last)
        while (*k < r->n && !r->elems[(*k)++].last) {
        }
    return e;
}

static bool same_group(const check *c, uint32_t rule) {
    return rule != SK_GBNF_NO_RULE && !c->facts[rule].grouped;
}

/* Adds up what the members of a group can begin with outside it. */
static int count_member(const check *c, uint32_t rule, uint64_t *ways, uint32_t *depth) {
    const sk_gbnf_rule *r = &c->g->rules[rule];
    const sk_gbnf_elem *e;
    ++*ways;
    for (size_t k = 0; (e = next_first(c, r, &k));) {
        if (same_group(c, e->rule) && !is_tail(e))
            return refuse_rule(c, r, "begins with itself (left recursion), behind what may be empty");
        *ways = capped(*ways + elem_ways(c, e));
        if (e->rule == SK_GBNF_NO_RULE || same_group(c, e->rule)) continue;
        uint32_t below = c->facts[e->rule].depth + !is_tail(e);
        if (below > *depth) *depth = below;
    }
    return *depth > SK_MAX_GRAMMAR_DEPTH ? refuse_depth(c, r) : 0;
}

static int close_group(check *c, uint32_t rule) {
    size_t first = c->n_open;
    uint64_t ways = 0;
    uint32_t depth = 0;
    do first--;
    while (c->open[first] != rule);
    for (size_t i = first; i < c->n_open; i++) {
        int status = count_member(c, c->open[i], &ways, &depth);
        if (status) return status;
    }
    for (size_t i = first; i < c->n_open; i++) {
        rule_facts *f = &c->facts[c->open[i]];
        f->ways = ways;
        f->depth = depth;
        f->grouped = true;
    }
    c->n_open = first;
    return 0;
}

static int visit(check *c, uint32_t rule) {
    rule_facts *f = &c->facts[rule];
    const sk_gbnf_rule *r = &c->g->rules[rule];
    const sk_gbnf_elem *e;
    if (++c->path > MAX_PATH) return refuse_depth(c, r);
    f->order = f->low = ++c->visits;
    c->open[c->n_open++] = rule;
    for (size_t k = 0; (e = next_first(c, r, &k));) {
        if (e->rule == SK_GBNF_NO_RULE || c->facts[e->rule].grouped) continue;
        const rule_facts *to = &c->facts[e->rule];
        if (to->order == 0) {
            int status = visit(c, e->rule);
            if (status) return status;
        }
        if (!to->grouped && to->low < f->low) f->low = to->low;
    }
    c->path--;
    return f->low == f->order ? close_group(c, rule) : 0;
}

/* ---- how many ways ---- */

/* At each place of each alternative: what the element there begins with, and where it may be empty or is repeated, what
 * follows too. From the back, since each place needs the one behind it. */
static int check_ways(const check *c, const sk_gbnf_rule *r) {
    uint64_t behind = 0, most = 0;
    for (size_t k = r->n; k > 0; k--) {
        const sk_gbnf_elem *e = &r->elems[k - 1];
        if (e->last) behind = 0;
        uint64_t here = elem_ways(c, e);
        uint64_t again = copies(e) > 1 ? capped(here + behind) : 0;
        behind = capped(here + (nullable(c, e) ? behind : 0));
        if (again > most) most = again;
        if (behind > most) most = behind;
    }
    return most > SK_MAX_GRAMMAR_WAYS ? refuse_ways(c, r, most) : 0;
}

static int check_rules(check *c) {
    int status = check_size(c);
    if (!status) status = find_nullable(c);
    for (size_t i = 0; i < c->g->n && !status; i++) {
        c->path = 0;
        if (c->facts[i].order == 0) status = visit(c, (uint32_t)i);
    }
    for (size_t i = 0; i < c->g->n && !status; i++) {
        status = check_ways(c, &c->g->rules[i]);
        if (!status && c->facts[i].ways > SK_MAX_GRAMMAR_WAYS)
            status = refuse_ways(c, &c->g->rules[i], c->facts[i].ways);
    }
    return status;
}

int sk_grammar_check(const char *gbnf, const char *param, sk_api_error *err) {
    sk_gbnf g;
    int rc = sk_gbnf_parse(gbnf, SK_MAX_GRAMMAR_NESTING, &g);
    if (rc == SKIPPY_E_NOMEM) return sk_api_nomem(err);
    if (rc == SKIPPY_E_TOO_LARGE)
        return sk_api_invalid(err, param, "parentheses in the grammar are nested more than %d levels deep",
                              SK_MAX_GRAMMAR_NESTING);
    if (rc) return 0;
    check c = {.g = &g, .param = param, .err = err};
    c.facts = calloc(g.n ? g.n : 1, sizeof *c.facts);
    c.open = calloc(g.n ? g.n : 1, sizeof *c.open);
    int status = c.facts && c.open ? check_rules(&c) : sk_api_nomem(err);
    free(c.facts);
    free(c.open);
    sk_gbnf_free(&g);
    return status;
}
