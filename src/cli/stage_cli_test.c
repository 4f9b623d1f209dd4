/* `skippy stage` as people start it: usage, refusals in words, exit codes, certificates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "cli/capture.h"
#include "cli/stage.h"

static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "stage-cli-test-XXXXXX");
    return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

/* The words may be in either output. */
static void assert_run(const char *const *arguments, int code, const char *words) {
    const char *args[24] = {"skippy stage"};
    captured c = {0};
    for (size_t i = 0; arguments[i]; i++) args[i + 1] = arguments[i];
    int got = capture(&c, sk_cli_stage, args);
    if (got != code || (!strstr(c.out, words) && !strstr(c.err, words)))
        fail_msg("code %d, '%s' is not in: %s%s", got, words, c.out, c.err);
    captured_free(&c);
}

#define RUN(code, words, ...) assert_run((const char *const[]){__VA_ARGS__, NULL}, code, words)

static void the_command_explains_itself(void **state) {
    (void)state;
    RUN(0, "Usage: skippy stage -m", "--help");
    RUN(0, "Usage: skippy stage up", "up", "--help");
    RUN(0, "Usage: skippy stage init-certs", "init-certs", "--help");
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    RUN(2, "which model?", "--listen", "unix:/x");
    RUN(2, "--listen HOST:PORT", "-m", "x.gguf", "--layers", "3..4");
    RUN(2, "not '4..'", "-m", "x.gguf", "--layers", "4..");
    RUN(2, "belong to the head", "-m", "x.gguf", "--layers", "0..4", "--listen", "unix:/x");
    RUN(2, "--tls-key is missing", "-m", "x", "--listen", "unix:/x", "--tls-ca", "a", "--tls-cert", "b");
    RUN(2, "exclude each other", "-m", "x", "--listen", "unix:/x", "--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c",
        "--loopback-plaintext");
    RUN(2, "-m and --package exclude", "-m", "x", "--package", "y", "--listen", "unix:/x");
    RUN(2, "unknown option '--alias'", "-m", "x", "--listen", "unix:/x", "--alias", "y");
    RUN(2, "f32|f16", "-m", "x", "--listen", "unix:/x", "--wire", "q8");
    RUN(2, "--ubatch-size 9 is larger", "-m", "x", "--listen", "unix:/x", "-b", "8", "-ub", "9");
    RUN(2, "nowhere", "-m", "x", "--listen", "nowhere");
    RUN(2, "skippy stage up: which model?", "up");
}

static void what_cannot_be_served_ends_with_code_1_and_words(void **state) {
    (void)state;
    RUN(1, "there-is-no-such.gguf", "-m", "there-is-no-such.gguf", "--listen", "unix:/x");
    RUN(1, "there-is-no-such.gguf", "-m", "there-is-no-such.gguf", "--layers", "1..2", "--listen", "unix:/x");
    RUN(1, "which layers of the package?", "-m", folder, "--listen", "unix:/x");
}

static void certificates_are_made_once_and_keys_are_private(void **state) {
    char dir[128], path[200];
    struct stat st;
    (void)state;
    snprintf(dir, sizeof dir, "%s/certs", folder);
    RUN(0, "--tls-cert 10.0.0.2.crt", "init-certs", dir, "head", "10.0.0.2");
    static const char *const names[] = {"ca", "head", "10.0.0.2"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s.key", dir, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    RUN(1, "head", "init-certs", dir, "head");
    RUN(0, "head.crt", "init-certs", dir, "head", "--force", "--days", "30");
}

static void wrong_usage_of_init_certs_ends_with_code_2(void **state) {
    (void)state;
    RUN(2, "which folder", "init-certs");
    RUN(2, "for which names?", "init-certs", "x");
    RUN(2, "--days needs", "init-certs", "x", "head", "--days", "0");
    RUN(2, "unknown option '--dys'", "init-certs", "x", "head", "--dys");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_explains_itself),
        cmocka_unit_test(wrong_usage_ends_with_code_2_and_words),
        cmocka_unit_test(what_cannot_be_served_ends_with_code_1_and_words),
        cmocka_unit_test(certificates_are_made_once_and_keys_are_private),
        cmocka_unit_test(wrong_usage_of_init_certs_ends_with_code_2),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
