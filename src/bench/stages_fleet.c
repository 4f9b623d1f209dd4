#include "bench/stages_fleet.h"

#include <stdio.h>
#include <string.h>

#include "bench/launch.h"

enum { READY_TIMEOUT_MS = 600000, STOP_GRACE_MS = 10000, CERTIFICATES_MS = 60000, LOG_LINES = 4, MAX_WORDS = 40 };
enum { PATH_BYTES = 1200, ADDRESS_BYTES = 64 };

void sk_fleet_folder(const sk_fleet_plan *p, size_t stage, char *buf, size_t cap) {
    snprintf(buf, cap, "%s/work/%s-%zu", p->o->out_dir, p->name, stage);
}

static void log_path(const sk_fleet_plan *p, const char *what, char buf[PATH_BYTES]) {
    snprintf(buf, PATH_BYTES, "%s/%s-%s.log", p->o->out_dir, p->name, what);
}

/* ---- command lines ---- */

/* Words of one command; texts that are made for it live in `text`. */
typedef struct command {
    const char *v[MAX_WORDS + 1];
    size_t n;
    char text[8][PATH_BYTES];
    size_t n_text;
} command;

static void word(command *c, const char *w) {
    if (c->n < MAX_WORDS) c->v[c->n++] = w;
}

static void option(command *c, const char *name, const char *value) {
    word(c, name);
    word(c, value);
}

/* A text that lives as long as the command. */
static char *room(command *c) {
    return c->text[c->n_text < sizeof c->text / sizeof c->text[0] - 1 ? c->n_text++ : c->n_text];
}

static void number(command *c, const char *name, unsigned long long value) {
    char *text = room(c);
    snprintf(text, PATH_BYTES, "%llu", value);
    option(c, name, text);
}

/* " --tls-ca ..." for the holder of a certificate, or what allows plaintext. */
static void security(const sk_stages_options *o, const char *holder, char *buf, size_t cap) {
    const char *d = o->out_dir;
    if (o->tls)
        snprintf(buf, cap, "--tls-ca %s/certs/ca.crt --tls-cert %s/certs/%s.crt --tls-key %s/certs/%s.key", d, d,
                 holder, d, holder);
    else
        snprintf(buf, cap, "--loopback-plaintext");
}

/* Adds the words of a text that has blanks between them; the text is changed and must live as long as the command. */
static void words(command *c, char *text) {
    char *rest = NULL;
    for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) word(c, w);
}

/* ---- processes ---- */

static int start_stage(const sk_fleet_plan *p, size_t i, const char *address, sk_process *out, sk_err *e) {
    const sk_stages_options *o = p->o;
    char folder[PATH_BYTES - 64], log[PATH_BYTES], name[32];
    command c = {0};
    sk_fleet_folder(p, i, folder, sizeof folder);
    char *home = room(&c), *layers = room(&c), *links = room(&c), *disk = room(&c);
    snprintf(home, PATH_BYTES, "XDG_CACHE_HOME=%s", folder);
    snprintf(layers, PATH_BYTES, "%d..%d", (int)p->split->first[i], (int)p->split->first[i + 1] - 1);
    snprintf(disk, PATH_BYTES, "%s/cache", folder);
    security(o, "127.0.0.1", links, PATH_BYTES);
    option(&c, "env", home);
    option(&c, o->skippy, "stage");
    option(&c, "-m", o->model);
    option(&c, "--layers", layers);
    option(&c, "--listen", address);
    number(&c, "-c", (unsigned long long)o->lane_ctx * p->lanes);
    number(&c, "-t", (unsigned)o->threads);
    number(&c, "-np", p->lanes);
    words(&c, links);
    if (p->disk) option(&c, "--cache-disk", disk);
    snprintf(name, sizeof name, "stage-%zu", i);
    log_path(p, name, log);
    return sk_process_start(out, c.v, NULL, log, e);
}

static int start_rpc_server(const sk_fleet_plan *p, const char *address, sk_process *out, sk_err *e) {
    char log[PATH_BYTES];
    command c = {0};
    word(&c, p->o->rpc_server);
    option(&c, "-H", "127.0.0.1");
    option(&c, "-p", strrchr(address, ':') + 1);
    number(&c, "-t", (unsigned)p->o->threads);
    log_path(p, "rpc-server", log);
    return sk_process_start(out, c.v, NULL, log, e);
}

static int choose_address(char buf[ADDRESS_BYTES], sk_err *e) {
    uint16_t port = 0;
    const int rc = sk_process_free_port(&port, e);
    snprintf(buf, ADDRESS_BYTES, "127.0.0.1:%u", port);
    return rc;
}

/* The way to an address: itself, or a relay in front of it. */
static int link_to(const sk_fleet_plan *p, sk_fleet *f, size_t i, char address[ADDRESS_BYTES], sk_err *e) {
    if (!(p->delay_ms > 0.0)) return SKIPPY_OK;
    const int rc = sk_relay_open("127.0.0.1:0", address, (uint32_t)(p->delay_ms * 1000.0 + 0.5), &f->relay[i], e);
    if (rc == SKIPPY_OK) snprintf(address, ADDRESS_BYTES, "%s", sk_relay_address(f->relay[i]));
    return rc;
}

/* Starts what stands behind the front server; routes receives the addresses that it connects to, separated by commas.
 */
