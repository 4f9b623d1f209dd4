/* The fetch thread: reads stored entries into memory and verifies every block, so that only bytes that are proven
 * are imported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "reuse/tiers_internal.h"

static int lease(sk_tiers *t, uint8_t tier, uint64_t id, const skippy_manifest **m) {
    if (tier == SKIPPY_TIER_RAM) return t->ram ? skippy_ram_lease(t->ram, id, m) : SKIPPY_E_NOT_FOUND;
    return t->disk ? skippy_disk_lease(t->disk, id, m) : SKIPPY_E_NOT_FOUND;
}

static void release(sk_tiers *t, uint8_t tier, uint64_t id) {
    if (tier == SKIPPY_TIER_RAM)
        skippy_ram_release(t->ram, id);
    else
        skippy_disk_release(t->disk, id);
}

static int read_block(sk_tiers *t, uint8_t tier, const skippy_block_ref *b, void *buf) {
    return tier == SKIPPY_TIER_RAM ? skippy_ram_read(t->ram, b, buf) : skippy_disk_read(t->disk, b, buf);
}

static int read_part(sk_tiers *t, uint8_t tier, const skippy_part *part, uint8_t **data, size_t *len) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < part->n_blocks; i++) total += part->blocks[i].bytes;
    uint8_t *buf = malloc(total ? total : 1);
    if (!buf) return SKIPPY_E_NOMEM;
    for (size_t i = 0; i < part->n_blocks; i++) {
        int rc = read_block(t, tier, &part->blocks[i], buf + at);
        if (rc) {
            free(buf);
            return rc;
        }
        at += part->blocks[i].bytes;
    }
    *data = buf;
    *len = total;
    return SKIPPY_OK;
}

/* Is this the entry that the index promised? The index compared the tokens; they are compared again with what the store
 * really holds. */
static bool is_promised(const sk_fetch *f, const skippy_manifest *m) {
    return skippy_key_equal(&m->ns, &f->ns) && skippy_key_equal(&m->layout, &f->layout) && m->n_tokens >= f->length &&
           memcmp(m->tokens, f->tokens, f->length * sizeof *f->tokens) == 0;
}

static bool is_needed(const sk_fetch *f, const skippy_part *part) {
    return part->kind == SKIPPY_PART_KV ? part->from < f->length : true;
}

static int note_window(sk_fetch *f, size_t i, const skippy_part *part) {
    if (part->kind != SKIPPY_PART_KV || part->from % SK_WINDOW_TOKENS || part->to - part->from != SK_WINDOW_TOKENS ||
        part->to > f->length)
        return SKIPPY_OK;
    f->windows[i] = sk_window_new();
    if (!f->windows[i]) return SKIPPY_E_NOMEM;
    sk_window_set_blocks(f->windows[i], part->blocks, part->n_blocks);
    return SKIPPY_OK;
}

static int read_state(sk_tiers *t, sk_fetch *f, const skippy_manifest *m) {
    f->stored_tokens = m->n_tokens;
    f->parts = calloc(m->n_parts, sizeof *f->parts);
    f->windows = calloc(m->n_parts, sizeof(sk_window *));
    if (!f->parts || !f->windows) return SKIPPY_E_NOMEM;
    for (size_t i = 0; i < m->n_parts && !atomic_load(&f->abandoned); i++) {
        const skippy_part *part = &m->parts[i];
        if (!is_needed(f, part)) continue;
        uint8_t *data = NULL;
        size_t len = 0;
        int rc = read_part(t, f->tier, part, &data, &len);
        if (rc) return rc;
        f->parts[f->n_parts] = (sk_state_part){
            .kind = part->kind, .from = (uint32_t)part->from, .to = (uint32_t)part->to, .data = data, .len = len};
        f->bytes += len;
        rc = note_window(f, f->n_parts++, part);
        if (rc) return rc;
    }
    return SKIPPY_OK;
}

static int read_logits(sk_tiers *t, sk_fetch *f, const skippy_manifest *m) {
    if (m->n_parts != 1 || m->parts[0].kind != SKIPPY_PART_LOGITS || m->n_tokens != f->length) return SKIPPY_E_CORRUPT;
    uint8_t *data = NULL;
    size_t len = 0;
    int rc = read_part(t, f->tier, &m->parts[0], &data, &len);
    if (rc) return rc;
    f->logits = (float *)(void *)data; /* malloc'ed, so aligned for any type */
    f->n_logits = len / sizeof(float);
    f->bytes += len;
    return SKIPPY_OK;
}

static int read_entry(sk_tiers *t, sk_fetch *f, uint64_t id,
                      int (*read)(sk_tiers *t, sk_fetch *f, const skippy_manifest *m)) {
    const skippy_manifest *m = NULL;
    int rc = lease(t, f->tier, id, &m);
    if (rc) return rc;
    rc = is_promised(f, m) ? read(t, f, m) : SKIPPY_E_NOT_FOUND;
    release(t, f->tier, id);
    return rc;
}

/* Pretends to be a slow disk, for tests of the restore-or-recompute choice. */
static void throttle(const sk_tiers *t, const sk_fetch *f) {
    if (!t->throttle || f->tier != SKIPPY_TIER_DISK) return;
    uint64_t ns = (uint64_t)((double)f->bytes / (double)t->throttle * 1e9);
    const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&pause, NULL);
}

static void do_fetch(sk_tiers *t, sk_fetch *f) {
    uint64_t start = sk_now_ns();
    f->rc = read_entry(t, f, f->state_id, read_state);
    /* without its logits the state is worth as much as any other prefix */
    if (f->rc == SKIPPY_OK && f->terminal_id) (void)read_entry(t, f, f->terminal_id, read_logits);
    throttle(t, f);
    f->ms = (double)(sk_now_ns() - start) / 1e6;
    if (f->rc) snprintf(f->why, sizeof f->why, "%s", skippy_strerror(f->rc));
    pthread_mutex_lock(&t->lock);
    t->fetches++;
    t->fetch_failures += f->rc != SKIPPY_OK;
    t->fetch_bytes += f->bytes;
    pthread_mutex_unlock(&t->lock);
    sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_FETCHED, .fetch = f});
}

void *sk_tiers_fetch_main(void *arg) {
    sk_tiers *t = arg;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        while (!t->fetch_first && !t->stop_fetch) pthread_cond_wait(&t->work, &t->lock);
        sk_fetch *f = t->stop_fetch ? NULL : t->fetch_first;
        if (f) {
            t->fetch_first = f->next;
            if (!t->fetch_first) t->fetch_last = NULL;
            f->next = NULL;
        }
        pthread_mutex_unlock(&t->lock);
        if (!f) return NULL;
        do_fetch(t, f);
    }
}
