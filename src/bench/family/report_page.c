#include "bench/family/report_page.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/table_cell.h"

static const char INTRODUCTION[] =
    "# skippy family benchmark\n\n"
    "skippy against llama-server on the same model files, family by family: llama-server with its default flags and with "
    "the other flags that are listed, the same prompts, the same client. Before anything was timed, the state that the "
    "cache restores was tested for exactness; a row that failed is not compared.\n\n"
    "A ratio is the p50 of the fastest llama-server divided by the p50 of skippy: 2.00x means half the time. From 0.98x to "
    "1.02x it is called parity, below that slower. Times are wall time at the client, over HTTP, in milliseconds. `124+5` "
    "means that a server took 124 tokens of the prompt from its cache and computed 5. " SK_DAGGER
    " marks a ratio between servers whose first answers to the same prompt differ: it is shown, and is no evidence.\n";

void sk_report_page_head(const sk_row_set *s, sk_buf *out) {
    sk_buf_str(out, INTRODUCTION);
    if (s->n == 0) sk_buf_str(out, "\nThe inputs have no rows.\n");
    sk_table_facts(s, out);
    sk_table_read(s, out);
}

void sk_report_page_tables(const sk_row_set *s, const sk_corpus *corpus, sk_buf *out) {
    sk_table_full(s, out);
    sk_table_not_promoted(s, out);
    sk_table_scenarios(s, out);
    sk_table_conversations(s, out);
    sk_table_use_cases(s, corpus, out);
    sk_table_packages(s, out);
    sk_table_sweep(s, out);
    sk_table_curves(s, out);
    sk_table_paired(s, out);
    sk_table_process(s, out);
    sk_table_notes(s, out);
    sk_table_commands(s, out);
}

/* ---- plots ---- */

/* Characters that would end or change a link are percent-encoded. */
static void add_link(const char *path, sk_buf *out) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    for (const unsigned char *p = (const unsigned char *)path; *p; p++)
        sk_buf_printf(out, strchr(plain, *p) ? "%c" : "%%%02X", *p);
}

void sk_relative_path(const char *from, const char *to, sk_buf *out) {
    size_t same = 0; /* after the last slash that both have */
    size_t i = 0;
    while (from[i] && from[i] == to[i]) {
        i++;
        if (to[i - 1] == '/') same = i;
    }
    if (from[i] == '\0' && to[i] == '/') same = i + 1; /* `to` lies in `from` */
    const char *up = same <= strlen(from) ? from + same : "";
    while (*up) {
        sk_buf_str(out, "../");
        up += strcspn(up, "/");
        up += *up == '/';
    }
    sk_buf_str(out, to + same);
}

/* The folder of a file that need not be there yet; malloc'ed. */
static int folder_of(const char *file, char **out, sk_err *e) {
    char *copy = strdup(file);
    if (!copy) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a path");
    *out = realpath(dirname(copy), NULL);
    const int why = errno;
    free(copy);
    if (*out) return SKIPPY_OK;
    return sk_err_set(e, why == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "the folder of '%s' cannot be used: %s",
                      file, strerror(why));
}

static int add_plot(const sk_plot *p, const char *folder, sk_buf *out, sk_err *e) {
    sk_buf relative = {0};
    char *path = realpath(p->path, NULL);
    if (!path) return sk_err_set(e, SKIPPY_E_IO, "the plot '%s' cannot be found: %s", p->path, strerror(errno));
    sk_relative_path(folder, path, &relative);
    sk_buf_str(out, "\n![");
    sk_table_text(p->title, out);
    sk_buf_str(out, "](");
    if (!relative.failed) add_link(relative.data, out);
    sk_buf_str(out, ")\n\n");
    sk_table_text(p->caption, out);
    sk_buf_str(out, "\n");
    out->failed |= relative.failed;
    sk_buf_free(&relative);
    free(path);
    return SKIPPY_OK;
}

int sk_report_page_plots(const sk_plot *plots, size_t n, const char *output, sk_buf *out, sk_err *e) {
    char *folder = NULL;
    if (n == 0) return SKIPPY_OK;
    int rc = folder_of(output, &folder, e);
    sk_buf_str(out, "\n## Plots\n");
    for (size_t i = 0; i < n && rc == SKIPPY_OK; i++) rc = add_plot(&plots[i], folder, out, e);
    free(folder);
    return rc;
}
