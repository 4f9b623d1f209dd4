/* Storing an entry: what is missing is appended and synced, then one journal record makes all of it visible. */
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/mem.h"

/* An entry that is being stored. */
typedef struct put {
    skippy_disk_store *s;
    sk_disk_entry *e;
    size_t held;                    /* this many of its blocks are held */
    uint64_t new_bytes, all_bytes;  /* block headers and bytes: to be written; of the entry alone */
    uint64_t new_blocks, new_total; /* number and bytes of the blocks to be written */
} put;

static uint64_t stored_bytes(const skippy_block_ref *ref) {
    return SK_BLOCK_HEADER_BYTES + (uint64_t)ref->bytes;
}

/* ---- gathering: which blocks are there, which are missing ---- */

/* The i-th block reference of a manifest is refs[i]: an entry keeps them back to back. */
static const skippy_block_ref *refs_of(const sk_disk_entry *e) {
    return e->m.parts[0].blocks;
}

static int gather_block(put *p, const skippy_block_ref *ref, uint64_t mark) {
    sk_disk_index *ix = &p->s->ix;
    sk_disk_block *b = sk_index_block_find(ix, ref);
    if (b) {
        b->holds++;
    } else {
        b = sk_index_block_add(ix, ref, ix->next_block);
        if (!b) return SKIPPY_E_NOMEM;
        p->new_bytes += stored_bytes(ref);
        p->new_total += ref->bytes;
        p->new_blocks++;
    }
    if (b->mark != mark) p->all_bytes += stored_bytes(ref);
    b->mark = mark;
    p->e->blocks[p->held++] = b;
    return SKIPPY_OK;
}

/* Holds the blocks that are there, so that no eviction takes them, and adds the missing ones: not placed, invisible. */
static int gather(put *p) {
    int status = SKIPPY_OK;
    const skippy_block_ref *refs = refs_of(p->e);
    pthread_mutex_lock(&p->s->mu);
    if (!sk_disk_reserve_pending(p->s)) status = SKIPPY_E_NOMEM;
    uint64_t mark = sk_index_next_mark(&p->s->ix);
    for (size_t i = 0; status == SKIPPY_OK && i < p->e->n_blocks; i++) status = gather_block(p, &refs[i], mark);
    pthread_mutex_unlock(&p->s->mu);
    return status;
}

/* Under mu. */
static void let_go(put *p) {
    while (p->held) sk_index_block_unhold(&p->s->ix, p->e->blocks[--p->held]);
}

/* ---- sizes ---- */

/* The journal record, and headers of the segments that may be begun. */
static uint64_t overhead(const skippy_disk_store *s, const put *p, uint64_t block_bytes) {
    return p->e->record_bytes + SK_DEFINITION_BYTES * (uint64_t)p->e->n_blocks +
           SK_FILE_HEADER_BYTES * 2 * (block_bytes / s->segment_bytes + 1); /* each is at least half full */
}

static int check_alone(const put *p, sk_err *err) {
    const skippy_disk_store *s = p->s;
    uint64_t empty = SK_FILE_HEADER_BYTES + SK_RECORD_FRAME_BYTES + SK_BEGIN_BYTES + s->lock_bytes;
    uint64_t alone = empty + p->all_bytes + overhead(s, p, p->all_bytes);
    if (s->max_bytes == 0 || alone <= s->max_bytes) return SKIPPY_OK;
    return sk_err_set(err, SKIPPY_E_TOO_LARGE, "the entry takes %llu bytes, the limit of %s is %llu",
                      (unsigned long long)alone, s->dir, (unsigned long long)s->max_bytes);
}

/* ---- writing ---- */

static int write_block(put *p, sk_disk_block *b, skippy_block_source source, void *ud, sk_err *err) {
    skippy_disk_store *s = p->s;
    const void *data = NULL;
    skippy_block_ref found;
    uint64_t offset;
    int status = source(ud, &b->ref, &data);
    if (status != SKIPPY_OK) return sk_err_set(err, status, "a block of the entry was not supplied");
    uint64_t start = sk_io_mono_ns(&s->io);
    status = skippy_block_digest(data, b->ref.bytes, &found);
    uint64_t hash_ns = sk_io_mono_ns(&s->io) - start;
    if (status != SKIPPY_OK || !skippy_key_equal(&found.digest, &b->ref.digest))
        return sk_err_set(err, SKIPPY_E_CORRUPT, "a block that was supplied does not match its digest");
    status = sk_segment_ready(s, b->ref.bytes, err);
    if (status == SKIPPY_OK) status = sk_segment_append(s, &b->ref, data, &offset, err);
    if (status != SKIPPY_OK) return status;
    pthread_mutex_lock(&s->mu);
    sk_index_block_place(&s->ix, b, s->active, offset);
    s->counters.hash_ns += hash_ns;
    pthread_mutex_unlock(&s->mu);
    return SKIPPY_OK;
}

static int write_missing(put *p, skippy_block_source source, void *ud, sk_err *err) {
    int status = SKIPPY_OK;
    for (size_t i = 0; status == SKIPPY_OK && i < p->e->n_blocks; i++)
        if (!p->e->blocks[i]->segment) status = write_block(p, p->e->blocks[i], source, ud, err);
    return status == SKIPPY_OK ? sk_segment_sync(p->s, err) : status;
}

