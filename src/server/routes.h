/* The table of paths: which exist, with which methods, and which need no API key. Pure data and look-up. */
#ifndef SKIPPY_SERVER_ROUTES_H
#define SKIPPY_SERVER_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http_head.h"

enum sk_route {
    SK_ROUTE_NONE = 0, /* unknown path, or a request that could not be read */
    SK_ROUTE_CHAT,
    SK_ROUTE_COMPLETIONS,
    SK_ROUTE_COMPLETION,
    SK_ROUTE_TOKENIZE,
    SK_ROUTE_DETOKENIZE,
    SK_ROUTE_APPLY_TEMPLATE,
    SK_ROUTE_CACHE,
    SK_ROUTE_MODELS,
    SK_ROUTE_HEALTH,
    SK_ROUTE_PROPS,
    SK_ROUTE_SLOTS,
    SK_ROUTE_METRICS,
    SK_ROUTE_INDEX,
    SK_ROUTES
};

/* The path's route; SK_ROUTE_NONE when there is none. */
enum sk_route sk_route_find(const char *path);
/* Methods of a route for the Allow header, as in "POST, OPTIONS". */
const char *sk_route_allow(enum sk_route route);
bool sk_route_accepts(enum sk_route route, enum sk_http_method method);
/* True when the route answers without an API key. */
bool sk_route_is_public(enum sk_route route);
/* The route's main path, for metrics and messages; "other" for SK_ROUTE_NONE. */
const char *sk_route_name(enum sk_route route);
/* The i-th path with its route, for the overview page; NULL past the end. */
const char *sk_route_path(size_t i, enum sk_route *route);

#endif
