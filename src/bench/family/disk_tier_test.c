#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/disk_tier.h"
#include "bench/family/fake_server.h"

enum { LONG_MS = 60000 };

static char folder[64];

static void metrics_are_read_by_their_whole_name(void **state) {
    (void)state;
    sk_disk_tier t;
    sk_disk_tier_parse("# HELP skippy_disk_ready 1 when it is open.\nskippy_disk_ready 1\nskippy_staging_bytes 12\n"
                       "skippy_staging_bytes_more 99\nskippy_store_puts_total{tier=\"ram\"} 5\n"
                       "skippy_store_puts_total{tier=\"disk\"} 6\n",
                       &t);
    assert_true(t.ready);
    assert_int_equal(t.staged, 12);
    assert_int_equal(t.puts, 6);
    sk_disk_tier_parse("skippy_disk_ready 0\n", &t);
    assert_false(t.ready);
    assert_int_equal(t.staged, 0);
    sk_disk_tier_parse("", &t);
    assert_false(t.ready);
}

static void start(sk_family_host *h, const char *flags) {
    *h = fake_host(SK_HOST_OURS, folder, flags);
    assert_int_equal(sk_host_start(h, NULL), SKIPPY_OK);
}

static void waiting_ends_when_everything_is_written(void **state) {
    (void)state;
    sk_family_host h;
    sk_disk_tier t;
    start(&h, "--disk 1");
    assert_true(sk_disk_tier_wait_ready(&h.ep, LONG_MS));
    assert_int_equal(sk_disk_tier_read(&h.ep, &t, NULL), SKIPPY_OK);
    assert_true(t.ready);
    assert_true(sk_disk_tier_wait_written(&h.ep, LONG_MS));
    assert_int_equal(sk_disk_tier_read(&h.ep, &t, NULL), SKIPPY_OK);
    assert_int_equal(t.staged, 0);
    sk_host_free(&h);
}

static void a_server_without_a_disk_store_has_nothing_to_wait_for(void **state) {
    (void)state;
    sk_family_host h;
    sk_disk_tier t;
    start(&h, NULL); /* answers 404 */
    assert_int_equal(sk_disk_tier_read(&h.ep, &t, NULL), SKIPPY_OK);
    assert_false(t.ready);
    assert_true(sk_disk_tier_wait_written(&h.ep, LONG_MS));
    assert_false(sk_disk_tier_wait_ready(&h.ep, 1));
    sk_host_free(&h);
}

static void waiting_has_an_end(void **state) {
    (void)state;
    sk_family_host h;
    start(&h, "--disk 100000");
    assert_false(sk_disk_tier_wait_ready(&h.ep, 1));
    sk_host_free(&h);
    start(&h, "--disk 100");
    for (int i = 0; i < 101; i++) {
        sk_disk_tier t;
        assert_int_equal(sk_disk_tier_read(&h.ep, &t, NULL), SKIPPY_OK);
    }
    assert_false(sk_disk_tier_wait_written(&h.ep, 1)); /* open, and writing */
    sk_host_free(&h);
}

static void a_server_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    sk_family_host h;
    sk_disk_tier t;
    sk_endpoint ep;
    sk_err e = {0};
    start(&h, "--disk 0");
    sk_endpoint_init(&ep, h.port, h.timeout_ms);
    sk_host_stop(&h);
    assert_int_equal(sk_disk_tier_read(&ep, &t, &e), SKIPPY_E_IO);
    assert_false(sk_disk_tier_wait_written(&ep, LONG_MS));
    assert_false(sk_disk_tier_wait_ready(&ep, LONG_MS));
    sk_endpoint_close(&ep);
    sk_host_free(&h);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "disk-tier-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_read_by_their_whole_name),
        cmocka_unit_test(waiting_ends_when_everything_is_written),
        cmocka_unit_test(a_server_without_a_disk_store_has_nothing_to_wait_for),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(a_server_that_is_gone_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
