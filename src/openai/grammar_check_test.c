/* Which grammars reach llama.cpp's grammar engine, and which would keep it busy without end. */
#include "openai/grammar_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "openai/gbnf.h"

static sk_api_error err;

static int check(const char *gbnf) {
    memset(&err, 0, sizeof err);
    return sk_grammar_check(gbnf, "the_grammar", &err);
}

static void accept(const char *gbnf) {
    if (check(gbnf) != 0) fail_msg("%s: %.300s", err.message, gbnf);
}

static void refuse(const char *gbnf, const char *why) {
    if (check(gbnf) != 400) fail_msg("not refused: %.300s", gbnf);
    assert_string_equal(err.param, "the_grammar");
    if (!strstr(err.message, why)) fail_msg("'%s' does not say '%s'", err.message, why);
}

/* Rules r0 to r<n>, each made of the next one by `form` ("%d" is the next number); the last one is `end`. */
static const char *chain(sk_buf *b, const char *form, int n, const char *end) {
    const char *at = strstr(form, "%d");
    sk_buf_clear(b);
    sk_buf_str(b, "root ::= r0\n");
    for (int i = 0; i < n; i++) sk_buf_printf(b, "r%d ::= %.*s%d%s\n", i, (int)(at - form), form, i + 1, at + 2);
    sk_buf_printf(b, "r%d ::= %s\n", n, end);
    return b->data;
}

static void ordinary_grammars_pass(void **state) {
    (void)state;
    accept("root ::= \"yes\" | \"no\"");
    accept("root ::= [^\"\\\\\\]] [a-z]+ \"\\\"\" {2, 3} . # a comment ) (\nother ::= !<[5]> <|end|> root");
    accept("root ::= item (\",\" item)*\nitem ::= \"[\" root \"]\" | [0-9]{1,16}");
    accept("root ::= object\nvalue ::= object | \"x\"\nobject ::= \"{\" (\"k:\" value (\",k:\" value)*)? \"}\"");
    accept("expr ::= term ([-+] term)*\nterm ::= \"(\" expr \")\" | [0-9]+\nroot ::= expr");
}

static void text_that_is_no_grammar_is_left_to_the_engine(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "root",
                                        "root ::= (",
                                        "root ::= \"a",
                                        "root ::= [a",
                                        "root ::= <a",
                                        "root ::= !a",
                                        "root ::= )",
                                        "root ::= *",
                                        "root ::= \"a\"{",
                                        "root ::= \"a\"{2",
                                        "root ::= \"a\"{2,x}",
                                        "root ::= \"a\" } b",
                                        "::= a"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) accept(texts[i]);
}

static void nested_optional_repetitions_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    refuse(chain(&b, "(r%d?){0,9}", 6, "\"a\""), "ways to go on; at most 2048 are allowed");
    accept(chain(&b, "(r%d?){0,9}", 2, "\"a\""));
    /* Not at the beginning: the place behind "x" counts as well. */
    sk_buf_clear(&b);
    sk_buf_str(&b,
               "root ::= \"x\" a{0,100} \"y\"\na ::= b? b? b? b? b? b? b? b? b?\nb ::= c? c? c? c? c? c? c? c? c? c?\n"
               "c ::= \"1\" | \"2\" | \"3\"");
    refuse(b.data, "there are 37001 ways"); /* c has 1 + 3, b 1 + 10 * 4, a 1 + 9 * 41; 100 of these, and "y" */
    sk_buf_free(&b);
}

static void alternatives_are_counted(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_buf_str(&b, "root ::= \"a\"");
    for (int i = 0; i < 2000; i++) sk_buf_str(&b, " | \"a\"");
    accept(b.data);
    for (int i = 0; i < 100; i++) sk_buf_str(&b, " | \"a\"");
    refuse(b.data, "rule 'root' of the grammar is too ambiguous: at one place there are 2102 ways");
    sk_buf_free(&b);
}

/* llama.cpp sees only a rule whose own alternative is empty as one that may be; through another one it goes round until
 * the memory is full. */
static void left_recursion_behind_what_may_be_empty_is_refused(void **state) {
    (void)state;
    refuse("root ::= b root \"x\" | \"y\"\nb ::= c\nc ::= \"\" | \"z\"",
           "rule 'root' of the grammar begins with itself");
    refuse("root ::= root \"x\" | \"y\"", "left recursion");
    refuse("root ::= \"x\" a\na ::= b{0,3} a* \"q\"\nb ::= \"y\"?", "left recursion");
    refuse("root ::= a\na ::= b | b \"x\"\nb ::= a | \"y\"", "left recursion");
    /* Coming back with nothing left to do is the same place again. */
    accept("root ::= ((\"a\"?)*)");
    accept("root ::= a\na ::= b | \"x\"\nb ::= a | \"y\"");
}

