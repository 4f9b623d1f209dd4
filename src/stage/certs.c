/* The folder of certificates: which files there are, which are made, and that keys stay private. */
#include "stage/certs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "stage/link.h"

enum {
    NAME_MAX_CHARS = 253, /* of a host name, RFC 1035 */
    DAYS_MAX = 36500,
    DAY_S = 86400,
    CLOCK_SLACK_S = 3600 /* a machine whose clock is an hour late accepts a new certificate, too */
};

static const char AUTHORITY[] = "ca";

/* ---- names ---- */

static bool is_address(const char *name) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_host_name(const char *name) {
    if (!isalnum((unsigned char)name[0])) return false; /* no option, no hidden file, no way up */
    for (const char *s = name; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '-' && *s != '_' && *s != '.') return false;
    return strstr(name, "..") == NULL;
}

/* Names become file names and certificate fields. */
static int check_name(const char *name, sk_err *e) {
    if (strcmp(name, AUTHORITY) == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is the name of the authority's files: call the stage otherwise",
                          name);
    if (strlen(name) <= NAME_MAX_CHARS && (is_address(name) || is_host_name(name))) return SKIPPY_OK;
    return sk_err_set(
        e, SKIPPY_E_INVALID,
        "'%.64s' is neither a host name (letters, digits, '-', '_', '.') nor an IP address without brackets", name);
}

/* ---- files ---- */

static int file_path(char out[PATH_MAX], const char *dir, const char *name, const char *suffix, sk_err *e) {
    int n = snprintf(out, PATH_MAX, "%s/%s%s", dir, name, suffix);
    if (n > 0 && n < PATH_MAX) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder '%.64s...' is too long", dir);
}

static bool is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

typedef struct pair_paths {
    char crt[PATH_MAX], key[PATH_MAX];
} pair_paths;

static int pair_of(pair_paths *out, const char *dir, const char *name, sk_err *e) {
    int rc = file_path(out->crt, dir, name, ".crt", e);
    return rc ? rc : file_path(out->key, dir, name, ".key", e);
}

static bool put_pem(FILE *f, const sk_cert *c, bool key) {
    return key ? PEM_write_PrivateKey(f, c->key, NULL, NULL, 0, NULL, NULL) == 1 : PEM_write_X509(f, c->crt) == 1;
}

/* Whole or not at all: under another name first. The mode is there before the first byte is. */
static int write_pem(const char *path, const sk_cert *c, bool key, sk_err *e) {
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    unlink(temporary); /* of an interrupted run */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, key ? 0600 : 0644);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        int code = errno;
        if (fd >= 0) close(fd);
        return sk_err_set(e, SKIPPY_E_IO, "cannot write '%s': %s", temporary, strerror(code));
    }
    bool ok = put_pem(f, c, key) && fflush(f) == 0 && fsync(fd) == 0;
    ok = fclose(f) == 0 && ok;
    if (ok && rename(temporary, path) == 0) return SKIPPY_OK;
    int code = errno;
    unlink(temporary);
    return sk_err_set(e, SKIPPY_E_IO, "cannot write '%s': %s", path, strerror(code));
}

/* The key first: a certificate without its key would be refused by the next run. */
static int write_pair(const char *dir, const char *name, const sk_cert *c, sk_err *e) {
    pair_paths p;
    int rc = pair_of(&p, dir, name, e);
    if (!rc) rc = write_pem(p.key, c, true, e);
    return rc ? rc : write_pem(p.crt, c, false, e);
}

static int read_pair(const pair_paths *p, sk_cert *out, sk_err *e) {
    FILE *crt = fopen(p->crt, "re"), *key = fopen(p->key, "re");
    if (crt && key) {
        out->crt = PEM_read_X509(crt, NULL, NULL, NULL);
        out->key = PEM_read_PrivateKey(key, NULL, NULL, NULL);
    }
    if (crt) fclose(crt);
    if (key) fclose(key);
    if (out->crt && out->key && X509_check_private_key(out->crt, out->key) == 1) return SKIPPY_OK;
    sk_cert_free(out);
    ERR_clear_error();
    return sk_err_set(
        e, SKIPPY_E_INVALID,
        "'%s' and '%s' are not a readable certificate and its key: move them away to begin with a new authority",
        p->crt, p->key);
}

/* ---- the authority ---- */

static int check_authority(const sk_cert *c, const char *path, int64_t from, sk_err *e) {
    if (X509_check_ca(c->crt) != 1)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not the certificate of an authority", path);
    if (sk_cert_end(c) > from) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "the authority '%s' has expired: move it and its key away, and make all certificates new", path);
}

/* The one in the folder, or a new one, written. */
static int get_authority(const char *dir, sk_cert_time when, sk_cert *out, sk_err *e) {
    pair_paths p;
    int rc = pair_of(&p, dir, AUTHORITY, e);
    if (rc) return rc;
    bool crt = is_there(p.crt), key = is_there(p.key);
    if (crt != key)
        return sk_err_set(
            e, SKIPPY_E_INVALID,
            "'%s' is there but '%s' is not: without it nothing can be signed, and a new authority would be "
            "another one",
            crt ? p.crt : p.key, crt ? p.key : p.crt);
    if (crt) {
        rc = read_pair(&p, out, e);
        return rc ? rc : check_authority(out, p.crt, when.from, e);
    }
    rc = sk_cert_authority(when, out, e);
    return rc ? rc : write_pair(dir, AUTHORITY, out, e);
}

/* ---- all ---- */

static int check_names(const char *dir, const char *const *names, size_t n, bool force, sk_err *e) {
    pair_paths p;
    for (size_t i = 0; i < n; i++) {
        int rc = check_name(names[i], e);
        if (!rc) rc = pair_of(&p, dir, names[i], e);
        if (rc) return rc;
        if (!force && (is_there(p.crt) || is_there(p.key)))
            return sk_err_set(e, SKIPPY_E_EXISTS, "'%s' has a certificate in '%s' already; --force makes a new one",
                              names[i], dir);
    }
    return SKIPPY_OK;
}

static int make_folder(const char *dir, sk_err *e) {
    struct stat st;
    if (mkdir(dir, 0700) == 0) return SKIPPY_OK;
    if (errno == EEXIST && stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", dir, strerror(errno));
}

int sk_certs_write(const char *dir, const char *const *names, size_t n_names, sk_cert_time when, bool force,
                   sk_err *e) {
    sk_cert authority = {0};
    int rc = check_names(dir, names, n_names, force, e); /* all of them before anything is written */
    if (!rc) rc = make_folder(dir, e);
    if (!rc) rc = get_authority(dir, when, &authority, e);
    for (size_t i = 0; i < n_names && !rc; i++) {
        sk_cert c = {0};
        rc = sk_cert_sign(&authority, names[i], when, &c, e);
        if (!rc) rc = write_pair(dir, names[i], &c, e);
        sk_cert_free(&c);
    }
    sk_cert_free(&authority);
    return rc;
}

int sk_link_certs(const char *dir, const char *const *names, size_t n_names, uint32_t days, bool force, sk_err *e) {
    int64_t now = sk_wall_s();
    if (days == 0 || days > DAYS_MAX)
        return sk_err_set(e, SKIPPY_E_INVALID, "certificates can be valid for 1 to %d days, not %u", DAYS_MAX, days);
    return sk_certs_write(dir, names, n_names, (sk_cert_time){now - CLOCK_SLACK_S, now + (int64_t)days * DAY_S}, force,
                          e);
}
