#include "skippy/skippy.h"

const char *skippy_version(void) {
    return SKIPPY_VERSION_STRING;
}
