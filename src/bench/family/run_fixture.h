/* Test support: a small request for sk_family_run with programs that are scripts, in a folder of its own. Fails the
 * running cmocka test when something cannot be made. Not part of the product. */
#ifndef SKIPPY_BENCH_FAMILY_RUN_FIXTURE_H
#define SKIPPY_BENCH_FAMILY_RUN_FIXTURE_H

#include <stdio.h>

#include "bench/family/input.h"

typedef struct sk_run_fixture {
    char folder[512];     /* absolute */
    char input_path[600]; /* FOLDER/input.json */
    char out_dir[600];    /* FOLDER/out, not there yet */
    sk_family_input *in;  /* owned; what was not saved is not in the file */
} sk_run_fixture;

/* A new folder with an input of no cells: programs "correctness" (passes everything) and "server" (a fake one, as
 * stage_server and native_server), few and short repetitions, no waiting. */
void run_fixture_make(sk_run_fixture *f);
/* Removes the folder. */
void run_fixture_free(sk_run_fixture *f);
/* Writes an executable script FOLDER/NAME. */
void run_fixture_script(const sk_run_fixture *f, const char *name, const char *body);
/* Writes FOLDER/NAME. */
void run_fixture_file(const sk_run_fixture *f, const char *name, const char *text);
/* Adds the model of a preset: FILE_TEXT becomes its bytes; NULL = it is missing. Returns its index. */
size_t run_fixture_model(sk_run_fixture *f, const char *key, const char *file_text);
/* The same with a file that is there; path absolute. */
size_t run_fixture_model_at(sk_run_fixture *f, const char *key, const char *path);
/* Adds a cell that wants correctness and serial rows of both; its output is "FOLDER_NAME/KEY-pPREFIX". */
sk_family_cell *run_fixture_cell(sk_run_fixture *f, size_t model, sk_cell_kind kind, uint32_t prefix,
                                 const char *folder_name);
/* Pins FOLDER/NAME (or an absolute name). */
void run_fixture_pin(const sk_run_fixture *f, const char *name, sk_pinned_file *pin);
/* Writes the input to input_path. */
void run_fixture_save(const sk_run_fixture *f);
/* A file of the output folder as JSON: new reference; the test fails when it is none. */
json_t *run_fixture_load(const sk_run_fixture *f, const char *name);
bool run_fixture_has(const sk_run_fixture *f, const char *name);

/* Runs it with version "1.2.3". Errors: those of sk_family_run. */
int run_fixture_run(const sk_run_fixture *f, FILE *progress, sk_err *e);
/* A full cell with a prefix of 128 tokens and a sweep cell with 64, of one model, saved. */
void run_fixture_two_cells(sk_run_fixture *f, bool restart);
/* The text OBJECT.A.B; "" when there is none. */
const char *run_fixture_text(json_t *object, const char *a, const char *b);
/* How many samples a host has in a series of a row. */
size_t run_fixture_samples(json_t *row, const char *part, const char *series, const char *host);

/* The certificate that the script "correctness" writes, with this status. */
char *run_fixture_certificate(const char *status);

#endif
