/* Opening a store: find the files, read the journal, compare both, remove what neither needs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/disk_replay.h"
#include "cache/disk_sibling.h"
#include "cache/mem.h"

static const uint64_t default_segment_bytes = (uint64_t)64 << 20;
enum { DEFAULT_RETRY_MS = 10000 };

/* ---- the object ---- */

static char *copy_text(const skippy_allocator *a, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = sk_mem_alloc_raw(a, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

static skippy_disk_store *new_store(const skippy_allocator *alloc, const sk_io *io, const skippy_disk_params *p) {
    skippy_allocator hooks = sk_mem_hooks(alloc);
    skippy_disk_store *s = sk_mem_alloc(&hooks, sizeof *s);
    if (!s) return NULL;
    s->alloc = hooks;
    if (io) s->io = *io;
    memcpy(s->name, p->name, strlen(p->name) + 1); /* valid: at most 64 characters */
    s->max_bytes = p->max_bytes;
    s->segment_bytes = p->segment_bytes ? p->segment_bytes : default_segment_bytes;
    s->retry_ns = (p->retry_ms ? p->retry_ms : (uint64_t)DEFAULT_RETRY_MS) * 1000000u;
    s->on_drop = p->on_drop;
    s->ud = p->ud;
    s->root_fd = s->folder_fd = s->lock_fd = s->journal.fd = -1;
    s->next_journal = 1;
    s->scratch.alloc = &s->alloc;
    s->dir = copy_text(&s->alloc, p->dir);
    if (!s->dir || !sk_index_init(&s->ix, &s->alloc)) {
        sk_mem_release(&hooks, s->dir);
        sk_mem_release(&hooks, s);
        return NULL;
    }
    pthread_mutex_init(&s->writer, NULL);
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

static void free_store(skippy_disk_store *s) {
    skippy_allocator hooks = s->alloc;
    for (sk_segment *g = s->ix.segments; g; g = g->next) sk_io_close(g->fd);
    sk_index_free(&s->ix);
    sk_bytes_free(&s->scratch);
    sk_io_close(s->journal.fd);
    sk_io_close(s->lock_fd); /* ends the lock: last of the files */
    sk_io_close(s->folder_fd);
    sk_io_close(s->root_fd);
    pthread_mutex_destroy(&s->writer);
    pthread_mutex_destroy(&s->mu);
    sk_mem_release(&hooks, s->pending);
    sk_mem_release(&hooks, s->block_buffer);
    sk_mem_release(&hooks, s->dir);
    sk_mem_release(&hooks, s);
}

/* ---- folder and lock ---- */

static int lock_failed(skippy_disk_store *s, int errnum, long pid, sk_err *err) {
    if (errnum != EAGAIN) return sk_disk_fail(s, err, "lock", "lock", errnum);
    if (pid == sk_io_pid())
        return sk_err_set(err, SKIPPY_E_BUSY, "%s/%s is open in this process already", s->dir, s->name);
    return sk_err_set(err, SKIPPY_E_BUSY, "%s/%s is in use by the process with pid %ld", s->dir, s->name, pid);
}

static int open_folder(skippy_disk_store *s, sk_err *err) {
    int errnum = sk_io_open_dir(&s->io, s->root_fd, s->name, &s->folder_fd);
    if (errnum == ENOTDIR || errnum == ELOOP)
        return sk_err_set(err, SKIPPY_E_IO, "%s/%s is not a folder (a link is not followed)", s->dir, s->name);
    return errnum ? sk_disk_fail(s, err, "open", NULL, errnum) : SKIPPY_OK;
}

/* Repeated when the store is removed by another process between the steps. */
static int own_folder(skippy_disk_store *s, sk_err *err) {
    enum { ATTEMPTS = 100 };
    int errnum = ESTALE;
    long pid = 0;
    for (int i = 0; i < ATTEMPTS && errnum == ESTALE; i++) {
        errnum = sk_io_make_dir(&s->io, s->root_fd, s->name);
        if (errnum) return sk_disk_fail(s, err, "make", NULL, errnum);
        int status = open_folder(s, err);
        if (status != SKIPPY_OK) return status;
        errnum = sk_store_lock(&s->io, s->folder_fd, &s->lock_fd, &s->lock_bytes, &pid);
        if (errnum == ESTALE) {
            sk_io_close(s->folder_fd);
            s->folder_fd = -1;
        }
    }
    return errnum ? lock_failed(s, errnum, pid, err) : SKIPPY_OK;
}

static int open_root(skippy_disk_store *s, bool create, sk_err *err) {
    int errnum = create ? sk_io_make_root(&s->io, s->dir) : 0;
    if (!errnum) errnum = sk_io_open_root(&s->io, s->dir, &s->root_fd);
    return errnum ? sk_err_set(err, SKIPPY_E_IO, "cannot open the directory %s: %s", s->dir, strerror(errnum))
                  : SKIPPY_OK;
}

/* ---- what lies in the folder ---- */

typedef struct file {
    enum sk_file_kind kind;
    uint64_t number;
    bool temporary;
    char name[SK_FILE_NAME_BYTES];
} file;

typedef struct inventory {
    skippy_disk_store *s;
    sk_bytes files; /* of struct file */
} inventory;

static size_t n_files(const inventory *v) {
    return v->files.len / sizeof(file);
}

static file *file_at(const inventory *v, size_t i) {
    return (file *)(void *)v->files.data + i;
}

static int note_file(void *ud, const char *name) {
    inventory *v = ud;
    file f = {0};
    sk_io_info info;
    f.kind = sk_file_parse(name, &f.number);
    if (f.kind == SK_FILE_FOREIGN || f.kind == SK_FILE_LOCK) return 0;
    /* Numbers are never used twice, not even those of things that are no files. */
    if (f.number < UINT64_MAX && f.number >= v->s->ix.next_segment) v->s->ix.next_segment = f.number + 1;
    if (f.number < UINT64_MAX && f.number >= v->s->next_journal) v->s->next_journal = f.number + 1;
    int errnum = sk_io_stat(&v->s->io, v->s->folder_fd, name, &info);
    if (errnum) return errnum == ENOENT ? 0 : errnum;
    if (!info.is_file) return 0;
    memcpy(f.name, name, strlen(name) + 1); /* parsed: shorter than the array */
    sk_bytes_add(&v->files, &f, sizeof f);
    return v->files.failed ? ENOMEM : 0;
}

static int by_number_down(const void *a, const void *b) {
    uint64_t x = ((const file *)a)->number, y = ((const file *)b)->number;
    return x > y ? -1 : x < y;
}

static int take_inventory(inventory *v, sk_err *err) {
    int result;
    sk_bytes_clear(&v->files);
    int errnum = sk_io_list(&v->s->io, v->s->folder_fd, note_file, v, &result);
    if (!errnum) errnum = result;
    if (errnum == ENOMEM) return SKIPPY_E_NOMEM;
    if (errnum) return sk_disk_fail(v->s, err, "list", NULL, errnum);
    if (n_files(v)) qsort(v->files.data, n_files(v), sizeof(file), by_number_down);
    return SKIPPY_OK;
}

/* ---- the journal ---- */

/* Reads the 64 bytes of a file; a shorter file counts as damaged. */
static int read_header(skippy_disk_store *s, const file *f, int fd, uint8_t header[SK_FILE_HEADER_BYTES],
                       enum sk_header_state *state, uint32_t *version, sk_err *err) {
    size_t got;
    int errnum = sk_io_read(&s->io, fd, header, SK_FILE_HEADER_BYTES, NULL, 0, 0, &got);
    if (errnum) return sk_disk_fail(s, err, "read", f->name, errnum);
    *version = 0;
    *state = got < SK_FILE_HEADER_BYTES ? SK_HEADER_DAMAGED : sk_file_header_check(header, f->kind, f->number, version);
    return SKIPPY_OK;
}

/* Opens a journal when its header is good; s->journal.fd stays -1 when it is damaged. */
static int try_journal(skippy_disk_store *s, const file *f, uint8_t header[SK_FILE_HEADER_BYTES], sk_err *err) {
    enum sk_header_state state = SK_HEADER_DAMAGED;
    uint32_t version;
    sk_io_info info;
    int fd;
    int errnum = sk_io_open(&s->io, s->folder_fd, f->name, s->readonly ? SK_IO_MODE_READ : SK_IO_MODE_UPDATE, &fd);
    if (errnum == ENOENT && s->readonly) return SKIPPY_OK; /* replaced by its owner meanwhile */
    if (errnum) return sk_disk_fail(s, err, "open", f->name, errnum);
    int status = read_header(s, f, fd, header, &state, &version, err);
    if (status == SKIPPY_OK && state == SK_HEADER_OTHER_VERSION)
        status = sk_err_set(err, SKIPPY_E_UNSUPPORTED, "%s/%s has format version %u, this program reads version %d",
                            s->dir, s->name, (unsigned)version, SKIPPY_DISK_VERSION);
    errnum = status == SKIPPY_OK ? sk_io_stat_fd(&s->io, fd, &info) : 0;
    if (errnum) status = sk_disk_fail(s, err, "read", f->name, errnum);
    if (status == SKIPPY_OK && state == SK_HEADER_OK) {
        s->journal = (sk_journal){.fd = fd, .number = f->number, .size = info.bytes};
        return SKIPPY_OK;
    }
    sk_io_close(fd);
    return status;
}

/* A crash between the publication of a new journal and the removal of the old one leaves both: the newest with a good
 * header counts. */
static int find_journal(inventory *v, uint8_t header[SK_FILE_HEADER_BYTES], sk_err *err) {
    int status = SKIPPY_OK;
    for (size_t i = 0; status == SKIPPY_OK && v->s->journal.fd < 0 && i < n_files(v); i++)
        if (file_at(v, i)->kind == SK_FILE_JOURNAL) status = try_journal(v->s, file_at(v, i), header, err);
    return status;
}

static int visit_record(void *ud, uint32_t type, const uint8_t *payload, size_t bytes) {
    return sk_replay_record(ud, type, payload, bytes);
}

static int read_journal(inventory *v, sk_replay *replay, skippy_progress_fn progress, void *ud, sk_err *err) {
    skippy_disk_store *s = v->s;
    uint8_t header[SK_FILE_HEADER_BYTES];
    int errnum;
    int status = find_journal(v, header, err);
    if (status != SKIPPY_OK || s->journal.fd < 0) return status;
    status = sk_journal_scan(&s->io, &s->alloc, &s->journal, header, visit_record, replay, progress, ud, &errnum);
    if (status == SKIPPY_E_IO) return sk_disk_fail(s, err, "read the journal of", NULL, errnum);
    return status;
}

/* ---- the segments ---- */

/* A segment's length, when it is a file with a good header; 0 otherwise. */
static int look_at_segment(skippy_disk_store *s, const file *f, uint64_t *size, sk_err *err) {
    uint8_t header[SK_FILE_HEADER_BYTES];
    enum sk_header_state state = SK_HEADER_DAMAGED;
    uint32_t version;
    sk_io_info info;
    int fd;
    *size = 0;
    int errnum = sk_io_open(&s->io, s->folder_fd, f->name, SK_IO_MODE_READ, &fd);
    if (errnum == ENOENT) return SKIPPY_OK;
    if (errnum) return sk_disk_fail(s, err, "open", f->name, errnum);
    int status = read_header(s, f, fd, header, &state, &version, err);
    errnum = status == SKIPPY_OK ? sk_io_stat_fd(&s->io, fd, &info) : 0;
    if (errnum) status = sk_disk_fail(s, err, "read", f->name, errnum);
    if (status == SKIPPY_OK && state == SK_HEADER_OK) *size = info.bytes;
    sk_io_close(fd);
    return status;
}

/* Gives the segments of the tables their sizes; those without a good file keep 0. */
static int size_segments(inventory *v, sk_err *err) {
    skippy_disk_store *s = v->s;
    for (size_t i = 0; i < n_files(v); i++) {
        const file *f = file_at(v, i);
        uint64_t size;
        sk_segment *g = f->kind == SK_FILE_SEGMENT ? sk_index_segment_find(&s->ix, f->number) : NULL;
        if (!g) continue;
        int status = look_at_segment(s, f, &size, err);
        if (status != SKIPPY_OK) return status;
        sk_index_segment_resize(&s->ix, g, size);
    }
    return SKIPPY_OK;
}

static bool within_file(const sk_disk_block *b) {
    return b->segment->size >= SK_BLOCK_HEADER_BYTES + (uint64_t)b->ref.bytes &&
           b->offset <= b->segment->size - SK_BLOCK_HEADER_BYTES - b->ref.bytes;
}

static bool complete(const sk_disk_entry *e) {
    for (size_t i = 0; i < e->n_blocks; i++)
        if (!within_file(e->blocks[i])) return false;
    return true;
}

/* Entries with a block that lies in no file leave; the journal is told with the next record. */
static void drop_incomplete(skippy_disk_store *s) {
    for (sk_disk_entry *e = s->ix.first, *next; e; e = next) {
        next = e->next;
        if (complete(e)) continue;
        sk_index_entry_hide(&s->ix, e, SKIPPY_DROP_CORRUPT);
        s->pending[s->n_pending++] = (sk_pending_drop){e->id, SKIPPY_DROP_CORRUPT};
        s->counters.dropped[SKIPPY_DROP_CORRUPT]++;
        sk_index_entry_forget(&s->ix, e);
    }
}

/* ---- repair ---- */

/* Where the last live block of a segment ends. */
static uint64_t used_end(const sk_segment *g) {
    uint64_t end = SK_FILE_HEADER_BYTES;
    for (const sk_disk_block *b = g->blocks; b; b = b->next) {
        uint64_t after = b->offset + SK_BLOCK_HEADER_BYTES + b->ref.bytes;
        if (after > end) end = after;
    }
    return end;
}

static int cut_file(skippy_disk_store *s, const char *name, uint64_t size, sk_err *err) {
    int fd;
    int errnum = sk_io_open(&s->io, s->folder_fd, name, SK_IO_MODE_UPDATE, &fd);
    if (!errnum) {
        errnum = sk_io_truncate(&s->io, fd, size);
        sk_io_close(fd);
    }
    return errnum ? sk_disk_fail(s, err, "shorten", name, errnum) : SKIPPY_OK;
}

static int cut_tail(skippy_disk_store *s, sk_segment *g, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    uint64_t end = used_end(g);
    if (g->size == end) return SKIPPY_OK;
    sk_file_name(name, SK_FILE_SEGMENT, g->number, false);
    int status = cut_file(s, name, end, err);
    if (status == SKIPPY_OK) sk_index_segment_resize(&s->ix, g, end);
    return status;
}

/* Is the file part of the store as the journal describes it? */
static bool needed(const skippy_disk_store *s, const file *f) {
    if (f->kind == SK_FILE_JOURNAL) return s->journal.fd >= 0 && f->number == s->journal.number;
    if (f->kind != SK_FILE_SEGMENT) return false;
    const sk_segment *g = sk_index_segment_find(&s->ix, f->number);
    return g && g->live;
}

static int remove_strays(inventory *v, sk_err *err) {
    skippy_disk_store *s = v->s;
    for (size_t i = 0; i < n_files(v); i++) {
        if (needed(s, file_at(v, i))) continue;
        int errnum = sk_io_unlink(&s->io, s->folder_fd, file_at(v, i)->name);
        if (errnum && errnum != ENOENT) return sk_disk_fail(s, err, "remove", file_at(v, i)->name, errnum);
    }
    return SKIPPY_OK;
}

/* Segments that hold nothing live have no file any more. */
static void forget_empty_segments(skippy_disk_store *s) {
    for (sk_segment *g = s->ix.segments, *next; g; g = next) {
        next = g->next;
        if (g->live) continue;
        sk_index_segment_detach(&s->ix, g);
        sk_mem_release(&s->alloc, g);
    }
}

static int cut_tails(skippy_disk_store *s, sk_err *err) {
    int status = SKIPPY_OK;
    for (sk_segment *g = s->ix.segments; status == SKIPPY_OK && g; g = g->next) status = cut_tail(s, g, err);
    return status;
}

static int cut_journal(skippy_disk_store *s, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    if (s->journal.fd < 0) return sk_log_checkpoint(s, err);
    if (s->journal.end < s->journal.size) {
        sk_file_name(name, SK_FILE_JOURNAL, s->journal.number, false);
        int status = cut_file(s, name, s->journal.end, err);
        if (status != SKIPPY_OK) return status;
        s->journal.size = s->journal.end;
    }
    s->journal_bytes = s->journal.size;
    return SKIPPY_OK;
}

/* Appending goes on in the newest segment that is not full. */
static int choose_active(skippy_disk_store *s, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    sk_segment *newest = NULL;
    for (sk_segment *g = s->ix.segments; g; g = g->next)
        if (!newest || g->number > newest->number) newest = g;
    if (!newest || newest->size >= s->segment_bytes) return SKIPPY_OK;
    sk_file_name(name, SK_FILE_SEGMENT, newest->number, false);
    int errnum = sk_io_open(&s->io, s->folder_fd, name, SK_IO_MODE_UPDATE, &newest->fd);
    if (errnum) return sk_disk_fail(s, err, "open", name, errnum);
    newest->pins = 1;
    s->open_handles++;
    s->active = newest;
    return SKIPPY_OK;
}

static int repair(inventory *v, const sk_replay *replay, sk_err *err) {
    skippy_disk_store *s = v->s;
    drop_incomplete(s);
    int status = remove_strays(v, err);
    if (status != SKIPPY_OK) return status;
    forget_empty_segments(s);
    status = cut_tails(s, err);
    if (status == SKIPPY_OK) status = cut_journal(s, err);
    if (status == SKIPPY_OK) status = choose_active(s, err);
    if (status == SKIPPY_OK && replay->erased) status = sk_compact_all(s, err); /* an erase was interrupted */
    return status;
}

/* ---- recency ---- */

static int by_use(const void *a, const void *b) {
    const sk_disk_entry *x = *(const sk_disk_entry *const *)a, *y = *(const sk_disk_entry *const *)b;
    if (x->used_ms != y->used_ms) return x->used_ms < y->used_ms ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* From now on the order of use is counted, not timed: a clock that jumps changes nothing. Times in the future (it
 * jumped while the store was closed) count as now. */
static int number_uses(skippy_disk_store *s) {
    size_t n = 0;
    uint64_t now = sk_io_wall_ms(&s->io);
    sk_disk_entry **list = sk_mem_alloc(&s->alloc, ((size_t)s->ix.n_entries + 1) * sizeof(sk_disk_entry *));
    if (!list) return SKIPPY_E_NOMEM;
    for (sk_disk_entry *e = s->ix.first; e; e = e->next) {
        if (e->used_ms > now) e->used_ms = now;
        list[n++] = e;
    }
    qsort(list, n, sizeof(sk_disk_entry *), by_use);
    for (size_t i = 0; i < n; i++) list[i]->tick = ++s->tick;
    sk_mem_release(&s->alloc, list);
    return SKIPPY_OK;
}

static int report_found(skippy_disk_store *s, skippy_disk_found found, void *ud) {
    for (const sk_disk_entry *e = s->ix.first; found && e; e = e->next) {
        skippy_manifest m = e->m;
        m.used_ms = e->used_ms;
        m.hits = e->hits;
        if (!found(ud, e->id, &m)) return SKIPPY_E_CANCELLED;
    }
    return SKIPPY_OK;
}

/* ---- the calls ---- */

/* Everything between the folder and the entries. */
static int load(skippy_disk_store *s, skippy_progress_fn progress, void *ud, sk_err *err) {
    inventory v = {.s = s, .files = {.alloc = &s->alloc}};
    sk_replay replay = {.ix = &s->ix};
    int status = take_inventory(&v, err);
    if (status == SKIPPY_OK) status = read_journal(&v, &replay, progress, ud, err);
    if (status == SKIPPY_OK && !sk_disk_reserve_pending(s)) status = SKIPPY_E_NOMEM;
    if (status == SKIPPY_OK) status = size_segments(&v, err);
    if (status == SKIPPY_OK) status = number_uses(s);
    if (status == SKIPPY_OK && !s->readonly) status = repair(&v, &replay, err);
    sk_bytes_free(&v.files);
    return status;
}

static bool params_valid(const skippy_allocator *alloc, const skippy_disk_params *p) {
    return sk_mem_hooks_valid(alloc) && p && p->dir && p->dir[0] && sk_store_name_valid(p->name);
}

static int finish_open(skippy_disk_store *s, int status, skippy_disk_store **out, skippy_disk_detail *detail,
                       const sk_err *err) {
    sk_disk_detail_set(detail, status, err);
    if (status == SKIPPY_OK)
        *out = s;
    else
        free_store(s);
    return status;
}

int sk_disk_open(const skippy_allocator *alloc, const sk_io *io, const skippy_disk_params *p, skippy_disk_found found,
                 skippy_progress_fn progress, void *ud, skippy_disk_store **out, skippy_disk_detail *detail) {
    sk_err err = {0};
    if (!out || !params_valid(alloc, p)) return SKIPPY_E_INVALID;
    *out = NULL;
    skippy_disk_store *s = new_store(alloc, io, p);
    if (!s) return SKIPPY_E_NOMEM;
    int status = open_root(s, true, &err);
    if (status == SKIPPY_OK) status = own_folder(s, &err);
    if (status == SKIPPY_OK) status = load(s, progress, ud, &err);
    /* The limit may be lower than it was. What cannot be freed now is tried again by the first put. */
    if (status == SKIPPY_OK) (void)sk_evict_for(s, 0, NULL);
    while (s->left) { /* left before they were reported: nobody has to be told */
        sk_disk_entry *e = s->left;
        s->left = e->notify_next;
        sk_index_entry_forget(&s->ix, e);
    }
    s->retry_at_ns = 0;
    if (status == SKIPPY_OK) status = report_found(s, found, ud);
    return finish_open(s, status, out, detail, &err);
}

int skippy_disk_open(const skippy_allocator *alloc, const skippy_disk_params *p, skippy_disk_found found,
                     skippy_progress_fn progress, void *ud, skippy_disk_store **out, skippy_disk_detail *detail) {
    return sk_disk_open(alloc, NULL, p, found, progress, ud, out, detail);
}

int skippy_disk_open_readonly(const skippy_allocator *alloc, const char *dir, const char *name, skippy_disk_found found,
                              void *ud, skippy_disk_store **out, skippy_disk_detail *detail) {
    enum { ATTEMPTS = 10 };
    skippy_disk_params p = {.dir = dir, .name = name};
    sk_err err = {0};
    int status = SKIPPY_OK;
    skippy_disk_store *s = NULL;
    if (!out || !params_valid(alloc, &p)) return SKIPPY_E_INVALID;
    *out = NULL;
    /* Its owner may replace the journal between the listing and the opening. */
    for (int i = 0; i < ATTEMPTS && (!s || (status == SKIPPY_OK && s->journal.fd < 0)); i++) {
        if (s) free_store(s);
        s = new_store(alloc, NULL, &p);
        if (!s) return SKIPPY_E_NOMEM;
        s->readonly = true;
        status = open_root(s, false, &err);
        if (status == SKIPPY_OK) status = open_folder(s, &err);
        if (status == SKIPPY_OK) status = load(s, NULL, NULL, &err);
    }
    s->journal_bytes = s->journal.fd >= 0 ? s->journal.size : 0;
    if (status == SKIPPY_OK) status = report_found(s, found, ud);
    return finish_open(s, status, out, detail, &err);
}

void skippy_disk_close(skippy_disk_store *s) {
    if (!s) return;
    if (!s->readonly) {
        pthread_mutex_lock(&s->writer);
        /* Nothing is lost but recency should one of these fail. */
        (void)sk_log_drops(s, false, NULL);
        (void)sk_log_touches(s, NULL);
        if (s->journal.fd >= 0) (void)sk_io_sync(&s->io, s->journal.fd);
        pthread_mutex_unlock(&s->writer);
    }
    free_store(s);
}

/* ---- listing ---- */

typedef struct listing {
    skippy_disk_visit visit;
    void *ud;
} listing;

static int list_one(void *ud, const sk_sibling *store) {
    const listing *l = ud;
    return l->visit(l->ud, store->name, store->bytes, store->owned);
}

int skippy_disk_list(const char *dir, skippy_disk_visit visit, void *ud) {
    static const sk_io io = {0};
    listing l = {visit, ud};
    int root, result = 0;
    if (!dir || !visit) return SKIPPY_E_INVALID;
    if (sk_io_open_root(&io, dir, &root) != 0) return SKIPPY_E_IO;
    int err = sk_sibling_walk(&io, root, list_one, &l, &result);
    sk_io_close(root);
    return err ? SKIPPY_E_IO : result;
}
