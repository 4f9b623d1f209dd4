/* The folder of a cell: request.json, cell.json, row.json or row.partial.json. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_CELL_FILES_H
#define SKIPPY_BENCH_FAMILY_CELL_FILES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

enum { SK_CELL_PATH_CHARS = 1400 };

/* Makes a folder and those above it that are not there yet. Errors: SKIPPY_E_IO, SKIPPY_E_INVALID (path too long). */
int sk_cell_folder_make(const char *folder, sk_err *e);
/* Writes a JSON file beside its name and renames it. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM (also: not UTF-8). */
int sk_cell_file_write(const char *folder, const char *name, json_t *root, sk_err *e);
/* The finished row of an earlier run of the same request, if it is the one that cell.json names: a new reference; NULL
 * = there is none. */
json_t *sk_cell_files_finished(const char *folder, json_t *request);
/* Begins a cell: its folder with request.json, without the row of an earlier try. Errors: as above. */
int sk_cell_files_begin(const char *folder, json_t *request, sk_err *e);
/* A row that is not final: the cell is not over, or must be run again. Errors: as above. */
int sk_cell_files_partial(const char *folder, json_t *row, sk_err *e);
/* Ends a cell: cell.json with the digests of all files beside it, then the row, last of all. final: it is row.json.
 * record: the other fields of cell.json (changed: "files" and "row_sha256" are added). Errors: as above. */
int sk_cell_files_end(const char *folder, json_t *record, json_t *row, bool final, sk_err *e);

#endif
