#include "bench/family/cell_hosts.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "bench/interrupt.h"

enum {
    READY_TIMEOUT_MS = 600000,
    SERVER_BYTES = 512 << 20, /* code, compute buffers, host caches of small runs */
    HALF_BYTES = 2,           /* of a value of K or V */
    MEMORY_PERCENT = 80,
    TREE_FDS = 16
};

#define TUNED "--cache-ram -1 --ctx-checkpoints 64 --checkpoint-min-step 64"
/* Sliding-window models: only a full-size window cache can go back to an earlier position. */
#define TUNED_WINDOW " --swa-full"
/* Several lanes: one pool of cells, and idle lanes keep what they hold. */
#define TUNED_LANES " --kv-unified --no-cache-idle-slots"

/* ---- memory ---- */

static uint64_t times(uint64_t a, uint64_t b) {
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Where the preset does not know it: K and V of full width in every layer, which nothing exceeds. */
static uint64_t token_bytes(const sk_input_model *m) {
    const sk_preset *p = m->preset;
    const uint64_t layers = (uint64_t)(m->found.layers > 0 ? m->found.layers : p->layers);
    if (p->kv_bytes_per_token > 0 && p->layers > 0) {
        return times(p->kv_bytes_per_token, layers) / (uint64_t)p->layers;
    }
    return layers * (uint64_t)(m->found.width > 0 ? m->found.width : p->width) * 2u * HALF_BYTES;
}

uint64_t sk_session_host_bytes(const sk_input_model *model, uint64_t ctx_tokens) {
    uint64_t bytes = plus(SERVER_BYTES, times(token_bytes(model), ctx_tokens));
    for (size_t i = 0; i < model->found.n_files; i++) {
        bytes = plus(bytes, model->found.file[i].bytes);
    }
    return bytes;
}

static void choose_schedule(sk_session_hosts *h, const sk_input_model *model, uint64_t available) {
    uint64_t most = 0;
    for (size_t i = 0; i < h->n; i++) {
        most = h->v[i].launch.n_ctx > most ? h->v[i].launch.n_ctx : most;
    }
    h->available = available;
    h->host_bytes = sk_session_host_bytes(model, most);
    h->together = h->n <= 1 || times(h->host_bytes, h->n) <= available / 100 * MEMORY_PERCENT;
}

/* ---- description ---- */

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* An older or newer server may be a llama-server or a skippy: its name says which. */
static bool takes_serve(const char *program) {
    const char *slash = strrchr(program, '/');
    return begins_with(slash ? slash + 1 : program, "skippy");
}

/* A server that never becomes ready must not outlast its first cell. */
static int ready_timeout_ms(const sk_family_input *in) {
    return in->cell_seconds > 0 && in->cell_seconds < READY_TIMEOUT_MS / 1000 ? (int)in->cell_seconds * 1000
                                                                              : READY_TIMEOUT_MS;
}

typedef struct host_plan {
    const sk_family_input *in;
    const char *model;
    const sk_host_wishes *wishes;
} host_plan;

static void add_host(sk_session_hosts *h, const host_plan *p, const char *name, const sk_pinned_file *program,
                     const char *flags) {
    const sk_family_sizes *s = &p->in->sizes;
    const bool ours = strcmp(name, SK_HOST_OURS) == 0;
    const bool serve = ours || takes_serve(program->path);
    const uint32_t lanes = ours ? s->lanes : s->parallel;
    const size_t i = h->n++;
    const uint64_t ctx = times(p->wishes->lane_ctx, lanes);
    snprintf(h->flags[i], sizeof h->flags[i], "%s", flags);
    h->v[i] = (sk_family_host){.name = name,
                               .ours = ours,
                               .launch = {.program = program->path,
                                          .subcommand = serve ? "serve" : NULL,
                                          .model = p->model,
                                          .n_ctx = ctx > UINT32_MAX ? UINT32_MAX : (uint32_t)ctx,
                                          .threads = p->wishes->threads,
                                          .lanes = lanes,
                                          .flags = {serve ? h->layers : h->all_layers, h->flags[i]},
                                          .ready_timeout_ms = ready_timeout_ms(p->in)},
                               .folder = h->folder,
                               .timeout_ms = (int)s->request_timeout_ms};
}

static void add_baselines(sk_session_hosts *h, const host_plan *p, bool window) {
    char tuned[SK_HOST_FLAGS_CHARS];
    snprintf(tuned, sizeof tuned, "%s%s%s", TUNED, window ? TUNED_WINDOW : "",
             p->in->sizes.parallel > 1 ? TUNED_LANES : "");
    add_host(h, p, SK_HOST_BASE, &p->in->native_server, "");
    add_host(h, p, SK_HOST_TUNED, &p->in->native_server, tuned);
}

void sk_session_hosts_make(const sk_family_input *in, const sk_input_model *model, const sk_host_wishes *w,
                           const char *folder, uint64_t available, sk_session_hosts *out) {
    const host_plan plan = {.in = in, .model = model->found.runtime_entry, .wishes = w};
    *out = (sk_session_hosts){.lane_ctx = w->lane_ctx};
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    snprintf(out->disk, sizeof out->disk, "%s/disk-store", folder);
    snprintf(out->disk_flags, sizeof out->disk_flags, "--cache-disk %s", out->disk);
    snprintf(out->layers, sizeof out->layers, "-ngl %d", (int)in->sizes.n_gpu_layers);
    /* -1 means "as many as fit" to llama-server */
    snprintf(out->all_layers, sizeof out->all_layers, "%s", in->sizes.n_gpu_layers < 0 ? "-ngl all" : out->layers);
    if (w->baselines && in->native_server.path[0]) {
        add_baselines(out, &plan, model->preset->swa);
    }
    if (w->paired && in->old_server.path[0] && in->new_server.path[0]) {
        add_host(out, &plan, "old-server", &in->old_server, "");
        add_host(out, &plan, "new-server", &in->new_server, "");
    }
    if (w->ours) {
        add_host(out, &plan, SK_HOST_OURS, &in->stage_server, "");
    }
    choose_schedule(out, model, available);
}

/* ---- running ---- */

static int keep_receipts(sk_session_hosts *h, const sk_family_host *lost, sk_err *e) {
    if (!h->gone) {
        h->gone = json_array();
    }
    const bool kept = h->gone && (!lost->receipts || json_array_extend(h->gone, lost->receipts) == 0);
    return kept ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for receipts");
}

/* The hosts behind it have not been started yet, or stand still: they may move. */
static int lose(sk_session_hosts *h, size_t i, const sk_err *why, sk_err *e) {
    sk_lost_host *lost = &h->lost[h->n_lost++];
    lost->name = h->v[i].name;
    snprintf(lost->why, sizeof lost->why, "%.390s", why->text);
    const int rc = keep_receipts(h, &h->v[i], e);
    sk_host_free(&h->v[i]);
    memmove(&h->v[i], &h->v[i + 1], (h->n - i - 1) * sizeof h->v[0]);
    h->n--;
    return rc;
}

int sk_session_hosts_start(sk_session_hosts *h, sk_err *e) {
    for (size_t i = 0; h->together && i < h->n;) {
        sk_err why = {0};
        int rc = sk_host_start(&h->v[i], &why);
        if (rc == SKIPPY_OK) {
            i++;
            continue;
        }
        if (rc == SKIPPY_E_CANCELLED || sk_interrupted()) {
            return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
        }
        rc = lose(h, i, &why, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    return SKIPPY_OK;
}

int sk_session_hosts_revive(sk_session_hosts *h, sk_err *e) {
    for (size_t i = 0; h->together && i < h->n; i++) {
        if (!sk_process_alive(&h->v[i].process, NULL) && !sk_interrupted()) {
            /* One that does not come back makes the parts fail, in its words. */
            sk_host_restart(&h->v[i], NULL);
        }
    }
    return sk_interrupted() ? sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted") : SKIPPY_OK;
}

int sk_session_hosts_use_disk(sk_session_hosts *h, sk_err *e) {
    sk_family_host *ours = h->n > 0 && h->v[h->n - 1].ours ? &h->v[h->n - 1] : NULL;
    if (!ours || ours->launch.flags[2]) {
        return SKIPPY_OK;
    }
    ours->launch.flags[2] = h->disk_flags;
    if (h->together && !sk_interrupted()) {
        /* One that does not come back makes the parts fail, in its words. */
        sk_host_restart(ours, NULL);
    }
    return sk_interrupted() ? sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted") : SKIPPY_OK;
}

void sk_session_hosts_stop(sk_session_hosts *h) {
    for (size_t i = 0; i < h->n; i++) {
        sk_host_stop(&h->v[i]);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

void sk_session_hosts_free(sk_session_hosts *h) {
    for (size_t i = 0; i < h->n; i++) {
        sk_host_free(&h->v[i]);
    }
    if (h->disk[0]) {
        nftw(h->disk, remove_one, TREE_FDS, FTW_DEPTH | FTW_PHYS); /* not there when ours never ran */
    }
    json_decref(h->gone);
    *h = (sk_session_hosts){0};
}

/* ---- records ---- */

json_t *sk_session_hosts_receipts(const sk_session_hosts *h) {
    json_t *list = json_array();
    int failed = !list || (h->gone && json_array_extend(list, h->gone) != 0);
    for (size_t i = 0; !failed && i < h->n; i++) {
        failed = h->v[i].receipts && json_array_extend(list, h->v[i].receipts) != 0;
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *host_json(const sk_family_host *h) {
    sk_process_memory now = {0};
    uint64_t peak = h->memory.peak_rss;
    if (sk_process_memory_read(&h->process, &now) == SKIPPY_OK && now.peak_rss > peak) {
        peak = now.peak_rss;
    }
    return json_pack("{s:s, s:b, s:s, s:s, s:s, s:f, s:I, s:I, s:I}", "name", h->name, "ours", h->ours, "flags",
                     h->launch.flags[1], "command", h->command, "version", h->version, "ready_ms", h->ready_ms,
                     "peak_rss_kib", (json_int_t)peak, "lanes", (json_int_t)h->launch.lanes, "ctx",
                     (json_int_t)h->launch.n_ctx);
}

json_t *sk_session_hosts_json(const sk_session_hosts *h, size_t first) {
    json_t *list = json_array();
    for (size_t i = first; list && i < h->n; i++) {
        if (json_array_append_new(list, host_json(&h->v[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}
