#include "server/server.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/error_reply.h"
#include "server/exchange.h"
#include "server/http_conn.h"
#include "server/metrics.h"
#include "server/pages.h"
#include "server/routes.h"

enum { BACKLOG = 512, MAX_LANE_VIEWS = 1024, LINGER_MS = 2000, FLUSH_MS = 1000 };

struct sk_server {
    sk_server_params p;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *on_mail, *on_prepared, *on_stop, *on_tick;
    int stop_fd;
    sk_conn_set *conns;
    sk_exchange_table exchanges;
    bool exchanges_ready;
    sk_http_stats http;
    bool full;           /* accepting is paused */
    unsigned stops;      /* calls of sk_server_stop seen */
    bool drained;        /* the engine takes no further job */
    bool told;           /* clients know that their requests end */
    uint64_t give_up_ns; /* while stopping: when to go on to the next step */
};

/* ---- answers that need no engine job ---- */

static sk_page_facts page_facts(const sk_server *s) {
    return (sk_page_facts){.engine = sk_engine_get_facts(s->p.engine),
                           .model_id = s->p.model_id,
                           .model_path = s->p.model_path,
                           .build_info = s->p.build_info,
                           .chat_template = sk_api_template_source(s->p.api)};
}

static void reply_slots(sk_server *s, sk_buf *out) {
    sk_page_facts facts = page_facts(s);
    size_t cap = facts.engine->n_lanes < MAX_LANE_VIEWS ? facts.engine->n_lanes : MAX_LANE_VIEWS;
    sk_lane_view *lanes = calloc(cap ? cap : 1, sizeof *lanes);
    if (!lanes) {
        out->failed = true;
        return;
    }
    size_t n = sk_engine_get_lanes(s->p.engine, lanes, cap);
    sk_page_slots(&facts, lanes, n < cap ? n : cap, out);
    free(lanes);
}

static void reply_metrics(sk_server *s, sk_buf *out) {
    sk_engine_stats stats;
    sk_engine_get_stats(s->p.engine, &stats);
    s->http.connections = sk_conn_set_count(s->conns);
    s->http.reading = sk_task_pool_pending(s->exchanges.pool);
    const sk_metrics_input in = {.engine = &stats,
                                 .facts = sk_engine_get_facts(s->p.engine),
                                 .http = &s->http,
                                 .model_id = s->p.model_id,
                                 .build_info = s->p.build_info,
                                 .process_bytes = sk_process_resident_bytes(),
                                 .draining = s->stops > 0};
    sk_metrics_render(&in, out);
}

static void render(sk_server *s, enum sk_route route, sk_buf *out) {
    const sk_page_facts facts = page_facts(s);
    switch (route) {
    case SK_ROUTE_MODELS: sk_api_models(s->p.api, out); break;
    case SK_ROUTE_HEALTH: sk_buf_str(out, "{\"status\":\"ok\"}"); break;
    case SK_ROUTE_PROPS: sk_page_props(&facts, out); break;
    case SK_ROUTE_SLOTS: reply_slots(s, out); break;
    case SK_ROUTE_METRICS: reply_metrics(s, out); break;
    default: sk_page_index(&facts, out); break;
    }
}

static void reply_now(sk_server *s, sk_conn *c, enum sk_route route) {
    const char *type = route == SK_ROUTE_METRICS ? "text/plain; version=0.0.4; charset=utf-8"
                       : route == SK_ROUTE_INDEX ? "text/plain; charset=utf-8"
                                                 : SK_TYPE_JSON;
    sk_buf out = {0};
    render(s, route, &out);
    if (out.failed)
        sk_reply_error(c, 500, "", "the server ran out of memory");
    else
        sk_conn_reply(c, 200, type, out.data, out.len);
    sk_buf_free(&out);
}

/* ---- requests ---- */

static bool authorised(const sk_server *s, const sk_conn *c, char tenant[SK_TENANT_CAP]) {
    const sk_http_head *h = sk_conn_head(c);
    const char *key = NULL;
    size_t len = 0;
    return sk_auth_credential(sk_http_head_field(h, "Authorization"), sk_http_head_field(h, "X-Api-Key"), &key, &len) &&
           sk_auth_check(s->p.auth, key, len, tenant);
}

