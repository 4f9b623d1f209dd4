/* Certificates in memory: an authority, and what it signs. Keys are P-256. */
#ifndef SKIPPY_STAGE_CERTS_X509_H
#define SKIPPY_STAGE_CERTS_X509_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/x509.h>

#include "base/err.h"

/* A certificate with its key. Zero-initialise; sk_cert_free. */
typedef struct sk_cert {
    X509 *crt;
    EVP_PKEY *key;
} sk_cert;

/* Valid from .. to, Unix seconds. */
typedef struct sk_cert_time {
    int64_t from, to;
} sk_cert_time;

/* An authority that signs certificates, but no other authority. Errors: SKIPPY_E_NOMEM. */
int sk_cert_authority(sk_cert_time when, sk_cert *out, sk_err *e);
/* A certificate for one host name or IP address, for both ends of a connection. It ends no later than the authority's.
 * Errors: SKIPPY_E_NOMEM. */
int sk_cert_sign(const sk_cert *authority, const char *name, sk_cert_time when, sk_cert *out, sk_err *e);
/* Unix seconds at which it ends. */
int64_t sk_cert_end(const sk_cert *c);
void sk_cert_free(sk_cert *c);

#endif
