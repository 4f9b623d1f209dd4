#include "cli/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_ARGS = 32 };

/* A stream that leads into a file for a while. */
typedef struct detour {
    FILE *stream, *file;
    int saved;
} detour;

static detour divert(FILE *stream) {
    detour d = {.stream = stream, .file = tmpfile()};
    assert_non_null(d.file);
    fflush(stream);
    d.saved = dup(fileno(stream));
    assert_true(d.saved >= 0);
    assert_true(dup2(fileno(d.file), fileno(stream)) >= 0);
    return d;
}

/* Ends the detour and returns what was written; the caller frees. */
static char *come_back(detour *d) {
    fflush(d->stream);
    assert_true(dup2(d->saved, fileno(d->stream)) >= 0);
    close(d->saved);
    const long size = fseek(d->file, 0, SEEK_END) == 0 ? ftell(d->file) : -1;
    assert_true(size >= 0);
    char *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (!text) abort();
    text[size] = '\0';
    rewind(d->file);
    assert_int_equal(fread(text, 1, (size_t)size, d->file), size);
    fclose(d->file);
    return text;
}

int capture(captured *c, int (*command)(int argc, char **argv), const char *const *args) {
    char *argv[MOST_ARGS + 1] = {NULL};
    int argc = 0;
    for (; args[argc]; argc++) {
        assert_true(argc < MOST_ARGS);
        argv[argc] = strdup(args[argc]);
        assert_non_null(argv[argc]);
    }
    char *const *owned = argv;
    char *passed[MOST_ARGS + 1]; /* commands may reorder it */
    memcpy(passed, argv, sizeof passed);
    captured_free(c);
    detour out = divert(stdout), err = divert(stderr);
    const int code = command(argc, passed);
    c->err = come_back(&err);
    c->out = come_back(&out);
    for (int i = 0; i < argc; i++) free(owned[i]);
    return code;
}

void captured_free(captured *c) {
    free(c->out);
    free(c->err);
    *c = (captured){0};
}
