#include "bench/store_speed.h"

#include <stdlib.h>

#include "base/clock.h"
#include "bench/interrupt.h"

static const struct {
    const char *key, *title;
} STEPS[SK_STEPS] = {
    [SK_STEP_EXPORT] = {"export", "export from the runtime"},
    [SK_STEP_CUT] = {"cut_and_hash", "cut and hash"},
    [SK_STEP_RAM_FILL] = {"ram_put", "RAM put, empty store"},
    [SK_STEP_RAM_READ] = {"ram_read", "RAM read and verify"},
    [SK_STEP_RAM_EVICT] = {"ram_put_evicting", "RAM put, full store"},
    [SK_STEP_DISK_PUT] = {"disk_put", "disk put, synced"},
    [SK_STEP_DISK_READ] = {"disk_read_warm", "disk read and verify, warm"},
    [SK_STEP_DISK_COLD] = {"disk_read_cold", "disk read and verify, cold"},
    [SK_STEP_IMPORT] = {"import", "import into the runtime"},
};

const char *sk_store_step_title(enum sk_store_step step) {
    return STEPS[step].title;
}

const char *sk_store_step_key(enum sk_store_step step) {
    return STEPS[step].key;
}

/* The full store holds this many entries, the next one evicts. */
enum { FULL_STORE = 2, MAX_COMPACTIONS = 1000 };

typedef struct course {
    sk_store_lab *lab;
    const sk_store_folder *folder;
    sk_store_speed *out;
    sk_parcel parcel;
    sk_store_pack pack;
    skippy_ram_store *full;
    skippy_disk_store *disk;
    uint8_t *buf; /* one block */
    uint64_t stamp;
    bool counted; /* this run is */
    sk_err *e;
} course;

static void note_time(course *c, enum sk_store_step step, uint64_t bytes, uint64_t start) {
    if (!c->counted) return;
    sk_store_series_add(&c->out->step[step], start);
    c->out->step[step].bytes = bytes;
}

static int pack(course *c) {
    const sk_store_name name = sk_store_lab_name(c->lab, c->lab->tokens);
    sk_store_pack_free(&c->pack);
    return sk_store_pack_make(&c->parcel, &name, &c->pack, c->e);
}

/* The same amount of state, but new to every store, and under a new name. */
static int make_new(course *c) {
    sk_store_stamp(&c->parcel, &c->pack, ++c->stamp);
    for (size_t i = 0; i < sizeof c->stamp; i++) c->lab->ns.bytes[i] = (uint8_t)(c->stamp >> 8 * i);
    return pack(c);
}

static int refused(course *c, const char *store, int rc) {
    return sk_err_set(c->e, rc, "the %s store refused the state: %s", store, skippy_strerror(rc));
}

/* ---- steps ---- */

static int move_out(course *c) {
    const uint32_t n = c->lab->o->sizes.prefix;
    sk_parcel_free(&c->parcel);
    uint64_t start = sk_now_ns();
    int rc = sk_store_lab_export(c->lab, SK_RIG_LANE, n, &c->parcel, c->e);
    if (rc) return rc;
    c->out->payload_bytes = 0;
    for (size_t i = 0; i < c->parcel.n_parts; i++) c->out->payload_bytes += c->parcel.part[i].len;
    note_time(c, SK_STEP_EXPORT, c->out->payload_bytes, start);
    start = sk_now_ns();
    rc = pack(c);
    note_time(c, SK_STEP_CUT, c->out->payload_bytes, start);
    return rc;
}

static int move_in(course *c) {
    const uint64_t start = sk_now_ns();
    int rc = sk_parcel_import(&c->parcel, &c->lab->rig, SK_RIG_OTHER, c->lab->o->sizes.prefix, c->e);
    note_time(c, SK_STEP_IMPORT, c->out->payload_bytes, start);
    sk_context_seq_clear(c->lab->rig.ctx, SK_RIG_OTHER);
    return rc;
}

static int read_entry(course *c, sk_store_reader read, void *store, enum sk_store_step step) {
    const uint64_t start = sk_now_ns();
    int rc = sk_store_read_all(&c->pack.m, read, store, c->buf, c->e);
    note_time(c, step, c->out->payload_bytes, start);
    return rc;
}

/* A store that a payload fills, and how large another must be for FULL_STORE of them. */
static int fill_ram(course *c, uint64_t *full_bytes) {
    const skippy_ram_params p = {.max_bytes = UINT64_MAX};
    skippy_ram_store *s = NULL;
    skippy_store_stats stats;
    uint64_t id;
    int rc = skippy_ram_create(NULL, &p, &s);
    if (rc) return refused(c, "RAM", rc);
    const uint64_t start = sk_now_ns();
    rc = skippy_ram_put(s, &c->pack.m, sk_store_pack_source, &c->pack, &id);
    note_time(c, SK_STEP_RAM_FILL, sk_store_pack_total(&c->pack).fresh, start);
    if (rc == SKIPPY_OK)
        rc = read_entry(c, sk_store_read_ram, s, SK_STEP_RAM_READ);
    else
        refused(c, "RAM", rc);
    skippy_ram_get_stats(s, &stats);
    *full_bytes = stats.physical_bytes * FULL_STORE + stats.physical_bytes / 2;
    skippy_ram_destroy(s);
    return rc;
}

