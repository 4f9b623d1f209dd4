/* `skippy families`: what is known about each model family, which family a model belongs to, and what a cut means. */
#ifndef SKIPPY_CLI_FAMILIES_H
#define SKIPPY_CLI_FAMILIES_H

/* argv[0] is the name for messages. Exit code: 0 done, 1 no such family or no readable model, 2 wrong usage, 3 nothing
 * of the model is reused (infer) or the cut is not accepted (plan). */
int sk_cli_families(int argc, char **argv);

#endif
