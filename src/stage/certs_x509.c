#include "stage/certs_x509.h"

#include <time.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

enum { SERIAL_BITS = 127 /* random, positive, within the 20 bytes of RFC 5280 */ };

static const char AUTHORITY[] = "skippy stage authority";

static int failed(sk_err *e) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return sk_err_set(e, SKIPPY_E_NOMEM, "a certificate cannot be made: %s", reason ? reason : "out of memory");
}

static bool set_serial(X509 *crt) {
    BIGNUM *n = BN_new();
    bool ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(n, X509_get_serialNumber(crt)) != NULL;
    BN_free(n);
    return ok;
}

static bool set_time(X509 *crt, sk_cert_time when) {
    return ASN1_TIME_set(X509_getm_notBefore(crt), (time_t)when.from) &&
           ASN1_TIME_set(X509_getm_notAfter(crt), (time_t)when.to);
}

static bool set_subject(X509 *crt, const char *common_name) {
    X509_NAME *subject = X509_get_subject_name(crt);
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0) == 1;
}

/* value: OpenSSL's words for an extension; constants of this file only, never a name from outside. */
static bool add_extension(X509 *crt, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, crt, NULL, NULL, 0);
    X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = x && X509_add_ext(crt, x, -1) == 1;
    X509_EXTENSION_free(x);
    return ok;
}

/* The name as what it is: an address or a host name. */
static GENERAL_NAME *alternative_name(const char *name) {
    GENERAL_NAME *g = GENERAL_NAME_new();
    ASN1_OCTET_STRING *ip = a2i_IPADDRESS(name);
    if (g && ip) {
        GENERAL_NAME_set0_value(g, GEN_IPADD, ip);
        return g;
    }
    ASN1_OCTET_STRING_free(ip);
    ASN1_IA5STRING *dns = g ? ASN1_IA5STRING_new() : NULL;
    if (dns && ASN1_STRING_set(dns, name, -1) == 1) {
        GENERAL_NAME_set0_value(g, GEN_DNS, dns);
        return g;
    }
    ASN1_IA5STRING_free(dns);
    GENERAL_NAME_free(g);
    return NULL;
}

static bool add_name(X509 *crt, const char *name) {
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *g = names ? alternative_name(name) : NULL;
    bool ok = g && sk_GENERAL_NAME_push(names, g) > 0;
    if (!ok) GENERAL_NAME_free(g);
    ok = ok && X509_add1_ext_i2d(crt, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

/* Everything but extensions and signature. */
static bool begin(sk_cert *c, const char *common_name, sk_cert_time when) {
    c->key = EVP_EC_gen("P-256");
    c->crt = c->key ? X509_new() : NULL;
    return c->crt && X509_set_version(c->crt, X509_VERSION_3) == 1 && set_serial(c->crt) && set_time(c->crt, when) &&
           set_subject(c->crt, common_name) && X509_set_pubkey(c->crt, c->key) == 1;
}

int sk_cert_authority(sk_cert_time when, sk_cert *out, sk_err *e) {
    ERR_clear_error();
    bool ok = begin(out, AUTHORITY, when) && X509_set_issuer_name(out->crt, X509_get_subject_name(out->crt)) == 1 &&
              add_extension(out->crt, out->crt, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(out->crt, out->crt, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(out->crt, out->crt, NID_subject_key_identifier, "hash") &&
              X509_sign(out->crt, out->key, EVP_sha256()) > 0;
    if (ok) return SKIPPY_OK;
    sk_cert_free(out);
    return failed(e);
}

int sk_cert_sign(const sk_cert *authority, const char *name, sk_cert_time when, sk_cert *out, sk_err *e) {
    int64_t end = sk_cert_end(authority);
    if (when.to > end) when.to = end;
    ERR_clear_error();
    bool ok = begin(out, name, when) && X509_set_issuer_name(out->crt, X509_get_subject_name(authority->crt)) == 1 &&
              add_extension(out->crt, authority->crt, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(out->crt, authority->crt, NID_key_usage, "critical,digitalSignature") &&
              add_extension(out->crt, authority->crt, NID_ext_key_usage, "serverAuth,clientAuth") &&
              add_extension(out->crt, authority->crt, NID_subject_key_identifier, "hash") &&
              add_extension(out->crt, authority->crt, NID_authority_key_identifier, "keyid:always") &&
              add_name(out->crt, name) && X509_sign(out->crt, authority->key, EVP_sha256()) > 0;
    if (ok) return SKIPPY_OK;
    sk_cert_free(out);
    return failed(e);
}

int64_t sk_cert_end(const sk_cert *c) {
    struct tm tm;
    return ASN1_TIME_to_tm(X509_get0_notAfter(c->crt), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

void sk_cert_free(sk_cert *c) {
    X509_free(c->crt);
    EVP_PKEY_free(c->key);
    *c = (sk_cert){0};
}
