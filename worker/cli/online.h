/* SPDX-License-Identifier: MIT */
/* Checks everything that a configuration names, by requests that change
 * nothing. */
#ifndef TW_CLI_ONLINE_H
#define TW_CLI_ONLINE_H

struct session;

/*
 * online_check: open each store; read the ledger, the queues and each table of
 * a job; print which of these exist, which rights are missing, and whether this
 * machine's clock is wrong. Exit code 69 if a store cannot be reached or
 * refuses a request.
 */
int online_check(struct session *session);

#endif
