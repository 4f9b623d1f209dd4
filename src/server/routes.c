#include "server/routes.h"

#include <string.h>

enum {
    READS = SK_HTTP_GET | SK_HTTP_HEAD | SK_HTTP_OPTIONS,
    WRITES = SK_HTTP_POST | SK_HTTP_OPTIONS,
    DELETES = SK_HTTP_DELETE | SK_HTTP_OPTIONS
};

/* The first path of a route is its name. */
static const struct {
    const char *path;
    enum sk_route route;
} paths[] = {
    {"/v1/chat/completions", SK_ROUTE_CHAT},
    {"/chat/completions", SK_ROUTE_CHAT},
    {"/v1/completions", SK_ROUTE_COMPLETIONS},
    {"/completion", SK_ROUTE_COMPLETION},
    {"/completions", SK_ROUTE_COMPLETION},
    {"/tokenize", SK_ROUTE_TOKENIZE},
    {"/detokenize", SK_ROUTE_DETOKENIZE},
    {"/apply-template", SK_ROUTE_APPLY_TEMPLATE},
    {"/cache", SK_ROUTE_CACHE},
    {"/v1/models", SK_ROUTE_MODELS},
    {"/models", SK_ROUTE_MODELS},
    {"/health", SK_ROUTE_HEALTH},
    {"/v1/health", SK_ROUTE_HEALTH},
    {"/props", SK_ROUTE_PROPS},
    {"/slots", SK_ROUTE_SLOTS},
    {"/metrics", SK_ROUTE_METRICS},
    {"/", SK_ROUTE_INDEX},
};

enum { N_PATHS = sizeof paths / sizeof *paths };

enum sk_route sk_route_find(const char *path) {
    for (size_t i = 0; i < N_PATHS; i++)
        if (strcmp(path, paths[i].path) == 0) return paths[i].route;
    return SK_ROUTE_NONE;
}

static bool is_write(enum sk_route route) {
    return route >= SK_ROUTE_CHAT && route <= SK_ROUTE_APPLY_TEMPLATE;
}

const char *sk_route_allow(enum sk_route route) {
    if (route == SK_ROUTE_CACHE) return "DELETE, OPTIONS";
    return is_write(route) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

bool sk_route_accepts(enum sk_route route, enum sk_http_method method) {
    int accepted = route == SK_ROUTE_CACHE ? DELETES : is_write(route) ? WRITES : READS;
    return (accepted & (int)method) != 0;
}

bool sk_route_is_public(enum sk_route route) {
    return route == SK_ROUTE_HEALTH || route == SK_ROUTE_INDEX;
}

const char *sk_route_name(enum sk_route route) {
    for (size_t i = 0; i < N_PATHS; i++)
        if (paths[i].route == route) return paths[i].path;
    return "other";
}

const char *sk_route_path(size_t i, enum sk_route *route) {
    if (i >= N_PATHS) return NULL;
    *route = paths[i].route;
    return paths[i].path;
}
