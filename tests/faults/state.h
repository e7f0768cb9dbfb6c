/* SPDX-License-Identifier: MIT */
/*
 * What an embedded store's file holds, as text: every entity of every table
 * but for what differs from run to run (ETags, moments, how often), which
 * queues have messages, which different ones the poison queues have, and what
 * lies in the folder `archive` beside it.
 */
#ifndef TW_TESTS_FAULTS_STATE_H
#define TW_TESTS_FAULTS_STATE_H

#include <stdbool.h>

/* state_print: to standard output. context: the file's name, relative. 0. For
 * trial_fork(). */
int state_print(void *context);

/* state_put: put text into a queue of the file, which is made. */
void state_put(const char *file, const char *queue, const char *text);

/* state_is_whole: SQLite finds nothing wrong with the file. */
bool state_is_whole(const char *file);

#endif
