/* JSON strings of texts that came from elsewhere: a log, a command line. Thread-safe (no shared state). */
#ifndef SKIPPY_BENCH_FAMILY_JSON_TEXT_H
#define SKIPPY_BENCH_FAMILY_JSON_TEXT_H

#include <jansson.h>

/* A new reference; bytes that are not UTF-8 become U+FFFD, so a text that was cut inside a character is no error. NULL
 * when out of memory. */
json_t *sk_json_text(const char *text);

#endif