static void make_visible(put *p) {
    skippy_disk_store *s = p->s;
    pthread_mutex_lock(&s->mu);
    sk_index_entry_add(&s->ix, p->e);
    let_go(p);
    p->e->tick = ++s->tick;
    s->counters.puts++;
    s->counters.put_bytes += p->new_total;
    pthread_mutex_unlock(&s->mu);
    s->retry_at_ns = 0;
}

/* Nothing of the entry stays: the holds end first, so that the segments know that the bytes are dead. */
static void abandon(put *p, const sk_append_mark *mark) {
    pthread_mutex_lock(&p->s->mu);
    let_go(p);
    pthread_mutex_unlock(&p->s->mu);
    if (mark) sk_segment_undo(p->s, mark);
    sk_disk_entry_free(&p->s->alloc, p->e);
}

static int store(put *p, skippy_block_source source, void *ud, sk_err *err) {
    skippy_disk_store *s = p->s;
    int status = gather(p);
    if (status == SKIPPY_OK) status = check_alone(p, err);
    if (status == SKIPPY_OK) status = sk_evict_for(s, p->new_bytes + overhead(s, p, p->new_bytes), err);
    if (status != SKIPPY_OK) {
        abandon(p, NULL);
        return status;
    }
    sk_append_mark mark = sk_segment_mark(s);
    status = write_missing(p, source, ud, err);
    if (status == SKIPPY_OK) status = sk_log_put(s, p->e, err);
    if (status == SKIPPY_OK)
        make_visible(p);
    else
        abandon(p, &mark);
    return status;
}

/* ---- the call ---- */

/* An entry of this prefix is there: it was used now. */
static bool refresh(skippy_disk_store *s, const skippy_manifest *m, uint64_t *id) {
    uint64_t now = sk_io_wall_ms(&s->io);
    pthread_mutex_lock(&s->mu);
    sk_disk_entry *e = sk_index_entry_same(&s->ix, m);
    if (e) {
        *id = e->id;
        e->tick = ++s->tick;
        e->used_ms = now;
        e->dirty = true;
    }
    pthread_mutex_unlock(&s->mu);
    return e != NULL;
}

static int new_entry(put *p, const skippy_manifest *m, uint64_t logical, sk_err *err) {
    skippy_disk_store *s = p->s;
    p->e = sk_disk_entry_new(&s->alloc, m);
    if (!p->e) return SKIPPY_E_NOMEM;
    p->e->logical_bytes = logical;
    p->e->record_bytes = sk_record_put_bytes(&p->e->m, p->e->n_blocks);
    if (p->e->record_bytes == UINT64_MAX) {
        sk_disk_entry_free(&s->alloc, p->e);
        return sk_err_set(err, SKIPPY_E_TOO_LARGE, "the entry's manifest is longer than a journal record can be");
    }
    pthread_mutex_lock(&s->mu);
    p->e->id = s->ix.next_id++;
    pthread_mutex_unlock(&s->mu);
    return SKIPPY_OK;
}

static int put_locked(skippy_disk_store *s, const skippy_manifest *m, skippy_block_source source, void *ud,
                      uint64_t *id, sk_err *err) {
    put p = {.s = s};
    uint64_t logical;
    int status = skippy_manifest_check(m, &logical);
    if (status != SKIPPY_OK) return sk_err_set(err, status, "the manifest is not valid");
    if (refresh(s, m, id)) return SKIPPY_E_EXISTS;
    if (s->retry_at_ns && sk_io_mono_ns(&s->io) < s->retry_at_ns)
        return sk_err_set(err, SKIPPY_E_IO, "writing to %s/%s failed a moment ago; puts are refused for a while",
                          s->dir, s->name);
    status = sk_log_drops(s, false, err); /* now, so that the sizes below are what they will be */
    if (status == SKIPPY_OK) status = new_entry(&p, m, logical, err);
    if (status != SKIPPY_OK) return status;
    uint64_t new_id = p.e->id;
    status = store(&p, source, ud, err);
    if (status == SKIPPY_OK) *id = new_id;
    return status;
}

static void count_refusal(skippy_disk_store *s, int status) {
    pthread_mutex_lock(&s->mu);
    if (status == SKIPPY_E_TOO_LARGE) s->counters.refused_too_large++;
    if (status == SKIPPY_E_FULL) s->counters.refused_full++;
    if (status == SKIPPY_E_IO) s->counters.refused_io++;
    pthread_mutex_unlock(&s->mu);
}

int skippy_disk_put(skippy_disk_store *s, const skippy_manifest *m, skippy_block_source source, void *ud, uint64_t *id,
                    skippy_disk_detail *detail) {
    sk_err err = {0};
    if (!s || !m || !source || !id) return SKIPPY_E_INVALID;
    if (s->readonly) return sk_disk_readonly(s, detail);
    sk_writer_begin(s);
    int status = put_locked(s, m, source, ud, id, &err);
    count_refusal(s, status);
    sk_writer_end(s);
    sk_disk_detail_set(detail, status, &err);
    return status;
}
