/* SPDX-License-Identifier: MIT */
/*
 * The published limits: so many entities a second for an account and for each
 * of its partitions, by the server's clock.
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
 * limits_take: may so many entities be served now? name: an account, or an
 * account, a table and a PartitionKey in one. per_s 0: always. A second's worth
 * may come at once. Any thread.
 */
bool limits_take(
    struct limits *limits, struct slice name, int64_t entities, int64_t per_s);

#endif
