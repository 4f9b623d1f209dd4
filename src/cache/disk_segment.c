/* Segment files: a header, then blocks back to back, each behind a small header of its own. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "cache/disk_internal.h"

/* Segments that are kept open for reading, besides the active one. */
enum { MAX_HANDLES = 64 };

static const char *segment_name(const sk_segment *g, char out[SK_FILE_NAME_BYTES]) {
    sk_file_name(out, SK_FILE_SEGMENT, g->number, false);
    return out;
}

/* ---- making one ---- */

/* Header, sync, rename, sync of the folder: a segment that has its name has its header. */
static int create_file(skippy_disk_store *s, uint64_t number, int *fd, sk_err *err) {
    char temporary[SK_FILE_NAME_BYTES], name[SK_FILE_NAME_BYTES];
    uint8_t header[SK_FILE_HEADER_BYTES];
    sk_file_name(temporary, SK_FILE_SEGMENT, number, true);
    sk_file_name(name, SK_FILE_SEGMENT, number, false);
    int errnum = sk_io_open(&s->io, s->folder_fd, temporary, SK_IO_MODE_CREATE, fd);
    if (errnum) return sk_disk_write_failed(s, err, "create", temporary, errnum);
    sk_file_header_encode(header, SK_FILE_SEGMENT, number);
    errnum = sk_io_write(&s->io, *fd, header, sizeof header, NULL, 0, 0);
    if (!errnum) errnum = sk_io_sync(&s->io, *fd);
    if (!errnum) errnum = sk_io_rename(&s->io, s->folder_fd, temporary, name);
    if (!errnum) {
        errnum = sk_io_sync_dir(&s->io, s->folder_fd);
        if (errnum) (void)sk_io_unlink(&s->io, s->folder_fd, name);
    }
    if (!errnum) return SKIPPY_OK;
    if (sk_io_unlink(&s->io, s->folder_fd, temporary) != 0) s->stray_files = true;
    sk_io_close(*fd);
    *fd = -1;
    return sk_disk_write_failed(s, err, "create", name, errnum);
}

static int create_active(skippy_disk_store *s, sk_err *err) {
    int fd = -1;
    pthread_mutex_lock(&s->mu);
    uint64_t number = s->ix.next_segment++; /* not used again, even when this fails: its file may have stayed */
    pthread_mutex_unlock(&s->mu);
    int status = create_file(s, number, &fd, err);
    if (status != SKIPPY_OK) return status;
    pthread_mutex_lock(&s->mu);
    sk_segment *g = sk_index_segment_add(&s->ix, number);
    if (g) {
        sk_index_segment_resize(&s->ix, g, SK_FILE_HEADER_BYTES);
        g->fd = fd;
        g->pins = 1;
        s->open_handles++;
    }
    pthread_mutex_unlock(&s->mu);
    s->active = g;
    s->active_dirty = false;
    if (g) return SKIPPY_OK;
    char name[SK_FILE_NAME_BYTES];
    sk_file_name(name, SK_FILE_SEGMENT, number, false);
    (void)sk_io_unlink(&s->io, s->folder_fd, name);
    sk_io_close(fd);
    return sk_err_set(err, SKIPPY_E_NOMEM, "no memory for a segment");
}

/* ---- appending ---- */

void sk_segment_close_active(skippy_disk_store *s) {
    sk_segment *g = s->active;
    s->active = NULL;
    s->active_dirty = false;
    if (g) sk_segment_unpin(s, g);
}

int sk_segment_sync(skippy_disk_store *s, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    if (!s->active || !s->active_dirty) return SKIPPY_OK;
    int errnum = sk_io_sync(&s->io, s->active->fd);
    if (errnum) return sk_disk_write_failed(s, err, "sync", segment_name(s->active, name), errnum);
    s->active_dirty = false;
    return SKIPPY_OK;
}

int sk_segment_ready(skippy_disk_store *s, uint32_t bytes, sk_err *err) {
    if (s->active) {
        uint64_t size = s->active->size; /* changed by this thread only */
        bool fits = size + SK_BLOCK_HEADER_BYTES + bytes <= s->segment_bytes;
        if (fits || size == SK_FILE_HEADER_BYTES) return SKIPPY_OK;
        int status = sk_segment_sync(s, err);
        if (status != SKIPPY_OK) return status;
        sk_segment_close_active(s);
    }
    return create_active(s, err);
}

static void set_size(skippy_disk_store *s, sk_segment *g, uint64_t size) {
    pthread_mutex_lock(&s->mu);
    sk_index_segment_resize(&s->ix, g, size);
    pthread_mutex_unlock(&s->mu);
}

int sk_segment_append(skippy_disk_store *s, const skippy_block_ref *ref, const void *data, uint64_t *offset,
                      sk_err *err) {
    sk_segment *g = s->active;
    uint8_t header[SK_BLOCK_HEADER_BYTES];
    char name[SK_FILE_NAME_BYTES];
    *offset = g->size;
    sk_block_header_encode(header, ref);
    s->active_dirty = true;
    int errnum = sk_io_write(&s->io, g->fd, header, sizeof header, data, ref->bytes, g->size);
    if (errnum) return sk_disk_write_failed(s, err, "write to", segment_name(g, name), errnum);
    set_size(s, g, g->size + sizeof header + ref->bytes);
    return SKIPPY_OK;
}

/* ---- undoing ---- */

sk_append_mark sk_segment_mark(skippy_disk_store *s) {
    sk_append_mark mark = {0};
    if (s->active) mark = (sk_append_mark){s->active->number, s->active->size, 0};
    pthread_mutex_lock(&s->mu);
    mark.next_segment = s->ix.next_segment;
    pthread_mutex_unlock(&s->mu);
    return mark;
}

