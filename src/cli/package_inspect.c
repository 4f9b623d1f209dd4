#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "cli/inspect_names.h"
#include "cli/package_actions.h"
#include "runtime/package.h"
#include "runtime/part_fetch.h"

/* What a stage reads. */
typedef struct need {
    size_t parts;
    uint64_t bytes, all_bytes;
} need;

static need sum(const package_options *o, const sk_package *p) {
    need n = {0};
    for (size_t i = 0; i < p->n_parts; i++) {
        n.all_bytes += p->parts[i].bytes;
        if (!o->has_layers || !sk_package_stage_needs(p, o->layers, &p->parts[i])) continue;
        n.parts++;
        n.bytes += p->parts[i].bytes;
    }
    return n;
}

/* ---- text ---- */

static void print_part(sk_buf *out, const package_options *o, const sk_package *p, const sk_package_part *part) {
    char size[SIZE_CHARS], name[32], digest[HEX_CHARS];
    snprintf(name, sizeof name, "%s", sk_part_role_names[part->role]);
    if (part->layer >= 0) snprintf(name, sizeof name, "layer %" PRId32, part->layer);
    const char *mark = o->has_layers && sk_package_stage_needs(p, o->layers, part) ? "*" : " ";
    sk_buf_printf(out, "%s %-10s %7" PRIu32 " %11s  %.16s\n", mark, name, part->n_tensors, size_of(part->bytes, size),
                  hex_of(&part->digest, digest));
}

static void print_package(sk_buf *out, const package_options *o, const sk_package *p) {
    char size[SIZE_CHARS], all[SIZE_CHARS], digest[HEX_CHARS];
    const need n = sum(o, p);
    sk_buf_printf(out, "%s: %s%s%s, %" PRId32 " layers of width %" PRId32 "\n", p->model_id, p->arch,
                  p->family[0] ? ", family " : "", p->family, p->n_layer, p->width);
    sk_buf_printf(out, "package %.16s, format %" PRIu32 ", %zu parts, %s\n", hex_of(&p->manifest_digest, digest),
                  p->format, p->n_parts, size_of(n.all_bytes, size));
    sk_buf_printf(out, "made of %s\n\n", hex_of(&p->source_digest, digest));
    sk_buf_str(out, "  part       tensors        size  digest\n");
    for (size_t i = 0; i < p->n_parts; i++) print_part(out, o, p, &p->parts[i]);
    if (o->has_layers)
        sk_buf_printf(out, "\n* a stage of the layers %" PRId32 "..%" PRId32 " fetches %zu parts, %s of %s\n",
                      o->layers.start, o->layers.end - 1, n.parts, size_of(n.bytes, size), size_of(n.all_bytes, all));
}

/* ---- JSON ---- */

static json_t *json_part(const package_options *o, const sk_package *p, const sk_package_part *part) {
    char digest[HEX_CHARS];
    json_t *v = json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "role", sk_part_role_names[part->role], "path", part->path,
                          "bytes", (json_int_t)part->bytes, "tensors", (json_int_t)part->n_tensors, "tensor_bytes",
                          (json_int_t)part->tensor_bytes, "blake3", hex_of(&part->digest, digest));
    if (part->layer >= 0) json_object_set_new(v, "layer", json_integer(part->layer));
    if (o->has_layers) json_object_set_new(v, "needed", json_boolean(sk_package_stage_needs(p, o->layers, part)));
    return v;
}

static json_t *json_package(const package_options *o, const sk_package *p) {
    char package[HEX_CHARS], source[HEX_CHARS];
    const need n = sum(o, p);
    json_t *parts = json_array();
    for (size_t i = 0; i < p->n_parts; i++) json_array_append_new(parts, json_part(o, p, &p->parts[i]));
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:o}", "format", (int)p->format, "package_blake3",
                  hex_of(&p->manifest_digest, package), "source_blake3", hex_of(&p->source_digest, source), "model_id",
                  p->model_id, "architecture", p->arch, "family", p->family, "layers", (int)p->n_layer, "stage_layers",
                  (int)p->n_stage_layer, "width", (int)p->width, "bytes", (json_int_t)n.all_bytes, "parts", parts);
    if (root && o->has_layers)
        json_object_set_new(root, "stage",
                            json_pack("{s:i, s:i, s:I, s:I}", "first_layer", (int)o->layers.start, "last_layer",
                                      (int)o->layers.end - 1, "parts", (json_int_t)n.parts, "bytes",
                                      (json_int_t)n.bytes));
    return root;
}

static bool write_json(const package_options *o, const sk_package *p) {
    json_t *root = json_package(o, p);
    const bool ok = root && json_dumpf(root, stdout, JSON_INDENT(1)) == 0 && puts("") != EOF;
    json_decref(root);
    return ok;
}

static bool write_text(const package_options *o, const sk_package *p) {
    sk_buf text = {0};
    print_package(&text, o, p);
    const bool ok = !text.failed && fwrite(text.data, 1, text.len, stdout) == text.len;
    sk_buf_free(&text);
    return ok;
}

/* ---- the action ---- */

static int check_layers(const package_options *o, const sk_package *p, sk_err *e) {
    if (!o->has_layers || o->layers.end <= p->n_stage_layer) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "there is no layer %" PRId32 ": stages are made of the layers 0..%" PRId32,
                      o->layers.end - 1, p->n_stage_layer - 1);
}

int package_inspect(const package_options *o) {
    const sk_package_access access = {.location = o->operand, .ca_file = o->ca_file};
    sk_package p = {0};
    sk_err e = {0};
    bool is_url;
    int rc = sk_part_fetch_is_url(o->operand, &is_url, &e);
    if (rc != SKIPPY_OK) {
        (void)package_error(o, &e);
        return PACKAGE_USAGE;
    }
    rc = sk_package_load(&access, &p, &e);
    if (rc == SKIPPY_OK) rc = check_layers(o, &p, &e);
    if (rc == SKIPPY_OK && (!(o->json ? write_json(o, &p) : write_text(o, &p)) || fflush(stdout) != 0))
        rc = sk_err_set(&e, SKIPPY_E_IO, "cannot write to standard output");
    sk_package_free(&p);
    return rc == SKIPPY_OK ? PACKAGE_DONE : package_error(o, &e);
}
