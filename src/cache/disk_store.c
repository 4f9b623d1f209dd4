/* The disk store's calls that look things up, read and drop. Opening is in disk_open.c, storing in disk_put.c. */
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/mem.h"

/* ---- errors ---- */

int sk_disk_fail(const skippy_disk_store *s, sk_err *e, const char *verb, const char *file, int err) {
    return sk_err_set(e, SKIPPY_E_IO, "cannot %s %s/%s%s%s: %s", verb, s->dir, s->name, file ? "/" : "",
                      file ? file : "", strerror(err));
}

int sk_disk_write_failed(skippy_disk_store *s, sk_err *e, const char *verb, const char *file, int err) {
    uint64_t now = sk_io_mono_ns(&s->io);
    s->retry_at_ns = now > UINT64_MAX - s->retry_ns ? UINT64_MAX : now + s->retry_ns;
    return sk_disk_fail(s, e, verb, file, err);
}

void sk_disk_detail_set(skippy_disk_detail *detail, int status, const sk_err *e) {
    if (!detail || status == SKIPPY_OK) return;
    const char *text = e->text[0] ? e->text : skippy_strerror(status);
    size_t len = strlen(text);
    if (len >= sizeof detail->text) len = sizeof detail->text - 1;
    memcpy(detail->text, text, len);
    detail->text[len] = '\0';
}

int sk_disk_readonly(const skippy_disk_store *s, skippy_disk_detail *detail) {
    sk_err e = {0};
    sk_disk_detail_set(detail, sk_err_set(&e, SKIPPY_E_UNSUPPORTED, "%s/%s is open for reading only", s->dir, s->name),
                       &e);
    return SKIPPY_E_UNSUPPORTED;
}

/* ---- entries that leave ---- */

bool sk_disk_reserve_pending(skippy_disk_store *s) {
    size_t need = s->n_pending + (size_t)s->ix.n_entries + 1;
    if (need <= s->cap_pending) return true;
    size_t cap = need + need / 2 + 16;
    sk_pending_drop *wider = sk_mem_alloc(&s->alloc, cap * sizeof *wider);
    if (!wider) return false;
    if (s->n_pending) memcpy(wider, s->pending, s->n_pending * sizeof *wider);
    sk_mem_release(&s->alloc, s->pending);
    s->pending = wider;
    s->cap_pending = cap;
    return true;
}

void sk_disk_entry_leave(skippy_disk_store *s, sk_disk_entry *e, enum skippy_drop_reason reason, sk_disk_entry **left) {
    sk_index_entry_hide(&s->ix, e, reason);
    s->pending[s->n_pending++] = (sk_pending_drop){e->id, reason};
    s->counters.dropped[reason]++;
    e->notifying = true;
    e->notify_next = *left;
    *left = e;
}

static void forget_if_unused(skippy_disk_store *s, sk_disk_entry *e) {
    if (e->gone && !e->notifying && !e->leases) sk_index_entry_forget(&s->ix, e);
}

void sk_disk_report(skippy_disk_store *s, sk_disk_entry *left) {
    while (left) {
        sk_disk_entry *e = left;
        left = e->notify_next;
        if (s->on_drop) s->on_drop(s->ud, e->id, e->reason);
        pthread_mutex_lock(&s->mu);
        e->notifying = false;
        forget_if_unused(s, e);
        pthread_mutex_unlock(&s->mu);
    }
}

size_t sk_disk_quarantine(skippy_disk_store *s, sk_disk_block *b, sk_disk_entry **left) {
    size_t n = 0;
    s->counters.corrupt_blocks++;
    sk_index_block_condemn(&s->ix, b);
    b->holds++; /* its last user may leave below */
    for (sk_disk_entry *e = s->ix.first, *next; e; e = next) {
        next = e->next;
        if (!sk_disk_entry_uses(e, b)) continue;
        sk_disk_entry_leave(s, e, SKIPPY_DROP_CORRUPT, left);
        n++;
    }
    sk_index_block_unhold(&s->ix, b);
    return n;
}

/* ---- leases ---- */

