/* Numbers and texts as the report's tables write them. */
#include <math.h>
#include <string.h>

#include "bench/family/tables.h"

static const double KIB = 1024.0;
static const uint64_t MIB = 1048576;

void sk_table_ms(double ms, sk_buf *out) {
    if (!isfinite(ms) || ms < 0.0)
        sk_buf_str(out, "n/a");
    else
        sk_buf_printf(out, ms < 10.0 ? "%.2f" : "%.1f", ms);
}

void sk_table_bytes(uint64_t bytes, sk_buf *out) {
    if (bytes == 0)
        sk_buf_str(out, "0");
    else if (bytes < MIB)
        sk_buf_printf(out, "%.1f KiB", (double)bytes / KIB);
    else
        sk_buf_printf(out, "%.1f MiB", (double)bytes / (double)MIB);
}

/* The number that is read decides the word, so that 1.02x is never "parity" in one line and "faster" in another. */
static double hundredths_of(double ratio) {
    return floor(100.0 * ratio + 0.5);
}

bool sk_table_slower(double ratio) {
    return ratio > 0.0 && hundredths_of(ratio) < 98.0;
}

void sk_table_speedup(double ratio, sk_buf *out) {
    if (!isfinite(ratio) || !(ratio > 0.0)) {
        sk_buf_str(out, "n/a");
        return;
    }
    const double hundredths = hundredths_of(ratio);
    if (sk_table_slower(ratio))
        sk_buf_printf(out, "%.2fx (slower)", hundredths / 100.0);
    else if (hundredths <= 102.0)
        sk_buf_printf(out, "%.2fx (parity)", hundredths / 100.0);
    else
        sk_buf_printf(out, "**%.2fx faster**", hundredths / 100.0);
}

static void add_clean(const char *text, char forbidden, char instead, sk_buf *out) {
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        const char shown = c == '|' ? '/' : c < 0x20 || c == 0x7f ? ' ' : *p == forbidden ? instead : *p;
        sk_buf_add(out, &shown, 1);
    }
}

void sk_table_text(const char *text, sk_buf *out) {
    add_clean(text, '|', '/', out);
}

void sk_table_code(const char *text, sk_buf *out) {
    if (!*text) return; /* two backticks would open a longer span */
    sk_buf_str(out, "`");
    add_clean(text, '`', '\'', out);
    sk_buf_str(out, "`");
}