/* Browsers ask before they send a key to another origin; llama-server allows every origin, and so do its web clients
 * expect. */
static void add_cors(sk_conn *c) {
    const char *origin = sk_http_head_field(sk_conn_head(c), "Origin");
    if (!origin) return;
    sk_conn_add_header(c, "Access-Control-Allow-Origin", origin);
    sk_conn_add_header(c, "Access-Control-Allow-Credentials", "true");
    sk_conn_add_header(c, "Access-Control-Expose-Headers", "X-Skippy-Cache");
    sk_conn_add_header(c, "Vary", "Origin");
}

static void reply_preflight(sk_conn *c) {
    if (!sk_http_head_field(sk_conn_head(c), "Origin"))
        sk_conn_add_header(c, "Access-Control-Allow-Credentials", "true");
    sk_conn_add_header(c, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    sk_conn_add_header(c, "Access-Control-Allow-Headers", "*");
    sk_conn_reply(c, 200, NULL, NULL, 0);
}

/* All that can be refused without the body is refused before it is read. */
static bool on_head(void *ud, sk_conn *c) {
    sk_server *s = ud;
    const sk_http_head *h = sk_conn_head(c);
    enum sk_route route = sk_route_find(h->path);
    char tenant[SK_TENANT_CAP];
    sk_conn_set_tag(c, (int)route);
    add_cors(c);
    if (h->method == SK_HTTP_OPTIONS) {
        reply_preflight(c);
    } else if (route == SK_ROUTE_NONE) {
        sk_reply_error(c, 404, "", "there is no '%.200s' here; GET / lists the endpoints", h->path);
    } else if (!sk_route_accepts(route, h->method)) {
        sk_conn_add_header(c, "Allow", sk_route_allow(route));
        sk_reply_error(c, 405, "method_not_allowed", "%.200s accepts only %s", h->path, sk_route_allow(route));
    } else if (sk_auth_count(s->p.auth) > 0 && !sk_route_is_public(route) && !authorised(s, c, tenant)) {
        sk_conn_add_header(c, "WWW-Authenticate", "Bearer");
        sk_reply_error(c, 401, "invalid_api_key", "a valid API key is needed: send 'Authorization: Bearer KEY'");
    } else {
        return true;
    }
    return false;
}

/* Requests whose bodies must be read: that is done elsewhere, since it can take long. */
static void start_exchange(sk_server *s, sk_conn *c, enum sk_route route) {
    char tenant[SK_TENANT_CAP];
    const char *name = sk_auth_count(s->p.auth) > 0 && authorised(s, c, tenant) ? tenant : NULL;
    switch (route) {
    case SK_ROUTE_CHAT: sk_exchange_start(&s->exchanges, c, SK_API_CHAT, name); break;
    case SK_ROUTE_COMPLETIONS: sk_exchange_start(&s->exchanges, c, SK_API_COMPLETIONS, name); break;
    case SK_ROUTE_COMPLETION: sk_exchange_start(&s->exchanges, c, SK_API_LLAMA, name); break;
    case SK_ROUTE_CACHE: sk_exchange_erase(&s->exchanges, c, name); break;
    case SK_ROUTE_TOKENIZE: sk_exchange_answer(&s->exchanges, c, sk_api_tokenize); break;
    case SK_ROUTE_DETOKENIZE: sk_exchange_answer(&s->exchanges, c, sk_api_detokenize); break;
    default: sk_exchange_answer(&s->exchanges, c, sk_api_apply_template); break;
    }
}

static void on_request(void *ud, sk_conn *c) {
    sk_server *s = ud;
    enum sk_route route = (enum sk_route)sk_conn_tag(c);
    bool work = sk_route_accepts(route, SK_HTTP_POST) || sk_route_accepts(route, SK_HTTP_DELETE);
    if (s->stops > 0 && (work || route == SK_ROUTE_HEALTH))
        sk_reply_error(c, 503, "", "the server is shutting down");
    else if (work)
        start_exchange(s, c, route);
    else
        reply_now(s, c, route);
}

static void on_refuse(void *ud, sk_conn *c, int status, const char *why) {
    (void)ud;
    sk_reply_error(c, status, "", "%s", why);
}

static void on_gone(void *ud, sk_conn *c) {
    (void)ud;
    sk_exchange_client_gone(sk_conn_data(c));
}

static void on_replied(void *ud, sk_conn *c, int status) {
    sk_server *s = ud;
    sk_http_stats_count(&s->http, (enum sk_route)sk_conn_tag(c), status);
}

/* ---- stopping ---- */

/* Called wherever a connection ends or has sent what it had. */
static void end_if_settled(sk_server *s) {
    if (s->stops > 0 && sk_conn_set_settled(s->conns)) event_base_loopbreak(s->base);
}

/* First running requests may end, then clients are told, then what is written may reach them. Never called while the
 * connections are walked: telling clients can close them. */
static void advance_stop(sk_server *s) {
    end_if_settled(s);
    bool late = s->stops > 0 && sk_now_ns() >= s->give_up_ns;
    if (s->stops > 1 || (s->told && late)) {
        event_base_loopbreak(s->base);
        return;
    }
    if (!late) return;
    s->told = true;
    s->give_up_ns = sk_now_ns() + (uint64_t)FLUSH_MS * 1000000u;
    sk_log(SK_LOG_WARN, "requests are still running: their clients are told that the server shuts down");
    sk_exchange_end_all(&s->exchanges);
}

/* Requests that came before the stop are answered: the engine takes them until the last body is read. */
static void drain_when_read(sk_server *s) {
    if (s->stops == 0 || s->drained || sk_task_pool_pending(s->exchanges.pool) > 0) return;
    s->drained = true;
    sk_engine_drain(s->p.engine);
}

static void on_stop(evutil_socket_t fd, short what, void *ud) {
    (void)what;
    sk_server *s = ud;
    uint64_t count = 0;
    if (read(fd, &count, sizeof count) != (ssize_t)sizeof count || count == 0) return;
    if (s->stops == 0) {
        evconnlistener_free(s->listener);
        s->listener = NULL;
        s->give_up_ns = sk_now_ns() + (uint64_t)s->p.shutdown_ms * 1000000u;
    }
    s->stops += count > 2 ? 2 : (unsigned)count;
    drain_when_read(s);
    advance_stop(s);
}

void sk_server_stop(sk_server *s) {
    int saved = errno; /* a signal handler must not change it */
    uint64_t one = 1;
    ssize_t n = write(s->stop_fd, &one, sizeof one);
    (void)n;
    errno = saved;
}

/* ---- loop ---- */

static void accept_again(sk_server *s) {
    if (!s->full || !s->listener || sk_conn_set_count(s->conns) >= s->p.max_connections) return;
    s->full = false;
    evconnlistener_enable(s->listener);
}

static void on_settled(void *ud) {
    accept_again(ud);
    end_if_settled(ud);
}

static void pause_accepting(sk_server *s) {
    s->full = true;
    evconnlistener_disable(s->listener);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len, void *ud) {
    (void)l, (void)sa, (void)len;
    sk_server *s = ud;
    if (!sk_conn_open(s->conns, fd)) sk_log(SK_LOG_ERROR, "a client was turned away: out of memory");
    if (sk_conn_set_count(s->conns) >= s->p.max_connections) pause_accepting(s);
}

/* Usually no file descriptor is left. Accepting goes on at the next tick, not at once in a busy loop. */
static void on_accept_error(struct evconnlistener *l, void *ud) {
    (void)l;
    sk_log(SK_LOG_WARN, "a client cannot be accepted: %s", strerror(errno));
    pause_accepting(ud);
}

static void on_mail(evutil_socket_t fd, short what, void *ud) {
    (void)fd, (void)what;
    sk_server *s = ud;
    sk_exchange_deliver_all(&s->exchanges);
}

static void on_prepared(evutil_socket_t fd, short what, void *ud) {
    (void)fd, (void)what;
    sk_server *s = ud;
    sk_task_pool_deliver(s->exchanges.pool);
    drain_when_read(s);
}

static void on_tick(evutil_socket_t fd, short what, void *ud) {
    (void)fd, (void)what;
    sk_server *s = ud;
    sk_conn_set_sweep(s->conns, sk_now_ns());
    accept_again(s);
    advance_stop(s);
}

static sk_conn_limits conn_limits(const sk_server_params *p) {
    return (sk_conn_limits){.max_head = p->max_head,
                            .max_body = p->max_body,
                            .max_output = p->max_output,
                            .head_ms = p->head_timeout_ms,
                            .body_ms = p->body_timeout_ms,
                            .idle_ms = p->idle_timeout_ms,
                            .write_ms = p->write_timeout_ms,
                            .ping_ms = p->ping_ms,
                            .linger_ms = LINGER_MS};
}

static bool create_events(sk_server *s) {
    const struct timeval tick = {.tv_sec = s->p.tick_ms / 1000, .tv_usec = (s->p.tick_ms % 1000) * 1000};
    s->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->stop_fd < 0) return false;
    s->on_mail = event_new(s->base, s->exchanges.box.fd, EV_READ | EV_PERSIST, on_mail, s);
    s->on_prepared = event_new(s->base, sk_task_pool_fd(s->exchanges.pool), EV_READ | EV_PERSIST, on_prepared, s);
    s->on_stop = event_new(s->base, s->stop_fd, EV_READ | EV_PERSIST, on_stop, s);
    s->on_tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    return s->on_mail && s->on_prepared && s->on_stop && s->on_tick && event_add(s->on_mail, NULL) == 0 &&
           event_add(s->on_prepared, NULL) == 0 && event_add(s->on_stop, NULL) == 0 &&
           event_add(s->on_tick, &tick) == 0;
}

