#include "bench/family/root_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sk_root_resolve(const char *real_root, const char *path, char real[PATH_MAX], sk_err *e) {
    if (!realpath(path, real)) {
        return sk_err_set(e, SKIPPY_E_NOT_FOUND, "'%.150s' leads nowhere: %s", path, strerror(errno));
    }
    /* "/" already ends with the separator that must follow any other root. */
    const size_t n = strcmp(real_root, "/") == 0 ? 0 : strlen(real_root);
    if (strncmp(real, real_root, n) != 0 || real[n] != '/') {
        return sk_err_set(e, SKIPPY_E_INVALID, "'%.80s' leads out of the cache root, to '%.100s'", path, real);
    }
    return SKIPPY_OK;
}
