#include "cli/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/args.h"
#include "cli/inspect_print.h"
#include "cli/load_bar.h"

enum exit_code { EXIT_DONE = 0, EXIT_FOUND = 1, EXIT_USAGE = 2 };
enum { ARG_STORE = 1, ARG_ENTRY, ARG_VERIFY, ARG_JSON, ARG_HELP };

static const sk_arg_def defs[] = {
    {ARG_STORE, "--store", "NAME", NULL, "this store only"},
    {ARG_ENTRY, "--entry", "ID", NULL, "one entry: all fields, token ids, parts, block digests"},
    {ARG_VERIFY, "--verify", NULL, NULL, "read every block and compare it with its digest"},
    {ARG_JSON, "--json", NULL, NULL, "one JSON object on standard output"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    const char *dir, *store;
    uint64_t entry; /* 0 = all */
    bool verify, json, help;
} options;

/* A store as the directory lists it. */
typedef struct listed {
    char name[65];
    uint64_t bytes;
    bool in_use;
} listed;

typedef struct list {
    listed *store;
    size_t n;
} list;

/* A run of the command. */
typedef struct run {
    const char *self;
    const options *o;
    sk_buf text;
    json_t *stores; /* with --json */
    size_t shown;   /* stores or entries */
    bool bad;       /* something is wrong with a store */
} run;

static void print_help(void) {
    puts("Usage: skippy inspect DIR [--store NAME] [--entry ID] [--verify] [--json]\n"
         "\n"
         "Shows what a cache directory (skippy serve --cache-disk DIR) holds: its stores, their entries with tokens,\n"
         "sizes, reason and age, and what deduplication saves. Nothing is changed, and the stores may be in use.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts(
        "\n"
        "Columns: 'logical' is the size of an entry's payload, 'own' the part of it that no other entry shares,\n"
        "'unused' the time since it was used last.\n"
        "\n"
        "Examples:\n"
        "  skippy inspect ~/.cache/skippy/prefixes\n"
        "  skippy inspect --verify ~/.cache/skippy/prefixes\n"
        "  skippy inspect ~/.cache/skippy/prefixes --entry 17 --json\n"
        "\n"
        "Exit codes: 0 done, 1 bad blocks, a store that cannot be read, or nothing of that name or id, 2 wrong usage.");
}

/* ---- options ---- */

static int usage_error(const char *self, const char *words) {
    const char *end = words[strlen(words) - 1] == '?' ? "" : ".";
    fprintf(stderr, "%s: %s%s Try 'skippy inspect --help'.\n", self, words, end);
    return EXIT_USAGE;
}

/* Takes the directory out of argv, wherever it stands: the rest are options. A value of an option is skipped with it.
 */
static char *take_dir(int *argc, char **argv) {
    for (int i = 1; i < *argc; i++) {
        const char *a = argv[i];
        if ((strcmp(a, "--store") == 0 || strcmp(a, "--entry") == 0) && i + 1 < *argc) {
            i++;
        } else if (a[0] != '-') {
            char *dir = argv[i];
            memmove(argv + i, argv + i + 1, (size_t)(*argc - i - 1) * sizeof *argv);
            (*argc)--;
            return dir;
        }
    }
    return NULL;
}

static int parse(int argc, char **argv, options *o) {
    sk_err e;
    o->dir = take_dir(&argc, argv);
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        switch (id) {
        case ARG_STORE: o->store = a.value; break;
        case ARG_ENTRY:
            if (!sk_args_u64(&a, 1, UINT64_MAX, &o->entry, &e)) return usage_error(argv[0], e.text);
            break;
        case ARG_VERIFY: o->verify = true; break;
        case ARG_JSON: o->json = true; break;
        case ARG_HELP: o->help = true; return EXIT_DONE;
        default: return usage_error(argv[0], e.text);
        }
    }
    return o->dir ? EXIT_DONE : usage_error(argv[0], "which directory?");
}

/* ---- stores ---- */

static int add_store(void *ud, const char *name, uint64_t bytes, bool owned) {
    list *l = ud;
    listed *bigger = realloc(l->store, (l->n + 1) * sizeof *bigger);
    if (!bigger) return SKIPPY_E_NOMEM;
    l->store = bigger;
    listed *s = &l->store[l->n++];
    *s = (listed){.bytes = bytes, .in_use = owned};
    snprintf(s->name, sizeof s->name, "%s", name);
    return SKIPPY_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const listed *)a)->name, ((const listed *)b)->name);
}

