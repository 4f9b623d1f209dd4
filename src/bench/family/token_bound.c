#include "bench/family/token_bound.h"

#include <stdbool.h>

enum { LETTERS_PER_TOKEN = 4, BYTES_PER_TOKEN = 2 };

typedef enum byte_class { CLASS_SPACE, CLASS_LETTER, CLASS_OTHER, CLASS_SINGLE } byte_class;

static byte_class class_of(char c) {
    const unsigned char b = (unsigned char)c;
    if (b == ' ' || (b >= '\t' && b <= '\r')) {
        return CLASS_SPACE;
    }
    if ((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')) {
        return CLASS_LETTER;
    }
    return b >= 0x80 ? CLASS_OTHER : CLASS_SINGLE;
}

/* Tokens of a run of n bytes of one class; `word` is true when letters follow. */
static size_t run_tokens(byte_class class, const char *run, size_t n, bool word) {
    switch (class) {
    case CLASS_SPACE: return n == 1 && *run == ' ' && word ? 0 : 1;
    case CLASS_LETTER: return (n + LETTERS_PER_TOKEN - 1) / LETTERS_PER_TOKEN;
    case CLASS_OTHER: return (n + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;
    case CLASS_SINGLE: break;
    }
    return n;
}

size_t sk_token_bound(const char *text) {
    size_t tokens = 0;
    while (*text) {
        const byte_class class = class_of(*text);
        const char *end = text + 1;
        while (*end && class_of(*end) == class) {
            end++;
        }
        tokens += run_tokens(class, text, (size_t)(end - text), class_of(*end) == CLASS_LETTER);
        text = end;
    }
    return tokens;
}
