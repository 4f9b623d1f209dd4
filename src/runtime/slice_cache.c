/* Stage files in a cache folder: written once, used by many processes. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "runtime/slice_internal.h"

enum { PATH_CAP = 4200 };

/* One call of sk_slice_materialise. */
typedef struct work {
    sk_tensor_source *s;
    sk_layer_range r;
    const sk_slice_cache *cache;
    sk_slice_progress progress;
    void *ud;
    char file[PATH_CAP], temporary[PATH_CAP], record[PATH_CAP], lock[PATH_CAP], write_lock[PATH_CAP];
} work;

static int make_names(work *w, sk_err *e) {
    char hex[17], stem[PATH_CAP - 32];
    sk_hex(w->s->digest.bytes, 8, hex);
    int n = snprintf(stem, sizeof stem, "%s/%s-%d-%d-v%d", w->cache->dir, hex, w->r.start, w->r.end, SK_SLICE_VERSION);
    if (n < 0 || (size_t)n >= sizeof stem)
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the stage cache is too long: %.300s", w->cache->dir);
    snprintf(w->file, sizeof w->file, "%s.gguf", stem);
    snprintf(w->temporary, sizeof w->temporary, "%s.gguf%s", stem, SK_SLICE_SUFFIX_TEMP);
    snprintf(w->record, sizeof w->record, "%s.record", stem);
    snprintf(w->lock, sizeof w->lock, "%s.lock", stem);
    snprintf(w->write_lock, sizeof w->write_lock, "%s.write", stem);
    return SKIPPY_OK;
}

/* The folder and its missing parents, private to this user: weights are not everybody's. */
static int make_folder(const char *dir, sk_err *e) {
    char part[PATH_CAP];
    struct stat st;
    size_t len = strlen(dir);
    if (len == 0 || len >= sizeof part) return sk_err_set(e, SKIPPY_E_INVALID, "the stage cache has no usable folder");
    memcpy(part, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char keep = part[i];
        part[i] = '\0';
        mkdir(part, 0700); /* what went wrong shows below */
        part[i] = keep;
    }
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_IO, "the folder %.300s cannot be made", dir);
}

static bool go_on(void *ud) {
    const work *w = ud;
    return !w->progress || w->progress(w->ud, 0, 0);
}

static int wait_lock(const char *path, int how, work *w, int *fd, sk_err *e) {
    *fd = sk_slice_lock(path, how, go_on, w);
    if (*fd >= 0) return SKIPPY_OK;
    if (errno == EWOULDBLOCK) return sk_err_set(e, SKIPPY_E_CANCELLED, "waiting for %.300s was stopped", path);
    return sk_err_set(e, SKIPPY_E_IO, "%.300s cannot be locked: %s", path, strerror(errno));
}

/* Is the file there and what its record says? */
static bool is_good(const work *w, skippy_key *digest) {
    struct stat st;
    sk_slice_record r;
    skippy_key now;
    if (!sk_slice_record_load(w->record, &r) || stat(w->file, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    if ((uint64_t)st.st_size != r.size || !sk_slice_file_is(w->file, w->s, w->r)) return false;
    if (skippy_file_digest(w->file, w->cache->digest_dir, NULL, NULL, &now, NULL) || !skippy_key_equal(&now, &r.digest))
        return false;
    *digest = r.digest;
    return true;
}

/* Writes the file while no other process does. One that waited for its turn finds the other's file good. */
static int write_once(work *w, sk_slice_file *out, sk_err *e) {
    int lock = -1;
    sk_slice_record rec;
    int rc = wait_lock(w->write_lock, LOCK_EX, w, &lock, e);
    if (rc) return rc;
    if (is_good(w, &out->digest)) goto out;
    if (access(w->file, F_OK) == 0)
        sk_log(SK_LOG_WARN, "the stage file %s is not what its record says, and is written anew", w->file);
    unlink(w->record);
    unlink(w->file);
    unlink(w->temporary); /* of a killed writer: nobody else holds the lock */
    rc = sk_slice_file_size(w->s, w->r, &rec.size, e);
    if (rc == SKIPPY_OK) rc = sk_slice_make_room(w->cache->dir, w->cache->max_bytes, w->file, rec.size, e);
    if (rc == SKIPPY_OK) rc = sk_slice_write_file(w->s, w->r, w->file, w->progress, w->ud, &rec.digest, &rec.size, e);
    if (rc) goto out;
    out->digest = rec.digest;
    out->written = true;
    if (!sk_slice_record_save(w->cache->dir, w->record, &rec))
        rc = sk_err_set(e, SKIPPY_E_IO, "the record %.300s cannot be written", w->record);
out:
    close(lock);
    return rc;
}

/* The time of the last use. Asked from the clock itself: the file system's "now" is that of the last tick, and two uses
 * within one could not be told apart. */
static void mark_use(int lock) {
    struct timespec t[2];
    if (clock_gettime(CLOCK_REALTIME, &t[0]) != 0) return;
    t[1] = t[0];
    futimens(lock, t);
}

int sk_slice_materialise(sk_tensor_source *s, sk_layer_range r, const sk_slice_cache *c, sk_slice_progress progress,
                         void *ud, sk_slice_file *out, sk_err *e) {
    work w = {.s = s, .r = r, .cache = c, .progress = progress, .ud = ud};
    *out = (sk_slice_file){.lock = -1};
    int rc = sk_slice_check(s, r, e);
    if (rc == SKIPPY_OK) rc = make_names(&w, e);
    if (rc == SKIPPY_OK) rc = make_folder(c->dir, e);
    if (rc == SKIPPY_OK) rc = wait_lock(w.lock, LOCK_SH, &w, &out->lock, e);
    if (rc == SKIPPY_OK && !is_good(&w, &out->digest)) rc = write_once(&w, out, e);
    if (rc == SKIPPY_OK) {
        mark_use(out->lock);
        out->path = strdup(w.file);
        if (!out->path) rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    }
    if (rc) sk_slice_release(out);
    return rc;
}

void sk_slice_release(sk_slice_file *f) {
    if (f->lock >= 0) close(f->lock);
    free(f->path);
    *f = (sk_slice_file){.lock = -1};
}
