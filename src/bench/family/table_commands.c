/* Which files were measured, and how the servers were started. Long, so it stands at the end of the report. */
#include <string.h>

#include "bench/family/table_cell.h"

static const char *field(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A sorted set has a family's rows together. */
static size_t first_of_family(const sk_row_set *s, size_t row) {
    while (row > 0 && strcmp(s->v[row - 1].key, s->v[row].key) == 0) row--;
    return row;
}

/* ---- models ---- */

/* Use cases and sweeps repeat their family's model: the first row of each digest names it. */
static bool named_before(const sk_row_set *s, size_t row, const json_t *file) {
    for (size_t i = first_of_family(s, row); i < row; i++) {
        const json_t *files = json_object_get(s->v[i].json, "model_files");
        for (size_t k = 0; k < json_array_size(files); k++)
            if (strcmp(field(json_array_get(files, k), "sha256"), field(file, "sha256")) == 0) return true;
    }
    return false;
}

static void add_file(const sk_family_row *r, const json_t *file, sk_buf *out) {
    const json_int_t bytes = json_integer_value(json_object_get(file, "bytes"));
    sk_column_family(r, out);
    sk_column_code(name_of(field(file, "path")), out);
    sk_buf_str(out, " ");
    sk_table_bytes(bytes > 0 ? (uint64_t)bytes : 0, out);
    sk_buf_str(out, " |");
    sk_column_text(field(file, "sha256"), out);
    sk_column_text(r->synthetic ? "random" : "real", out);
    sk_buf_str(out, "\n");
}

static void add_files(const sk_row_set *s, size_t row, sk_buf *out) {
    const json_t *files = json_object_get(s->v[row].json, "model_files");
    for (size_t k = 0; k < json_array_size(files); k++) {
        const json_t *file = json_array_get(files, k);
        if (!named_before(s, row, file)) add_file(&s->v[row], file, out);
    }
}

/* ---- commands ---- */

/* One word of a command, without the folders of an absolute path. "--opt=/a/b" counts, too. */
static void add_word(const char *word, size_t n, sk_buf *out) {
    const char *equals = memchr(word, '=', n);
    size_t start = word[0] == '/' ? 0 : equals ? (size_t)(equals - word) + 1 : n;
    if (start < n && word[start] == '/') {
        sk_buf_add(out, word, start);
        while (n > start + 1 && word[n - 1] == '/') n--; /* a folder */
        for (size_t i = start; i + 1 < n; i++)
            if (word[i] == '/') start = i + 1;
    } else {
        start = 0;
    }
    sk_buf_add(out, word + start, n - start);
}

static void add_command(const char *command, sk_buf *out) {
    sk_buf shown = {0};
    for (const char *p = command; *p;) {
        const size_t n = strcspn(p, " ");
        if (n && shown.len) sk_buf_str(&shown, " ");
        if (n) add_word(p, n, &shown);
        p += n + (p[n] == ' ');
    }
    if (!shown.failed && shown.len) sk_table_code(shown.data, out);
    out->failed |= shown.failed;
    sk_buf_free(&shown);
}

static bool command_before(const sk_row_set *s, size_t row, const char *command) {
    for (size_t i = first_of_family(s, row); i < row; i++) {
        const json_t *hosts = json_object_get(s->v[i].json, "hosts");
        for (size_t k = 0; k < json_array_size(hosts); k++)
            if (strcmp(field(json_array_get(hosts, k), "command"), command) == 0) return true;
    }
    return false;
}

static void add_commands(const sk_row_set *s, size_t row, sk_buf *out) {
    const json_t *hosts = json_object_get(s->v[row].json, "hosts");
    for (size_t k = 0; k < json_array_size(hosts); k++) {
        const json_t *host = json_array_get(hosts, k);
        if (!*field(host, "command") || command_before(s, row, field(host, "command"))) continue;
        sk_buf_str(out, "- ");
        sk_table_text(s->v[row].family, out);
        sk_buf_str(out, ", ");
        sk_table_text(field(host, "name"), out);
        sk_buf_str(out, ": ");
        add_command(field(host, "command"), out);
        sk_buf_str(out, "\n");
    }
}

void sk_table_commands(const sk_row_set *s, sk_buf *out) {
    sk_buf files = {0};
    sk_buf commands = {0};
    for (size_t i = 0; i < s->n; i++) {
        add_files(s, i, &files);
        add_commands(s, i, &commands);
    }
    if (files.len) {
        sk_table_heading("Models", SK_WEIGHTS_REAL, out);
        sk_table_head("Family | File | Size | SHA-256 | Weights", out);
        sk_buf_add(out, files.data, files.len);
    }
    if (commands.len) {
        sk_table_heading("Commands", SK_WEIGHTS_REAL, out);
        sk_buf_str(out, "Folders are left out here; the JSON has them.\n\n");
        sk_buf_add(out, commands.data, commands.len);
    }
    out->failed |= files.failed || commands.failed;
    sk_buf_free(&files);
    sk_buf_free(&commands);
}
