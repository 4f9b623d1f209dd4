#include "server/server_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "server/fake_api.h"
#include "server/fake_engine.h"
#include "server/listen.h"

void fixture_params(sk_server_params *p) {
    sk_server_defaults(p);
    p->head_timeout_ms = p->body_timeout_ms = p->idle_timeout_ms = p->write_timeout_ms = p->ping_ms = 60000;
    p->tick_ms = 5;
}

static void *run(void *ud) {
    sk_server_run(ud);
    return NULL;
}

void fixture_start(server_fixture *f, const sk_server_params *p, const char *keys) {
    sk_server_params params = *p;
    sk_err e;
    memset(f, 0, sizeof *f);
    signal(SIGPIPE, SIG_IGN); /* as `skippy serve` does: a client that has left is an error of write */
    fake_engine_reset();
    fake_api_reset();
    sk_log_set_level(SK_LOG_ERROR);
    f->auth = sk_auth_create();
    assert_non_null(f->auth);
    if (keys) assert_int_equal(sk_auth_add(f->auth, keys, &e), SKIPPY_OK);
    assert_int_equal(sk_listen_open("127.0.0.1", 0, false, &params.listen_fd, &e), SKIPPY_OK);
    f->port = sk_listen_port(params.listen_fd);
    params.auth = f->auth;
    params.model_id = "fake-model";
    params.model_path = "/models/fake.gguf";
    params.build_info = "test";
    assert_int_equal(sk_server_create(&params, &f->server, &e), SKIPPY_OK);
    assert_int_equal(pthread_create(&f->thread, NULL, run, f->server), 0);
}

void fixture_join(server_fixture *f) {
    pthread_join(f->thread, NULL);
    fake_engine_stop();
}

void fixture_stop(server_fixture *f) {
    fake_api_open_gate(); /* or the server waits for its workers for ever */
    sk_server_stop(f->server);
    sk_server_stop(f->server);
    fixture_join(f);
    sk_server_destroy(f->server);
    sk_auth_free(f->auth);
}
