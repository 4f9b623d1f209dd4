/* Compaction: live blocks of a segment are appended to the active one, the journal says where they are now, then the
 * old file goes. A crash before the journal record leaves the old places valid and the copies as a tail that the next
 * open cuts off; a crash after it leaves a segment that nothing refers to, which the next open removes. */
#include <stdlib.h>
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/mem.h"

sk_segment *sk_compact_victim(skippy_disk_store *s) {
    sk_segment *worst = NULL;
    for (sk_segment *g = s->ix.segments; g; g = g->next)
        if (sk_segment_dead(g) && (!worst || sk_segment_dead(g) > sk_segment_dead(worst))) worst = g;
    return worst;
}

typedef struct compaction {
    skippy_disk_store *s;
    sk_segment *victim; /* pinned */
    sk_move *moves;     /* every block is held */
    size_t n;
} compaction;

static int by_offset(const void *a, const void *b) {
    uint64_t x = ((const sk_move *)a)->block->offset, y = ((const sk_move *)b)->block->offset;
    return x < y ? -1 : x > y;
}

static int collect(compaction *c, sk_err *err) {
    skippy_disk_store *s = c->s;
    size_t n = 0;
    pthread_mutex_lock(&s->mu);
    for (const sk_disk_block *b = c->victim->blocks; b; b = b->next) n++;
    c->moves = sk_mem_alloc(&s->alloc, (n + 1) * sizeof *c->moves);
    for (sk_disk_block *b = c->moves ? c->victim->blocks : NULL; b; b = b->next) {
        b->holds++;
        c->moves[c->n++].block = b;
    }
    pthread_mutex_unlock(&s->mu);
    if (!c->moves) return sk_err_set(err, SKIPPY_E_NOMEM, "no memory to compact a segment");
    qsort(c->moves, c->n, sizeof *c->moves, by_offset);
    return SKIPPY_OK;
}

/* A block that cannot be read takes its entries with it: they could not be served either, and one bad place must not
 * keep a segment's dead bytes for ever. */
static void give_up_block(compaction *c, sk_disk_block *b) {
    pthread_mutex_lock(&c->s->mu);
    if (!b->bad) (void)sk_disk_quarantine(c->s, b, &c->s->left);
    sk_index_block_unplace(&c->s->ix, b);
    pthread_mutex_unlock(&c->s->mu);
}

/* The block is held: nobody else changes its place. */
static int copy_block(compaction *c, sk_move *m, uint8_t *buf, sk_err *err) {
    skippy_disk_store *s = c->s;
    sk_disk_block *b = m->block;
    int errnum;
    uint64_t hash_ns;
    if (sk_segment_read(s, c->victim, b->offset, &b->ref, buf, &errnum, &hash_ns) != SKIPPY_OK) {
        give_up_block(c, b);
        return SKIPPY_OK;
    }
    int status = sk_segment_ready(s, b->ref.bytes, err);
    if (status == SKIPPY_OK) status = sk_segment_append(s, &b->ref, buf, &m->offset, err);
    if (status == SKIPPY_OK) m->to = s->active;
    return status;
}

static int copy_all(compaction *c, sk_err *err) {
    skippy_disk_store *s = c->s;
    uint8_t *buf = sk_disk_block_buffer(s);
    if (!buf) return sk_err_set(err, SKIPPY_E_NOMEM, "no memory to compact a segment");
    int status = SKIPPY_OK;
    for (size_t i = 0; status == SKIPPY_OK && i < c->n; i++) status = copy_block(c, &c->moves[i], buf, err);
    if (status == SKIPPY_OK) status = sk_segment_sync(s, err);
    return status == SKIPPY_OK ? sk_log_moves(s, c->moves, c->n, err) : status;
}

/* Takes the new places over when `moved`, and ends the holds. */
static void finish(compaction *c, bool moved) {
    skippy_disk_store *s = c->s;
    pthread_mutex_lock(&s->mu);
    for (size_t i = 0; i < c->n; i++) {
        sk_move *m = &c->moves[i];
        if (moved && m->to) sk_index_block_place(&s->ix, m->block, m->to, m->offset);
        sk_index_block_unhold(&s->ix, m->block);
    }
    pthread_mutex_unlock(&s->mu);
    sk_mem_release(&s->alloc, c->moves);
}

int sk_compact_segment(skippy_disk_store *s, sk_segment *victim, sk_err *err) {
    compaction c = {.s = s, .victim = victim};
    int status = SKIPPY_OK;
    if (victim == s->active) {
        status = sk_segment_sync(s, err);
        if (status != SKIPPY_OK) return status;
        sk_segment_close_active(s);
    }
    status = collect(&c, err);
    if (status != SKIPPY_OK) return status;
    pthread_mutex_lock(&s->mu);
    sk_segment_pin(s, victim);
    pthread_mutex_unlock(&s->mu);
    sk_append_mark mark = sk_segment_mark(s);
    status = copy_all(&c, err);
    finish(&c, status == SKIPPY_OK);
    if (status != SKIPPY_OK)
        sk_segment_undo(s, &mark);
    else
        status = sk_segment_remove(s, victim, err);
    sk_segment_unpin(s, victim);
    return status;
}

int sk_compact_all(skippy_disk_store *s, sk_err *err) {
    int status = sk_segment_remove_dead(s, err);
    while (status == SKIPPY_OK) {
        pthread_mutex_lock(&s->mu);
        sk_segment *victim = sk_compact_victim(s);
        pthread_mutex_unlock(&s->mu);
        if (!victim) break;
        status = sk_compact_segment(s, victim, err);
    }
    if (status == SKIPPY_OK) status = sk_log_checkpoint(s, err);
    if (status != SKIPPY_OK) return status;
    /* The removals themselves must survive a power cut. */
    int errnum = sk_io_sync_dir(&s->io, s->folder_fd);
    return errnum ? sk_disk_write_failed(s, err, "sync the folder of", NULL, errnum) : SKIPPY_OK;
}
