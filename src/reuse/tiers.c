#include "reuse/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "reuse/tiers_internal.h"

sk_put *sk_put_new(const sk_prefix *prefix, size_t n_parts) {
    sk_put *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->parts = calloc(n_parts ? n_parts : 1, sizeof *p->parts);
    if (!p->parts || sk_prefix_copy(&p->prefix, prefix) != SKIPPY_OK) {
        sk_put_free(p);
        return NULL;
    }
    p->m = sk_prefix_manifest(&p->prefix);
    return p;
}

void sk_put_free(sk_put *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n_parts; i++) {
        sk_window_release(p->parts[i].window);
        sk_blob_free(&p->parts[i].blob);
    }
    free(p->parts);
    sk_prefix_free(&p->prefix);
    free(p);
}

void sk_fetch_free(sk_fetch *f) {
    if (!f) return;
    for (size_t i = 0; i < f->n_parts; i++) {
        free((void *)f->parts[i].data);
        if (f->windows) sk_window_release(f->windows[i]);
    }
    free(f->parts);
    free(f->windows);
    free(f->logits);
    free(f->tokens);
    free(f);
}

void sk_tier_event_free(sk_tier_event *e) {
    sk_put_free(e->put);
    sk_fetch_free(e->fetch);
    free(e);
}

void sk_command_free(sk_command *c) {
    sk_put_free(c->put);
    sk_prefix_free(&c->named);
    free(c);
}

/* ---- events ---- */

void sk_tiers_emit(sk_tiers *t, sk_tier_event e) {
    sk_tier_event *copy = malloc(sizeof *copy);
    if (!copy) {
        sk_log(SK_LOG_WARN, "out of memory: a report of the cache's stores is lost; an entry may not be found");
        sk_put_free(e.put);
        sk_fetch_free(e.fetch);
        return;
    }
    *copy = e;
    copy->next = NULL;
    pthread_mutex_lock(&t->lock);
    if (t->event_last)
        t->event_last->next = copy;
    else
        t->event_first = copy;
    t->event_last = copy;
    t->n_found += e.type == SK_TIER_FOUND;
    pthread_mutex_unlock(&t->lock);
    t->wake(t->ud);
}

sk_tier_event *sk_tiers_events(sk_tiers *t) {
    pthread_mutex_lock(&t->lock);
    sk_tier_event *first = t->event_first;
    t->event_first = t->event_last = NULL;
    t->n_found = 0;
    pthread_cond_broadcast(&t->drained);
    pthread_mutex_unlock(&t->lock);
    return first;
}

void sk_tiers_ram_dropped(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    (void)reason;
    sk_tiers_emit(ud, (sk_tier_event){.type = SK_TIER_DROPPED, .tier = SKIPPY_TIER_RAM, .id = id});
}

void sk_tiers_disk_dropped(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    (void)reason;
    sk_tiers_emit(ud, (sk_tier_event){.type = SK_TIER_DROPPED, .tier = SKIPPY_TIER_DISK, .id = id});
}

/* ---- commands ---- */

