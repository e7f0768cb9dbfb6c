/* SPDX-License-Identifier: MIT */
/* The command line: one table of commands with their options and help. */
#ifndef TW_CLI_COMMAND_H
#define TW_CLI_COMMAND_H

/* Exit codes, as README.md lists them. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,       /* a run failed or was poisoned                  */
    EXIT_USAGE_64 = 64,    /* unknown command, job, option or argument      */
    EXIT_UNREACHABLE = 69, /* the store cannot be reached, or refuses       */
    EXIT_STOPPED = 75,     /* stopped before the end; can be taken up again */
    EXIT_CONFIG_78 = 78,   /* the configuration is wrong                    */
};

/* command_main: read options, find the command, run it. An exit code. */
int command_main(int argc, char **argv);

#endif
