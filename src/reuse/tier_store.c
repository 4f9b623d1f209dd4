/* The store thread: hashes what was exported, writes it to the RAM and the disk store, tidies up when there is nothing
 * else to do. It is the disk store's one writer. */
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "reuse/tiers_internal.h"

#define TELL_AFTER_NS 2000000000u
#define TELL_FAILURE_NS 60000000000u
#define LARGEST_SEGMENT ((uint64_t)64 << 20)

enum { MAX_FOUND = 256, IDLE_MS = 1000 };

/* ---- opening ---- */

/* An entry found on disk, told to the owner. Waits while it has many to take. */
static bool found(void *ud, uint64_t id, const skippy_manifest *m) {
    sk_tiers *t = ud;
    pthread_mutex_lock(&t->lock);
    while (t->n_found >= MAX_FOUND && !t->aborting) pthread_cond_wait(&t->drained, &t->lock);
    bool go_on = !t->aborting;
    pthread_mutex_unlock(&t->lock);
    if (!go_on) return false;
    const sk_prefix prefix = {.ns = m->ns,
                              .tokens = m->tokens,
                              .n_tokens = m->n_tokens,
                              .tenant = m->tenant,
                              .cache_namespace = m->cache_namespace};
    sk_put *p = sk_put_new(&prefix, 0);
    if (!p) return true; /* the entry stays on disk and is not found this time */
    p->m.layout = m->layout;
    p->m.payload_kind = m->payload_kind;
    p->m.reach = m->reach;
    sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_FOUND, .tier = SKIPPY_TIER_DISK, .id = id, .put = p});
    return true;
}

/* A large store takes a while to read; the server answers meanwhile. */
typedef struct opening {
    sk_tiers *t;
    uint64_t start, told; /* ns */
    size_t entries;
} opening;

static bool opening_found(void *ud, uint64_t id, const skippy_manifest *m) {
    opening *o = ud;
    o->entries++;
    return found(o->t, id, m);
}

static bool opening_progress(void *ud, uint64_t done, uint64_t total) {
    opening *o = ud;
    uint64_t now = sk_now_ns();
    if (now - o->told < TELL_AFTER_NS) return true;
    o->told = now;
    sk_log(SK_LOG_INFO, "reading the disk cache: %d %%", total ? (int)(done * 100 / total) : 100);
    return true;
}

static void warn_of_damage(const sk_tiers *t, skippy_disk_store *disk) {
    skippy_store_stats s;
    skippy_disk_get_stats(disk, &s);
    if (s.dropped[SKIPPY_DROP_CORRUPT])
        sk_log(SK_LOG_WARN, "the disk cache in '%s' was damaged: %llu entries were dropped and will be computed again",
               t->dir, (unsigned long long)s.dropped[SKIPPY_DROP_CORRUPT]);
}

static void open_disk(sk_tiers *t) {
    /* the limit is exceeded by a segment at most while one is rewritten, so a small limit gets small segments */
    uint64_t eighth = t->disk_bytes / 8;
    const skippy_disk_params p = {.dir = t->dir,
                                  .name = t->name,
                                  .max_bytes = t->disk_bytes,
                                  .segment_bytes = t->disk_bytes && eighth < LARGEST_SEGMENT ? eighth : LARGEST_SEGMENT,
                                  .on_drop = sk_tiers_disk_dropped,
                                  .ud = t};
    skippy_disk_detail why = {{0}};
    skippy_disk_store *disk = NULL;
    opening o = {.t = t, .start = sk_now_ns()};
    o.told = o.start;
    int rc = skippy_disk_open(NULL, &p, opening_found, opening_progress, &o, &disk, &why);
    pthread_mutex_lock(&t->lock);
    t->disk = disk;
    t->disk_wanted = rc == SKIPPY_OK;
    pthread_mutex_unlock(&t->lock);
    if (rc && rc != SKIPPY_E_CANCELLED)
        sk_log(SK_LOG_WARN, "the disk cache in '%s' is not used: %s", t->dir,
               why.text[0] ? why.text : skippy_strerror(rc));
    if (rc == SKIPPY_OK && o.entries)
        sk_log(SK_LOG_INFO, "the disk cache has %zu prefixes and rows of logits (read in %.1f s)", o.entries,
               (double)(sk_now_ns() - o.start) / 1e9);
    if (rc == SKIPPY_OK) warn_of_damage(t, disk);
    sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_OPENED, .tier = SKIPPY_TIER_DISK, .rc = rc});
}

/* ---- one put ---- */

