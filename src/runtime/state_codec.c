#include "runtime/state_codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/state_bytes.h"

enum { MAX_TYPE = 255, CELL_BYTES = 12, CELL_BYTES_EXT = 24, RS_CELL_BYTES = 8 };

/* One way to read a blob that does not say how it wants to be read. */
typedef struct reading {
    bool ext, has_v;
} reading;

typedef struct reader {
    const uint8_t *data;
    size_t len, at;
    int32_t seq_id;
    reading as;
    bool undecided; /* a section with cells was read, so that another reading could give another result */
    sk_state_parse *out;
    size_t runs_cap;
    const char *why; /* first thing that does not fit; NULL = all does */
    bool nomem;
} reader;

/* ---- primitives ---- */

static bool refuse(reader *r, const char *why) {
    if (!r->why) r->why = why;
    return false;
}

static size_t left(const reader *r) {
    return r->len - r->at;
}

static bool skip_bytes(reader *r, size_t n) {
    if (n > left(r)) return refuse(r, "it ends early");
    r->at += n;
    return true;
}

static bool read_u32(reader *r, uint32_t *out) {
    if (left(r) < 4) return refuse(r, "it ends early");
    *out = sk_le32(r->data + r->at);
    r->at += 4;
    return true;
}

static bool read_u64(reader *r, uint64_t *out) {
    if (left(r) < 8) return refuse(r, "it ends early");
    *out = sk_le64(r->data + r->at);
    r->at += 8;
    return true;
}

static sk_state_run *add_run(reader *r) {
    sk_state_parse *p = r->out;
    if (p->n_runs == SK_STATE_MAX_RUNS) {
        refuse(r, "it has more tensors than any known model");
        return NULL;
    }
    if (p->n_runs == r->runs_cap) {
        size_t cap = r->runs_cap ? 2 * r->runs_cap : 64;
        sk_state_run *runs = realloc(p->runs, cap * sizeof *runs);
        if (!runs) {
            r->nomem = true;
            refuse(r, "out of memory");
            return NULL;
        }
        p->runs = runs;
        r->runs_cap = cap;
    }
    p->runs[p->n_runs] = (sk_state_run){0};
    return &p->runs[p->n_runs++];
}

/* ---- runs ---- */

static bool read_type(reader *r, int32_t *out) {
    uint32_t type;
    if (!read_u32(r, &type)) return false;
    if (type > MAX_TYPE) return refuse(r, "a tensor type is out of range");
    *out = (int32_t)type;
    return true;
}

static bool read_payload(reader *r, sk_state_run *run, uint32_t rows) {
    /* division, so that no product can overflow */
    if (rows && run->row_bytes > left(r) / rows) return refuse(r, "rows reach beyond its end");
    run->offset = r->at;
    run->bytes = rows ? (size_t)run->row_bytes * rows : 0;
    return skip_bytes(r, run->bytes);
}

static bool read_plain_run(reader *r, uint8_t what, uint32_t rows) {
    sk_state_run run = {.what = what};
    if (!read_type(r, &run.type) || !read_u64(r, &run.row_bytes)) return false;
    if (run.row_bytes == 0 && what != 'R' && what != 'S') return refuse(r, "a row of no bytes");
    if (!read_payload(r, &run, rows)) return false;
    sk_state_run *slot = add_run(r);
    if (slot) *slot = run;
    return slot != NULL;
}

static bool read_transposed_run(reader *r, uint32_t rows) {
    sk_state_run run = {.what = 'V', .transposed = true};
    if (!read_type(r, &run.type) || !read_u32(r, &run.element_bytes) || !read_u32(r, &run.n_embd_v)) return false;
    if (run.element_bytes == 0 || run.n_embd_v == 0) return refuse(r, "a row of no bytes");
    run.row_bytes = (uint64_t)run.element_bytes * run.n_embd_v; /* two 32-bit factors fit */
    if (!read_payload(r, &run, rows)) return false;
    sk_state_run *slot = add_run(r);
    if (slot) *slot = run;
    return slot != NULL;
}

/* ---- sections ---- */

static sk_state_section *begin_section(reader *r, uint8_t kind) {
    sk_state_section *s = &r->out->section[r->out->n_sections++];
    *s = (sk_state_section){.kind = kind, .offset = r->at, .first_run = r->out->n_runs};
    return s;
}

static void end_section(reader *r, sk_state_section *s) {
    s->bytes = r->at - s->offset;
    s->n_runs = r->out->n_runs - s->first_run;
}

static bool read_kv_cells(reader *r, sk_state_section *s) {
    s->cell_bytes = s->ext ? CELL_BYTES_EXT : CELL_BYTES;
    s->cells_offset = r->at;
    if (s->n_cells > left(r) / s->cell_bytes) return refuse(r, "its cell count reaches beyond its end");
    for (uint32_t i = 0; i < s->n_cells; i++, r->at += s->cell_bytes) {
        const uint8_t *cell = r->data + r->at;
        if (sk_le32(cell + 4) != 1) return refuse(r, "a cell does not belong to exactly one sequence");
        if ((int32_t)sk_le32(cell + s->cell_bytes - 4) != r->seq_id)
            return refuse(r, "a cell belongs to another sequence than the header says");
    }
    return true;
}

