#include "server/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sk_auth {
    uint8_t (*digests)[SK_HASH_BYTES];
    size_t n, cap;
};

sk_auth *sk_auth_create(void) {
    return calloc(1, sizeof(sk_auth));
}

void sk_auth_free(sk_auth *a) {
    if (!a) return;
    free(a->digests);
    free(a);
}

size_t sk_auth_count(const sk_auth *a) {
    return a ? a->n : 0;
}

bool sk_digest_equal(const uint8_t a[SK_HASH_BYTES], const uint8_t b[SK_HASH_BYTES]) {
    /* volatile: the compiler must not turn the loop into one with an early exit. */
    volatile uint8_t diff = 0;
    for (size_t i = 0; i < SK_HASH_BYTES; i++) diff = (uint8_t)(diff | (a[i] ^ b[i]));
    return diff == 0;
}

static bool known(const sk_auth *a, const uint8_t digest[SK_HASH_BYTES]) {
    unsigned found = 0;
    for (size_t i = 0; i < a->n; i++) found |= (unsigned)sk_digest_equal(a->digests[i], digest);
    return found != 0;
}

bool sk_auth_check(const sk_auth *a, const char *key, size_t len, char tenant[SK_TENANT_CAP]) {
    uint8_t digest[SK_HASH_BYTES];
    sk_hash(key, len, digest);
    sk_hex(digest, (SK_TENANT_CAP - 1) / 2, tenant);
    return known(a, digest);
}

static int add_key(sk_auth *a, const char *key, size_t len, sk_err *e) {
    if (len == 0) return sk_err_set(e, SKIPPY_E_INVALID, "an API key is empty");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key[i];
        if (c <= 0x20 || c == 0x7f)
            return sk_err_set(e, SKIPPY_E_INVALID,
                              "an API key holds a blank or a control character, which no HTTP header can carry");
    }
    uint8_t digest[SK_HASH_BYTES];
    sk_hash(key, len, digest);
    if (known(a, digest)) return SKIPPY_OK;
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 4;
        void *grown = realloc(a->digests, cap * sizeof *a->digests);
        if (!grown) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for API keys");
        a->digests = grown;
        a->cap = cap;
    }
    memcpy(a->digests[a->n++], digest, sizeof digest);
    return SKIPPY_OK;
}

static const char *trim(const char *s, size_t *len) {
    while (*len > 0 && strchr(" \t\r\n", s[0])) {
        s++;
        (*len)--;
    }
    while (*len > 0 && strchr(" \t\r\n", s[*len - 1])) (*len)--;
    return s;
}

int sk_auth_add(sk_auth *a, const char *list, sk_err *e) {
    for (;;) {
        size_t item = strcspn(list, ",");
        size_t len = item;
        const char *key = trim(list, &len);
        int rc = add_key(a, key, len, e);
        if (rc != SKIPPY_OK) return rc;
        if (list[item] == '\0') return SKIPPY_OK;
        list += item + 1;
    }
}

/* Says where a refused key stands, but never the key. */
static void name_line(const char *path, size_t line, sk_err *e) {
    char why[sizeof e->text];
    snprintf(why, sizeof why, "%s", e->text);
    sk_err_set(e, SKIPPY_E_INVALID, "line %zu of the API key file '%s': %s", line, path, why);
}

int sk_auth_add_file(sk_auth *a, const char *path, sk_err *e) {
    FILE *f = fopen(path, "re");
    if (!f) {
        int code = errno == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO;
        return sk_err_set(e, code, "cannot open the API key file '%s': %s", path, strerror(errno));
    }
    char *line = NULL;
    size_t cap = 0, keys = 0, lines = 0;
    ssize_t n = 0;
    int rc = SKIPPY_OK;
    while (rc == SKIPPY_OK && (n = getline(&line, &cap, f)) >= 0) {
        size_t len = (size_t)n;
        lines++;
        const char *key = trim(line, &len);
        if (len == 0 || key[0] == '#') continue;
        rc = add_key(a, key, len, e);
        keys++;
    }
    if (rc == SKIPPY_E_INVALID) name_line(path, lines, e);
    if (rc == SKIPPY_OK && ferror(f))
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot read the API key file '%s'", path);
    else if (rc == SKIPPY_OK && keys == 0)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the API key file '%s' holds no key", path);
    free(line);
    fclose(f);
    return rc;
}

bool sk_auth_credential(const char *authorization, const char *x_api_key, const char **key, size_t *len) {
    const char *found = x_api_key;
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0) found = authorization + 7;
    if (!found) return false;
    *len = strlen(found);
    *key = trim(found, len);
    return *len > 0;
}