/* Where the bytes of a put's blocks are: in its own blobs, else in a store that holds them. */
typedef struct source {
    sk_tiers *t;
    const skippy_block_ref *ref; /* of all blocks, in order */
    const uint8_t **data;        /* their bytes; NULL: taken over, to be found in a store */
    size_t n, cursor;
    uint8_t *buffer; /* one block, read from a store */
} source;

static bool same_block(const skippy_block_ref *a, const skippy_block_ref *b) {
    return a->bytes == b->bytes && memcmp(a->digest.bytes, b->digest.bytes, sizeof a->digest.bytes) == 0;
}

/* Stores ask in the order of the manifest, so the search nearly always ends at once. */
static int give_block(void *ud, const skippy_block_ref *block, const void **data) {
    source *s = ud;
    for (size_t i = 0; i < s->n; i++) {
        size_t at = (s->cursor + i) % s->n;
        if (!s->data[at] || !same_block(&s->ref[at], block)) continue;
        s->cursor = at + 1;
        *data = s->data[at];
        return SKIPPY_OK;
    }
    if (!s->buffer) s->buffer = malloc(SKIPPY_BLOCK_MAX);
    if (!s->buffer) return SKIPPY_E_NOMEM;
    *data = s->buffer;
    int rc = s->t->ram ? skippy_ram_read(s->t->ram, block, s->buffer) : SKIPPY_E_NOT_FOUND;
    if (rc && s->t->disk) rc = skippy_disk_read(s->t->disk, block, s->buffer);
    return rc;
}

/* Everything that a put needs while it is stored. */
typedef struct work {
    skippy_part *parts;
    skippy_block_ref *refs; /* of all parts, one after the other */
    const uint8_t **data;
    source src;
} work;

static void work_free(work *w) {
    free(w->parts);
    free(w->refs);
    free(w->data);
    free(w->src.buffer);
}

static size_t most_blocks(const sk_put *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        const sk_put_part *part = &p->parts[i];
        n += part->blob.data ? part->blob.n_cuts + 1 + part->blob.len / SKIPPY_BLOCK_MAX : part->window->n_blocks;
    }
    return n;
}

/* Cuts and hashes one fresh part; its references begin at refs, their bytes are noted for the source. */
static int hash_part(sk_put_part *part, work *w, skippy_block_ref *refs, size_t room, size_t *n) {
    int rc = skippy_blocks_cut(part->blob.data, part->blob.len, part->blob.cuts, part->blob.n_cuts, refs, room, n);
    if (rc) return rc;
    size_t offset = 0;
    for (size_t i = 0; i < *n; i++) {
        w->data[(size_t)(refs - w->refs) + i] = part->blob.data + offset;
        offset += refs[i].bytes;
    }
    if (part->window) sk_window_set_blocks(part->window, refs, *n);
    return SKIPPY_OK;
}

/* Fills the manifest's parts. SKIPPY_E_NOT_FOUND: a window that this entry takes over was never stored. */
static int describe(sk_put *p, work *w) {
    size_t cap = most_blocks(p), at = 0;
    w->parts = calloc(p->n_parts, sizeof *w->parts);
    w->refs = calloc(cap ? cap : 1, sizeof *w->refs);
    w->data = calloc(cap ? cap : 1, sizeof *w->data);
    if (!w->parts || !w->refs || !w->data) return SKIPPY_E_NOMEM;
    for (size_t i = 0; i < p->n_parts; i++) {
        sk_put_part *part = &p->parts[i];
        size_t n = 0;
        if (part->blob.data) {
            int rc = hash_part(part, w, w->refs + at, cap - at, &n);
            if (rc) return rc;
        } else {
            if (sk_window_get_state(part->window) != SK_WINDOW_STORED) return SKIPPY_E_NOT_FOUND;
            n = part->window->n_blocks;
            memcpy(w->refs + at, part->window->blocks, n * sizeof *w->refs);
        }
        w->parts[i] = (skippy_part){
            .kind = part->kind, .from = part->from, .to = part->to, .blocks = w->refs + at, .n_blocks = n};
        at += n;
    }
    p->m.parts = w->parts;
    p->m.n_parts = p->n_parts;
    w->src.ref = w->refs;
    w->src.data = w->data;
    w->src.n = at;
    return SKIPPY_OK;
}

/* Once for each failure: the store refuses puts for a while after it. */
static void tell_failure(sk_tiers *t, const skippy_disk_detail *why) {
    uint64_t now = sk_now_ns();
    if (t->failure_told && now - t->failure_told < TELL_FAILURE_NS) return;
    t->failure_told = now;
    sk_log(SK_LOG_WARN, "the disk cache could not be written: %s", why->text);
}

