/* Reports of a certification on the terminal and in files. */
#ifndef SKIPPY_CLI_CERTIFY_SHOW_H
#define SKIPPY_CLI_CERTIFY_SHOW_H

#include <jansson.h>

#include "correctness/certify.h"

/* What was certified, each mode, and the verdict, for people. */
void sk_certify_show(const sk_certify_report *r, FILE *out);

/* Appends the report's JSON. Errors: SKIPPY_E_NOMEM. */
int sk_certify_collect(json_t *list, const sk_certify_report *r, sk_err *e);

/* Writes a list of reports; path NULL: to standard output. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_certify_write_json(const json_t *list, const char *path, sk_err *e);

/* "hybrid", "recurrent", "sliding window", "full window", "dense". */
const char *sk_certify_memory_name(const sk_certify_identity *i);

#endif
