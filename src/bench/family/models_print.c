#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/buf.h"
#include "bench/family/locate.h"
#include "bench/family/models.h"

static uint64_t total_bytes(const sk_found_model *m) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        sum += m->file[i].bytes;
    }
    return sum;
}

static json_t *as_json(const sk_preset *p, const sk_found_model *m) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:b, s:I, s:s}", "key", p->key, "family", p->label,
                     "status", sk_found_status_name(m->status), "path", m->runtime_entry, "kind", m->kind, "layers",
                     (int)m->layers, "layers_real", (int)p->layers, "width", (int)m->width, "quant", m->quant,
                     "synthetic", m->synthetic, "bytes", (json_int_t)total_bytes(m), "why", m->why);
}

static void add_row(const sk_preset *p, const sk_found_model *m, sk_buf *out) {
    char layers[32] = "-";
    if (m->status == SK_FOUND_PRESENT) {
        snprintf(layers, sizeof layers, "%" PRId32 " of %" PRId32, m->layers, p->layers);
    }
    sk_buf_printf(out, "%-12s %-19s %-9s %-12s %-9s %s\n", p->key, sk_found_status_name(m->status), layers,
                  m->quant[0] ? m->quant : "-",
                  m->status != SK_FOUND_PRESENT ? "-"
                  : m->synthetic                ? "synthetic"
                                                : "trained",
                  m->status == SK_FOUND_PRESENT ? m->runtime_entry : m->why);
}

static int dump(json_t *root, sk_buf *out, sk_err *e) {
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (!text) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the list of models");
    }
    sk_buf_str(out, text);
    sk_buf_str(out, "\n");
    free(text);
    return SKIPPY_OK;
}

static int collect(const char *root, json_t *list, sk_buf *table, sk_err *e) {
    sk_found_model found;
    sk_buf_printf(table, "%-12s %-19s %-9s %-12s %-9s %s\n", "MODEL", "STATUS", "LAYERS", "QUANT", "WEIGHTS",
                  "PATH, OR WHY NOT");
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        const int rc = sk_locate_model(root, p, &found, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        if (json_array_append_new(list, as_json(p, &found)) != 0) {
            return sk_err_set(e, SKIPPY_E_NOMEM, "%s: a path is not UTF-8, or memory is out", p->key);
        }
        add_row(p, &found, table);
    }
    return SKIPPY_OK;
}

static int print(const sk_buf *b, FILE *out, sk_err *e) {
    if (b->failed) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the list of models");
    }
    return fwrite(b->data, 1, b->len, out) == b->len && fflush(out) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_IO, "cannot write the list of models");
}

int sk_models_print(const char *root, FILE *out, bool json, sk_err *e) {
    json_t *list = json_array();
    sk_buf table = {0};
    sk_buf text = {0};
    int rc = collect(root, list, &table, e);
    if (rc == SKIPPY_OK && json) {
        json_t *whole = json_pack("{s:s, s:O}", "root", root, "models", list);
        rc = dump(whole, &text, e);
        json_decref(whole);
    }
    if (rc == SKIPPY_OK) {
        rc = print(json ? &text : &table, out, e);
    }
    sk_buf_free(&text);
    sk_buf_free(&table);
    json_decref(list);
    return rc;
}
