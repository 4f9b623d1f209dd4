/* What a reader should know beside the numbers: parts that did not end, notes of the rows and of loading. */
#include <inttypes.h>
#include <string.h>

#include "bench/family/table_cell.h"

static void add_row_name(const sk_family_row *r, sk_buf *out) {
    sk_buf_str(out, "- ");
    sk_table_text(r->family, out);
    sk_buf_str(out, r->synthetic ? " (synthetic weights, " : " (");
    sk_table_text(r->use_case ? r->use_case_label : r->kind, out);
    sk_buf_printf(out, ", %" PRId64 " tokens)", r->prefix_tokens);
}

static void add_parts(const sk_family_row *r, sk_buf *out) {
    const char *name;
    json_t *part;
    json_object_foreach(json_object_get(r->json, "parts"), name, part) {
        const char *status = json_string_value(json_object_get(part, "status"));
        const char *error = json_string_value(json_object_get(part, "error"));
        if (sk_family_row_complete(r, name)) continue;
        add_row_name(r, out);
        sk_buf_str(out, ": part ");
        sk_table_text(name, out);
        sk_buf_str(out, " is not complete (");
        sk_table_text(status ? status : "no status", out);
        sk_buf_str(out, ")");
        if (error && *error) {
            sk_buf_str(out, ": ");
            sk_table_text(error, out);
        }
        sk_buf_str(out, "\n");
    }
}

/* In turns a slow minute of the machine hits all servers; one after another it may hit one of them alone. */
static void add_schedule(const sk_family_row *r, sk_buf *out) {
    const char *name;
    json_t *part;
    json_object_foreach(json_object_get(r->json, "parts"), name, part) {
        const char *schedule = json_string_value(json_object_get(part, "schedule"));
        if (!schedule || strcmp(schedule, "one after another") != 0) continue;
        add_row_name(r, out);
        sk_buf_str(out, ": the servers did their rounds one after another, since memory did not hold them together\n");
        return;
    }
}

static void add_row_notes(const sk_family_row *r, sk_buf *out) {
    const json_t *notes = json_object_get(r->json, "notes");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        if (!note || !*note) continue;
        add_row_name(r, out);
        sk_buf_str(out, ": ");
        sk_table_text(note, out);
        sk_buf_str(out, "\n");
    }
}

void sk_table_notes(const sk_row_set *s, sk_buf *out) {
    sk_buf lines = {0};
    for (size_t i = 0; i < json_array_size(s->notes); i++) {
        sk_buf_str(&lines, "- ");
        sk_table_text(json_string_value(json_array_get(s->notes, i)), &lines);
        sk_buf_str(&lines, "\n");
    }
    for (size_t i = 0; i < s->n; i++) {
        add_parts(&s->v[i], &lines);
        add_schedule(&s->v[i], &lines);
        add_row_notes(&s->v[i], &lines);
    }
    if (lines.len) {
        sk_table_heading("Notes", SK_WEIGHTS_REAL, out);
        sk_buf_add(out, lines.data, lines.len);
    }
    out->failed |= lines.failed;
    sk_buf_free(&lines);
}