int skippy_disk_lease(skippy_disk_store *s, uint64_t id, const skippy_manifest **m) {
    if (!s || !m) return SKIPPY_E_INVALID;
    uint64_t now = sk_io_wall_ms(&s->io);
    int status = SKIPPY_E_NOT_FOUND;
    pthread_mutex_lock(&s->mu);
    sk_disk_entry *e = sk_index_entry_find(&s->ix, id);
    if (e && !e->gone) {
        if (e->leases++ == 0) s->ix.n_leased++;
        e->hits++;
        e->tick = ++s->tick;
        e->used_ms = now;
        e->dirty = true;
        *m = &e->m;
        status = SKIPPY_OK;
    }
    pthread_mutex_unlock(&s->mu);
    return status;
}

int skippy_disk_release(skippy_disk_store *s, uint64_t id) {
    if (!s) return SKIPPY_E_INVALID;
    int status = SKIPPY_E_NOT_FOUND;
    pthread_mutex_lock(&s->mu);
    sk_disk_entry *e = sk_index_entry_find(&s->ix, id);
    if (e && e->leases) {
        if (--e->leases == 0) s->ix.n_leased--;
        forget_if_unused(s, e);
        status = SKIPPY_OK;
    }
    pthread_mutex_unlock(&s->mu);
    return status;
}

/* ---- reading ---- */

/* The block when an entry has it (one that is being put is not visible yet). Under mu. */
static sk_disk_block *visible_block(skippy_disk_store *s, const skippy_block_ref *ref) {
    sk_disk_block *b = sk_index_block_find(&s->ix, ref);
    return b && b->refs ? b : NULL;
}

bool skippy_disk_has(skippy_disk_store *s, const skippy_block_ref *block) {
    if (!s || !block) return false;
    pthread_mutex_lock(&s->mu);
    bool has = visible_block(s, block) != NULL;
    pthread_mutex_unlock(&s->mu);
    return has;
}

/* A read of one place. */
typedef struct place {
    sk_segment *segment;
    uint64_t offset;
} place;

/* Finds and pins the block's segment. */
static bool find_place(skippy_disk_store *s, const skippy_block_ref *ref, place *p) {
    pthread_mutex_lock(&s->mu);
    sk_disk_block *b = visible_block(s, ref);
    if (b) {
        *p = (place){b->segment, b->offset};
        sk_segment_pin(s, b->segment);
    }
    pthread_mutex_unlock(&s->mu);
    return b != NULL;
}

/* The bytes at p are wrong or gone. False when the block lies elsewhere by now: then nothing is known about it yet. */
static bool condemn(skippy_disk_store *s, const skippy_block_ref *ref, const place *p, sk_disk_entry **left,
                    uint64_t *n_entries) {
    pthread_mutex_lock(&s->mu);
    sk_disk_block *b = visible_block(s, ref);
    bool here = b && b->segment == p->segment && b->offset == p->offset;
    if (here && s->readonly)
        s->counters.corrupt_blocks++;
    else if (here)
        *n_entries += sk_disk_quarantine(s, b, left);
    pthread_mutex_unlock(&s->mu);
    return here || !b;
}

static void count_read(skippy_disk_store *s, const skippy_block_ref *ref, int status, uint64_t hash_ns) {
    pthread_mutex_lock(&s->mu);
    s->counters.hash_ns += hash_ns;
    if (status == SKIPPY_OK) {
        s->counters.reads++;
        s->counters.read_bytes += ref->bytes;
    }
    pthread_mutex_unlock(&s->mu);
}

/* Reads and verifies; a bad block's entries leave to *left, *n_entries counts them. A compaction can move the block
 * between the look-up and the opening of its file: then it is looked up again. */
