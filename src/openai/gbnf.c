#include "openai/gbnf.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at;
    sk_gbnf *g;
    json_t *ids; /* rule ids by name */
    size_t depth, max_depth;
    int rc;
} reader;

static bool fail(reader *r, int rc) {
    if (r->rc == SKIPPY_OK) r->rc = rc;
    return false;
}

/* ---- growing ---- */

/* SK_GBNF_NO_RULE when out of memory. */
static uint32_t add_rule(reader *r, const char *name, size_t len) {
    sk_gbnf *g = r->g;
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        sk_gbnf_rule *grown = realloc(g->rules, cap * sizeof *grown);
        if (!grown) {
            fail(r, SKIPPY_E_NOMEM);
            return SK_GBNF_NO_RULE;
        }
        g->rules = grown;
        g->cap = cap;
    }
    g->rules[g->n] = (sk_gbnf_rule){.name = name, .name_len = len};
    return (uint32_t)g->n++;
}

static uint32_t rule_by_name(reader *r, const char *name, size_t len) {
    json_t *known = json_object_getn(r->ids, name, len);
    if (known) return (uint32_t)json_integer_value(known);
    uint32_t id = add_rule(r, name, len);
    if (id != SK_GBNF_NO_RULE && json_object_setn_new_nocheck(r->ids, name, len, json_integer(id))) {
        fail(r, SKIPPY_E_NOMEM);
        return SK_GBNF_NO_RULE;
    }
    return id;
}

static bool add_elem(reader *r, uint32_t rule, sk_gbnf_elem elem) {
    sk_gbnf_rule *to = &r->g->rules[rule];
    if (to->n == to->cap) {
        size_t cap = to->cap ? 2 * to->cap : 4;
        sk_gbnf_elem *grown = realloc(to->elems, cap * sizeof *grown);
        if (!grown) return fail(r, SKIPPY_E_NOMEM);
        to->elems = grown;
        to->cap = cap;
    }
    to->elems[to->n++] = elem;
    return true;
}

/* ---- reading ---- */

