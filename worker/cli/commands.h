/* SPDX-License-Identifier: MIT */
/* The commands, each in a file of its own: command_NAME.c. */
#ifndef TW_CLI_COMMANDS_H
#define TW_CLI_COMMANDS_H

#include "worker/cli/command.h"

struct settings_section;

extern const struct command command_init;
extern const struct command command_worker;
extern const struct command command_run;
extern const struct command command_enqueue;
extern const struct command command_status;
extern const struct command command_pause;
extern const struct command command_resume;
extern const struct command command_finish;
extern const struct command command_cancel;
extern const struct command command_poison;
extern const struct command command_verify;
extern const struct command command_convert;
extern const struct command command_jobs;
extern const struct command command_check;
extern const struct command command_import;
extern const struct command command_export;
extern const struct command command_count;
extern const struct command command_census;
extern const struct command command_tables;
extern const struct command command_version;
extern const struct command command_help_command;

/* command_help_sections: return the tables of keys of a configuration, in the
 * order of `help config`. The tables of the kinds of job are in jobs_kinds().
 * Static. */
const struct settings_section *const *command_help_sections(size_t *ret_count);

#endif
