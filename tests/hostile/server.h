/* SPDX-License-Identifier: MIT */
/*
 * A server on a free port of 127.0.0.1, without an HTTP library. It sends the
 * first answer in the list that fits the request; if none fits, an empty page.
 */
#ifndef TW_TESTS_HOSTILE_SERVER_H
#define TW_TESTS_HOSTILE_SERVER_H

#include "tests/hostile/row.h"

/* server_start: starts the server, whose threads live as long as the process.
 * answers are borrowed; answers without head and body are unused. Returns the
 * port. */
int server_start(const struct answer *answers, size_t count);

/* server_has_signature: returns whether text contains the beginning of a
 * signature of any request so far. */
bool server_has_signature(const char *text);

#endif
