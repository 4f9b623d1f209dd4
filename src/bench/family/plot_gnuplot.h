/* gnuplot as a process: turns a program and its data into an SVG file. Not thread-safe (bench/process.h). */
#ifndef SKIPPY_BENCH_FAMILY_PLOT_GNUPLOT_H
#define SKIPPY_BENCH_FAMILY_PLOT_GNUPLOT_H

#include "base/err.h"

/* Runs FOLDER/NAME.gp, so that FOLDER/NAME.svg is there, complete, or not at all. gnuplot: a path, a name in PATH, or
 * NULL = "gnuplot". Nobody's own settings of gnuplot are read. Errors: SKIPPY_E_NOT_FOUND (no gnuplot; how to get it),
 * SKIPPY_E_RUNTIME (gnuplot's words), SKIPPY_E_TIMEOUT (a minute), SKIPPY_E_CANCELLED, SKIPPY_E_INVALID (path too
 * long), SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_gnuplot_run(const char *gnuplot, const char *folder, const char *name, sk_err *e);

#endif
