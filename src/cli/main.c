/* skippy: one program, one subcommand each file. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/certify.h"
#include "cli/families.h"
#include "cli/inspect.h"
#include "cli/package.h"
#include "cli/serve.h"
#include "cli/stage.h"
#include "cli/synth.h"

static int print_version(int argc, char **argv);
static int print_help(int argc, char **argv);

static const struct command {
    const char *name, *full_name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "skippy serve", "serve a GGUF over HTTP (OpenAI and llama-server endpoints) with the exact prefix cache",
     sk_cli_serve},
    {"stage", "skippy stage",
     "serve some layers of a model that is split over several processes, or start a whole split", sk_cli_stage},
    {"bench", "skippy bench", "measure against llama-server, both over HTTP", sk_cli_bench},
    {"synth", "skippy synth", "write a model with random weights, for tests and measurements", sk_cli_synth},
    {"inspect", "skippy inspect", "show and verify what a cache directory holds", sk_cli_inspect},
    {"package", "skippy package", "make, verify and show packages: one file for each layer of a model", sk_cli_package},
    {"certify", "skippy certify", "prove that a model's state continues exactly, and keep a receipt of it",
     sk_cli_certify},
    {"families", "skippy families", "list model families and what the cache reuses for each", sk_cli_families},
    {"version", "skippy version", "print the version", print_version},
    {"help", "skippy help", "print this text, or the help of a command", print_help},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int print_version(int argc, char **argv) {
    (void)argc, (void)argv;
    puts("skippy " SKIPPY_VERSION);
    return 0;
}

static const struct command *find(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static int run(const struct command *c, int argc, char **argv) {
    char name[32];
    snprintf(name, sizeof name, "%s", c->full_name);
    argv[0] = name; /* what the command calls itself in messages */
    return c->run(argc, argv);
}

static int unknown(const char *name) {
    fprintf(stderr, "skippy: there is no command '%s'. Try 'skippy help'.\n", name);
    return 2;
}

static int print_help(int argc, char **argv) {
    if (argc > 1) {
        const struct command *c = find(argv[1]);
        if (!c) return unknown(argv[1]);
        char flag[] = "--help";
        char *args[] = {argv[0], flag, NULL};
        if (c->run != print_help) return run(c, 2, args);
    }
    puts("Usage: skippy COMMAND [options]\n\n"
         "An exact prefix cache for LLM serving, and the server around it.\n\nCommands:");
    for (size_t i = 0; i < N_COMMANDS; i++) printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("\n'skippy COMMAND --help' lists the options of a command.\n\n"
         "Example:\n  skippy serve -m model.gguf --port 8080");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(1, argv);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    const struct command *c = find(name);
    return c ? run(c, argc - 1, argv + 1) : unknown(argv[1]);
}
