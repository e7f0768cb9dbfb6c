/* SPDX-License-Identifier: MIT */
/*
 * What is in the file of an embedded store, as text:
 *
 * - every entity of every table, without what differs from run to run (ETags,
 *   times, counts of attempts);
 * - which queues have messages;
 * - the different messages of the poison queues;
 * - the lines in the folder `archive` beside the file.
 */
#ifndef TW_TESTS_FAULTS_STATE_H
#define TW_TESTS_FAULTS_STATE_H

#include <stdbool.h>

/* state_print: prints this text to standard output. context: the file's name in
 * the current folder. Returns 0. A body for trial_fork(). */
int state_print(void *context);

/* state_put: creates a queue in the file, if it does not exist, and puts text
 * into it. */
void state_put(const char *file, const char *queue, const char *text);

/* state_is_whole: returns whether SQLite finds no error in the file. */
bool state_is_whole(const char *file);

#endif
