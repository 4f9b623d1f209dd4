/* `skippy synth`: writes a synthetic model. */
#ifndef SKIPPY_CLI_SYNTH_H
#define SKIPPY_CLI_SYNTH_H

/* argv[0] is the name for messages ("skippy synth" or "synth"). Exit code: 0 done, 1 failed, 2 wrong usage. */
int sk_cli_synth(int argc, char **argv);

#endif
