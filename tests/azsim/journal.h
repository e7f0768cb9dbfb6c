/* SPDX-License-Identifier: MIT */
/* The log of requests: one entry for each request, in the order in which the
 * requests were carried out. */
#ifndef TW_AZSIM_JOURNAL_H
#define TW_AZSIM_JOURNAL_H

#include <stdint.h>

#include "worker/base/buf.h"

struct http_exchange;
struct journal;

struct journal *journal_new(void); /* owned */
void journal_free(struct journal *journal);

/*
 * journal_add: adds an entry for an answered request. Any thread may call it.
 * For requests that change something, the caller makes sure that the order is
 * right.
 */
void journal_add(struct journal *journal, const struct http_exchange *exchange);

/*
 * journal_write: adds the entries from number `since` on to `to`, one JSON
 * object in each line:
 *
 *   {"n":7,"worker":1,"service":"table","method":"POST","path":"/$batch",
 *    "target":"Blogs","operations":100,"deletes":100,"arrived_us":123,
 *    "effected_us":456,"status":202,"code":"","changed":true,
 *    "request_id":"...","owner":"..."}
 *
 * Times are CLOCK_MONOTONIC. effected_us: when the request was carried out, or
 * refused after its gate; 0: it was refused before, for its signature or head.
 * owner: the text of the first property Owner in the body, or "".
 */
void journal_write(struct journal *journal, int64_t since, struct buf *to);

/* journal_clear: removes the entries; the numbers continue. */
void journal_clear(struct journal *journal);

#endif
