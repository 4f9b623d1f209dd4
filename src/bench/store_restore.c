#include "bench/store_restore.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "skippy/ram_store.h"

/* The threads of a parallel region go on spinning for some milliseconds after its end. */
enum { REST_MS = 60 };

static const struct {
    const char *key, *title;
} PATHS[SK_PATHS] = {
    [SK_PATH_RECOMPUTE] = {"recompute", "compute again"},
    [SK_PATH_RAM] = {"ram", "from RAM"},
    [SK_PATH_DISK] = {"disk_warm", "from disk, warm"},
    [SK_PATH_DISK_COLD] = {"disk_cold", "from disk, cold"},
};

const char *sk_store_path_title(enum sk_store_path path) {
    return PATHS[path].title;
}

const char *sk_store_path_key(enum sk_store_path path) {
    return PATHS[path].key;
}

typedef struct race {
    sk_store_lab *lab;
    const sk_store_folder *folder;
    sk_store_restore *out;
    sk_parcel original; /* what was stored */
    skippy_ram_store *ram;
    uint64_t ram_id;
    bool counted; /* this round is; else its results are compared */
    sk_err *e;
} race;

static void rest(void) {
    const struct timespec pause = {.tv_nsec = REST_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* ---- what is restored ---- */

static int store_on_disk(race *r, sk_store_pack *pack) {
    skippy_disk_store *disk = NULL;
    skippy_disk_detail why = {{0}};
    uint64_t id;
    int rc = sk_store_folder_open(r->folder, &disk, NULL, r->e);
    if (rc) return rc;
    rc = skippy_disk_put(disk, &pack->m, sk_store_pack_source, pack, &id, &why);
    if (rc) sk_err_set(r->e, rc, "%s", why.text[0] ? why.text : skippy_strerror(rc));
    skippy_disk_close(disk);
    return rc;
}

static int store_in_ram(race *r, sk_store_pack *pack) {
    const skippy_ram_params p = {.max_bytes = UINT64_MAX};
    int rc = skippy_ram_create(NULL, &p, &r->ram);
    if (rc == SKIPPY_OK) rc = skippy_ram_put(r->ram, &pack->m, sk_store_pack_source, pack, &r->ram_id);
    return rc ? sk_err_set(r->e, rc, "the RAM store refused the state: %s", skippy_strerror(rc)) : rc;
}

static int prepare(race *r) {
    const sk_store_sizes *s = &r->lab->o->sizes;
    const sk_store_name name = sk_store_lab_name(r->lab, r->lab->tokens);
    sk_store_pack pack = {0};
    *r->out = (sk_store_restore){0};
    for (size_t i = 0; i < SK_PATHS; i++)
        if (sk_store_series_init(&r->out->path[i], s->runs)) return sk_err_set(r->e, SKIPPY_E_NOMEM, "out of memory");
    sk_store_lab_note(r->lab, "restore: computing a prefix of %u tokens", s->prefix);
    int rc = sk_store_lab_feed(r->lab, SK_RIG_LANE, r->lab->tokens, s->prefix, r->e);
    if (rc == SKIPPY_OK) rc = sk_store_lab_export(r->lab, SK_RIG_LANE, s->prefix, &r->original, r->e);
    sk_context_clear(r->lab->rig.ctx);
    if (rc == SKIPPY_OK) rc = sk_store_pack_make(&r->original, &name, &pack, r->e);
    if (rc == SKIPPY_OK) rc = store_in_ram(r, &pack);
    if (rc == SKIPPY_OK) rc = store_on_disk(r, &pack);
    r->out->payload_bytes = sk_store_pack_total(&pack).logical;
    sk_store_pack_free(&pack);
    return rc;
}

/* ---- paths ---- */

static int compare(race *r, enum sk_store_path path) {
    sk_parcel again;
    int rc = sk_store_lab_export(r->lab, SK_RIG_OTHER, r->lab->o->sizes.prefix, &again, r->e);
    if (rc) return rc;
    bool same = again.n_parts == r->original.n_parts;
    for (size_t i = 0; i < again.n_parts && same; i++)
        same = again.part[i].len == r->original.part[i].len &&
               memcmp(again.part[i].data, r->original.part[i].data, again.part[i].len) == 0;
    sk_parcel_free(&again);
    return same ? SKIPPY_OK
                : sk_err_set(r->e, SKIPPY_E_CORRUPT, "the state restored %s is not the one that was stored",
                             PATHS[path].title);
}

/* Ends a timed path: the restored sequence makes room for the next one. */
static int finish(race *r, enum sk_store_path path, uint64_t start, int rc) {
    if (r->counted) sk_store_series_add(&r->out->path[path], start);
    r->out->path[path].bytes = r->out->payload_bytes;
    if (rc == SKIPPY_OK && !r->counted && path != SK_PATH_RECOMPUTE) rc = compare(r, path);
    sk_context_clear(r->lab->rig.ctx);
    return rc;
}

static int recompute(race *r) {
    const uint64_t start = sk_now_ns();
    int rc = sk_store_lab_feed(r->lab, SK_RIG_LANE, r->lab->tokens, r->lab->o->sizes.prefix, r->e);
    return finish(r, SK_PATH_RECOMPUTE, start, rc);
}

static int take_in(race *r, const skippy_manifest *m, sk_store_reader read, void *store) {
    sk_parcel parcel;
    int rc = sk_store_fetch(m, read, store, &parcel, r->e);
    if (rc) return rc;
    rc = sk_parcel_import(&parcel, &r->lab->rig, SK_RIG_OTHER, parcel.n_tokens, r->e);
    sk_parcel_free(&parcel);
    return rc;
}

static int no_lease(race *r, int rc) {
    return sk_err_set(r->e, rc, "the stored prefix was not found again: %s", skippy_strerror(rc));
}

static int from_ram(race *r) {
    const skippy_manifest *m = NULL;
    const uint64_t start = sk_now_ns();
    int rc = skippy_ram_lease(r->ram, r->ram_id, &m);
    if (rc) return no_lease(r, rc);
    rc = take_in(r, m, sk_store_read_ram, r->ram);
    skippy_ram_release(r->ram, r->ram_id);
    return finish(r, SK_PATH_RAM, start, rc);
}

static int from_disk(race *r, enum sk_store_path path) {
    const skippy_manifest *m = NULL;
    skippy_disk_store *disk = NULL;
    uint64_t id = 0;
    const uint64_t start = sk_now_ns();
    int rc = sk_store_folder_open(r->folder, &disk, &id, r->e);
    if (rc) return rc;
    rc = skippy_disk_lease(disk, id, &m);
    if (rc == SKIPPY_OK) {
        rc = take_in(r, m, sk_store_read_disk, disk);
        skippy_disk_release(disk, id);
    } else {
        no_lease(r, rc);
    }
    rc = finish(r, path, start, rc);
    skippy_disk_close(disk);
    return rc;
}

static int from_cold_disk(race *r) {
    bool cold = false;
    int rc = sk_store_folder_cool(r->folder, &cold, r->e);
    if (rc || !cold) return rc;
    r->out->cold = true;
    return from_disk(r, SK_PATH_DISK_COLD);
}

static int take_path(race *r, enum sk_store_path path) {
    if (sk_interrupted()) return sk_err_set(r->e, SKIPPY_E_CANCELLED, "interrupted");
    rest();
    switch (path) {
    case SK_PATH_RECOMPUTE: return recompute(r);
    case SK_PATH_RAM: return from_ram(r);
    case SK_PATH_DISK: return from_disk(r, path);
    default: return from_cold_disk(r);
    }
}

int sk_store_restore_run(sk_store_lab *lab, const sk_store_folder *folder, sk_store_restore *out, sk_err *e) {
    race r = {.lab = lab, .folder = folder, .out = out, .e = e};
    int rc = prepare(&r);
    for (uint32_t i = 0; i <= lab->o->sizes.runs && rc == SKIPPY_OK; i++) {
        sk_store_lab_note(lab, "restore: round %u of %u", i, lab->o->sizes.runs);
        r.counted = i > 0;
        for (uint32_t k = 0; k < SK_PATHS && rc == SKIPPY_OK; k++)
            rc = take_path(&r, (enum sk_store_path)((i + k) % SK_PATHS));
    }
    sk_parcel_free(&r.original);
    skippy_ram_destroy(r.ram);
    sk_context_clear(lab->rig.ctx);
    return rc;
}

void sk_store_restore_free(sk_store_restore *r) {
    for (size_t i = 0; i < SK_PATHS; i++) sk_store_series_free(&r->path[i]);
}
