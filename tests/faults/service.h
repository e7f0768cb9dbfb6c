/* SPDX-License-Identifier: MIT */
/*
 * A Table service that knows one script: answers of fixed text, the same for
 * every trial. A child reaches it by $FAULTS_AZURE, a connection string.
 */
#ifndef TW_TESTS_FAULTS_SERVICE_H
#define TW_TESTS_FAULTS_SERVICE_H

struct http_script;

/* fault_service_start: "pages": two pages of a scan; "batch": a table is not
 * there, is created, and takes three inserts in one batch. NULL: none. Owned.
 */
struct http_script *fault_service_start(const char *script);

/* fault_service_stop: NULL: nothing. */
void fault_service_stop(struct http_script *service);

#endif
