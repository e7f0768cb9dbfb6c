/* SPDX-License-Identifier: MIT */
/* `tableward version`. */
#include <stdio.h>

#include "worker/cli/commands.h"

static int run(const struct invocation *invocation)
{
    (void)invocation;
    printf("tableward %s\n", TABLEWARD_VERSION);
    return EXIT_DONE;
}

const struct command command_version = {
    .name = "version",
    .arguments = "",
    .summary = "prints the version",
    .run = run,
};