static void deep_beginnings_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    accept(chain(&b, "r%d \"x\"", 200, "\"a\""));
    refuse(chain(&b, "r%d \"x\"", 300, "\"a\""), "begins with more than 256 rules inside each other");
    refuse(chain(&b, "r%d \"x\"", 20000, "\"a\""), "more than 256 rules inside each other");
    accept(chain(&b, "r%d", 2000, "\"a\"")); /* nothing is kept for the way back */
    accept(chain(&b, "\"x\" r%d", 20000, "\"a\""));
    refuse(chain(&b, "r%d", 20000, "\"a\""), "more than 256 rules inside each other");
    sk_buf_free(&b);
}

/* "root ::= ", then head, n times '(', middle, n times close (0: none), tail. */
static const char *parenthesised(sk_buf *b, const char *head, int n, const char *middle, char close, const char *tail) {
    sk_buf_clear(b);
    sk_buf_printf(b, "root ::= %s", head);
    for (int i = 0; i < n; i++) sk_buf_str(b, "(");
    sk_buf_str(b, middle);
    for (int i = 0; i < n && close; i++) sk_buf_add(b, &close, 1);
    sk_buf_str(b, tail);
    return b->data;
}

static void parentheses_are_bounded(void **state) {
    (void)state;
    sk_buf b = {0};
    accept(parenthesised(&b, "", 256, "\"a\"", ')', ""));
    refuse(parenthesised(&b, "", 257, "\"a\"", ')', ""), "nested more than 256 levels deep");
    /* In literals, classes, tokens and comments they are only characters. */
    accept(parenthesised(&b, "\"", 600, "", 0, "\""));
    accept(parenthesised(&b, "[", 600, "", 0, "]"));
    accept(parenthesised(&b, "<", 600, "", 0, ">"));
    accept(parenthesised(&b, "\"\" #", 600, "", 0, "\n"));
    sk_buf_free(&b);
}

static void repetitions_that_fill_the_memory_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_buf_str(&b, "root ::= \"");
    for (int i = 0; i < 1000; i++) sk_buf_str(&b, "a");
    sk_buf_str(&b, "\"{1999}");
    refuse(b.data, "the grammar has 1999000 elements when its repetitions are written out; at most 1000000");
    accept("root ::= \"a\"{0,1999}");
    refuse("root ::= \"a\"{99999999999999999999}", "more than 1000000000 elements");
    sk_buf_free(&b);
}

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Any text must come to an end, without a fault. */
static void random_text_is_read_safely(void **state) {
    (void)state;
    static const char *const parts[] = {"root", "a", "b", " ::= ", "\n",  "|",  "(",   ")",    "\"x\"", "[a-z]",
                                        "*",    "+", "?", "{2",    ",3}", "}",  "<t>", "!",    "\\\"",  "\"",
                                        "[",    "#", " ", "c ",    "a ",  "b ", ".",   "{0,9}"};
    uint64_t seed = 0x6b6e66;
    print_message("seed %llx\n", (unsigned long long)seed);
    sk_buf b = {0};
    size_t read = 0;
    for (int round = 0; round < 20000; round++) {
        sk_buf_clear(&b);
        sk_buf_str(&b, round % 2 ? "root ::= a\na ::= b\nb ::= " : "");
        size_t n = next_random(&seed) % 40;
        for (size_t i = 0; i < n; i++) sk_buf_str(&b, parts[next_random(&seed) % (sizeof parts / sizeof *parts)]);
        const char *text = b.data ? b.data : "";
        sk_gbnf g;
        check(text);
        if (sk_gbnf_parse(text, 10, &g) != SKIPPY_OK) continue;
        read++;
        sk_gbnf_free(&g);
    }
    assert_in_range(read, 500, 20000); /* else the parts are badly chosen */
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_grammars_pass),
        cmocka_unit_test(text_that_is_no_grammar_is_left_to_the_engine),
        cmocka_unit_test(nested_optional_repetitions_are_refused),
        cmocka_unit_test(alternatives_are_counted),
        cmocka_unit_test(left_recursion_behind_what_may_be_empty_is_refused),
        cmocka_unit_test(deep_beginnings_are_refused),
        cmocka_unit_test(parentheses_are_bounded),
        cmocka_unit_test(repetitions_that_fill_the_memory_are_refused),
        cmocka_unit_test(random_text_is_read_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
