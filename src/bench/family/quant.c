#include "bench/family/quant.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One word of a name, between "-", "." and the ends. Not NUL-terminated. */
typedef struct word {
    const char *at;
    size_t len;
} word;

static bool starts_with(word w, const char *text) {
    return w.len >= strlen(text) && strncasecmp(w.at, text, strlen(text)) == 0;
}

static bool is_word(word w, const char *text) {
    return w.len == strlen(text) && starts_with(w, text);
}

/* "Q4_K_M", "IQ2_XS", "TQ1_0", "F16" ...: the kinds that llama.cpp can write. */
static bool is_quant(word w) {
    static const char *const whole[] = {"F16", "F32", "BF16"};
    static const char *const begins[] = {"Q", "IQ", "TQ"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (is_word(w, whole[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        const size_t n = strlen(begins[i]);
        if (w.len > n + 1 && starts_with(w, begins[i]) && isdigit((unsigned char)w.at[n]) && w.at[n + 1] == '_') {
            return true;
        }
    }
    return starts_with(w, "MXFP4");
}

void sk_quant_of_name(const char *path, char *out, size_t cap) {
    const char *slash = strrchr(path, '/');
    const char *p = slash ? slash + 1 : path;
    word before = {p, 0};
    word found = {p, 0};
    while (*p) {
        const word w = {p, strcspn(p, "-.")};
        if (is_quant(w)) {
            /* "UD" in front belongs to it: a mix of types that has the same name otherwise. */
            found = is_word(before, "UD") ? (word){before.at, (size_t)(w.at - before.at) + w.len} : w;
        }
        before = w;
        p += w.len;
        p += *p != '\0';
    }
    snprintf(out, cap, "%.*s", (int)(found.len < 31 ? found.len : 31), found.at);
    for (char *c = out; *c; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
}

const char *sk_quant_of_file_type(long file_type) {
    /* By number, as llama.h lists them; the gaps were removed from the format. */
    static const char *const names[] = {
        [0] = "F32",     [1] = "F16",     [2] = "Q4_0",     [3] = "Q4_1",    [7] = "Q8_0",     [8] = "Q5_0",
        [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S",  [12] = "Q3_K_M", [13] = "Q3_K_L",  [14] = "Q4_K_S",
        [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",  [18] = "Q6_K",   [19] = "IQ2_XXS", [20] = "IQ2_XS",
        [21] = "Q2_K_S", [22] = "IQ3_XS", [23] = "IQ3_XXS", [24] = "IQ1_S",  [25] = "IQ4_NL",  [26] = "IQ3_S",
        [27] = "IQ3_M",  [28] = "IQ2_S",  [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",   [32] = "BF16",
        [36] = "TQ1_0",  [37] = "TQ2_0",  [38] = "MXFP4",
    };
    const bool known = file_type >= 0 && (size_t)file_type < sizeof names / sizeof names[0];
    return known && names[file_type] ? names[file_type] : "";
}