static int start_behind(const sk_fleet_plan *p, bool rpc, sk_fleet *f, char *routes, size_t cap, sk_err *e) {
    int rc = SKIPPY_OK;
    size_t used = 0;
    routes[0] = '\0';
    for (size_t i = 0; rc == SKIPPY_OK && i + 1 < p->split->n; i++) {
        char address[ADDRESS_BYTES] = "";
        rc = choose_address(address, e);
        if (rc == SKIPPY_OK)
            rc =
                rpc ? start_rpc_server(p, address, &f->behind[i], e) : start_stage(p, i + 1, address, &f->behind[i], e);
        if (rc != SKIPPY_OK) break;
        f->n_behind++;
        rc = link_to(p, f, i, address, e);
        const int n = snprintf(routes + used, cap - used, "%s%s", i ? "," : "", address);
        used += n > 0 && (size_t)n < cap - used ? (size_t)n : 0;
    }
    return rc;
}

/* Starts the front server; its links are named in flags. */
static int start_front(const sk_fleet_plan *p, sk_launch *l, const char *flags, sk_fleet *f, sk_err *e) {
    char log[PATH_BYTES];
    sk_buf text = {0};
    l->model = p->o->model;
    l->n_ctx = (uint32_t)(p->o->lane_ctx * p->lanes);
    l->threads = p->o->threads;
    l->lanes = p->lanes;
    l->flags[0] = flags;
    l->ready_timeout_ms = READY_TIMEOUT_MS;
    log_path(p, l->subcommand ? "head" : "llama-server", log);
    const int rc = sk_launch_server(l, log, &f->front, &f->port, &text, e);
    snprintf(f->command, sizeof f->command, "%s", text.data ? text.data : "");
    sk_buf_free(&text);
    if (rc == SKIPPY_OK) sk_endpoint_init(&f->ep, f->port, p->o->timeout_s * 1000);
    return rc;
}

int sk_fleet_start_skippy(const sk_fleet_plan *p, sk_fleet *out, sk_err *e) {
    char routes[256], folder[PATH_BYTES - 64], links[4 * PATH_BYTES], flags[6 * PATH_BYTES];
    sk_launch l = {.program = p->o->skippy, .subcommand = "serve", .cache_home = folder};
    *out = (sk_fleet){0};
    sk_fleet_folder(p, 0, folder, sizeof folder);
    security(p->o, "head", links, sizeof links);
    int rc = start_behind(p, false, out, routes, sizeof routes, e);
    snprintf(flags, sizeof flags, "--layers 0..%d --stages %s %s", (int)p->split->first[1] - 1, routes, links);
    if (p->disk) snprintf(flags + strlen(flags), sizeof flags - strlen(flags), " --cache-disk %s/cache", folder);
    if (rc == SKIPPY_OK) rc = start_front(p, &l, flags, out, e);
    if (rc != SKIPPY_OK) {
        sk_fleet_explain(out, e);
        sk_fleet_stop(out);
    }
    return rc;
}

int sk_fleet_start_rpc(const sk_fleet_plan *p, sk_fleet *out, sk_err *e) {
    char route[256], flags[512];
    sk_launch l = {.program = p->o->llama_server};
    *out = (sk_fleet){0};
    if (p->split->n != 2)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "llama-server is measured with 2 stages only, not with %zu",
                          p->split->n);
    int rc = start_behind(p, true, out, route, sizeof route, e);
    /* The last -ngl layers lie on the device, the output counts as one; -fit would change the number. */
    snprintf(flags, sizeof flags, "--rpc %s -ngl %d -fit off", route,
             (int)(p->split->first[2] - p->split->first[1]) + 1);
    if (rc == SKIPPY_OK) rc = start_front(p, &l, flags, out, e);
    if (rc != SKIPPY_OK) {
        sk_fleet_explain(out, e);
        sk_fleet_stop(out);
    }
    return rc;
}

void sk_fleet_stop(sk_fleet *f) {
    if (f->port) sk_endpoint_close(&f->ep);
    sk_process_stop(&f->front, STOP_GRACE_MS);
    for (size_t i = 0; i < SK_STAGES_MAX - 1; i++) {
        sk_process_stop(&f->behind[i], STOP_GRACE_MS);
        sk_relay_close(f->relay[i]);
    }
    *f = (sk_fleet){0};
}

int sk_fleet_explain(sk_fleet *f, sk_err *e) {
    for (size_t i = 0; i < f->n_behind; i++) {
        if (sk_process_alive(&f->behind[i], NULL)) continue;
        sk_buf tail = {0};
        const sk_err before = *e;
        sk_process_log_tail(&f->behind[i], LOG_LINES, &tail);
        sk_err_set(e, before.code, "%.180s; process %zu behind the front server ended, its last words: %.230s",
                   before.text, i + 1, tail.len ? tail.data : "(nothing)");
        sk_buf_free(&tail);
        break;
    }
    return e->code;
}

int sk_fleet_certificates(const sk_stages_options *o, sk_err *e) {
    char folder[PATH_BYTES], log[PATH_BYTES];
    const char *argv[] = {o->skippy, "stage", "init-certs", folder, "head", "127.0.0.1", NULL};
    sk_process p;
    int status = 0;
    if (!o->tls) return SKIPPY_OK;
    snprintf(folder, sizeof folder, "%s/certs", o->out_dir);
    snprintf(log, sizeof log, "%s/certs.log", o->out_dir);
    int rc = sk_process_start(&p, argv, NULL, log, e);
    if (rc == SKIPPY_OK) rc = sk_process_wait(&p, CERTIFICATES_MS, &status, e);
    if (rc == SKIPPY_OK && status != 0) {
        sk_buf tail = {0};
        sk_process_log_tail(&p, LOG_LINES, &tail);
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "no certificates were made: %.400s", tail.len ? tail.data : "(no words)");
        sk_buf_free(&tail);
    }
    sk_process_stop(&p, 0);
    return rc;
}
