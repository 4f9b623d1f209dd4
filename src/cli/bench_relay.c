#include "cli/bench_relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/relay.h"
#include "cli/args.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { ARG_LISTEN = 1, ARG_TO, ARG_DELAY, ARG_HELP };
enum { LINE_BYTES = 128 };
static const double MAX_DELAY_MS = 60000.0;

static const sk_arg_def defs[] = {
    {ARG_LISTEN, "--listen", "HOST:PORT", NULL, "where to listen (default: 127.0.0.1:0, any free port)"},
    {ARG_TO, "--to", "HOST:PORT", NULL, "where every connection is passed on to (needed)"},
    {ARG_DELAY, "--delay-ms", "X", NULL, "how much later each byte arrives, each way (default: 0)"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    const char *listen, *to;
    uint32_t delay_us;
    bool help;
} options;

static void print_help(void) {
    puts(
        "Usage: skippy bench relay --to HOST:PORT [options]\n"
        "\n"
        "Passes TCP connections on and delays every byte, without a limit of bandwidth: how a program behaves on a slow or\n"
        "broken link. Prints one line of JSON when it listens, then takes one command a line from standard input:\n"
        "\n"
        "  delay X   delay of X ms from now on\n"
        "  cut       reset what is open\n"
        "  stall     hold everything back; nothing is closed or lost\n"
        "  go        end the stall\n"
        "  stats     connections and bytes so far\n"
        "\n"
        "Each command is answered with one line of JSON. The end of standard input ends the relay.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nExamples:\n"
         "  skippy bench relay --listen 127.0.0.1:7101 --to 127.0.0.1:7001 --delay-ms 5\n"
         "\n"
         "Exit codes: 0 done, 1 failed, 2 wrong usage.");
}

static bool parse_delay(const char *text, uint32_t *out_us) {
    char *end = NULL;
    const double ms = strtod(text, &end);
    if (end == text || *end || !(ms >= 0.0 && ms <= MAX_DELAY_MS)) return false;
    *out_us = (uint32_t)(ms * 1000.0 + 0.5);
    return true;
}

static int parse(int argc, char **argv, options *o) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e = {0};
    *o = (options){.listen = "127.0.0.1:0"};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id == ARG_DELAY && !parse_delay(a.value, &o->delay_us)) {
            sk_err_set(&e, SKIPPY_E_INVALID, "--delay-ms needs a number from 0 to %.0f, not '%s'", MAX_DELAY_MS,
                       a.value);
            id = -1;
        }
        if (id < 0) {
            fprintf(stderr, "%s: %s. Try 'skippy bench relay --help'.\n", argv[0], e.text);
            return EXIT_USAGE;
        }
        if (id == ARG_LISTEN) o->listen = a.value;
        if (id == ARG_TO) o->to = a.value;
        if (id == ARG_HELP) o->help = true;
    }
    if (!o->to && !o->help) {
        fprintf(stderr, "%s: where to? Give --to HOST:PORT. Try 'skippy bench relay --help'.\n", argv[0]);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* False: there is no such command. */
static bool obey(sk_relay *r, const char *command) {
    uint32_t delay_us;
    if (strcmp(command, "cut") == 0)
        sk_relay_cut(r);
    else if (strcmp(command, "stall") == 0)
        sk_relay_set_stalled(r, true);
    else if (strcmp(command, "go") == 0)
        sk_relay_set_stalled(r, false);
    else if (strncmp(command, "delay ", 6) == 0 && parse_delay(command + 6, &delay_us))
        sk_relay_set_delay(r, delay_us);
    else
        return strcmp(command, "stats") == 0;
    return true;
}

static void answer(sk_relay *r, bool known) {
    sk_relay_stats s;
    if (!known) {
        puts("{\"error\": \"commands are: delay X, cut, stall, go, stats\"}");
    } else {
        sk_relay_get_stats(r, &s);
        printf("{\"connections\": %" PRIu64 ", \"open\": %" PRIu64 ", \"bytes_to\": %" PRIu64
               ", \"bytes_from\": %" PRIu64 "}\n",
               s.connections, s.open, s.bytes_to, s.bytes_from);
    }
    fflush(stdout);
}

int sk_cli_bench_relay(int argc, char **argv) {
    options o;
    sk_relay *r = NULL;
    sk_err e = {0};
    char line[LINE_BYTES];
    int rc = parse(argc, argv, &o);
    if (rc != EXIT_DONE) return rc;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    sk_interrupt_install();
    if (sk_relay_open(o.listen, o.to, o.delay_us, &r, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
        return EXIT_FAILED;
    }
    printf("{\"address\": \"%s\"}\n", sk_relay_address(r));
    fflush(stdout);
    while (!sk_interrupted() && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        answer(r, obey(r, line));
    }
    sk_relay_close(r);
    return EXIT_DONE;
}
