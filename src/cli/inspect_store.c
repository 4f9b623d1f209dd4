#include "cli/inspect_store.h"

#include <stdlib.h>
#include <string.h>

/* ---- collecting ---- */

/* Room for `more` further elements; *array and *cap are replaced. */
static bool reserve(void **array, size_t *cap, size_t n, size_t more, size_t element) {
    if (more <= *cap - n) return true;
    size_t next = *cap ? *cap : 64;
    while (next - n < more) {
        if (next > SIZE_MAX / 2 / element) return false;
        next *= 2;
    }
    void *bigger = realloc(*array, next * element);
    if (!bigger) return false;
    *array = bigger;
    *cap = next;
    return true;
}

static bool reserve_entry(inspect_store *s) {
    void *p = s->entries;
    bool ok = reserve(&p, &s->cap_entries, s->n_entries, 1, sizeof *s->entries);
    s->entries = p;
    return ok;
}

static bool reserve_refs(inspect_store *s, size_t more) {
    void *p = s->ref;
    bool ok = reserve(&p, &s->cap_ref, s->n_ref, more, sizeof *s->ref);
    s->ref = p;
    return ok;
}

/* NULL stays NULL; *ok becomes false when there is no memory. */
static char *copy_name(const char *name, bool *ok) {
    char *copy = name ? strdup(name) : NULL;
    if (name && !copy) *ok = false;
    return copy;
}

static void free_names(inspect_entry *e) {
    free(e->tenant);
    free(e->cache_namespace);
}

/* A skippy_disk_found: the view is valid during the call only, so what is shown later is copied. */
static bool collect(void *ud, uint64_t id, const skippy_manifest *m) {
    inspect_store *s = ud;
    inspect_entry e = {.id = id, .m = *m, .first = s->n_ref};
    bool ok = true;
    for (size_t i = 0; i < m->n_parts; i++) {
        const skippy_part *part = &m->parts[i];
        if (!reserve_refs(s, part->n_blocks)) return false;
        for (size_t k = 0; k < part->n_blocks; k++) {
            s->ref[s->n_ref++] = part->blocks[k];
            e.logical_bytes += part->blocks[k].bytes;
        }
        e.n_blocks += part->n_blocks;
    }
    e.m.tokens = NULL;
    e.m.parts = NULL;
    e.m.tenant = e.tenant = copy_name(m->tenant, &ok);
    e.m.cache_namespace = e.cache_namespace = copy_name(m->cache_namespace, &ok);
    if (!ok || !reserve_entry(s)) {
        free_names(&e);
        return false;
    }
    s->entries[s->n_entries++] = e;
    s->tokens += m->n_tokens;
    return true;
}

/* ---- blocks ---- */

typedef struct use {
    skippy_block_ref ref;
    size_t entry;
} use;

static int by_digest(const void *a, const void *b) {
    const inspect_block *x = a, *y = b;
    return memcmp(x->ref.digest.bytes, y->ref.digest.bytes, sizeof x->ref.digest.bytes);
}

static int by_digest_and_entry(const void *a, const void *b) {
    const use *x = a, *y = b;
    const int order = memcmp(x->ref.digest.bytes, y->ref.digest.bytes, sizeof x->ref.digest.bytes);
    return order ? order : (x->entry > y->entry) - (x->entry < y->entry);
}

/* One run of equal digests becomes one block. */
static void add_block(inspect_store *s, const use *run, size_t n) {
    inspect_block b = {.ref = run[0].ref};
    for (size_t i = 0; i < n; i++) b.owners += i == 0 || run[i].entry != run[i - 1].entry;
    if (b.owners == 1) s->entries[run[0].entry].own_bytes += b.ref.bytes;
    s->block_bytes += b.ref.bytes;
    s->blocks[s->n_blocks++] = b;
}

static int tally_blocks(inspect_store *s) {
    use *uses = calloc(s->n_ref + 1, sizeof *uses);
    s->blocks = calloc(s->n_ref + 1, sizeof *s->blocks);
    if (!uses || !s->blocks) {
        free(uses);
        return SKIPPY_E_NOMEM;
    }
    for (size_t i = 0; i < s->n_entries; i++)
        for (size_t k = 0; k < s->entries[i].n_blocks; k++)
            uses[s->entries[i].first + k] = (use){s->ref[s->entries[i].first + k], i};
    qsort(uses, s->n_ref, sizeof *uses, by_digest_and_entry);
    for (size_t i = 0, end; i < s->n_ref; i = end) {
        end = i + 1;
        while (end < s->n_ref && skippy_key_equal(&uses[end].ref.digest, &uses[i].ref.digest)) end++;
        add_block(s, uses + i, end - i);
    }
    free(uses);
    return SKIPPY_OK;
}

inspect_block *inspect_store_block(const inspect_store *s, const skippy_block_ref *ref) {
    const inspect_block key = {.ref = *ref};
    return s->n_blocks ? bsearch(&key, s->blocks, s->n_blocks, sizeof key, by_digest) : NULL;
}

/* ---- open and close ---- */

