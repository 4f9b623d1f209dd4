/* What the two corpora have in common: named entries, owned texts, the version. Internal to corpus.c and
 * corpus_replay.c. Not thread-safe per reader.
 *
 * Everything that is wrong goes to the reader of the value (bench/family/strict.h); functions that return a pointer
 * return NULL then. */
#ifndef SKIPPY_BENCH_FAMILY_CORPUS_TEXT_H
#define SKIPPY_BENCH_FAMILY_CORPUS_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "bench/family/sha256.h"
#include "bench/family/strict.h"

enum { SK_CORPUS_MAX_KEY = 63, SK_CORPUS_MAX_LABEL = 255, SK_CORPUS_MAX_NOTE = 4096 };

/* The text of a corpus as JSON, a new reference, and the SHA-256 of its bytes. Errors: SKIPPY_E_TOO_LARGE,
 * SKIPPY_E_INVALID (with line and column). */
int sk_corpus_json(const char *text, size_t len, json_t **root, char hex[SK_SHA256_HEX], sk_err *e);
/* Refuses another version than 1. Asked before the fields: what another version calls them is not known. */
void sk_corpus_version(const sk_strict *root);
/* Begins an entry of a list: reads its "key" ([a-z0-9_]+), gives v a path that people find again ("use case 'chat'"
 * instead of "use_cases[3]") and refuses fields that are not in known (which a NULL ends). malloc'ed. */
char *sk_corpus_entry(sk_strict *v, const char *noun, const char *const *known);
/* A field that must be there: one line for people, 1..max bytes without control characters. malloc'ed. */
char *sk_corpus_line(const sk_strict *v, const char *field, size_t max);
/* A field that must be there: any text of 1..max bytes, with line ends and tabs. malloc'ed. */
char *sk_corpus_prose(const sk_strict *v, const char *field, size_t max);
/* Puts the file's name before the text of an error about its content. Returns rc. */
int sk_corpus_name_file(const char *path, int rc, sk_err *e);

#endif
