/* What a disk store writes to its journal, and when a new journal replaces the old one. */
#include <stdlib.h>
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/mem.h"

/* A checkpoint is written in pieces of about this size, so that a large journal needs no buffer of its size. */
enum { CHECKPOINT_CHUNK_BYTES = 1 << 20 };

static const char *journal_name(const skippy_disk_store *s, char out[SK_FILE_NAME_BYTES]) {
    sk_file_name(out, SK_FILE_JOURNAL, s->journal.number, false);
    return out;
}

/* ---- appending ---- */

/* Encodes the pending drops; *n says how many. Under mu. */
static void encode_pending(skippy_disk_store *s, sk_bytes *out, sk_chain *c, size_t *n) {
    *n = s->n_pending;
    if (*n == 0) return;
    size_t start = sk_record_begin(out, SK_RECORD_DROP);
    for (size_t i = 0; i < *n; i++) sk_record_add_drop(out, s->pending[i].id, s->pending[i].reason);
    sk_record_end(out, start, c);
}

/* The first n pending drops are in the journal. Under mu. */
static void forget_pending(skippy_disk_store *s, size_t n) {
    s->n_pending -= n;
    memmove(s->pending, s->pending + n, s->n_pending * sizeof *s->pending);
}

/* A journal that failed is not written again: a new one takes its place first. */
static int journal_ready(skippy_disk_store *s, sk_err *err) {
    return s->journal.suspect ? sk_log_checkpoint(s, err) : SKIPPY_OK;
}

/* Appends what is in scratch; n_drops of the pending drops are part of it. */
static int append_scratch(skippy_disk_store *s, const sk_chain *after, size_t n_drops, bool sync, sk_err *err) {
    char name[SK_FILE_NAME_BYTES];
    if (s->scratch.failed) return sk_err_set(err, SKIPPY_E_NOMEM, "no memory for a journal record");
    int errnum = sk_journal_append(&s->io, &s->journal, s->scratch.data, s->scratch.len, after, sync);
    pthread_mutex_lock(&s->mu);
    s->journal_bytes = s->journal.size;
    if (!errnum) forget_pending(s, n_drops);
    pthread_mutex_unlock(&s->mu);
    return errnum ? sk_disk_write_failed(s, err, "write to", journal_name(s, name), errnum) : SKIPPY_OK;
}

static bool any_bad(const sk_disk_entry *e) {
    for (size_t i = 0; i < e->n_blocks; i++)
        if (e->blocks[i]->bad) return true;
    return false;
}

int sk_log_put(skippy_disk_store *s, sk_disk_entry *e, sk_err *err) {
    int status = journal_ready(s, err);
    if (status != SKIPPY_OK) return status;
    sk_chain after = s->journal.chain;
    size_t n_drops;
    sk_bytes_clear(&s->scratch);
    /* Under one lock: a block is defined exactly when, behind these drops, no entry before this one has it. */
    pthread_mutex_lock(&s->mu);
    encode_pending(s, &s->scratch, &after, &n_drops);
    sk_record_add_put(&s->scratch, &after, e, sk_index_next_mark(&s->ix), true);
    bool bad = any_bad(e);
    pthread_mutex_unlock(&s->mu);
    if (bad) return sk_err_set(err, SKIPPY_E_CORRUPT, "a block that the entry shares was found damaged");
    return append_scratch(s, &after, n_drops, true, err);
}

int sk_log_drops(skippy_disk_store *s, bool sync, sk_err *err) {
    size_t n_drops;
    int status = journal_ready(s, err);
    if (status != SKIPPY_OK) return status;
    sk_chain after = s->journal.chain;
    sk_bytes_clear(&s->scratch);
    pthread_mutex_lock(&s->mu);
    encode_pending(s, &s->scratch, &after, &n_drops);
    pthread_mutex_unlock(&s->mu);
    return n_drops ? append_scratch(s, &after, n_drops, sync, err) : SKIPPY_OK;
}

/* Under mu. */
static size_t encode_touches(skippy_disk_store *s, sk_chain *after) {
    size_t n = 0, start = sk_record_begin(&s->scratch, SK_RECORD_TOUCH);
    for (sk_disk_entry *e = s->ix.first; e; e = e->next) {
        if (!e->dirty) continue;
        sk_record_add_touch(&s->scratch, e->id, e->used_ms, e->hits);
        e->dirty = false; /* should the write fail, an order of eviction is lost and nothing else */
        n++;
    }
    sk_record_end(&s->scratch, start, after);
    return n;
}