static int list_stores(const char *dir, list *l, sk_err *e) {
    struct stat st;
    if (stat(dir, &st) != 0) return sk_err_set(e, SKIPPY_E_IO, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return sk_err_set(e, SKIPPY_E_IO, "%s is not a directory", dir);
    int rc = skippy_disk_list(dir, add_store, l);
    if (rc != SKIPPY_OK) return sk_err_set(e, rc, "cannot list %s: %s", dir, skippy_strerror(rc));
    if (l->n) qsort(l->store, l->n, sizeof *l->store, by_name);
    return SKIPPY_OK;
}

/* ---- verification, with a bar on a terminal ---- */

static bool show_progress(void *ud, uint64_t done, uint64_t total) {
    sk_load_bar *bar = ud;
    if (bar->tty) sk_load_bar_show(bar, total ? (float)((double)done / (double)total) : 1.0f);
    return true;
}

static int verify(inspect_store *s, const inspect_entry *only) {
    char what[96];
    snprintf(what, sizeof what, "verifying %s", s->name);
    sk_load_bar bar = {.out = stderr, .tty = isatty(STDERR_FILENO) == 1, .what = what, .shown = -1};
    return inspect_store_verify(s, only, show_progress, &bar);
}

/* ---- output ---- */

static bool append(json_t *array, json_t *value) {
    return json_array_append_new(array, value) == 0;
}

static int show_store(run *r, const inspect_store *s, const inspect_about *about) {
    r->shown++;
    if (r->o->json) return append(r->stores, inspect_json_store(s, about)) ? SKIPPY_OK : SKIPPY_E_NOMEM;
    if (r->shown > 1) sk_buf_str(&r->text, "\n");
    inspect_print_store(&r->text, s, about);
    return SKIPPY_OK;
}

static int show_entry(run *r, const inspect_store *s, const inspect_entry *e, const inspect_about *about) {
    const skippy_manifest *m = NULL;
    int rc = skippy_disk_lease(s->disk, e->id, &m);
    if (rc != SKIPPY_OK) return rc;
    r->shown++;
    if (r->o->json)
        rc = append(r->stores, inspect_json_entry(s, e, m)) ? SKIPPY_OK : SKIPPY_E_NOMEM;
    else
        inspect_print_entry(&r->text, s, e, m, about);
    skippy_disk_release(s->disk, e->id);
    return rc;
}

static int inspect_one(run *r, const listed *l, sk_err *e) {
    inspect_store s;
    int rc = inspect_store_open(&s, r->o->dir, l->name, e);
    if (rc != SKIPPY_OK) return rc;
    const inspect_about about = {l->bytes, l->in_use, r->o->verify, sk_unix_ms()};
    const inspect_entry *only = r->o->entry ? inspect_store_find(&s, r->o->entry) : NULL;
    const bool show = only || !r->o->entry;
    if (show && r->o->verify) rc = verify(&s, only);
    if (show && rc == SKIPPY_OK) rc = only ? show_entry(r, &s, only, &about) : show_store(r, &s, &about);
    if (s.bad_blocks) r->bad = true;
    if (rc != SKIPPY_OK) sk_err_set(e, rc, "store '%s': %s", l->name, skippy_strerror(rc));
    inspect_store_close(&s);
    return rc;
}

/* A store that cannot be read does not hide the others. */
static void inspect_all(run *r, const list *l) {
    for (size_t i = 0; i < l->n; i++) {
        sk_err e;
        if (r->o->store && strcmp(r->o->store, l->store[i].name) != 0) continue;
        if (inspect_one(r, &l->store[i], &e) == SKIPPY_OK) continue;
        fprintf(stderr, "%s: %s\n", r->self, e.text);
        r->bad = true;
    }
}

static int write_json(run *r) {
    json_t *root = json_pack("{s:s, s:O}", "directory", r->o->dir, r->o->entry ? "entries" : "stores", r->stores);
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(root);
    return rc == 0 && puts("") != EOF ? 0 : -1;
}

static int write_text(const run *r) {
    if (r->text.failed) return -1;
    if (r->text.len == 0) return 0;
    return fwrite(r->text.data, 1, r->text.len, stdout) == r->text.len ? 0 : -1;
}

/* Says why there is nothing to show. An empty directory is no failure. */
static int nothing_shown(run *r, size_t n_stores) {
    if (r->bad) return EXIT_FOUND;
    if (r->o->entry)
        fprintf(stderr, "%s: there is no entry %llu in %s\n", r->self, (unsigned long long)r->o->entry, r->o->dir);
    else if (r->o->store)
        fprintf(stderr, "%s: there is no store '%s' in %s\n", r->self, r->o->store, r->o->dir);
    else if (n_stores == 0 && !r->o->json)
        sk_buf_printf(&r->text, "%s holds no store\n", r->o->dir);
    return r->o->entry || r->o->store ? EXIT_FOUND : EXIT_DONE;
}

static int inspect(run *r) {
    list l = {0};
    sk_err e;
    int code = EXIT_DONE;
    if (list_stores(r->o->dir, &l, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", r->self, e.text);
        code = EXIT_FOUND;
        goto out;
    }
    inspect_all(r, &l);
    if (r->shown == 0) code = nothing_shown(r, l.n);
    if ((r->o->json ? write_json(r) : write_text(r)) != 0 || fflush(stdout) != 0) {
        fprintf(stderr, "%s: cannot write to standard output\n", r->self);
        code = EXIT_FOUND;
    }
    if (r->bad) code = EXIT_FOUND;
out:
    free(l.store);
    return code;
}

int sk_cli_inspect(int argc, char **argv) {
    options o = {0};
    int code = parse(argc, argv, &o);
    if (code != EXIT_DONE) return code;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    run r = {.self = argv[0], .o = &o, .stores = o.json ? json_array() : NULL};
    code = inspect(&r);
    json_decref(r.stores);
    sk_buf_free(&r.text);
    return code;
}
