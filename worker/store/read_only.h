/* SPDX-License-Identifier: MIT */
/*
 * A store that cannot write: what a dry run is given. Scans, gets, lists and
 * peeks go through to the store behind it; anything that would change a table
 * or a queue is refused here (TW_INVALID), and nothing is sent.
 */
#ifndef TW_STORE_READ_ONLY_H
#define TW_STORE_READ_ONLY_H

#include <stdbool.h>

#include "worker/store/store.h"

/* read_only_new: inner is borrowed and stays open. Owned, for store_close(),
 * which leaves inner as it is. */
struct store *read_only_new(struct store *inner);

/* read_only_failed: its last request brought no answer, or was refused. store
 * is of read_only_new(). */
bool read_only_failed(const struct store *store);

#endif
