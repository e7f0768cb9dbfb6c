/* SPDX-License-Identifier: MIT */
/* `tableward help [COMMAND]`. */
#include "worker/cli/commands.h"
#include "worker/cli/say.h"

static int run(const struct invocation *invocation)
{
    const struct command *command = NULL;
    const char *near = NULL;

    if (invocation->arg_count > 0) {
        command = command_named(invocation->args[0], &near);
        if (!command)
            return print_unknown("command", invocation->args[0], near);
    }
    command_help(command);
    return EXIT_DONE;
}

const struct command command_help_command = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "lists the commands, or says more about one",
    .max_args = 1,
    .run = run,
};