int sk_log_touches(skippy_disk_store *s, sk_err *err) {
    int status = journal_ready(s, err);
    if (status != SKIPPY_OK) return status;
    sk_chain after = s->journal.chain;
    sk_bytes_clear(&s->scratch);
    pthread_mutex_lock(&s->mu);
    size_t n = encode_touches(s, &after);
    pthread_mutex_unlock(&s->mu);
    return n ? append_scratch(s, &after, 0, false, err) : SKIPPY_OK;
}

int sk_log_moves(skippy_disk_store *s, const sk_move *moves, size_t n, sk_err *err) {
    size_t n_drops, n_moves = 0;
    int status = journal_ready(s, err);
    if (status != SKIPPY_OK) return status;
    sk_chain after = s->journal.chain;
    sk_bytes_clear(&s->scratch);
    pthread_mutex_lock(&s->mu);
    encode_pending(s, &s->scratch, &after, &n_drops);
    size_t start = sk_record_begin(&s->scratch, SK_RECORD_MOVE);
    for (size_t i = 0; i < n; i++) {
        if (!moves[i].to || !moves[i].block->refs) continue;
        sk_record_add_move(&s->scratch, moves[i].block->number, moves[i].to->number, moves[i].offset);
        n_moves++;
    }
    sk_record_end(&s->scratch, start, &after);
    pthread_mutex_unlock(&s->mu);
    return n_drops + n_moves ? append_scratch(s, &after, n_drops, true, err) : SKIPPY_OK;
}

/* ---- checkpoint ---- */

uint64_t sk_log_live_bytes(const skippy_disk_store *s) {
    return SK_FILE_HEADER_BYTES + SK_RECORD_FRAME_BYTES + SK_BEGIN_BYTES + s->ix.record_bytes +
           SK_DEFINITION_BYTES * s->ix.n_blocks;
}

/* A journal that is being written. */
typedef struct checkpoint {
    skippy_disk_store *s;
    sk_journal next;
    char temporary[SK_FILE_NAME_BYTES];
    uint64_t *ids; /* of the entries, oldest first */
    size_t n_ids;
} checkpoint;

static int list_ids(checkpoint *c, sk_err *err) {
    skippy_disk_store *s = c->s;
    pthread_mutex_lock(&s->mu);
    c->n_ids = (size_t)s->ix.n_entries;
    c->ids = sk_mem_alloc(&s->alloc, (c->n_ids + 1) * sizeof *c->ids);
    size_t at = c->ids ? c->n_ids : 0;
    for (const sk_disk_entry *e = c->ids ? s->ix.first : NULL; e; e = e->next) c->ids[--at] = e->id;
    pthread_mutex_unlock(&s->mu);
    return c->ids ? SKIPPY_OK : sk_err_set(err, SKIPPY_E_NOMEM, "no memory to rewrite the journal");
}

static int write_chunk(checkpoint *c, sk_err *err) {
    sk_bytes *b = &c->s->scratch;
    if (b->failed) return sk_err_set(err, SKIPPY_E_NOMEM, "no memory to rewrite the journal");
    int errnum = sk_io_write(&c->s->io, c->next.fd, b->data, b->len, NULL, 0, c->next.end);
    if (errnum) return sk_disk_write_failed(c->s, err, "write", c->temporary, errnum);
    c->next.end += b->len;
    sk_bytes_clear(b);
    return SKIPPY_OK;
}

static void encode_start(checkpoint *c) {
    skippy_disk_store *s = c->s;
    uint8_t header[SK_FILE_HEADER_BYTES];
    sk_file_header_encode(header, SK_FILE_JOURNAL, c->next.number);
    sk_chain_start(&c->next.chain, header);
    sk_bytes_clear(&s->scratch);
    sk_bytes_add(&s->scratch, header, sizeof header);
    pthread_mutex_lock(&s->mu);
    sk_record_add_begin(&s->scratch, &c->next.chain, &s->ix);
    pthread_mutex_unlock(&s->mu);
}

/* Entries that leave while this runs are not written, or their drop is still pending behind it: both are right. */
static int write_entries(checkpoint *c, sk_err *err) {
    skippy_disk_store *s = c->s;
    encode_start(c);
    pthread_mutex_lock(&s->mu);
    uint64_t mark = sk_index_next_mark(&s->ix);
    pthread_mutex_unlock(&s->mu);
    for (size_t i = 0; i < c->n_ids; i++) {
        pthread_mutex_lock(&s->mu);
        sk_disk_entry *e = sk_index_entry_find(&s->ix, c->ids[i]);
        if (e && !e->gone) {
            sk_record_add_put(&s->scratch, &c->next.chain, e, mark, false);
            e->dirty = false;
        }
        pthread_mutex_unlock(&s->mu);
        if (s->scratch.len < CHECKPOINT_CHUNK_BYTES && !s->scratch.failed) continue;
        int status = write_chunk(c, err);
        if (status != SKIPPY_OK) return status;
    }
    return write_chunk(c, err);
}

