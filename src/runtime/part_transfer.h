/* One HTTP request into a sink. Internal to part_fetch. */
#ifndef SKIPPY_RUNTIME_PART_TRANSFER_H
#define SKIPPY_RUNTIME_PART_TRANSFER_H

#include <curl/curl.h>

#include "runtime/part_fetch.h"

/* What became of a request. */
enum sk_transfer_end {
    SK_TRANSFER_DONE,      /* the server says that this was all of it */
    SK_TRANSFER_AGAIN,     /* cut, stalled or busy: worth another attempt */
    SK_TRANSFER_OTHER,     /* the bytes from `start` on belong to another version of the file: begin anew */
    SK_TRANSFER_TOO_LARGE, /* more than limit bytes */
    SK_TRANSFER_STOPPED,   /* progress said so */
    SK_TRANSFER_FAILED     /* *e is set */
};

typedef struct sk_transfer {
    const char *url;
    int fd; /* of the file; -1: into text */
    sk_buf *text;
    uint64_t have;  /* bytes in the sink, before and after */
    uint64_t limit; /* most bytes of the whole */
    bool exact;     /* the whole has exactly limit bytes */
    sk_slice_progress progress;
    void *progress_ud;
} sk_transfer;

/* Asks for the bytes from t->have on. A server that sends everything instead overwrites what was there. Whatever comes
 * is kept in the sink. Error text (for FAILED and AGAIN) is in *e. */
enum sk_transfer_end sk_transfer_run(CURL *curl, sk_transfer *t, sk_err *e);

/* The URL without name, password, query and fragment. */
void sk_transfer_public_url(const char *url, char *out, size_t cap);

#endif
