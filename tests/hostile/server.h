/* SPDX-License-Identifier: MIT */
/*
 * A server of bare sockets on a free port of 127.0.0.1 that answers by the
 * first rule that fits. Where none does: an empty page.
 */
#ifndef TW_TESTS_HOSTILE_SERVER_H
#define TW_TESTS_HOSTILE_SERVER_H

#include "tests/hostile/row.h"

/* server_start: its threads live as long as the process. answers are borrowed;
 * the last has no head and no body. Returns the port. */
int server_start(const struct answer *answers, size_t count);

/* server_signature: has a signature of any request so far `text` in it? */
bool server_has_signature(const char *text);

#endif