static bool read_kv(reader *r) {
    sk_state_section *s = begin_section(r, SK_SECTION_KV);
    uint32_t n_stream, v_trans;
    if (!read_u32(r, &n_stream) || !read_u32(r, &s->n_cells)) return false;
    if (n_stream != 1) return refuse(r, "it does not have exactly one stream");
    if (s->n_cells > 0) {
        r->undecided = true;
        s->ext = r->as.ext;
        if (!read_kv_cells(r, s) || !read_u32(r, &v_trans) || !read_u32(r, &s->n_layer)) return false;
        if (v_trans > 1) return refuse(r, "the V order is neither plain nor transposed");
        s->transposed = v_trans == 1;
        if (s->n_layer == 0 || s->n_layer > SK_STATE_MAX_RUNS) return refuse(r, "its layer count is out of range");
        for (uint32_t i = 0; i < s->n_layer; i++)
            if (!read_plain_run(r, 'K', s->n_cells)) return false;
        for (uint32_t i = 0; i < s->n_layer && r->as.has_v; i++)
            if (!(v_trans ? read_transposed_run(r, s->n_cells) : read_plain_run(r, 'V', s->n_cells))) return false;
    }
    end_section(r, s);
    return true;
}

/* Always the last section, so its entries go on to the end: the first half is R, the second S. */
static bool read_rs(reader *r) {
    sk_state_section *s = begin_section(r, SK_SECTION_RS);
    uint32_t s_trans;
    if (!read_u32(r, &s->n_cells)) return false;
    if (s->n_cells > 1) return refuse(r, "one sequence cannot have more than one recurrent state");
    s->cells_offset = r->at;
    s->cell_bytes = RS_CELL_BYTES;
    if (s->n_cells == 1) {
        uint32_t position, n_seq;
        if (!read_u32(r, &position) || !read_u32(r, &n_seq)) return false;
        if (n_seq != 0) return refuse(r, "its recurrent state names sequences");
    }
    if (!read_u32(r, &s_trans) || !read_u32(r, &s->n_layer)) return false;
    if (s_trans != 0) return refuse(r, "its recurrent state is transposed");
    if (s->n_layer == 0 || s->n_layer > SK_STATE_MAX_RUNS) return refuse(r, "its layer count is out of range");
    while (left(r) > 0)
        if (!read_plain_run(r, 'R', s->n_cells)) return false;
    end_section(r, s);
    if (s->n_runs == 0 || s->n_runs % 2 != 0 || s->n_runs / 2 > s->n_layer)
        return refuse(r, "its recurrent rows are not a pair for each recurrent layer");
    for (size_t i = s->n_runs / 2; i < s->n_runs; i++) r->out->runs[s->first_run + i].what = 'S';
    return true;
}

static bool read_blob(reader *r, const sk_state_shape *shape) {
    bool unflagged = !shape->partial || (shape->hybrid && shape->window);
    bool rs = shape->hybrid || shape->recurrent, kv = !shape->recurrent;
    bool base = kv && (unflagged || !(shape->window || shape->hybrid));
    bool window = kv && shape->window;
    uint32_t magic, id;
    if (!read_u32(r, &magic) || !read_u32(r, &id)) return false;
    if (magic != SK_STATE_MAGIC) return refuse(r, "it does not begin like a sequence state");
    r->seq_id = r->out->seq_id = (int32_t)id;
    if (base && !read_kv(r)) return false;
    if (window && !read_kv(r)) return false;
    if (rs && !read_rs(r)) return false;
    return left(r) == 0 || refuse(r, "bytes are left over");
}

/* ---- the search for the reading ---- */

int sk_state_parse_blob(const uint8_t *blob, size_t len, const sk_state_shape *shape, sk_state_parse *out, sk_err *e) {
    *out = (sk_state_parse){0};
    sk_state_parse best = {0};
    unsigned fits = 0;
    size_t furthest = 0;
    const char *why = NULL;
    for (unsigned i = 0; i < 4; i++) {
        sk_state_parse p = {0};
        reader r = {.data = blob, .len = len, .as = {.ext = i & 1, .has_v = !(i & 2)}, .out = &p};
        bool ok = read_blob(&r, shape);
        if (ok && fits++ == 0) {
            best = p;
        } else {
            free(p.runs);
            if (r.nomem) {
                free(best.runs);
                return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the layout of %zu bytes of state", len);
            }
        }
        if (!ok && (!why || r.at > furthest)) {
            furthest = r.at;
            why = r.why;
        }
        if (!r.undecided) break;
    }
    if (fits == 1) {
        *out = best;
        return SKIPPY_OK;
    }
    free(best.runs);
    if (fits > 1)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "%zu bytes of state can be read in %u ways, so none is certain", len,
                          fits);
    return sk_err_set(e, SKIPPY_E_CORRUPT, "%zu bytes of state are not as expected at byte %zu: %s", len, furthest,
                      why ? why : "unknown");
}

void sk_state_parse_free(sk_state_parse *p) {
    free(p->runs);
    *p = (sk_state_parse){0};
}
