/* A chain whose links are encrypted: only stages of its own authority are spoken to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stage/chain_fixture.h"

/* The paths are gone when the chain uses them: it has copies. */
static void open_with(fixture *f, const char *authority) {
    fixture_paths *paths = malloc(sizeof *paths);
    assert_non_null(paths);
    f->params.link.security = fixture_certificate(f, authority, "head", paths);
    fixture_open(f);
    memset(paths, 'x', sizeof *paths);
    free(paths);
}

static void stages_of_the_same_authority_are_connected_encrypted(void **state) {
    fixture *f = *state;
    fixture_paths paths;
    sk_link_security own = fixture_certificate(f, "ours", "stage", &paths);
    fixture_secure(f, &own);
    open_with(f, "ours");
    stage_accept(f);
    stage_take(f, SK_FRAME_HELLO);
    stage_welcome(f, 1);
    sk_chain_event_free(owner_event(f, SK_CHAIN_UP));
    sk_link_stats stats;
    sk_chain_get_link_stats(f->chain, &stats);
    assert_true(stats.encrypted);
}

static void a_stage_of_another_authority_is_refused_for_good(void **state) {
    fixture *f = *state;
    fixture_paths paths;
    sk_link_security other = fixture_certificate(f, "theirs", "stage", &paths);
    fixture_secure(f, &other);
    open_with(f, "ours");
    sk_link *none = NULL;
    const sk_link_options o = {.security = other};
    /* Handshakes go on while somebody waits for a peer. */
    while (!f->events && !(f->events = sk_chain_events(f->chain)))
        assert_int_equal(sk_listener_accept(f->listener, &o, 20, &none, NULL), SKIPPY_E_NOT_FOUND);
    owner_down(f, true, 0, "certificate");
    sk_err e;
    assert_int_equal(sk_chain_wait_up(f->chain, FIXTURE_WAIT_MS, NULL, NULL, &e), SKIPPY_E_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stages_of_the_same_authority_are_connected_encrypted, fixture_one_stage,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(a_stage_of_another_authority_is_refused_for_good, fixture_one_stage,
                                        fixture_close),
    };
    return cmocka_run_group_tests_name("chain over TLS", tests, NULL, NULL);
}
