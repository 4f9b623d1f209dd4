#include "cli/split_options.h"

#include <string.h>

#include "cli/layer_range.h"
#include "cli/run_options.h"

const sk_arg_def sk_split_defs[] = {
    {SK_SPLIT_ARG_LAYERS, "--layers", "A..B", NULL,
     "the layers to hold, both included, counted from 0; a whole model or a\npackage is cut, and what was cut is kept for the next start"},
    {SK_SPLIT_ARG_PACKAGE, "--package", "DIR|URL", NULL,
     "take the weights out of a package ('skippy package'): its folder, or\nits http(s) URL; only what the layers need is fetched"},
    {SK_SPLIT_ARG_PACKAGE_CA, "--package-ca", "FILE", NULL, "further authorities for https (default: the system's)"},
    {SK_SPLIT_ARG_STAGE_DIR, "--stage-cache", "DIR", NULL,
     "where stage files are kept (default: $XDG_CACHE_HOME/skippy/stages or\n~/.cache/skippy/stages)"},
    {SK_SPLIT_ARG_STAGE_MAX, "--stage-cache-max", "MIB", NULL, "most bytes in that folder; 0: no limit (default: 0)"},
    {SK_SPLIT_ARG_WIRE, "--wire", "TYPE", "f32|f16",
     "hidden states between stages: f32 is exact, f16 is half the bytes\n(default: f32; the same for all stages)"},
    {SK_SPLIT_ARG_ACTIVATIONS, "--activations", "MIB", NULL,
     "memory for hidden states that are sent again instead of computed (default: 256)"},
    {SK_SPLIT_ARG_CA, "--tls-ca", "FILE", NULL, "links: certificate of the authority ('skippy stage init-certs')"},
    {SK_SPLIT_ARG_CERT, "--tls-cert", "FILE", NULL, "links: this process's certificate"},
    {SK_SPLIT_ARG_KEY, "--tls-key", "FILE", NULL, "links: its key"},
    {SK_SPLIT_ARG_PLAINTEXT, "--loopback-plaintext", NULL, NULL,
     "links: no TLS on 127.0.0.0/8 and ::1 (unix sockets never need it)"},
};
const size_t sk_split_n_defs = sizeof sk_split_defs / sizeof *sk_split_defs;

void sk_split_options_defaults(sk_split_options *o) {
    *o = (sk_split_options){.activation_bytes = UINT64_C(256) << 20};
}

bool sk_split_options_apply(sk_split_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    const uint64_t max_mib = UINT64_C(1) << 30;
    *known = true;
    if (id >= SK_SPLIT_ARG_LINKS && id < SK_SPLIT_ARG_END && !o->link_option) {
        static const char *const names[] = {"--wire",     "--activations", "--tls-ca",
                                            "--tls-cert", "--tls-key",     "--loopback-plaintext"};
        o->link_option = names[id - SK_SPLIT_ARG_LINKS];
    }
    switch (id) {
    case SK_SPLIT_ARG_LAYERS: o->has_layers = true; return sk_layer_range_parse(a->value, &o->layers, e);
    case SK_SPLIT_ARG_PACKAGE: o->package = a->value; return true;
    case SK_SPLIT_ARG_PACKAGE_CA: o->package_ca = a->value; return true;
    case SK_SPLIT_ARG_STAGE_DIR: o->stage_dir = a->value; return true;
    case SK_SPLIT_ARG_STAGE_MAX: return sk_run_mib(a, 0, max_mib, &o->stage_max, e);
    case SK_SPLIT_ARG_WIRE: o->dtype = strcmp(a->value, "f16") == 0; return true;
    case SK_SPLIT_ARG_ACTIVATIONS: return sk_run_mib(a, 0, max_mib, &o->activation_bytes, e);
    case SK_SPLIT_ARG_CA: o->security.ca = a->value; return true;
    case SK_SPLIT_ARG_CERT: o->security.cert = a->value; return true;
    case SK_SPLIT_ARG_KEY: o->security.key = a->value; return true;
    case SK_SPLIT_ARG_PLAINTEXT: o->security.allow_loopback = true; return true;
    default: *known = false; return true;
    }
}

int sk_split_options_check(const sk_split_options *o, sk_err *e) {
    const sk_link_security *s = &o->security;
    const int given = (s->ca != NULL) + (s->cert != NULL) + (s->key != NULL);
    if (given != 0 && given != 3)
        return sk_err_set(e, SKIPPY_E_INVALID, "--tls-ca, --tls-cert and --tls-key are needed together; %s is missing",
                          !s->ca     ? "--tls-ca"
                          : !s->cert ? "--tls-cert"
                                     : "--tls-key");
    if (given == 3 && s->allow_loopback)
        return sk_err_set(e, SKIPPY_E_INVALID, "--loopback-plaintext and certificates exclude each other");
    return SKIPPY_OK;
}