static int read_block(skippy_disk_store *s, const skippy_block_ref *ref, void *buf, sk_disk_entry **left,
                      uint64_t *n_entries) {
    for (;;) {
        place p;
        int errnum;
        uint64_t hash_ns;
        if (!find_place(s, ref, &p)) return SKIPPY_E_NOT_FOUND;
        int status = sk_segment_read(s, p.segment, p.offset, ref, buf, &errnum, &hash_ns);
        count_read(s, ref, status, hash_ns);
        bool final = true;
        if (status == SKIPPY_E_NOT_FOUND || status == SKIPPY_E_CORRUPT) {
            final = condemn(s, ref, &p, left, n_entries);
            status = SKIPPY_E_CORRUPT;
        }
        sk_segment_unpin(s, p.segment);
        if (final) return status;
    }
}

int skippy_disk_read(skippy_disk_store *s, const skippy_block_ref *block, void *buf) {
    if (!s || !block || !buf) return SKIPPY_E_INVALID;
    sk_disk_entry *left = NULL;
    uint64_t n_entries = 0;
    int status = read_block(s, block, buf, &left, &n_entries);
    sk_disk_report(s, left);
    return status;
}

/* ---- verification of everything ---- */

/* The blocks in the order in which they lie on the disk. */
typedef struct survey {
    skippy_block_ref *refs;
    size_t n;
    uint64_t bytes;
} survey;

static int survey_take(skippy_disk_store *s, survey *v) {
    int status = SKIPPY_OK;
    pthread_mutex_lock(&s->mu);
    v->refs = sk_mem_alloc(&s->alloc, ((size_t)s->ix.n_blocks + 1) * sizeof *v->refs);
    if (!v->refs) status = SKIPPY_E_NOMEM;
    for (sk_segment *g = v->refs ? s->ix.segments : NULL; g; g = g->next) {
        for (const sk_disk_block *b = g->blocks; b; b = b->next) {
            if (!b->refs || b->bad) continue;
            v->refs[v->n++] = b->ref;
            v->bytes += b->ref.bytes;
        }
    }
    pthread_mutex_unlock(&s->mu);
    return status;
}

/* Entries of a read-only store that use a block that `bad` names. Under mu. */
static uint64_t entries_with(const skippy_disk_store *s, const bool *bad, const survey *v) {
    uint64_t n = 0;
    uint64_t mark = s->ix.mark;
    for (size_t i = 0; i < v->n; i++) {
        sk_disk_block *b = bad[i] ? sk_index_block_find(&s->ix, &v->refs[i]) : NULL;
        if (b) b->mark = mark;
    }
    for (const sk_disk_entry *e = s->ix.first; e; e = e->next) {
        size_t i = 0;
        while (i < e->n_blocks && e->blocks[i]->mark != mark) i++;
        n += i < e->n_blocks;
    }
    return n;
}

/* Result of a verification that is under way. */
typedef struct verdict {
    bool *bad; /* by place in the survey */
    uint64_t bad_blocks, bad_entries;
    sk_disk_entry *left;
} verdict;

static int verify_blocks(skippy_disk_store *s, const survey *v, void *buf, skippy_progress_fn progress, void *ud,
                         verdict *out) {
    uint64_t done = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (progress && !progress(ud, done, v->bytes)) return SKIPPY_E_CANCELLED;
        int status = read_block(s, &v->refs[i], buf, &out->left, &out->bad_entries);
        out->bad[i] = status != SKIPPY_OK && status != SKIPPY_E_NOT_FOUND;
        out->bad_blocks += out->bad[i];
        done += v->refs[i].bytes;
    }
    if (progress) progress(ud, v->bytes, v->bytes);
    return SKIPPY_OK;
}

