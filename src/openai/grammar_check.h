/* Bounds on GBNF grammars, checked before llama.cpp's grammar engine gets them. That engine follows every way in which
 * the text may go on, and cannot be interrupted: a few hundred bytes of grammar can keep it busy for minutes, or make
 * it fill the memory. Pure.
 *
 * What is found: rules that begin with themselves behind something that may be empty (the engine's own test sees only
 * some of these), and how many ways to go on there can be at one place, as a number that each rule gives from those
 * that it begins with. What is not found: grammars that become more ambiguous with each character of the text. */
#ifndef SKIPPY_OPENAI_GRAMMAR_CHECK_H
#define SKIPPY_OPENAI_GRAMMAR_CHECK_H

#include <stddef.h>

#include "openai/error.h"

/* Ways to go on at one place of the text. An enum of n values has n of them, n optional properties in a row have n. */
#define SK_MAX_GRAMMAR_WAYS 2048
/* Rules inside rules that are entered before one character is read. */
#define SK_MAX_GRAMMAR_DEPTH 256
/* Parentheses inside parentheses. */
#define SK_MAX_GRAMMAR_NESTING 256
/* Characters and references, repetitions written out. */
#define SK_MAX_GRAMMAR_ELEMENTS 1000000

/* Returns 0 or 400, with a message that names the limit and the value; 500 when out of memory. A text that is not GBNF
 * passes: the engine refuses it and says where. */
int sk_grammar_check(const char *gbnf, const char *param, sk_api_error *err);

#endif
