#include "cli/certify_stage.h"

#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "runtime/package.h"

static const double MIB = 1024.0 * 1024.0;

/* ---- what of the package is needed ---- */

static json_t *hex(const skippy_key *k) {
    char text[2 * SK_HASH_BYTES + 1];
    sk_hex(k->bytes, sizeof k->bytes, text);
    return json_string(text);
}

static json_t *part_json(const sk_package_part *part, bool stage, bool producer) {
    json_t *layer = part->role == SK_PART_LAYER ? json_integer(part->layer) : json_null();
    return json_pack("{s:s, s:o, s:I, s:o, s:s}", "role", sk_part_role_names[part->role], "layer", layer, "bytes",
                     (json_int_t)part->bytes, "blake3", hex(&part->digest), "of",
                     stage && producer ? "both"
                     : stage           ? "stage"
                                       : "producer");
}

static json_int_t file_bytes(const sk_weights *w) {
    struct stat st;
    return w->path && stat(w->path, &st) == 0 ? (json_int_t)st.st_size : 0;
}

static int describe_package(const sk_certify_cli *o, const sk_package *p, sk_certify_stage *s, sk_err *e) {
    json_t *parts = json_array();
    uint64_t all = 0, owned = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        const sk_package_part *part = &p->parts[i];
        const bool stage = sk_package_stage_needs(p, o->split.layers, part);
        const bool producer = o->has_producer && sk_package_stage_needs(p, o->producer, part);
        all += part->bytes;
        if (!stage && !producer) continue;
        owned += part->bytes;
        json_array_append_new(parts, part_json(part, stage, producer));
    }
    s->package = json_pack("{s:o, s:I, s:I, s:o, s:I, s:I, s:b}", "manifest_blake3", hex(&p->manifest_digest), "parts",
                           (json_int_t)p->n_parts, "bytes", (json_int_t)all, "owned_parts", parts, "owned_bytes",
                           (json_int_t)owned, "stage_file_bytes", file_bytes(&s->stage) + file_bytes(&s->producer),
                           "assembled_now", s->stage.file.written || s->producer.file.written);
    return s->package ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the report");
}

static int look_at_package(const sk_certify_cli *o, const char *location, sk_certify_stage *s, sk_err *e) {
    const sk_package_access access = {.location = location, .ca_file = o->split.package_ca};
    sk_package p;
    int rc = sk_package_load(&access, &p, e);
    if (rc != SKIPPY_OK) return rc;
    rc = describe_package(o, &p, s, e);
    sk_package_free(&p);
    return rc;
}

/* ---- files ---- */

/* A stage file is no source of other layers. */
static int cut_both(const sk_certify_cli *o, const char *location, sk_weights_source *source, sk_certify_stage *s,
                    sk_err *e) {
    int64_t version = 0;
    if (sk_tensor_source_int(&source->tensors, "skippy.stage.version", &version))
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%.200s' is a stage file: certify it without --layers, or take the layers out of the model",
                          location);
    int rc = sk_weights_cut(source, o->split.layers, &o->split, &s->stage, e);
    if (rc == SKIPPY_OK && o->has_producer) rc = sk_weights_cut(source, o->producer, &o->split, &s->producer, e);
    return rc;
}

int sk_certify_stage_prepare(sk_certify_cli *o, bool (*go_on)(void), sk_certify_stage *out, sk_err *e) {
    const char *location = o->split.package ? o->split.package : o->run.model_path;
    sk_weights_source source;
    *out = (sk_certify_stage){.stage.file.lock = -1, .producer.file.lock = -1};
    if (!o->split.has_layers) return SKIPPY_OK;
    if (o->split.package && !sk_weights_is_package(location))
        return sk_err_set(e, SKIPPY_E_NOT_FOUND, "there is no package '%.200s': a folder or an http(s) URL is needed",
                          location);
    int rc = sk_weights_source_open(location, &o->split, go_on, &source, e);
    if (rc == SKIPPY_OK) rc = cut_both(o, location, &source, out, e);
    sk_weights_source_close(&source);
    if (rc == SKIPPY_OK && sk_weights_is_package(location)) rc = look_at_package(o, location, out, e);
    o->run.model_path = out->stage.path;
    o->run.producer = out->producer.path;
    return rc;
}

void sk_certify_stage_release(sk_certify_stage *s) {
    sk_weights_release(&s->stage);
    sk_weights_release(&s->producer);
    json_decref(s->package);
    s->package = NULL;
}

static json_int_t number(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

void sk_certify_stage_show(const sk_certify_stage *s, FILE *out) {
    const json_t *parts = json_object_get(s->package, "owned_parts"), *part;
    size_t i;
    if (!s->package) return;
    fprintf(out, "package    %.1f MiB of %.1f, %zu of %d parts:", (double)number(s->package, "owned_bytes") / MIB,
            (double)number(s->package, "bytes") / MIB, json_array_size(parts), (int)number(s->package, "parts"));
    json_array_foreach(parts, i, part) {
        const json_t *layer = json_object_get(part, "layer");
        fprintf(out, "%s %s", i ? "," : "", json_string_value(json_object_get(part, "role")));
        if (json_is_integer(layer)) fprintf(out, " %d", (int)json_integer_value(layer));
    }
    fputs(json_is_true(json_object_get(s->package, "assembled_now"))
              ? "\n"
              : "\n           (the stage files were there already: nothing was read)\n",
          out);
}
