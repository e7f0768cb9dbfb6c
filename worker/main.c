/* SPDX-License-Identifier: MIT */
/* The program: see worker/cli/command.h for what it can do. */
#include "worker/cli/command.h"

int main(int argc, char **argv)
{
    return command_main(argc, argv);
}
