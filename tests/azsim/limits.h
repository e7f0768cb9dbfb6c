/* SPDX-License-Identifier: MIT */
/*
 * The published limits: how many entities an account and each of its partitions
 * may serve in a second, by the server's clock.
 *
 * Source: "Scalability and performance targets for Table storage".
 */
#ifndef TW_AZSIM_LIMITS_H
#define TW_AZSIM_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/slice.h"

struct limits;

struct limits *limits_new(void); /* owned */
void limits_free(struct limits *limits);

/*
 * limits_take: returns whether `entities` entities may be served now, and
 * counts them. name: an account, or an account, a table and a PartitionKey in
 * one text. per_s: the limit; 0: no limit. The entities of one second may come
 * all at once. Any thread may call it.
 */
bool limits_take(
    struct limits *limits, struct slice name, int64_t entities, int64_t per_s);

#endif
