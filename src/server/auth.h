/* API keys. Each key is a tenant: what one key's prompts left in the cache is never reused for another key.
 * Only digests are kept. Read-only after set-up, so checks may run on any thread. */
#ifndef SKIPPY_SERVER_AUTH_H
#define SKIPPY_SERVER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

#define SK_TENANT_CAP 33 /* 16 bytes of the key's digest in hexadecimal, and the NUL */

typedef struct sk_auth sk_auth;

/* NULL when out of memory. */
sk_auth *sk_auth_create(void);
void sk_auth_free(sk_auth *a);
/* Adds the keys of a comma-separated list; blanks around a key are dropped, a repeated key counts once.
 * Errors: SKIPPY_E_INVALID (an empty key, a blank or a control character inside a key), SKIPPY_E_NOMEM. */
int sk_auth_add(sk_auth *a, const char *list, sk_err *e);
/* Adds the keys of a file: one a line; empty lines and lines that begin with '#' are skipped, CRLF is accepted.
 * Errors as above, and SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_INVALID for a file without any key. */
int sk_auth_add_file(sk_auth *a, const char *path, sk_err *e);
size_t sk_auth_count(const sk_auth *a);
/* True when the key is known; tenant receives its name. Time does not depend on which key matches, or on how many
 * bytes of a wrong key are right: digests of equal length are compared, all of them, without an early exit. */
bool sk_auth_check(const sk_auth *a, const char *key, size_t len, char tenant[SK_TENANT_CAP]);
/* The key that a request carries: "Authorization: Bearer KEY" first, else X-Api-Key. Both may be NULL. */
bool sk_auth_credential(const char *authorization, const char *x_api_key, const char **key, size_t *len);
/* Equality of two digests in constant time. */
bool sk_digest_equal(const uint8_t a[SK_HASH_BYTES], const uint8_t b[SK_HASH_BYTES]);

#endif
