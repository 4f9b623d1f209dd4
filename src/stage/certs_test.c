/* The folder of certificates: what is made, kept, refused, and that keys are private. */
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

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/test_folder.h"
#include "stage/certs.h"
#include "stage/link.h"

enum { DAY = 86400 };

static char parent[100], dir[140];

/* Every test has a folder that is not there yet. */
static int begin(void **state) {
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(parent, sizeof parent, "%s/skippy-certs-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(parent)) return -1;
    snprintf(dir, sizeof dir, "%s/certs", parent);
    return 0;
}

static int end(void **state) {
    (void)state;
    return test_remove_tree(parent);
}

static const char *in_dir(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make(const char *name, bool force, sk_err *e) {
    return sk_link_certs(dir, &name, 1, 30, force, e);
}

static void made(const char *name) {
    sk_err e = {0};
    if (make(name, false, &e)) fail_msg("%s", e.text);
}

static X509 *read_cert(const char *name) {
    FILE *f = fopen(in_dir(name), "r");
    assert_non_null(f);
    X509 *crt = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(crt);
    return crt;
}

static void digest_of(const char *name, uint8_t out[SK_HASH_BYTES]) {
    char bytes[8192];
    FILE *f = fopen(in_dir(name), "r");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    sk_hash(bytes, n, out);
}

/* ---- what is made ---- */

static void files_are_made_and_keys_are_private(void **state) {
    (void)state;
    static const char *const names[] = {"head", "10.0.0.2", "fd00::3"};
    static const char *const files[] = {"ca.crt",       "ca.key",       "head.crt",    "head.key",
                                        "10.0.0.2.crt", "10.0.0.2.key", "fd00::3.crt", "fd00::3.key"};
    sk_err e = {0};
    struct stat st;
    assert_int_equal(sk_link_certs(dir, names, 3, 30, false, &e), SKIPPY_OK);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(stat(in_dir(files[i]), &st), 0);
        assert_true(st.st_size > 0);
        if (strstr(files[i], ".key")) assert_int_equal(st.st_mode & 0777, 0600);
    }
    char temporary[320];
    snprintf(temporary, sizeof temporary, "%s.tmp", in_dir("head.key"));
    assert_int_equal(access(temporary, F_OK), -1);
}

static void a_certificate_names_exactly_its_host(void **state) {
    (void)state;
    made("stage-b.example");
    made("10.0.0.2");
    made("fd00::3");
    X509 *host = read_cert("stage-b.example.crt"), *v4 = read_cert("10.0.0.2.crt"), *v6 = read_cert("fd00::3.crt");
    const unsigned never = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
    assert_int_equal(X509_check_host(host, "stage-b.example", 0, never, NULL), 1);
    assert_int_equal(X509_check_host(host, "stage-c.example", 0, never, NULL), 0);
    assert_int_equal(X509_check_ip_asc(v4, "10.0.0.2", 0), 1);
    assert_int_equal(X509_check_ip_asc(v4, "10.0.0.3", 0), 0);
    assert_int_equal(X509_check_host(v4, "10.0.0.2", 0, never, NULL), 0); /* an address is not a host name */
    assert_int_equal(X509_check_ip_asc(v6, "fd00:0::3", 0), 1);
    X509_free(host);
    X509_free(v4);
    X509_free(v6);
}

static void certificates_can_do_what_a_stage_needs_and_no_more(void **state) {
    (void)state;
    made("head");
    X509 *ca = read_cert("ca.crt"), *head = read_cert("head.crt");
    EVP_PKEY *signer = X509_get0_pubkey(ca);
    assert_int_equal(X509_verify(head, signer), 1);
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_get_pathlen(ca), 0); /* signs no other authority */
    assert_int_equal(X509_check_ca(head), 0);
    assert_int_equal(X509_get_extended_key_usage(head), XKU_SSL_SERVER | XKU_SSL_CLIENT);
    assert_int_equal(X509_get_key_usage(head), KU_DIGITAL_SIGNATURE);
    assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(head)), 256);
    assert_int_equal(EVP_PKEY_get_base_id(X509_get0_pubkey(head)), EVP_PKEY_EC);
    assert_true(ASN1_INTEGER_cmp(X509_get0_serialNumber(ca), X509_get0_serialNumber(head)) != 0);
    X509_free(ca);
    X509_free(head);
}

static void certificates_are_valid_for_the_days_asked_for(void **state) {
    (void)state;
    made("head");
    X509 *head = read_cert("head.crt");
    time_t in_29 = (time_t)(sk_wall_s() + 29 * DAY), in_31 = (time_t)(sk_wall_s() + 31 * DAY),
           now = (time_t)sk_wall_s();
    assert_int_equal(X509_cmp_time(X509_get0_notBefore(head), &now), -1);
    assert_int_equal(X509_cmp_time(X509_get0_notAfter(head), &in_29), 1);
    assert_int_equal(X509_cmp_time(X509_get0_notAfter(head), &in_31), -1);
    X509_free(head);
}

/* ---- what is there already ---- */

static void the_authority_is_used_on(void **state) {
    (void)state;
    uint8_t before[2][SK_HASH_BYTES], after[2][SK_HASH_BYTES];
    made("head");
    digest_of("ca.crt", before[0]);
    digest_of("ca.key", before[1]);
    made("stage-1");
    digest_of("ca.crt", after[0]);
    digest_of("ca.key", after[1]);
    assert_memory_equal(before, after, sizeof before);
    X509 *ca = read_cert("ca.crt"), *one = read_cert("stage-1.crt");
    assert_int_equal(X509_verify(one, X509_get0_pubkey(ca)), 1);
    X509_free(ca);
    X509_free(one);
}

