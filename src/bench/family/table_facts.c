/* Where, with what and with which flags the rows were measured. */
#include <string.h>

#include "bench/family/table_cell.h"

static void add_scalar(const char *name, json_t *v, sk_buf *out) {
    if (strcmp(name, "memory_kib") == 0 && json_is_number(v)) {
        sk_buf_printf(out, "memory %.1f GiB", json_number_value(v) / 1048576.0);
        return;
    }
    sk_table_text(name, out);
    sk_buf_str(out, " ");
    if (json_is_string(v))
        sk_table_text(json_string_value(v), out);
    else if (json_is_integer(v))
        sk_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        sk_buf_printf(out, "%g", json_real_value(v));
    else
        sk_buf_str(out, json_is_true(v) ? "yes" : "no");
}

/* "cpu X, cores 2, memory 23.5 GiB": what is a single value; nothing of what is deeper. */
static void add_object(json_t *object, sk_buf *out) {
    const char *name;
    json_t *v;
    bool any = false;
    json_object_foreach(object, name, v) {
        if (!json_is_string(v) && !json_is_number(v) && !json_is_boolean(v)) continue;
        if (any) sk_buf_str(out, ", ");
        add_scalar(name, v, out);
        any = true;
    }
}

/* A line of a run.json's object, once for all sources that say the same. */
static void add_objects(const json_t *sources, const char *name, const char *title, sk_buf *out) {
    for (size_t i = 0; i < json_array_size(sources); i++) {
        json_t *v = json_object_get(json_array_get(sources, i), name);
        size_t k = 0;
        while (k < i && !json_equal(json_object_get(json_array_get(sources, k), name), v)) k++;
        if (k < i || json_object_size(v) == 0) continue;
        sk_buf_printf(out, "- %s: ", title);
        add_object(v, out);
        sk_buf_str(out, "\n");
    }
}

static void add_digest(const char *before, const json_t *object, sk_buf *out) {
    const char *digest = json_string_value(json_object_get(object, "sha256"));
    if (!digest) return;
    sk_buf_str(out, before);
    sk_table_text(digest, out);
}

static void add_member(const char *before, const json_t *object, const char *name, sk_buf *out) {
    const char *text = json_string_value(json_object_get(object, name));
    if (!text) return;
    sk_buf_str(out, before);
    sk_table_text(text, out);
}

static void add_source(const json_t *source, sk_buf *out) {
    const char *path = json_string_value(json_object_get(source, "path"));
    sk_buf_str(out, "- rows: ");
    sk_table_code(sk_row_path_tail(path ? path : ""), out);
    add_digest(", SHA-256 ", source, out);
    add_member(", run ", source, "status", out);
    add_member(", begun ", source, "started", out);
    add_digest(", its input's SHA-256 ", json_object_get(source, "input"), out);
    sk_buf_str(out, "\n");
}

/* ---- programs ---- */

/* True when a source before this one names the same file in the same role. */
static bool program_before(const json_t *sources, size_t source, const char *role, json_t *program) {
    for (size_t i = 0; i < source; i++) {
        const json_t *programs = json_object_get(json_array_get(sources, i), "programs");
        if (json_equal(json_object_get(programs, role), program)) return true;
    }
    return false;
}

static void add_programs(const json_t *sources, size_t source, sk_buf *out) {
    const char *role;
    json_t *program;
    json_object_foreach(json_object_get(json_array_get(sources, source), "programs"), role, program) {
        const char *path = json_string_value(json_object_get(program, "path"));
        if (!path || program_before(sources, source, role, program)) continue;
        sk_buf_str(out, "- program ");
        sk_table_text(role, out);
        sk_buf_str(out, ": ");
        sk_table_code(sk_row_path_tail(path), out);
        add_digest(", SHA-256 ", program, out);
        sk_buf_str(out, "\n");
    }
}

/* ---- servers ---- */

static const char *field(const json_t *host, const char *name) {
    const char *text = json_string_value(json_object_get(host, name));
    return text ? text : "";
}

static json_int_t number(const json_t *host, const char *name) {
    return json_integer_value(json_object_get(host, name));
}

static bool same_server(const json_t *a, const json_t *b) {
    return strcmp(field(a, "name"), field(b, "name")) == 0 && strcmp(field(a, "version"), field(b, "version")) == 0 &&
           strcmp(field(a, "flags"), field(b, "flags")) == 0 && number(a, "lanes") == number(b, "lanes");
}

static const json_t *hosts_of(const sk_row_set *s, size_t i) {
    return json_object_get(s->v[i].json, "hosts");
}

/* True when row i or one before it has named this server already; index: of the host in row i. */
static bool named_before(const sk_row_set *s, size_t i, size_t index) {
    const json_t *host = json_array_get(hosts_of(s, i), index);
    for (size_t k = 0; k <= i; k++) {
        const size_t n = k < i ? json_array_size(hosts_of(s, k)) : index;
        for (size_t h = 0; h < n; h++)
            if (same_server(json_array_get(hosts_of(s, k), h), host)) return true;
    }
    return false;
}

static void add_server(const json_t *host, sk_buf *out) {
    sk_buf_str(out, "|");
    sk_column_text(field(host, "name"), out);
    sk_column_text(field(host, "version"), out);
    if (*field(host, "flags"))
        sk_column_code(field(host, "flags"), out);
    else
        sk_buf_str(out, " defaults |");
    sk_column_number(number(host, "lanes"), out);
    sk_buf_str(out, "\n");
}

static void add_servers(const sk_row_set *s, sk_buf *out) {
    sk_buf lines = {0};
    for (size_t i = 0; i < s->n; i++)
        for (size_t h = 0; h < s->v[i].n_hosts; h++)
            if (!named_before(s, i, h)) add_server(json_array_get(hosts_of(s, i), h), &lines);
    if (lines.len) {
        sk_buf_str(out, "\n");
        sk_table_head("Server | Version | Flags beyond model, context, threads and lanes | Lanes", out);
        sk_buf_add(out, lines.data, lines.len);
    }
    out->failed |= lines.failed;
    sk_buf_free(&lines);
}

void sk_table_facts(const sk_row_set *s, sk_buf *out) {
    if (s->n == 0 && json_array_size(s->sources) == 0) return;
    sk_table_heading("Facts", SK_WEIGHTS_REAL, out);
    add_objects(s->sources, "machine", "machine", out);
    add_objects(s->sources, "versions", "versions", out);
    for (size_t i = 0; i < json_array_size(s->sources); i++) add_source(json_array_get(s->sources, i), out);
    for (size_t i = 0; i < json_array_size(s->sources); i++) add_programs(s->sources, i, out);
    add_servers(s, out);
}