static bool create_listener(sk_server *s) {
    const unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC;
    s->listener = evconnlistener_new(s->base, on_accept, s, flags, BACKLOG, s->p.listen_fd);
    if (!s->listener) return false;
    s->p.listen_fd = -1;
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    return true;
}

int sk_server_create(const sk_server_params *p, sk_server **out, sk_err *e) {
    int rc = SKIPPY_OK;
    sk_server *s = calloc(1, sizeof *s);
    if (!s) {
        close(p->listen_fd);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the server");
    }
    s->p = *p;
    s->stop_fd = -1;
    const sk_conn_limits limits = conn_limits(p);
    const sk_conn_handler handler = {s, on_head, on_request, on_refuse, on_gone, on_replied, on_settled};
    s->base = event_base_new();
    if (s->base) s->conns = sk_conn_set_create(s->base, &limits, &handler);
    if (!s->conns) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the event loop");
        goto fail;
    }
    rc = sk_exchange_table_init(&s->exchanges, p->engine, p->api, p->read_threads, p->read_queue, e);
    if (rc != SKIPPY_OK) goto fail;
    s->exchanges_ready = true;
    if (!create_events(s) || !create_listener(s)) {
        rc = sk_err_set(e, SKIPPY_E_IO, "the server cannot listen: %s", strerror(errno));
        goto fail;
    }
    *out = s;
    return SKIPPY_OK;
fail:
    sk_server_destroy(s);
    return rc;
}

void sk_server_run(sk_server *s) {
    event_base_dispatch(s->base);
    sk_exchange_table_stop(&s->exchanges);
}

static void free_event(struct event *ev) {
    if (ev) event_free(ev);
}

void sk_server_destroy(sk_server *s) {
    if (!s) return;
    if (s->listener) evconnlistener_free(s->listener);
    if (s->p.listen_fd >= 0) close(s->p.listen_fd);
    s->listener = NULL;
    if (s->exchanges_ready) sk_exchange_table_stop(&s->exchanges);
    sk_conn_set_free(s->conns);
    if (s->exchanges_ready) sk_exchange_table_close(&s->exchanges);
    free_event(s->on_mail);
    free_event(s->on_prepared);
    free_event(s->on_stop);
    free_event(s->on_tick);
    if (s->stop_fd >= 0) close(s->stop_fd);
    if (s->base) event_base_free(s->base);
    free(s);
}