static void skip_space(reader *r, bool newline_too) {
    for (;;) {
        if (*r->at == '#')
            r->at += strcspn(r->at, "\r\n");
        else if (*r->at == ' ' || *r->at == '\t' || (newline_too && (*r->at == '\r' || *r->at == '\n')))
            r->at++;
        else
            return;
    }
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static size_t word_len(const char *s) {
    size_t n = 0;
    while (is_word(s[n])) n++;
    return n;
}

/* Behind one character, escaped or not; the digits behind \x, \u and \U count as characters of their own: what matters
 * is only whether there are any, and roughly how many. */
static const char *behind_char(const char *s) {
    if (*s == '\\' && s[1]) return s + 2;
    s++;
    while (((unsigned char)*s & 0xc0) == 0x80) s++; /* the rest of a UTF-8 character */
    return s;
}

static bool read_literal(reader *r, uint32_t *len) {
    *len = 0;
    for (r->at++; *r->at && *r->at != '"'; r->at = behind_char(r->at)) ++*len;
    if (!*r->at) return fail(r, SKIPPY_E_INVALID);
    r->at++;
    return true;
}

static bool read_until(reader *r, char close, bool escapes) {
    for (r->at++; *r->at && *r->at != close; r->at = escapes ? behind_char(r->at) : r->at + 1) {
    }
    if (!*r->at) return fail(r, SKIPPY_E_INVALID);
    r->at++;
    return true;
}

static bool read_number(reader *r, uint32_t *out) {
    uint64_t n = 0;
    if (*r->at < '0' || *r->at > '9') return fail(r, SKIPPY_E_INVALID);
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (n < SK_GBNF_UNBOUNDED) n = 10 * n + (uint64_t)(*r->at - '0');
    *out = n < SK_GBNF_UNBOUNDED ? (uint32_t)n : SK_GBNF_UNBOUNDED;
    return true;
}

/* "{2}", "{2,}" or "{2,5}". */
static bool read_braces(reader *r, bool nested, uint32_t *min, uint32_t *max) {
    r->at++;
    skip_space(r, nested);
    if (!read_number(r, min)) return false;
    skip_space(r, nested);
    *max = *min;
    if (*r->at == ',') {
        r->at++;
        skip_space(r, nested);
        *max = SK_GBNF_UNBOUNDED;
        if (*r->at != '}' && !read_number(r, max)) return false;
        skip_space(r, nested);
    }
    if (*r->at != '}') return fail(r, SKIPPY_E_INVALID);
    r->at++;
    return true;
}

static bool read_repetition(reader *r, bool nested, uint32_t *min, uint32_t *max) {
    switch (*r->at) {
    case '*': *min = 0, *max = SK_GBNF_UNBOUNDED; break;
    case '+': *min = 1, *max = SK_GBNF_UNBOUNDED; break;
    case '?': *min = 0, *max = 1; break;
    default: return read_braces(r, nested, min, max);
    }
    r->at++;
    return true;
}

static bool is_repetition(char c) {
    return c == '*' || c == '+' || c == '?' || c == '{';
}

/* A repetition of something that is repeated already is one of a rule that holds it. */
static bool repeat_last(reader *r, uint32_t rule, size_t begin, bool nested) {
    uint32_t min, max;
    if (!read_repetition(r, nested, &min, &max)) return false;
    if (r->g->rules[rule].n == begin) return fail(r, SKIPPY_E_INVALID);
    sk_gbnf_elem *last = &r->g->rules[rule].elems[r->g->rules[rule].n - 1];
    if (last->min != 1 || last->max != 1) {
        sk_gbnf_elem inner = *last;
        inner.last = true;
        uint32_t id = add_rule(r, r->g->rules[rule].name, r->g->rules[rule].name_len);
        if (id == SK_GBNF_NO_RULE || !add_elem(r, id, inner)) return false;
        last = &r->g->rules[rule].elems[r->g->rules[rule].n - 1];
        last->rule = id;
        last->len = 1;
    }
    last->min = min;
    last->max = max;
    return true;
}

static bool read_alternatives(reader *r, uint32_t rule, bool nested);

static bool read_group(reader *r, uint32_t rule, sk_gbnf_elem *out) {
    if (++r->depth > r->g->nesting) r->g->nesting = r->depth;
    if (r->depth > r->max_depth) return fail(r, SKIPPY_E_TOO_LARGE);
    r->at++;
    skip_space(r, true);
    out->rule = add_rule(r, r->g->rules[rule].name, r->g->rules[rule].name_len);
    if (out->rule == SK_GBNF_NO_RULE || !read_alternatives(r, out->rule, true)) return false;
    if (*r->at != ')') return fail(r, SKIPPY_E_INVALID);
    r->at++;
    r->depth--;
    return true;
}

/* What is not repeated yet. */
static bool read_plain(reader *r, uint32_t rule, sk_gbnf_elem *out) {
    *out = (sk_gbnf_elem){.rule = SK_GBNF_NO_RULE, .len = 1, .min = 1, .max = 1};
    switch (*r->at) {
    case '"': return read_literal(r, &out->len);
    case '[': return read_until(r, ']', true);
    case '!': r->at++; return *r->at == '<' ? read_until(r, '>', false) : fail(r, SKIPPY_E_INVALID);
    case '<': return read_until(r, '>', false);
    case '.': r->at++; return true;
    case '(': return read_group(r, rule, out);
    default: break;
    }
    size_t len = word_len(r->at);
    out->rule = rule_by_name(r, r->at, len);
    r->at += len;
    return out->rule != SK_GBNF_NO_RULE;
}

static bool begins_element(char c) {
    return is_word(c) || (c && strchr("\"[!<.(", c));
}

static bool read_sequence(reader *r, uint32_t rule, bool nested) {
    size_t begin = r->g->rules[rule].n;
    while (begins_element(*r->at) || is_repetition(*r->at)) {
        sk_gbnf_elem elem;
        bool ok = is_repetition(*r->at) ? repeat_last(r, rule, begin, nested)
                                        : read_plain(r, rule, &elem) && add_elem(r, rule, elem);
        if (!ok) return false;
        skip_space(r, nested);
    }
    if (r->g->rules[rule].n == begin && !add_elem(r, rule, (sk_gbnf_elem){.rule = SK_GBNF_NO_RULE, .min = 1, .max = 1}))
        return false;
    r->g->rules[rule].elems[r->g->rules[rule].n - 1].last = true;
    return true;
}

static bool read_alternatives(reader *r, uint32_t rule, bool nested) {
    if (!read_sequence(r, rule, nested)) return false;
    while (*r->at == '|') {
        r->at++;
        skip_space(r, true);
        if (!read_sequence(r, rule, nested)) return false;
    }
    return true;
}

static bool read_rule(reader *r) {
    size_t len = word_len(r->at);
    if (len == 0) return fail(r, SKIPPY_E_INVALID);
    uint32_t rule = rule_by_name(r, r->at, len);
    if (rule == SK_GBNF_NO_RULE) return false;
    r->at += len;
    skip_space(r, false);
    if (strncmp(r->at, "::=", 3) != 0) return fail(r, SKIPPY_E_INVALID);
    r->at += 3;
    skip_space(r, true);
    r->g->rules[rule].n = 0; /* of two rules with one name the later one counts */
    if (!read_alternatives(r, rule, false)) return false;
    if (*r->at && *r->at != '\r' && *r->at != '\n') return fail(r, SKIPPY_E_INVALID);
    skip_space(r, true);
    return true;
}

int sk_gbnf_parse(const char *text, size_t max_nesting, sk_gbnf *out) {
    memset(out, 0, sizeof *out);
    reader r = {.at = text, .g = out, .ids = json_object(), .max_depth = max_nesting};
    if (!r.ids) return SKIPPY_E_NOMEM;
    skip_space(&r, true);
    while (*r.at && read_rule(&r)) {
    }
    json_decref(r.ids);
    if (r.rc) sk_gbnf_free(out);
    return r.rc;
}

void sk_gbnf_free(sk_gbnf *g) {
    for (size_t i = 0; i < g->n; i++) free(g->rules[i].elems);
    free(g->rules);
    memset(g, 0, sizeof *g);
}
