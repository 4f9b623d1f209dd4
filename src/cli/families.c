#include "cli/families.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/args.h"
#include "topology/family.h"

enum { ARG_JSON = 1, ARG_HELP };

static const sk_arg_def defs[] = {
    {ARG_JSON, "--json", NULL, NULL, "one JSON array"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

static const char *reuse_of(enum sk_cache_mode mode) {
    switch (mode) {
    case SK_CACHE_RESIDENT_KV: return "any shared beginning";
    case SK_CACHE_WINDOW_KV: return "recorded boundaries, window kept beside";
    case SK_CACHE_KV_RECURRENT: return "recorded boundaries, KV and recurrent state together";
    default: return "none";
    }
}

static void print_table(void) {
    printf("%-20s %-20s %-12s %-54s %s\n", "family", "architecture", "cache", "reused", "example");
    const sk_family_record *r = NULL;
    for (size_t i = 0; (r = sk_family_at(i)); i++)
        printf("%-20s %-20s %-12s %-54s %s\n", r->family, r->arch, sk_cache_mode_name(r->mode), reuse_of(r->mode),
               r->example ? r->example : "");
}

static void put(sk_buf *b, const char *key, const char *value) {
    sk_buf_printf(b, "\"%s\":\"", key);
    sk_buf_json_escape(b, value, strlen(value));
    sk_buf_str(b, "\"");
}

static void print_json(void) {
    sk_buf b = {0};
    const sk_family_record *r = NULL;
    for (size_t i = 0; (r = sk_family_at(i)); i++) {
        sk_buf_str(&b, i ? ",{" : "{");
        put(&b, "family", r->family);
        sk_buf_str(&b, ",");
        put(&b, "arch", r->arch);
        sk_buf_str(&b, ",");
        put(&b, "cache_mode", sk_cache_mode_name(r->mode));
        sk_buf_str(&b, ",");
        put(&b, "reused", reuse_of(r->mode));
        sk_buf_str(&b, ",");
        put(&b, "example", r->example ? r->example : "");
        sk_buf_str(&b, "}");
    }
    printf("[%s]\n", b.data ? b.data : "");
    sk_buf_free(&b);
}

static void print_help(void) {
    puts(
        "Usage: skippy families [--json]\n\nLists the model families that are known and what the cache reuses for each.\n");
    sk_args_help(defs, N_DEFS, stdout);
}

int sk_cli_families(int argc, char **argv) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e;
    bool json = false;
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0) {
            fprintf(stderr, "%s: %s. Try 'skippy families --help'.\n", argv[0], e.text);
            return 2;
        }
        if (id == ARG_HELP) {
            print_help();
            return 0;
        }
        json = true;
    }
    if (json)
        print_json();
    else
        print_table();
    return 0;
}
