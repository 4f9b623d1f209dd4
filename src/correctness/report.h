/* The report of a certification as JSON. Fields: docs/formats/certification-report.schema.json. */
#ifndef SKIPPY_CORRECTNESS_REPORT_H
#define SKIPPY_CORRECTNESS_REPORT_H

#include <jansson.h>

#include "correctness/certify.h"

/* A new reference; NULL when out of memory. The report's main fields are those of the payload that serving uses, at the
 * first length; `lengths` holds everything. Pure. */
json_t *sk_certify_report_json(const sk_certify_report *r, const char *program_version);

/* A JSON string of any bytes: where text is not UTF-8 (file names may be anything), bytes beyond ASCII become '?'. */
json_t *sk_report_text(const char *text);

/* "2026-01-31T12:00:00Z". cap: at least 21. */
void sk_certify_date(int64_t unix_s, char *buf, size_t cap);

#endif
