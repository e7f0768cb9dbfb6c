/* SPDX-License-Identifier: MIT */
/*
 * How a test controls the server: by HTTP on any of its ports, which are on
 * 127.0.0.1 only.
 *
 *   POST /azsim/control   {"latency_ms":5, ...}: sets the knobs that it
 *                         names (knobs.h). Also
 *                         "hold":[1], "stick":[1], "release":[1]: set the
 *                         gates of these workers (knobs.h)
 *                         "wall_ahead_ms", "boot_ahead_ms": the server's
 *                         clocks (tests/support/bent_platform.h)
 *                         "clear":true: clear the log
 *                         The answer has all knobs.
 *   GET  /azsim/log?since=7   the log from entry 7 on (journal.h)
 *   GET  /azsim/waiting?worker=1   the number of requests at this gate
 */
#ifndef TW_AZSIM_CONSOLE_H
#define TW_AZSIM_CONSOLE_H

#include <stdbool.h>

struct azsim;
struct bend;
struct http_exchange;

/* console_answer: answers a request to the console. False: the request is not
 * for the console. */
bool console_answer(
    struct azsim *azsim, struct bend *bend, struct http_exchange *exchange);

#endif
