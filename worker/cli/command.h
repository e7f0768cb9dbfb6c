/* SPDX-License-Identifier: MIT */
/*
 * The command line: one table of commands with their options and help. A new
 * command is one file in this folder and one line in command.c. A new option
 * needs:
 *
 *   - a member of enum option;
 *   - its spelling in FORMS (command.c), with a placeholder if it has a value.
 *     The placeholder decides what the completions for shells offer;
 *   - its values in CHOICES (command.c), if only certain values are valid;
 *   - its help in OPTIONS of each command that takes it;
 *   - its name in README's table of commands, which tests/readme compares;
 *   - a check in tests/cli.sh, and in tests/manual if shells offer its value.
 *
 * Options may be anywhere on the line, as `--name value` or `--name=value`;
 * `--` ends them. -h and --help print the help of the command on the same line.
 */
#ifndef TW_CLI_COMMAND_H
#define TW_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes, as README.md lists them. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,       /* a run failed or was poisoned                  */
    EXIT_USAGE_64 = 64,    /* unknown command, job, option or argument      */
    EXIT_UNREACHABLE = 69, /* store unreachable, or credentials refused     */
    EXIT_STOPPED = 75,     /* stopped before the end; can be continued      */
    EXIT_CONFIG_78 = 78,   /* the configuration is wrong                    */
};

/* All options. command.c has their names, and which options have a value; each
 * command has the help of its own options. */
enum option {
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_CONFIG,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT,
    OPTION_ACCEPT_DEFINITION,
    OPTION_ACCEPT_DELETES,
    OPTION_ALL,
    OPTION_COUNT_ENTITIES,
    OPTION_DELAY,
    OPTION_DRAIN,
    OPTION_DRY_RUN,
    OPTION_FAILING,
    OPTION_FILTER,
    OPTION_FORCE,
    OPTION_FORMAT,
    OPTION_ID,
    OPTION_JOB,
    OPTION_JSON,
    OPTION_LIMIT,
    OPTION_NOW,
    OPTION_OLDER,
    OPTION_ON_CONFLICT,
    OPTION_ON_ERROR,
    OPTION_ONLINE,
    OPTION_QUEUE,
    OPTION_QUEUES,
    OPTION_REJECTED,
    OPTION_REOPEN,
    OPTION_REPAIR,
    OPTION_SELECT,
    OPTION_SINCE,
    OPTION_STATE,
    OPTION_STORE,
    OPTION_VECTORS,
    OPTION_VERSION_PROPERTY,
    OPTION_WATCH,
    OPTION_YES,
    OPTION_COUNT,
};

struct command_option {
    enum option option;
    const char *help; /* help, one line; NULL: the end of a list */
};

/* How an option is written. value: the placeholder for the option's value in
 * the help; NULL: the option has no value. */
struct option_form {
    const char *name, *value;
};

struct invocation;

struct command {
    const char *name;
    const char *arguments;       /* usage text: "JOB [NAME=VALUE ...]" */
    const char *summary;         /* help, one line */
    const char *details;         /* help, more lines; NULL: none */
    const char *const *required; /* names of required arguments;
                                    NULL-terminated, or NULL */
    size_t max_args;
    bool only_reads; /* the command writes to no store, so it also works on
                        files that may only be read */
    const struct command_option *options; /* NULL: only the common options */
    int (*run)(const struct invocation *invocation); /* runs the command;
                                                        returns an exit code */
};

/* One parsed command line. All texts are those of argv. */
struct invocation {
    const struct command *command;
    /* value of each option; "" if it was given and takes no value; NULL if it
     * was not given */
    const char *values[OPTION_COUNT];
    const char *const *args; /* arguments after the command's name */
    size_t arg_count;
};

/* command_list: return all commands, in the order of the help. Static. */
const struct command *const *command_list(size_t *ret_count);

/* command_option_form: return how option is written. Static. */
const struct option_form *command_option_form(enum option option);

/* command_option_choices: return the values that option accepts, for the
 * completion of command lines. NULL-terminated and static; NULL: option has no
 * fixed list of values. */
const char *const *command_option_choices(enum option option);

/* command_common_options: return the options that every command takes, in the
 * order of the help. Static; ended by an option without help. */
const struct command_option *command_common_options(void);

/* command_help: print the help of command, or of the program if command is
 * NULL, on standard output. */
void command_help(const struct command *command);

/* command_named: find a command. NULL: the name is unknown. In this case
 * *ret_near is the name that was probably meant; NULL: no name is near. */
const struct command *command_named(const char *name, const char **ret_near);

/* command_main: read options, find the command, run it. Returns its exit code.
 */
int command_main(int argc, char **argv);

#endif
