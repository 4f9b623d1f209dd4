/* Error codes of libskippy-cache, shared by every layer above it.
 *
 * Every function that can fail returns an int: SKIPPY_OK (0) or one of the codes below.
 * Values are part of the stable API and are never renumbered. */
#ifndef SKIPPY_ERROR_H
#define SKIPPY_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SKIPPY_API __attribute__((visibility("default")))
#else
#define SKIPPY_API
#endif

enum skippy_status {
    SKIPPY_OK = 0,
    SKIPPY_E_INVALID = 1,     /* an argument or a request is not valid */
    SKIPPY_E_NOMEM = 2,       /* allocation failed; nothing was changed */
    SKIPPY_E_NOT_FOUND = 3,   /* no such entry, file or id */
    SKIPPY_E_EXISTS = 4,      /* the entry is already there */
    SKIPPY_E_FULL = 5,        /* a limit is reached and nothing can be evicted (all leased) */
    SKIPPY_E_TOO_LARGE = 6,   /* the thing alone is larger than the limit; nothing was evicted for it */
    SKIPPY_E_BUSY = 7,        /* leased or in use: try again later */
    SKIPPY_E_CORRUPT = 8,     /* bytes do not match their digest, or a structure is damaged */
    SKIPPY_E_UNSUPPORTED = 9, /* this build, model or platform cannot do it */
    SKIPPY_E_IO = 10,         /* the operating system refused: see errno in the detail text */
    SKIPPY_E_MODEL = 11,      /* the model file is missing, damaged or of an unknown kind */
    SKIPPY_E_RUNTIME = 12,    /* llama.cpp failed */
    SKIPPY_E_CANCELLED = 13,  /* the caller asked to stop */
    SKIPPY_E_TIMEOUT = 14,    /* a deadline passed */
    SKIPPY_E_TOO_SMALL = 15,  /* the caller's buffer is too small; the needed size was reported */
};

/* Returns a short English phrase for a code; never NULL. The string is static. Thread-safe. */
SKIPPY_API const char *skippy_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