static int put_in_full(course *c) {
    uint64_t id;
    const uint64_t start = sk_now_ns();
    int rc = skippy_ram_put(c->full, &c->pack.m, sk_store_pack_source, &c->pack, &id);
    note_time(c, SK_STEP_RAM_EVICT, sk_store_pack_total(&c->pack).fresh, start);
    return rc ? refused(c, "RAM", rc) : rc;
}

static int open_full(course *c, uint64_t bytes) {
    const skippy_ram_params p = {.max_bytes = bytes};
    int rc = skippy_ram_create(NULL, &p, &c->full);
    if (rc) return refused(c, "RAM", rc);
    for (int i = 0; i < FULL_STORE && rc == SKIPPY_OK; i++) {
        rc = make_new(c);
        if (rc == SKIPPY_OK) rc = put_in_full(c);
    }
    return rc;
}

static int read_cold(course *c) {
    bool cold = false;
    int rc = sk_store_folder_cool(c->folder, &cold, c->e);
    if (rc || !cold) return rc;
    c->out->cold = true;
    return read_entry(c, sk_store_read_disk, c->disk, SK_STEP_DISK_COLD);
}

/* Keeps the folder small; not timed. */
static int forget_on_disk(course *c, uint64_t id) {
    bool more = true;
    int rc = skippy_disk_drop(c->disk, id, SKIPPY_DROP_ERASED);
    for (int i = 0; rc == SKIPPY_OK && more && i < MAX_COMPACTIONS; i++) rc = skippy_disk_compact(c->disk, &more, NULL);
    return rc ? sk_err_set(c->e, rc, "the disk store could not drop an entry: %s", skippy_strerror(rc)) : rc;
}

static int use_disk(course *c) {
    skippy_disk_detail why = {{0}};
    uint64_t id = 0;
    const uint64_t start = sk_now_ns();
    int rc = skippy_disk_put(c->disk, &c->pack.m, sk_store_pack_source, &c->pack, &id, &why);
    if (rc) return sk_err_set(c->e, rc, "%s", why.text[0] ? why.text : skippy_strerror(rc));
    note_time(c, SK_STEP_DISK_PUT, sk_store_pack_total(&c->pack).fresh, start);
    rc = read_entry(c, sk_store_read_disk, c->disk, SK_STEP_DISK_READ);
    if (rc == SKIPPY_OK) rc = read_cold(c);
    return rc == SKIPPY_OK ? forget_on_disk(c, id) : rc;
}

static int run_once(course *c) {
    uint64_t full_bytes = 0;
    if (sk_interrupted()) return sk_err_set(c->e, SKIPPY_E_CANCELLED, "interrupted");
    int rc = move_out(c);
    if (rc == SKIPPY_OK) rc = move_in(c);
    if (rc == SKIPPY_OK) rc = fill_ram(c, &full_bytes);
    if (rc == SKIPPY_OK && !c->full) rc = open_full(c, full_bytes);
    if (rc == SKIPPY_OK) rc = make_new(c);
    if (rc == SKIPPY_OK) rc = put_in_full(c);
    if (rc == SKIPPY_OK) rc = make_new(c); /* so that the bytes given to the disk store are counted alone */
    return rc == SKIPPY_OK ? use_disk(c) : rc;
}

/* ---- all runs ---- */

static int prepare(course *c) {
    const sk_store_sizes *s = &c->lab->o->sizes;
    *c->out = (sk_store_speed){0};
    for (size_t i = 0; i < SK_STEPS; i++)
        if (sk_store_series_init(&c->out->step[i], s->runs)) return sk_err_set(c->e, SKIPPY_E_NOMEM, "out of memory");
    c->buf = malloc(SKIPPY_BLOCK_MAX);
    if (!c->buf) return sk_err_set(c->e, SKIPPY_E_NOMEM, "out of memory");
    int rc = sk_store_folder_open(c->folder, &c->disk, NULL, c->e);
    if (rc) return rc;
    sk_store_lab_note(c->lab, "speed: computing a prefix of %u tokens", s->prefix);
    return sk_store_lab_feed(c->lab, SK_RIG_LANE, c->lab->tokens, s->prefix, c->e);
}

int sk_store_speed_run(sk_store_lab *lab, const sk_store_folder *folder, sk_store_speed *out, sk_err *e) {
    course c = {.lab = lab, .folder = folder, .out = out, .e = e};
    const skippy_key ns = lab->ns;
    int rc = prepare(&c);
    for (uint32_t i = 0; i <= lab->o->sizes.runs && rc == SKIPPY_OK; i++) {
        sk_store_lab_note(lab, "speed: run %u of %u", i, lab->o->sizes.runs);
        c.counted = i > 0;
        rc = run_once(&c);
    }
    sk_parcel_free(&c.parcel);
    sk_store_pack_free(&c.pack);
    skippy_ram_destroy(c.full);
    skippy_disk_close(c.disk);
    free(c.buf);
    sk_context_clear(lab->rig.ctx);
    lab->ns = ns;
    return rc;
}

void sk_store_speed_free(sk_store_speed *s) {
    for (size_t i = 0; i < SK_STEPS; i++) sk_store_series_free(&s->step[i]);
}
