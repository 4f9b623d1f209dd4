/* Test support: a server that speaks the calls of bench/endpoint.h without a model. A test program starts itself as
 * one, so that hosts are real processes. Not part of the product.
 *
 * A token is a word, after one for the beginning; an answer follows from the prompt alone; cache_n is what the prompt
 * has in common with an earlier one. Each prompt is a line of standard output. */
#ifndef SKIPPY_BENCH_FAMILY_FAKE_SERVER_H
#define SKIPPY_BENCH_FAMILY_FAKE_SERVER_H

#include <stdbool.h>

#include "bench/family/host.h"

/* First argument of a test program that is to be a server. */
#define FAKE_SERVER_COMMAND "fake-server"

/* Further arguments:
 *   --die-after N    ends with code 3 and some last words instead of answering prompt N + 1
 *   --word W         every answer consists of this word
 *   --tie            its two best tokens are always nearly equally likely: "left" and "right"
 *   --disk N         has a disk store: open after N looks at /metrics, everything written after N more
 *   --never-ready    /health answers 503 */
int fake_server_main(int argc, char **argv);

/* main() of a test program: true when it was asked to be a server; *code is its exit code then. */
bool fake_server_asked(int argc, char **argv, int *code);

/* A host that runs the calling test program as a server, with these flags. The strings are borrowed. */
sk_family_host fake_host(const char *name, const char *folder, const char *flags);

#endif
