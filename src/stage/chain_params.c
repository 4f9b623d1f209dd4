/* A chain's own copy of its parameters. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "stage/chain_internal.h"

/* NULL stays NULL. */
static bool own(sk_chain *c, const char **text) {
    if (!*text) return true;
    char *copy = strdup(*text);
    if (!copy) return false;
    c->strings[c->n_strings++] = copy;
    *text = copy;
    return true;
}

static int check_addresses(const sk_chain_params *p, sk_err *e) {
    const size_t longest = sizeof((sk_frame_hello *)0)->route[0] - 1;
    if (p->n_addresses == 0 || p->n_addresses >= SK_CHAIN_MAX)
        return sk_err_set(e, SKIPPY_E_INVALID, "%u stages behind this one: a chain has 1 to %d of them", p->n_addresses,
                          SK_CHAIN_MAX - 1);
    for (uint32_t i = 0; i < p->n_addresses; i++) {
        if (strlen(p->addresses[i]) > longest)
            return sk_err_set(e, SKIPPY_E_INVALID, "address of stage %u is longer than %zu characters", i + 1, longest);
        int rc = sk_link_check_address(p->addresses[i], e);
        if (rc != SKIPPY_OK) return rc;
    }
    return SKIPPY_OK;
}

static int check_cuts(const sk_chain_params *p, sk_err *e) {
    if (!p->cuts) return SKIPPY_OK;
    int32_t before = p->head.layer_start;
    for (uint32_t i = 0; i <= p->n_addresses; i++) {
        if (p->cuts[i] <= before)
            return sk_err_set(e, SKIPPY_E_INVALID, "cut at layer %d does not come after layer %d", p->cuts[i], before);
        before = p->cuts[i];
    }
    if (p->cuts[0] != p->head.layer_end)
        return sk_err_set(e, SKIPPY_E_INVALID, "the first cut is at layer %d, but this stage ends before layer %d",
                          p->cuts[0], p->head.layer_end);
    if (before != p->head.n_layer)
        return sk_err_set(e, SKIPPY_E_INVALID, "the last stage would end before layer %d, but the model has %d layers",
                          before, p->head.n_layer);
    return SKIPPY_OK;
}

static bool own_all(sk_chain *c, const sk_chain_params *p) {
    for (uint32_t i = 0; i < p->n_addresses; i++) {
        c->addresses[i] = p->addresses[i];
        if (!own(c, &c->addresses[i])) return false;
    }
    sk_link_security *s = &c->link_options.security;
    return own(c, &c->facts.source) && own(c, &c->facts.abi) && own(c, &c->facts.type_k) && own(c, &c->facts.type_v) &&
           own(c, &s->ca) && own(c, &s->cert) && own(c, &s->key);
}

int sk_chain_copy_params(sk_chain *c, const sk_chain_params *p, sk_err *e) {
    int rc = check_addresses(p, e);
    if (rc == SKIPPY_OK) rc = check_cuts(p, e);
    if (rc != SKIPPY_OK) return rc;
    c->head = p->head;
    c->head.index = 0;
    if (getrandom(&c->head.life, sizeof c->head.life, 0) != (ssize_t)sizeof c->head.life)
        return sk_err_set(e, SKIPPY_E_IO, "no random numbers for the chain's id");
    c->facts = p->facts;
    c->n_addresses = p->n_addresses;
    c->connect_ms = p->connect_ms ? p->connect_ms : SK_CHAIN_CONNECT_MS;
    c->wake = p->wake;
    c->ud = p->ud;
    c->link_options = p->link;
    c->cuts_known = p->cuts != NULL;
    if (p->cuts) memcpy(c->cuts, p->cuts, (p->n_addresses + 1) * sizeof *c->cuts);
    return own_all(c, p) ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a chain");
}

void sk_chain_free_params(sk_chain *c) {
    for (size_t i = 0; i < c->n_strings; i++) free(c->strings[i]);
}
