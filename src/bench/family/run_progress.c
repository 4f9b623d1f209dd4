/* Lines for people while a run goes on. */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/family/cell_row.h"
#include "bench/family/run_state.h"

enum { LINE_CHARS = 1200 };

double sk_run_minutes_left(uint64_t spent_ns, size_t measured, size_t remaining) {
    return measured == 0 ? -1.0 : (double)spent_ns / (double)measured * (double)remaining / 60e9;
}

static void add_left(const sk_run_state *s, uint64_t now, char *text, size_t cap) {
    const size_t remaining = s->in->n_cells - s->n_told;
    const double minutes = sk_run_minutes_left(s->measured_ns ? now - s->measured_ns : 0, s->n_measured, remaining);
    text[0] = '\0';
    if (minutes >= 1.0) {
        snprintf(text, cap, ", about %.0f min left", minutes);
    } else if (minutes >= 0.0 && remaining > 0) {
        snprintf(text, cap, ", about %.0f s left", minutes * 60.0);
    }
}

void sk_run_say(const sk_run_state *s, const char *fmt, ...) {
    char text[LINE_CHARS], left[48];
    const uint64_t now = sk_now_ns();
    va_list ap;
    if (!s->o->progress) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_left(s, now, left, sizeof left);
    fprintf(s->o->progress, "[%7.1f s%s] %s\n", (double)(now - s->start_ns) / 1e9, left, text);
    fflush(s->o->progress);
}

static const char *field(const json_t *row, const char *side, const char *name) {
    const char *text = json_string_value(json_object_get(json_object_get(row, side), name));
    return text ? text : "";
}

void sk_run_say_cell(const sk_run_state *s, const sk_family_cell *cell, json_t *row) {
    sk_buf line = {0};
    const char *why = field(row, "skippy", "why");
    sk_buf_printf(&line, "%zu/%zu %s %s%s%s p%u: %s%s%s; ", s->n_told, s->in->n_cells, cell->preset->key,
                  sk_cell_kind_name(cell->kind), cell->use_case[0] ? " " : "", cell->use_case, cell->prefix_tokens,
                  field(row, "skippy", "status"), *why ? ": " : "", why);
    const size_t before = line.len;
    sk_run_times(row, &line);
    if (line.len == before) {
        sk_buf_printf(&line, "llama-server %s", field(row, "llama_server", "status"));
    }
    sk_run_say(s, "%s", line.data ? line.data : "");
    sk_buf_free(&line);
}
