/* SPDX-License-Identifier: MIT */
/* Reaches everything that a configuration names, and changes nothing. */
#ifndef TW_CLI_ONLINE_H
#define TW_CLI_ONLINE_H

struct session;

/*
 * online_check: open each store; look at each table of a job, the ledger and
 * the queues; print what is there, and say which right is missing and whether
 * the clock is off. 69 where something cannot be reached or is refused.
 */
int online_check(struct session *session);

#endif