int skippy_disk_verify(skippy_disk_store *s, skippy_progress_fn progress, void *ud, uint64_t *bad_blocks,
                       uint64_t *bad_entries) {
    if (!s || !bad_blocks || !bad_entries) return SKIPPY_E_INVALID;
    survey v = {0};
    verdict out = {0};
    uint8_t *buf = sk_mem_alloc_raw(&s->alloc, SKIPPY_BLOCK_MAX);
    int status = buf ? survey_take(s, &v) : SKIPPY_E_NOMEM;
    if (status != SKIPPY_OK) goto out;
    out.bad = sk_mem_alloc(&s->alloc, v.n + 1);
    status = out.bad ? verify_blocks(s, &v, buf, progress, ud, &out) : SKIPPY_E_NOMEM;
    if (s->readonly && out.bad_blocks) {
        pthread_mutex_lock(&s->mu);
        (void)sk_index_next_mark(&s->ix);
        out.bad_entries = entries_with(s, out.bad, &v);
        pthread_mutex_unlock(&s->mu);
    }
    sk_disk_report(s, out.left);
    *bad_blocks = out.bad_blocks;
    *bad_entries = out.bad_entries;
out:
    sk_mem_release(&s->alloc, out.bad);
    sk_mem_release(&s->alloc, v.refs);
    sk_mem_release(&s->alloc, buf);
    return status;
}

/* ---- statistics ---- */

uint64_t sk_disk_physical(const skippy_disk_store *s) {
    return s->ix.segment_bytes + s->journal_bytes + s->lock_bytes;
}

void skippy_disk_get_stats(skippy_disk_store *s, skippy_store_stats *out) {
    pthread_mutex_lock(&s->mu);
    *out = s->counters;
    out->entries = s->ix.n_entries;
    out->leased = s->ix.n_leased;
    out->blocks = s->ix.n_blocks;
    out->block_refs = s->ix.n_refs;
    out->logical_bytes = s->ix.logical_bytes;
    out->block_bytes = s->ix.block_bytes;
    out->physical_bytes = sk_disk_physical(s);
    out->max_bytes = s->max_bytes;
    pthread_mutex_unlock(&s->mu);
}

/* ---- dropping, erasing, housekeeping ---- */

uint8_t *sk_disk_block_buffer(skippy_disk_store *s) {
    if (!s->block_buffer) s->block_buffer = sk_mem_alloc_raw(&s->alloc, SKIPPY_BLOCK_MAX);
    return s->block_buffer;
}

void sk_writer_begin(skippy_disk_store *s) {
    pthread_mutex_lock(&s->writer);
}

void sk_writer_end(skippy_disk_store *s) {
    sk_disk_entry *left = s->left;
    s->left = NULL;
    pthread_mutex_unlock(&s->writer);
    sk_disk_report(s, left);
}

int skippy_disk_drop(skippy_disk_store *s, uint64_t id, enum skippy_drop_reason reason) {
    if (!s || (unsigned)reason >= SKIPPY_DROP_REASONS) return SKIPPY_E_INVALID;
    if (s->readonly) return sk_disk_readonly(s, NULL);
    sk_disk_entry *mine = NULL;
    int status = SKIPPY_OK;
    sk_writer_begin(s);
    pthread_mutex_lock(&s->mu);
    sk_disk_entry *e = sk_index_entry_find(&s->ix, id);
    if (!e || e->gone)
        status = SKIPPY_E_NOT_FOUND;
    else if (e->leases)
        status = SKIPPY_E_BUSY;
    else
        sk_disk_entry_leave(s, e, reason, &mine);
    if (mine) { /* the caller knows: it is not reported */
        mine->notifying = false;
        forget_if_unused(s, mine);
    }
    pthread_mutex_unlock(&s->mu);
    /* A drop that cannot be written stays pending and is written before anything else. */
    if (status == SKIPPY_OK) (void)sk_log_drops(s, false, NULL);
    sk_writer_end(s);
    return status;
}

static size_t erase_matching(skippy_disk_store *s, const skippy_erase_filter *f) {
    size_t n = 0;
    pthread_mutex_lock(&s->mu);
    for (sk_disk_entry *e = s->ix.first, *next; e; e = next) {
        next = e->next;
        if (!skippy_erase_matches(f, &e->m)) continue;
        sk_disk_entry_leave(s, e, SKIPPY_DROP_ERASED, &s->left);
        n++;
    }
    pthread_mutex_unlock(&s->mu);
    return n;
}

/* The drops come first and are synced: should the process end in the middle, the next open finds them and goes on. Then
 * every dead byte leaves, not only those of the entries above: an entry that was evicted a minute ago may have been
 * meant too. */