/* After the rename the new journal is the store's, whatever else fails. */
static int publish(checkpoint *c, sk_err *err) {
    skippy_disk_store *s = c->s;
    char name[SK_FILE_NAME_BYTES];
    sk_file_name(name, SK_FILE_JOURNAL, c->next.number, false);
    int errnum = sk_io_sync(&s->io, c->next.fd);
    if (errnum) return sk_disk_write_failed(s, err, "sync", c->temporary, errnum);
    errnum = sk_io_rename(&s->io, s->folder_fd, c->temporary, name);
    if (errnum) return sk_disk_write_failed(s, err, "publish", name, errnum);
    return SKIPPY_OK;
}

/* The old journal goes only when the new name is on the device; otherwise the new one is withdrawn. A crash may leave
 * both: the open takes the newer one. */
static int replace(checkpoint *c, size_t n_drops, sk_err *err) {
    skippy_disk_store *s = c->s;
    char old[SK_FILE_NAME_BYTES], name[SK_FILE_NAME_BYTES];
    sk_file_name(name, SK_FILE_JOURNAL, c->next.number, false);
    int errnum = sk_io_sync_dir(&s->io, s->folder_fd);
    if (errnum) {
        /* Should the new one come back after a crash, it must still be the whole truth: the old one is not continued.
         */
        if (sk_io_unlink(&s->io, s->folder_fd, name) != 0) s->stray_files = true;
        s->journal.suspect = true;
        return sk_disk_write_failed(s, err, "sync the folder of", name, errnum);
    }
    if (s->journal.fd >= 0) {
        errnum = sk_io_unlink(&s->io, s->folder_fd, journal_name(s, old));
        if (errnum) s->stray_files = true;
        sk_io_close(s->journal.fd);
    }
    c->next.size = c->next.end;
    s->journal = c->next;
    c->next.fd = -1;
    pthread_mutex_lock(&s->mu);
    s->journal_bytes = s->journal.size;
    forget_pending(s, n_drops);
    pthread_mutex_unlock(&s->mu);
    return errnum ? sk_disk_write_failed(s, err, "remove", old, errnum) : SKIPPY_OK;
}

static int sweep_one(void *ud, const char *name) {
    skippy_disk_store *s = ud;
    uint64_t number;
    enum sk_file_kind kind = sk_file_parse(name, &number);
    if (kind != SK_FILE_TEMPORARY && (kind != SK_FILE_JOURNAL || number == s->journal.number)) return 0;
    return sk_io_unlink(&s->io, s->folder_fd, name);
}

/* Journals and temporaries that an earlier failure left. */
static int sweep(skippy_disk_store *s, sk_err *err) {
    int result;
    if (!s->stray_files) return SKIPPY_OK;
    int errnum = sk_io_list(&s->io, s->folder_fd, sweep_one, s, &result);
    if (errnum || result) return sk_disk_write_failed(s, err, "clean", NULL, errnum ? errnum : result);
    s->stray_files = false;
    return SKIPPY_OK;
}

int sk_log_checkpoint(skippy_disk_store *s, sk_err *err) {
    checkpoint c = {.s = s, .next = {.fd = -1}};
    int status = sweep(s, err);
    if (status != SKIPPY_OK) return status;
    pthread_mutex_lock(&s->mu);
    size_t n_drops = s->n_pending;
    pthread_mutex_unlock(&s->mu);
    status = list_ids(&c, err);
    if (status != SKIPPY_OK) return status;
    c.next.number = s->next_journal++;
    sk_file_name(c.temporary, SK_FILE_JOURNAL, c.next.number, true);
    int errnum = sk_io_open(&s->io, s->folder_fd, c.temporary, SK_IO_MODE_CREATE, &c.next.fd);
    if (errnum) {
        status = sk_disk_write_failed(s, err, "create", c.temporary, errnum);
        goto out;
    }
    status = write_entries(&c, err);
    if (status == SKIPPY_OK) status = publish(&c, err);
    if (status == SKIPPY_OK)
        status = replace(&c, n_drops, err);
    else if (sk_io_unlink(&s->io, s->folder_fd, c.temporary) != 0)
        s->stray_files = true;
out:
    sk_io_close(c.next.fd);
    sk_mem_release(&s->alloc, c.ids);
    return status;
}
