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

/* manual_program_page: print the page tableward(1), in the format of man. */
void manual_program_page(const char *date);

/* manual_settings_page: print the page tableward.yaml(5), in the format of man.
 */
void manual_settings_page(const char *date);

/*
 * manual_sh_tables, manual_fish_tables: print the commands, options and words
 * that may be completed, as shell functions, in the syntax of bash and zsh or
 * of fish. The files complete.bash, complete.zsh and complete.fish use these
 * functions, which print:
 *
 *   _tableward_options COMMAND              the options of the command; if
 *                                           COMMAND is empty, those that every
 *                                           command has
 *   _tableward_value OPTION                 what the value of the option may
 *                                           be; nothing for an option without
 *                                           a value
 *   _tableward_words COMMAND:POSITION       what the argument at this position
 *                                           may be
 *   _tableward_list COMMAND | KIND | KEY    the names of all commands, kinds or
 *                                           keys
 *
 * They print one word a line; a tab and a description may follow a word. A word
 * in upper case stands for words of a sort (JOB, ID, FILE, NAME=VALUE); all
 * others are literal.
 */
void manual_sh_tables(void);
void manual_fish_tables(void);

#endif
