#include "cache/disk_journal.h"

#include "cache/mem.h"

/* How many bytes are read between two calls of progress, at least. */
enum { PROGRESS_BYTES = 4 << 20 };

typedef struct scan {
    const sk_io *io;
    sk_journal *j;
    sk_bytes payload;
    int *err;
} scan;

/* Reads exactly `len` bytes; SKIPPY_E_CORRUPT when the file ends before. */
static int read_exactly(scan *s, void *out, size_t len, uint64_t offset) {
    size_t got;
    *s->err = sk_io_read(s->io, s->j->fd, out, len, NULL, 0, offset, &got);
    if (*s->err) return SKIPPY_E_IO;
    return got == len ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}

/* The record at j->end. The length is compared with what is left of the file before anything is allocated for it. */
static int scan_record(scan *s, sk_journal_visit visit, void *ud) {
    sk_journal *j = s->j;
    uint8_t header[SK_RECORD_HEADER_BYTES];
    size_t bytes;
    uint32_t type;
    uint64_t left = j->size - j->end;
    if (left < sizeof header) return SKIPPY_E_CORRUPT;
    int status = read_exactly(s, header, sizeof header, j->end);
    if (status != SKIPPY_OK) return status;
    if (!sk_record_header(header, &j->chain, left - sizeof header, &bytes, &type)) return SKIPPY_E_CORRUPT;
    sk_bytes_clear(&s->payload);
    uint8_t *payload = sk_bytes_extend(&s->payload, bytes + SK_CHECK_BYTES);
    if (!payload) return SKIPPY_E_NOMEM;
    status = read_exactly(s, payload, bytes + SK_CHECK_BYTES, j->end + sizeof header);
    if (status != SKIPPY_OK) return status;
    sk_chain after = j->chain;
    if (!sk_record_verify(header, payload, bytes, &after)) return SKIPPY_E_CORRUPT;
    status = visit(ud, type, payload, bytes);
    if (status != SKIPPY_OK) return status;
    j->chain = after;
    j->end += SK_RECORD_FRAME_BYTES + bytes;
    return SKIPPY_OK;
}

int sk_journal_scan(const sk_io *io, const skippy_allocator *alloc, sk_journal *j,
                    const uint8_t header[SK_FILE_HEADER_BYTES], sk_journal_visit visit, void *visit_ud,
                    skippy_progress_fn progress, void *progress_ud, int *err) {
    scan s = {.io = io, .j = j, .payload = {.alloc = alloc}, .err = err};
    uint64_t reported = 0;
    int status = SKIPPY_OK;
    *err = 0;
    sk_chain_start(&j->chain, header);
    j->end = SK_FILE_HEADER_BYTES;
    while (status == SKIPPY_OK && j->end < j->size) {
        status = scan_record(&s, visit, visit_ud);
        if (status != SKIPPY_OK || !progress || j->end - reported < PROGRESS_BYTES) continue;
        reported = j->end;
        if (!progress(progress_ud, j->end, j->size)) status = SKIPPY_E_CANCELLED;
    }
    sk_bytes_free(&s.payload);
    if (status == SKIPPY_E_CORRUPT)
        status = SKIPPY_OK; /* what follows cannot be proven: it is as if it were not there */
    if (status == SKIPPY_OK && progress && !progress(progress_ud, j->size, j->size)) status = SKIPPY_E_CANCELLED;
    return status;
}

int sk_journal_append(const sk_io *io, sk_journal *j, const void *data, size_t len, const sk_chain *next, bool sync) {
    int err = sk_io_write(io, j->fd, data, len, NULL, 0, j->end);
    if (!err && sync) err = sk_io_sync(io, j->fd);
    if (!err) {
        j->end += len;
        j->size = j->end;
        j->chain = *next;
        return 0;
    }
    /* After a failed sync nobody knows what the device holds: this file is not written again. */
    j->suspect = true;
    sk_io_info info;
    (void)sk_io_truncate(io, j->fd, j->end);
    j->size = sk_io_stat_fd(io, j->fd, &info) == 0 ? info.bytes : j->end + len;
    return err;
}
