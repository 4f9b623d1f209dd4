#include "correctness/receipt_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

int sk_receipt_path(char *buf, size_t cap, const char *dir, const char *name, sk_err *e) {
    int n = snprintf(buf, cap, "%s/%s", dir, name);
    if (n > 0 && (size_t)n < cap) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_TOO_SMALL, "the path of the receipt is too long: %s/%s", dir, name);
}

/* Digest of the content in one fixed spelling: keys sorted, no blanks. */
static bool content_digest(const json_t *content, char out[2 * SK_HASH_BYTES + 1]) {
    uint8_t digest[SK_HASH_BYTES];
    char *text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    if (!text) return false;
    sk_hash(text, strlen(text), digest);
    sk_hex(digest, sizeof digest, out);
    free(text);
    return true;
}

/* The whole file's text, malloc'ed; NULL when out of memory. */
static char *sealed_text(const json_t *content, const char *format, int version) {
    char digest[2 * SK_HASH_BYTES + 1];
    char *text = NULL;
    json_t *whole = NULL;
    if (content_digest(content, digest))
        whole = json_pack("{s:s, s:i, s:O, s:s}", "format", format, "version", version, "content", content, "blake3",
                          digest);
    if (whole) text = json_dumps(whole, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(whole);
    return text;
}

static int make_dirs(const char *dir, sk_err *e) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s", dir);
    if (n <= 0 || (size_t)n >= sizeof path) return sk_err_set(e, SKIPPY_E_TOO_SMALL, "the path '%s' is too long", dir);
    for (char *p = path + 1;; p++) {
        bool end = *p == '\0';
        if (*p != '/' && !end) continue;
        *p = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return sk_err_set(e, SKIPPY_E_IO, "the folder '%s' cannot be made: %s", path, strerror(errno));
        if (end) return SKIPPY_OK;
        *p = '/';
    }
}

static bool write_synced(int fd, const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* The file appears whole or not at all. */
static int publish(const char *path, const char *text, sk_err *e) {
    char partial[PATH_MAX];
    int n = snprintf(partial, sizeof partial, "%s.XXXXXX", path);
    if (n <= 0 || (size_t)n >= sizeof partial) return sk_err_set(e, SKIPPY_E_TOO_SMALL, "'%s' is too long", path);
    int fd = mkostemp(partial, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(errno));
    bool ok = write_synced(fd, text);
    int why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok && rename(partial, path) != 0) ok = false, why = errno;
    if (ok) return SKIPPY_OK;
    unlink(partial);
    return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be written: %s", path, strerror(why));
}

int sk_receipt_save(const char *dir, const char *name, const char *format, int version, const json_t *content,
                    sk_err *e) {
    char path[PATH_MAX];
    int rc = sk_receipt_path(path, sizeof path, dir, name, e);
    if (rc == SKIPPY_OK) rc = make_dirs(dir, e);
    if (rc) return rc;
    char *text = sealed_text(content, format, version);
    if (!text) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the receipt");
    rc = publish(path, text, e);
    free(text);
    return rc;
}

int sk_receipt_invalid(const char *path, const char *why, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "'%s' is not a valid receipt: %s. Certify the model again", path, why);
}

const char *sk_receipt_text(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

bool sk_receipt_copy(const json_t *o, const char *key, char *buf, size_t cap) {
    const char *s = json_string_value(json_object_get(o, key));
    int n = s ? snprintf(buf, cap, "%s", s) : -1;
    return n >= 0 && (size_t)n < cap;
}

static int judge(const char *path, const json_t *whole, const char *format, int version, sk_err *e) {
    const json_t *content = json_object_get(whole, "content");
    char digest[2 * SK_HASH_BYTES + 1];
    if (strcmp(sk_receipt_text(whole, "format"), format) != 0 || !json_is_object(content))
        return sk_receipt_invalid(path, "it has another format", e);
    if (json_integer_value(json_object_get(whole, "version")) != version)
        return sk_receipt_invalid(path, "it has another version", e);
    if (!content_digest(content, digest)) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a receipt");
    if (strcmp(digest, sk_receipt_text(whole, "blake3")) != 0)
        return sk_receipt_invalid(path, "its content does not match its digest", e);
    return SKIPPY_OK;
}

int sk_receipt_load(const char *path, const char *format, int version, json_t **content, sk_err *e) {
    json_error_t where;
    FILE *file = fopen(path, "re");
    *content = NULL;
    if (!file && errno == ENOENT) return SKIPPY_E_NOT_FOUND;
    if (!file) return sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be read: %s", path, strerror(errno));
    json_t *whole = json_loadf(file, JSON_REJECT_DUPLICATES, &where);
    fclose(file);
    int rc = whole ? judge(path, whole, format, version, e) : sk_receipt_invalid(path, "it is not JSON", e);
    if (rc == SKIPPY_OK) *content = json_incref(json_object_get(whole, "content"));
    json_decref(whole);
    return rc;
}
