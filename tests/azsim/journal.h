/* SPDX-License-Identifier: MIT */
/* What came and what it did: one entry a request, in order of effect. */
#ifndef TW_AZSIM_JOURNAL_H
#define TW_AZSIM_JOURNAL_H

#include <stdint.h>

#include "worker/base/buf.h"

struct http_exchange;
struct journal;

struct journal *journal_new(void); /* owned */
void journal_free(struct journal *journal);

/*
 * journal_add: keep what the log says of an answered request. Any thread; for
 * requests that change something the caller sees to the order.
 */
void journal_add(struct journal *journal, const struct http_exchange *exchange);

/*
 * journal_write: add the entries from number `since` on, one JSON object a
 * line:
 *
 *   {"n":7,"worker":1,"service":"table","method":"POST","path":"/$batch",
 *    "target":"Blogs","operations":100,"deletes":100,"arrived_us":123,
 *    "effected_us":456,"status":202,"code":"","changed":true,
 *    "request_id":"...","owner":"..."}
 *
 * Times are CLOCK_MONOTONIC; effected_us 0: never carried out. owner: the
 * text of the first property Owner in the body, or "".
 */
void journal_write(struct journal *journal, int64_t since, struct buf *to);

/* journal_clear: forget the entries; numbers go on. */
void journal_clear(struct journal *journal);

#endif
