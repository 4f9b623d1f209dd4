#include "cli/stage.h"

#include <stddef.h>
#include <string.h>

#include "cli/stage_actions.h"

static const struct action {
    const char *name;
    int (*run)(int argc, char **argv);
} actions[] = {
    {"init-certs", stage_init_certs},
    {"up", stage_up},
};

int sk_cli_stage(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(argv[1], actions[i].name) != 0) continue;
        argv[1] = argv[0]; /* what it calls itself */
        return actions[i].run(argc - 1, argv + 1);
    }
    return stage_run(argc, argv);
}
