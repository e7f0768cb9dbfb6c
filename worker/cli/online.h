/* SPDX-License-Identifier: MIT */
/* Sends a request to everything that a configuration names; changes nothing. */
#ifndef TW_CLI_ONLINE_H
#define TW_CLI_ONLINE_H

struct session;

/*
 * online_check: open each store; read each table of a job, the ledger and the
 * queues; print what exists, which right is missing, and whether the clock is
 * off. 69 if something cannot be reached or is refused.
 */
int online_check(struct session *session);

#endif