static int erase_files(skippy_disk_store *s, sk_err *err) {
    int status = sk_log_drops(s, true, err);
    if (status != SKIPPY_OK) {
        /* A full disk: what has no live block can go without the journal, and that may make room. */
        (void)sk_segment_remove_dead(s, NULL);
        status = sk_log_drops(s, true, err);
    }
    return status == SKIPPY_OK ? sk_compact_all(s, err) : status;
}

int skippy_disk_erase(skippy_disk_store *s, const skippy_erase_filter *f, size_t *n_erased,
                      skippy_disk_detail *detail) {
    sk_err e = {0};
    if (!s || !f || !n_erased) return SKIPPY_E_INVALID;
    if (s->readonly) return sk_disk_readonly(s, detail);
    sk_writer_begin(s);
    *n_erased = erase_matching(s, f);
    int status = erase_files(s, &e);
    sk_writer_end(s);
    sk_disk_detail_set(detail, status, &e);
    return status;
}

/* What housekeeping would do next. */
enum chore { CHORE_NONE, CHORE_DROPS, CHORE_EVICT, CHORE_SEGMENT, CHORE_JOURNAL, CHORE_TOUCHES };

/* When a quarter of it is dead. */
static bool worth_compacting(const sk_segment *g) {
    enum { DEAD_SHARE = 4 };
    return sk_segment_dead(g) >= g->size / DEAD_SHARE;
}

/* A journal is worth rewriting when it is twice as long as it must be. */
static enum chore next_chore(skippy_disk_store *s) {
    enum { SMALL_JOURNAL_BYTES = 64 << 10 };
    enum chore chore = CHORE_NONE;
    pthread_mutex_lock(&s->mu);
    const sk_segment *g = sk_compact_victim(s);
    bool touched = false;
    for (const sk_disk_entry *e = s->ix.first; e && !touched; e = e->next) touched = e->dirty;
    if (s->n_pending || s->journal.suspect)
        chore = CHORE_DROPS;
    else if (g && worth_compacting(g))
        chore = CHORE_SEGMENT;
    else if (s->journal_bytes > SMALL_JOURNAL_BYTES && s->journal_bytes > 2 * sk_log_live_bytes(s))
        chore = CHORE_JOURNAL;
    else if (touched)
        chore = CHORE_TOUCHES;
    pthread_mutex_unlock(&s->mu);
    return chore == CHORE_NONE && sk_evict_due(s) ? CHORE_EVICT : chore;
}

/* Segments in which nothing lives cost nothing to remove: all of them at once, before one is copied. */
static int compact_worst(skippy_disk_store *s, sk_err *err) {
    int status = sk_segment_remove_dead(s, err);
    pthread_mutex_lock(&s->mu);
    sk_segment *victim = sk_compact_victim(s);
    bool worth = victim && worth_compacting(victim);
    pthread_mutex_unlock(&s->mu);
    return status == SKIPPY_OK && worth ? sk_compact_segment(s, victim, err) : status;
}

static int do_chore(skippy_disk_store *s, enum chore chore, sk_err *err) {
    switch (chore) {
    case CHORE_DROPS: return sk_log_drops(s, false, err);
    case CHORE_EVICT: return sk_evict_for(s, 0, err);
    case CHORE_JOURNAL: return sk_log_checkpoint(s, err);
    case CHORE_TOUCHES: return sk_log_touches(s, err);
    case CHORE_SEGMENT: return compact_worst(s, err);
    case CHORE_NONE: break;
    }
    return SKIPPY_OK;
}

int skippy_disk_compact(skippy_disk_store *s, bool *more, skippy_disk_detail *detail) {
    sk_err e = {0};
    if (!s || !more) return SKIPPY_E_INVALID;
    *more = false;
    if (s->readonly) return sk_disk_readonly(s, detail);
    sk_writer_begin(s);
    int status = do_chore(s, next_chore(s), &e);
    if (status == SKIPPY_OK) *more = next_chore(s) != CHORE_NONE;
    sk_writer_end(s);
    sk_disk_detail_set(detail, status, &e);
    return status;
}