static void a_certificate_is_replaced_only_by_force(void **state) {
    (void)state;
    static const char *const names[] = {"new", "head"};
    uint8_t before[SK_HASH_BYTES], after[SK_HASH_BYTES];
    sk_err e = {0};
    made("head");
    digest_of("head.crt", before);
    assert_int_equal(sk_link_certs(dir, names, 2, 30, false, &e), SKIPPY_E_EXISTS);
    assert_non_null(strstr(e.text, "'head' has a certificate"));
    assert_int_equal(access(in_dir("new.crt"), F_OK), -1); /* nothing was made before all was checked */
    digest_of("head.crt", after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(sk_link_certs(dir, names, 2, 30, true, &e), SKIPPY_OK);
    digest_of("head.crt", after);
    assert_memory_not_equal(before, after, sizeof before);
}

static void half_an_authority_is_refused(void **state) {
    (void)state;
    sk_err e = {0};
    made("head");
    assert_int_equal(unlink(in_dir("ca.key")), 0);
    assert_int_equal(make("stage-1", false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "ca.key"));
    assert_int_equal(access(in_dir("stage-1.crt"), F_OK), -1);
}

static void an_authority_that_is_none_is_refused(void **state) {
    (void)state;
    sk_err e = {0};
    made("head");
    made("stage-1");
    char from[300];
    snprintf(from, sizeof from, "%s", in_dir("head.key"));
    assert_int_equal(rename(from, in_dir("ca.key")), 0); /* another one's key */
    assert_int_equal(make("stage-2", false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "not a readable certificate and its key"));
    snprintf(from, sizeof from, "%s", in_dir("head.crt"));
    assert_int_equal(rename(from, in_dir("ca.crt")), 0); /* now they match, but it is a stage's */
    assert_int_equal(make("stage-2", false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "not the certificate of an authority"));
    FILE *f = fopen(in_dir("ca.crt"), "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(make("stage-2", false, &e), SKIPPY_E_INVALID);
}

static void an_expired_authority_is_refused_and_none_outlives_it(void **state) {
    (void)state;
    const char *name = "head", *other = "stage-1";
    sk_err e = {0};
    int64_t now = sk_wall_s();
    assert_int_equal(sk_certs_write(dir, &name, 1, (sk_cert_time){now - 9 * DAY, now + 5 * DAY}, false, &e), SKIPPY_OK);
    assert_int_equal(sk_link_certs(dir, &other, 1, 300, false, &e), SKIPPY_OK);
    X509 *ca = read_cert("ca.crt"), *one = read_cert("stage-1.crt");
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(ca), X509_get0_notAfter(one)), 0);
    X509_free(ca);
    X509_free(one);
    assert_int_equal(test_remove_tree(dir), 0);
    assert_int_equal(sk_certs_write(dir, &name, 1, (sk_cert_time){now - 9 * DAY, now - 5 * DAY}, false, &e), SKIPPY_OK);
    assert_int_equal(sk_link_certs(dir, &other, 1, 300, false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "has expired"));
}

/* ---- arguments ---- */

static void names_that_are_no_hosts_are_refused(void **state) {
    (void)state;
    char long_name[300];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const bad[] = {"",     "ca",   "../x",      "a/b",    "-force",           ".hidden", "a b",
                               "a..b", "a\nb", "[fd00::3]", "fd00:3", "DNS:x,IP:1.2.3.4", "*.x",     long_name};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sk_err e = {0};
        if (make(bad[i], true, &e) != SKIPPY_E_INVALID) fail_msg("'%s' was accepted", bad[i]);
        assert_true(e.text[0]);
    }
    assert_int_equal(access(dir, F_OK), -1); /* nothing was made */
}

static void days_out_of_bounds_are_refused(void **state) {
    (void)state;
    const char *name = "head";
    sk_err e = {0};
    assert_int_equal(sk_link_certs(dir, &name, 1, 0, false, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_link_certs(dir, &name, 1, 36501, false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "36501"));
}

static void a_folder_that_cannot_be_is_named(void **state) {
    (void)state;
    sk_err e = {0};
    FILE *f = fopen(dir, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(make("head", false, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, dir));
    assert_int_equal(unlink(dir), 0);
    snprintf(dir, sizeof dir, "%s/no/such", parent);
    assert_int_equal(make("head", false, &e), SKIPPY_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_made_and_keys_are_private, begin, end),
        cmocka_unit_test_setup_teardown(a_certificate_names_exactly_its_host, begin, end),
        cmocka_unit_test_setup_teardown(certificates_can_do_what_a_stage_needs_and_no_more, begin, end),
        cmocka_unit_test_setup_teardown(certificates_are_valid_for_the_days_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(the_authority_is_used_on, begin, end),
        cmocka_unit_test_setup_teardown(a_certificate_is_replaced_only_by_force, begin, end),
        cmocka_unit_test_setup_teardown(half_an_authority_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(an_authority_that_is_none_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(an_expired_authority_is_refused_and_none_outlives_it, begin, end),
        cmocka_unit_test_setup_teardown(names_that_are_no_hosts_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(days_out_of_bounds_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_is_named, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