static int by_last_use(const void *a, const void *b) {
    const inspect_entry *x = a, *y = b;
    if (x->m.used_ms != y->m.used_ms) return x->m.used_ms < y->m.used_ms ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

int inspect_store_open(inspect_store *s, const char *dir, const char *name, sk_err *e) {
    skippy_disk_detail detail = {{0}};
    *s = (inspect_store){.dir = dir, .name = name};
    int rc = skippy_disk_open_readonly(NULL, dir, name, collect, s, &s->disk, &detail);
    if (rc == SKIPPY_E_CANCELLED) rc = SKIPPY_E_NOMEM; /* collect stops for nothing else */
    if (rc == SKIPPY_OK) {
        if (s->n_entries) qsort(s->entries, s->n_entries, sizeof *s->entries, by_last_use);
        skippy_disk_get_stats(s->disk, &s->stats);
        rc = tally_blocks(s);
    }
    if (rc != SKIPPY_OK) {
        sk_err_set(e, rc, "store '%s': %s", name, detail.text[0] ? detail.text : skippy_strerror(rc));
        inspect_store_close(s);
    }
    return rc;
}

void inspect_store_close(inspect_store *s) {
    for (size_t i = 0; i < s->n_entries; i++) free_names(&s->entries[i]);
    skippy_disk_close(s->disk);
    free(s->entries);
    free(s->ref);
    free(s->blocks);
    *s = (inspect_store){0};
}

inspect_entry *inspect_store_find(const inspect_store *s, uint64_t id) {
    for (size_t i = 0; i < s->n_entries; i++)
        if (s->entries[i].id == id) return &s->entries[i];
    return NULL;
}

/* ---- verification ---- */

/* Which blocks are to be read. */
static void choose(inspect_store *s, const inspect_entry *only) {
    for (size_t i = 0; i < s->n_blocks; i++) {
        s->blocks[i].checked = !only;
        s->blocks[i].status = SKIPPY_OK;
    }
    for (size_t k = 0; only && k < only->n_blocks; k++)
        inspect_store_block(s, &s->ref[only->first + k])->checked = true;
}

static uint64_t chosen_bytes(const inspect_store *s) {
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_blocks; i++) sum += s->blocks[i].checked ? s->blocks[i].ref.bytes : 0;
    return sum;
}

static int read_chosen(inspect_store *s, void *buf, skippy_progress_fn progress, void *ud) {
    const uint64_t total = chosen_bytes(s);
    uint64_t done = 0;
    for (size_t i = 0; i < s->n_blocks; i++) {
        inspect_block *b = &s->blocks[i];
        if (!b->checked) continue;
        b->status = skippy_disk_read(s->disk, &b->ref, buf);
        if (b->status == SKIPPY_E_NOMEM) return b->status;
        done += b->ref.bytes;
        if (progress && !progress(ud, done, total)) return SKIPPY_E_CANCELLED;
    }
    return SKIPPY_OK;
}

static bool any_bad(const inspect_store *s) {
    for (size_t i = 0; i < s->n_blocks; i++)
        if (s->blocks[i].checked && s->blocks[i].status != SKIPPY_OK) return true;
    return false;
}

static bool accept_all(void *ud, uint64_t id, const skippy_manifest *m) {
    (void)ud, (void)id, (void)m;
    return true;
}

/* The owner may have moved a block to another file, or dropped its entries, since the store was opened here. */
static int look_again(inspect_store *s, void *buf) {
    skippy_disk_store *fresh = NULL;
    int rc = skippy_disk_open_readonly(NULL, s->dir, s->name, accept_all, NULL, &fresh, NULL);
    if (rc != SKIPPY_OK) return rc;
    for (size_t i = 0; i < s->n_blocks; i++) {
        inspect_block *b = &s->blocks[i];
        if (!b->checked || b->status == SKIPPY_OK) continue;
        b->status = skippy_disk_read(fresh, &b->ref, buf);
        if (b->status == SKIPPY_E_NOT_FOUND) {
            b->status = SKIPPY_OK;
            b->checked = false;
        }
    }
    skippy_disk_close(fresh);
    return SKIPPY_OK;
}

static void count_bad(inspect_store *s) {
    s->bad_blocks = s->bad_entries = 0;
    for (size_t i = 0; i < s->n_blocks; i++) s->bad_blocks += s->blocks[i].status != SKIPPY_OK;
    for (size_t i = 0; i < s->n_entries; i++) {
        inspect_entry *e = &s->entries[i];
        e->bad_blocks = 0;
        for (size_t k = 0; k < e->n_blocks; k++)
            e->bad_blocks += inspect_store_block(s, &s->ref[e->first + k])->status != SKIPPY_OK;
        s->bad_entries += e->bad_blocks > 0;
    }
}

int inspect_store_verify(inspect_store *s, const inspect_entry *only, skippy_progress_fn progress, void *ud) {
    void *buf = malloc(SKIPPY_BLOCK_MAX);
    if (!buf) return SKIPPY_E_NOMEM;
    choose(s, only);
    int rc = read_chosen(s, buf, progress, ud);
    if (rc == SKIPPY_OK && any_bad(s)) rc = look_again(s, buf);
    count_bad(s);
    free(buf);
    return rc;
}
