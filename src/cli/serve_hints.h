/* Words for what people of llama-server try and 'skippy serve' does not have. */
#ifndef SKIPPY_CLI_SERVE_HINTS_H
#define SKIPPY_CLI_SERVE_HINTS_H

/* What to do instead of an option that is refused, as the end of a sentence; NULL when there is nothing to say.
 * name is a word of the command line, with its dashes. */
const char *sk_serve_hint(const char *name);

#endif