/* Cuts the file; when that fails, the tail is dead bytes until the segment is compacted. */
static void cut(skippy_disk_store *s, sk_segment *g, uint64_t size) {
    char name[SK_FILE_NAME_BYTES];
    sk_io_info info;
    int fd = -1;
    if (sk_io_open(&s->io, s->folder_fd, segment_name(g, name), SK_IO_MODE_UPDATE, &fd) != 0) return;
    (void)sk_io_truncate(&s->io, fd, size);
    if (sk_io_stat_fd(&s->io, fd, &info) == 0) set_size(s, g, info.bytes);
    sk_io_close(fd);
}

/* Nothing is appended again to a segment of which a write or a sync failed: nobody knows what the device holds. */
void sk_segment_undo(skippy_disk_store *s, const sk_append_mark *mark) {
    sk_segment_close_active(s);
    pthread_mutex_lock(&s->mu);
    sk_segment *before = mark->active ? sk_index_segment_find(&s->ix, mark->active) : NULL;
    pthread_mutex_unlock(&s->mu);
    if (before) cut(s, before, mark->size);
    for (;;) {
        pthread_mutex_lock(&s->mu);
        sk_segment *g = s->ix.segments;
        while (g && (g->number < mark->next_segment || g->live)) g = g->next;
        pthread_mutex_unlock(&s->mu);
        if (!g || sk_segment_remove(s, g, NULL) != SKIPPY_OK) return;
    }
}

/* ---- removing ---- */

int sk_segment_remove(skippy_disk_store *s, sk_segment *g, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    if (g == s->active) sk_segment_close_active(s);
    int errnum = sk_io_unlink(&s->io, s->folder_fd, segment_name(g, name));
    if (errnum && errnum != ENOENT) return sk_disk_write_failed(s, err, "remove", name, errnum);
    pthread_mutex_lock(&s->mu);
    sk_index_segment_detach(&s->ix, g);
    g->gone = true;
    g->pins++;
    pthread_mutex_unlock(&s->mu);
    sk_segment_unpin(s, g); /* frees it, now or when the last read ends */
    return SKIPPY_OK;
}

int sk_segment_remove_dead(skippy_disk_store *s, sk_err *err) {
    for (;;) {
        pthread_mutex_lock(&s->mu);
        sk_segment *g = s->ix.segments;
        /* An active segment that is empty but for its header stays. */
        while (g && (g->live || (g == s->active && g->size == SK_FILE_HEADER_BYTES))) g = g->next;
        pthread_mutex_unlock(&s->mu);
        if (!g) return SKIPPY_OK;
        int status = sk_segment_remove(s, g, err);
        if (status != SKIPPY_OK) return status;
    }
}

/* ---- reading ---- */

void sk_segment_pin(skippy_disk_store *s, sk_segment *g) {
    g->pins++;
    g->used = ++s->tick;
}

void sk_segment_unpin(skippy_disk_store *s, sk_segment *g) {
    int fd = -1;
    pthread_mutex_lock(&s->mu);
    g->pins--;
    if (g->gone && !g->pins) {
        fd = g->fd;
        if (fd >= 0) s->open_handles--;
        s->alloc.release(s->alloc.ud, g);
    }
    pthread_mutex_unlock(&s->mu);
    sk_io_close(fd);
}

/* Takes the descriptor of the open segment that was read longest ago, when there are too many. Under mu. */
static int spare_handle(skippy_disk_store *s) {
    sk_segment *oldest = NULL;
    if (s->open_handles <= MAX_HANDLES) return -1;
    for (sk_segment *g = s->ix.segments; g; g = g->next)
        if (g->fd >= 0 && !g->pins && (!oldest || g->used < oldest->used)) oldest = g;
    if (!oldest) return -1;
    int fd = oldest->fd;
    oldest->fd = -1;
    s->open_handles--;
    return fd;
}

/* The descriptor of a pinned segment. */
static int handle(skippy_disk_store *s, sk_segment *g, int *fd) {
    char name[SK_FILE_NAME_BYTES];
    int mine, spare;
    pthread_mutex_lock(&s->mu);
    *fd = g->fd;
    pthread_mutex_unlock(&s->mu);
    if (*fd >= 0) return 0;
    int errnum = sk_io_open(&s->io, s->folder_fd, segment_name(g, name), SK_IO_MODE_READ, &mine);
    if (errnum) return errnum;
    pthread_mutex_lock(&s->mu);
    if (g->fd < 0) {
        g->fd = mine;
        mine = -1;
        s->open_handles++;
    }
    *fd = g->fd;
    spare = spare_handle(s);
    pthread_mutex_unlock(&s->mu);
    sk_io_close(mine);
    sk_io_close(spare);
    return 0;
}

int sk_segment_read(skippy_disk_store *s, sk_segment *g, uint64_t offset, const skippy_block_ref *ref, void *buf,
                    int *err, uint64_t *hash_ns) {
    uint8_t header[SK_BLOCK_HEADER_BYTES];
    skippy_block_ref found;
    size_t got;
    int fd;
    *hash_ns = 0;
    *err = handle(s, g, &fd);
    if (*err == ENOENT) return SKIPPY_E_NOT_FOUND;
    if (!*err) *err = sk_io_read(&s->io, fd, header, sizeof header, buf, ref->bytes, offset, &got);
    if (*err) return SKIPPY_E_IO;
    if (got != sizeof header + ref->bytes || !sk_block_header_matches(header, ref)) return SKIPPY_E_CORRUPT;
    uint64_t start = sk_io_mono_ns(&s->io);
    int status = skippy_block_digest(buf, ref->bytes, &found);
    *hash_ns = sk_io_mono_ns(&s->io) - start;
    if (status != SKIPPY_OK) return status;
    return skippy_key_equal(&found.digest, &ref->digest) ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}