static int store_in(sk_tiers *t, sk_put *p, work *w, uint8_t tier) {
    w->src.cursor = 0;
    if (tier == SKIPPY_TIER_RAM)
        return t->ram ? skippy_ram_put(t->ram, &p->m, give_block, &w->src, &p->id[tier]) : SKIPPY_E_UNSUPPORTED;
    if (!t->disk) return SKIPPY_E_UNSUPPORTED;
    skippy_disk_detail why = {{0}};
    int rc = skippy_disk_put(t->disk, &p->m, give_block, &w->src, &p->id[tier], &why);
    if (rc == SKIPPY_E_IO) tell_failure(t, &why);
    return rc;
}

static void do_put(sk_tiers *t, sk_put *p) {
    work w = {.src = {.t = t}};
    int rc = describe(p, &w);
    for (unsigned tier = 0; tier < SKIPPY_TIER_COUNT; tier++) {
        bool wanted = (p->tiers & 1u << tier) != 0;
        p->rc[tier] = !wanted ? SKIPPY_E_UNSUPPORTED : rc ? rc : store_in(t, p, &w, (uint8_t)tier);
    }
    for (size_t i = 0; i < p->n_parts; i++) {
        sk_put_part *part = &p->parts[i];
        if (rc && part->blob.data && part->window) sk_window_fail(part->window);
        sk_blob_free(&part->blob);
        part->blob = (sk_blob){0};
    }
    p->m.parts = NULL;
    p->m.n_parts = 0;
    work_free(&w);
    pthread_mutex_lock(&t->lock);
    t->staged -= p->staged;
    pthread_mutex_unlock(&t->lock);
    sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_PUT, .put = p});
}

/* ---- the other commands ---- */

static void do_drop(sk_tiers *t, const sk_command *c) {
    if (c->tier == SKIPPY_TIER_RAM && t->ram) skippy_ram_drop(t->ram, c->id, c->reason);
    if (c->tier == SKIPPY_TIER_DISK && t->disk) skippy_disk_drop(t->disk, c->id, c->reason);
}

static void do_erase(sk_tiers *t, const sk_command *c) {
    size_t n = t->ram ? skippy_ram_erase(t->ram, &c->filter) : 0, on_disk = 0;
    skippy_disk_detail why = {{0}};
    int rc = t->disk ? skippy_disk_erase(t->disk, &c->filter, &on_disk, &why) : SKIPPY_OK;
    if (rc) sk_log(SK_LOG_WARN, "erasing from the disk cache failed: %s", why.text[0] ? why.text : skippy_strerror(rc));
    sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_ERASED, .count = n + on_disk, .rc = rc});
}

static void run(sk_tiers *t, sk_command *c) {
    switch (c->type) {
    case SK_COMMAND_PUT:
        do_put(t, c->put); /* the event's now */
        c->put = NULL;
        break;
    case SK_COMMAND_DROP: do_drop(t, c); break;
    case SK_COMMAND_ERASE: do_erase(t, c); break;
    }
    sk_command_free(c);
}

/* The next command; NULL when the thread should end, or (*tidy) when it has had nothing to do for a while. */
static sk_command *next_command(sk_tiers *t, bool may_tidy, bool *tidy) {
    pthread_mutex_lock(&t->lock);
    bool waited = false;
    while (!t->first && !t->stop && !(may_tidy && waited)) {
        const struct timespec until = sk_wall_after_ms(IDLE_MS);
        if (may_tidy)
            pthread_cond_timedwait(&t->work, &t->lock, &until);
        else
            pthread_cond_wait(&t->work, &t->lock);
        waited = true;
    }
    sk_command *c = t->first;
    if (c) {
        t->first = c->next;
        if (!t->first) t->last = NULL;
        c->next = NULL;
    }
    *tidy = !c && !t->stop;
    pthread_mutex_unlock(&t->lock);
    return c;
}

/* llama.cpp's threads wait for each other in loops: one that loses its core to this thread stops all of them. Storing
 * can wait; what does not fit the staging meanwhile is not stored. */
static void stand_back(void) {
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19); /* Linux: of this thread alone */
}

void *sk_tiers_store_main(void *arg) {
    sk_tiers *t = arg;
    stand_back();
    if (t->disk_wanted) open_disk(t);
    bool more = t->disk != NULL, tidy = false;
    for (sk_command *c; (c = next_command(t, more, &tidy)) != NULL || tidy;) {
        if (c) {
            run(t, c);
            more = t->disk != NULL;
        } else if (skippy_disk_compact(t->disk, &more, NULL) != SKIPPY_OK) {
            more = false; /* the next command tries again */
        }
    }
    return NULL;
}
