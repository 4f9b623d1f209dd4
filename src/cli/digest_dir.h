/* Where content digests of model files are remembered. */
#ifndef SKIPPY_CLI_DIGEST_DIR_H
#define SKIPPY_CLI_DIGEST_DIR_H

#include <stddef.h>

/* $XDG_CACHE_HOME/skippy, else ~/.cache/skippy; NULL when neither is known or buf is too small. Returns buf. */
const char *sk_cli_digest_dir(char *buf, size_t cap);

#endif
