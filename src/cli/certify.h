/* `skippy certify`: proves for a model file that its state continues exactly, and keeps a receipt of it. */
#ifndef SKIPPY_CLI_CERTIFY_H
#define SKIPPY_CLI_CERTIFY_H

/* argv[0] is the name for messages. Exit code: 0 passed, 1 failed, 2 wrong usage. With "--restore-worker IN:OUT" it is
 * the fresh process of a running certification. */
int sk_cli_certify(int argc, char **argv);

#endif
