/* SPDX-License-Identifier: MIT */
/*
 * How a test steers the server, by HTTP on any of its ports (which are on
 * 127.0.0.1 only):
 *
 *   POST /azsim/control   {"latency_ms":5, ...}: the knobs of knobs.h, those
 *                         that are named; also
 *                         "hold":[1], "stick":[1], "release":[1]: the gates of
 *                         workers, by number (knobs.h)
 *                         "wall_ahead_ms", "boot_ahead_ms": the server's clock
 *                         "clear":true: forget the log
 *                         Answers with all of the knobs.
 *   GET  /azsim/log?since=7   the log from entry 7 on (journal.h)
 *   GET  /azsim/waiting?worker=1   how many requests are held at the gate
 */
#ifndef TW_AZSIM_CONSOLE_H
#define TW_AZSIM_CONSOLE_H

#include <stdbool.h>

struct azsim;
struct bend;
struct http_exchange;

/* console_answer: false: the request is none of these. */
bool console_answer(
    struct azsim *azsim, struct bend *bend, struct http_exchange *exchange);

#endif
