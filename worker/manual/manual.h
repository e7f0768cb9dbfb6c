/* SPDX-License-Identifier: MIT */
/*
 * Makes the manual pages and the completions for shells at build time, from the
 * tables of commands, options and keys that the program itself uses. The
 * generator is a separate program; no part of it is in tableward.
 */
#ifndef TW_MANUAL_H
#define TW_MANUAL_H

/* All functions print on standard output. date: "2026-11-25", for the foot of a
 * page. */

/* manual_program_page: tableward(1), for man. */
void manual_program_page(const char *date);

/* manual_settings_page: tableward.yaml(5), for man. */
void manual_settings_page(const char *date);

/*
 * manual_sh_tables, manual_fish_tables: the commands, options and words that
 * may be completed, as shell functions, in the syntax of bash and zsh or of
 * fish. The files complete.bash, complete.zsh and complete.fish use them:
 *
 *   _tableward_options COMMAND              each of its options; of an empty
 *                                           COMMAND those of every command
 *   _tableward_value OPTION                 what its value may be; prints
 *                                           nothing for one without a value
 *   _tableward_words COMMAND:POSITION       what that argument may be
 *   _tableward_list COMMAND | KIND | KEY    each name of that sort
 *
 * One word a line; a tab and a description may follow. A word in upper case is
 * a sort of word (JOB, ID, FILE, NAME=VALUE), all others are meant as they are.
 */
void manual_sh_tables(void);
void manual_fish_tables(void);

#endif
