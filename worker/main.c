/* SPDX-License-Identifier: MIT */
/* The main program; worker/cli/command.h describes the command line. */
#include "worker/cli/command.h"

int main(int argc, char **argv)
{
    return command_main(argc, argv);
}
