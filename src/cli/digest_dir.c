#include "cli/digest_dir.h"

#include <stdio.h>
#include <stdlib.h>

const char *sk_cli_digest_dir(char *buf, size_t cap) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (base && *base)
        n = snprintf(buf, cap, "%s/skippy", base);
    else if (home && *home)
        n = snprintf(buf, cap, "%s/.cache/skippy", home);
    return n > 0 && (size_t)n < cap ? buf : NULL;
}
