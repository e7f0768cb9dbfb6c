/* SPDX-License-Identifier: MIT */
/*
 * A Table service that follows a script: fixed answers, the same in every
 * trial. A child finds it by the connection string in $FAULTS_AZURE.
 */
#ifndef TW_TESTS_FAULTS_SERVICE_H
#define TW_TESTS_FAULTS_SERVICE_H

struct http_script;

/*
 * fault_service_start: starts a server, and returns it, owned by the caller.
 * script: what the server answers:
 *
 *   "pages"  two pages of a scan
 *   "batch"  a table is missing, is created, and gets a batch of 3 inserts
 *   NULL     no server is started, and NULL is returned
 */
struct http_script *fault_service_start(const char *script);

/* fault_service_stop: stops a server; NULL: does nothing. */
void fault_service_stop(struct http_script *service);

#endif