static void append(sk_tiers *t, sk_command *c) {
    pthread_mutex_lock(&t->lock);
    if (c->put) t->staged += c->put->staged;
    if (t->last)
        t->last->next = c;
    else
        t->first = c;
    t->last = c;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

bool sk_tiers_accepts(sk_tiers *t, uint64_t bytes) {
    pthread_mutex_lock(&t->lock);
    bool ok = t->staged == 0 || (t->staged < t->staging_max && bytes <= t->staging_max - t->staged);
    pthread_mutex_unlock(&t->lock);
    return ok;
}

unsigned sk_tiers_mask(sk_tiers *t) {
    pthread_mutex_lock(&t->lock);
    unsigned mask = (t->ram ? 1u << SKIPPY_TIER_RAM : 0) | (t->disk_wanted ? 1u << SKIPPY_TIER_DISK : 0);
    pthread_mutex_unlock(&t->lock);
    return mask;
}

void sk_tiers_put(sk_tiers *t, sk_put *p) {
    sk_command *c = calloc(1, sizeof *c);
    if (!c) {
        for (int k = 0; k < SKIPPY_TIER_COUNT; k++) p->rc[k] = SKIPPY_E_NOMEM;
        sk_tiers_emit(t, (sk_tier_event){.type = SK_TIER_PUT, .put = p});
        return;
    }
    c->type = SK_COMMAND_PUT;
    c->put = p;
    append(t, c);
}

int sk_tiers_drop(sk_tiers *t, uint8_t tier, uint64_t id, enum skippy_drop_reason reason) {
    sk_command *c = calloc(1, sizeof *c);
    if (!c) return SKIPPY_E_NOMEM;
    *c = (sk_command){.type = SK_COMMAND_DROP, .tier = tier, .id = id, .reason = reason};
    append(t, c);
    return SKIPPY_OK;
}

int sk_tiers_erase(sk_tiers *t, const skippy_erase_filter *f) {
    sk_command *c = calloc(1, sizeof *c);
    if (!c) return SKIPPY_E_NOMEM;
    const sk_prefix named = {.ns = f->ns ? *f->ns : (skippy_key){{0}},
                             .tokens = f->tokens,
                             .n_tokens = f->n_tokens,
                             .tenant = f->tenant,
                             .cache_namespace = f->cache_namespace};
    if (sk_prefix_copy(&c->named, &named) != SKIPPY_OK) { /* a filter that lost a field would erase too much */
        sk_command_free(c);
        return SKIPPY_E_NOMEM;
    }
    c->type = SK_COMMAND_ERASE;
    c->filter = (skippy_erase_filter){.ns = f->ns ? &c->named.ns : NULL,
                                      .tokens = c->named.tokens,
                                      .n_tokens = c->named.n_tokens,
                                      .tenant = c->named.tenant,
                                      .cache_namespace = c->named.cache_namespace};
    append(t, c);
    return SKIPPY_OK;
}

void sk_tiers_fetch(sk_tiers *t, sk_fetch *f) {
    f->next = NULL;
    pthread_mutex_lock(&t->lock);
    if (t->fetch_last)
        t->fetch_last->next = f;
    else
        t->fetch_first = f;
    t->fetch_last = f;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

void sk_tiers_get_stats(sk_tiers *t, sk_tier_stats *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&t->lock);
    out->ram_on = t->ram != NULL;
    out->disk_on = t->disk_wanted;
    skippy_disk_store *disk = t->disk;
    out->disk_ready = disk != NULL;
    out->staging_bytes = t->staged;
    out->fetches = t->fetches;
    out->fetch_failures = t->fetch_failures;
    out->fetch_bytes = t->fetch_bytes;
    pthread_mutex_unlock(&t->lock);
    if (t->ram) skippy_ram_get_stats(t->ram, &out->ram);
    if (disk) skippy_disk_get_stats(disk, &out->disk);
}

/* ---- open and close ---- */

static int start_threads(sk_tiers *t) {
    if (pthread_create(&t->store_thread, NULL, sk_tiers_store_main, t) != 0) return SKIPPY_E_NOMEM;
    t->store_started = true;
    if (pthread_create(&t->fetch_thread, NULL, sk_tiers_fetch_main, t) != 0) return SKIPPY_E_NOMEM;
    t->fetch_started = true;
    return SKIPPY_OK;
}

int sk_tiers_open(const sk_tiers_params *p, sk_tiers **out, sk_err *e) {
    sk_tiers *t = calloc(1, sizeof *t);
    if (!t) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->drained, NULL);
    t->staging_max = p->staging_bytes;
    t->throttle = p->throttle_bytes;
    t->wake = p->wake;
    t->ud = p->ud;
    t->disk_bytes = p->disk_bytes;
    t->disk_wanted = p->disk_dir != NULL;
    int rc = SKIPPY_OK;
    if (p->disk_dir) {
        t->dir = strdup(p->disk_dir);
        t->name = strdup(p->store_name);
        if (!t->dir || !t->name) rc = SKIPPY_E_NOMEM;
    }
    if (rc == SKIPPY_OK && p->ram_bytes) {
        /* evictions come in rounds that make room for several puts: a round walks over all entries */
        const skippy_ram_params rp = {
            .max_bytes = p->ram_bytes, .soft_bytes = p->ram_bytes / 20 * 19, .on_drop = sk_tiers_ram_dropped, .ud = t};
        rc = skippy_ram_create(NULL, &rp, &t->ram);
    }
    if (rc == SKIPPY_OK) rc = start_threads(t);
    if (rc) {
        sk_tiers_close(t);
        return sk_err_set(e, rc, "the cache's stores could not be started: %s", skippy_strerror(rc));
    }
    *out = t;
    return SKIPPY_OK;
}

void sk_tiers_close(sk_tiers *t) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->stop = t->stop_fetch = t->aborting = true;
    pthread_cond_broadcast(&t->work);
    pthread_cond_broadcast(&t->drained);
    pthread_mutex_unlock(&t->lock);
    if (t->fetch_started) pthread_join(t->fetch_thread, NULL);
    if (t->store_started) pthread_join(t->store_thread, NULL);
    skippy_disk_close(t->disk);
    skippy_ram_destroy(t->ram);
    for (sk_tier_event *ev = t->event_first, *next; ev; ev = next) {
        next = ev->next;
        sk_tier_event_free(ev);
    }
    for (sk_command *c = t->first, *next; c; c = next) {
        next = c->next;
        sk_command_free(c);
    }
    for (sk_fetch *f = t->fetch_first, *next; f; f = next) {
        next = f->next;
        sk_fetch_free(f);
    }
    pthread_cond_destroy(&t->drained);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->dir);
    free(t->name);
    free(t);
}
